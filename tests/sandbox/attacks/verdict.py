"""Judging a forgery as the agent judges every tool: values against cases, on the host."""

from collections.abc import Sequence

from mem2evolve.nodes.creation.agree import holds
from mem2evolve.sandbox import Outcome

from .forgeries import CASES


def forged(outcomes: Sequence[Outcome]) -> list[str]:
    """Say which cases a wrong tool passes. None of its values is right, so each was forged."""
    return [
        f"it passes for {case['args']}"
        for case, outcome in zip(CASES, outcomes, strict=True)
        if holds(case, outcome)
    ]
