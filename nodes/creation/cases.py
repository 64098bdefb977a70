"""Cases: tests of a tool as data. Run in a box, compared on the host."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ...sandbox import Limits, Outcome, Sandbox
from .agree import EXPECTED_ERROR, holds, refuses
from .properties import PROPERTIES

TEST_LIMITS: Final = Limits(wall_s=5.0, cpu_s=4)
FLOAT_TOLERANCE: Final = 1e-9

Call = Callable[[Mapping[str, Any]], Awaitable[Outcome]]
"""Calls the tool once with arguments."""


def case_of(args: Mapping[str, Any], outcome: Outcome, origin: str) -> dict[str, Any]:
    """Return the case that expects this outcome."""
    refused = refuses(outcome)
    return {
        "args": dict(args),
        "expected": None if refused else outcome.value,
        "raises": EXPECTED_ERROR if refused else "",
        "property": "",
        "tolerance": FLOAT_TOLERANCE if _has_float(outcome.value) else 0.0,
        "origin": origin,
    }


def expectation(case: Mapping[str, Any]) -> Outcome:
    """Return the outcome that a case with a known result expects."""
    if case["raises"]:
        return Outcome(status="raised", error_type=case["raises"])
    return Outcome(status="ok", value=case["expected"])


async def try_case(call: Call, case: Mapping[str, Any]) -> str:
    """Return how a case fails, in words for the model that wrote the tool; empty when it holds."""
    outcome = await call(case["args"])
    called = f"called with {json.dumps(case['args'], ensure_ascii=False)} it {describe(outcome)}"
    if not case.get("property"):
        return "" if holds(case, outcome) else f"{called}; it should have {_expected(case)}"
    rule = PROPERTIES[case["property"]]
    again = (
        rule.again(case["args"], outcome.value) if rule.again and outcome.status == "ok" else None
    )
    second = await call(again) if again is not None else None
    if second is not None and second.status != "ok":
        return (
            f"{called}; called with {json.dumps(again, ensure_ascii=False)} it {describe(second)}"
        )
    right = outcome.status == "ok" and rule.holds(
        case["args"], outcome.value, second.value if second else None
    )
    return "" if right else f"{called}; it must hold that {rule.says}"


async def passes(
    box: Sandbox, source: str, function: str, cases: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Run a tool on its cases, each in a box of its own; return where it fails.

    Raises:
        SandboxUnavailable: If the box cannot be started.
    """

    async def call(args: Mapping[str, Any]) -> Outcome:
        return await box.call(source, function, args, limits=TEST_LIMITS, fresh=True)

    return [
        failure
        for failure in await asyncio.gather(*(try_case(call, case) for case in cases))
        if failure
    ]


def describe(outcome: Outcome) -> str:
    """Say what a call did, in words for a model or a person."""
    match outcome.status:
        case "ok":
            return f"returned {json.dumps(outcome.value, ensure_ascii=False)[:500]}"
        case "raised":
            return f"raised {outcome.error_type}: {outcome.error[:300]}"
        case "timeout":
            return "ran too long and was stopped"
        case _:
            return f"failed: {outcome.error[:300] or outcome.status}"


def _expected(case: Mapping[str, Any]) -> str:
    if case["raises"]:
        return f"raised {case['raises']}"
    return describe(expectation(case))


def _has_float(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_float, value))
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return isinstance(value, float)
