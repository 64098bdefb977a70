"""Testing the tests: would the cases notice if the tool were wrong?

    await adequacy(box, source, function, others=…, cases=…, inputs=…, schema=…) -> Adequacy

No model is asked. A constant stub and mutants of the tool run on its cases; one is killed when a case no
longer holds. Generated inputs are then run by the tool and by the other implementations. Where these agree,
the input may become a case: if a mutant that survived so far fails there, or the outcome is of a new kind.
Where the tool stands alone, the input is contested, which says something about the tool. Without another
implementation nothing can be confirmed: then there is only the score.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...sandbox import Limits, Outcome, Sandbox
from .agree import holds, refuses, same, vote
from .cases import case_of, describe
from .inputs import TestInput, generate
from .mutate import Mutant, mutants, stubs

BATCH: Final = 6
"""Inputs that are generated and run at once."""
BATCHES: Final = 3
ENOUGH: Final = 0.75
"""Share of killed mutants at which no more inputs are added, after the first batch."""
LOW_SCORE: Final = 0.5
"""A tool below it needs a person to be promoted."""
AT_ONCE: Final = 4
"""Mutants that run side by side; the sandbox has its own queue."""
MUTANT_LIMITS: Final = Limits(wall_s=2.0, cpu_s=1)
TOOL_LIMITS: Final = Limits(wall_s=5.0, cpu_s=4)

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Adequacy:
    """What was found out about the cases of one tool, and so about the tool."""

    added: tuple[dict[str, Any], ...]
    """Cases to keep besides the given ones; the tool passes them."""
    contested: tuple[dict[str, Any], ...]
    """Inputs on which the tool and the others do not agree: `args`, `kind`, `results` (the tool's first), `why`."""
    killed: int
    total: int
    """Mutants and stubs that were run."""
    survivors: tuple[str, ...]
    """What was changed in those that no case notices, in words for a model."""

    @property
    def score(self) -> float:
        """Share of the mutants that were killed, from 0 to 1; 0 where nothing could be mutated."""
        return self.killed / self.total if self.total else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether the tool should not be promoted without a person."""
        return self.score < LOW_SCORE or bool(self.contested)


@dataclass(frozen=True)
class _Bench:
    """What the runs share."""

    box: Sandbox
    function: str

    async def run(self, source: str, inputs: Sequence[TestInput]) -> list[Outcome]:
        """Run a tool on inputs, each in a box of its own."""
        calls = (
            self.box.call(source, self.function, one["args"], limits=TOOL_LIMITS, fresh=True)
            for one in inputs
        )
        return list(await asyncio.gather(*calls))

    async def killers(self, alive: Sequence[Mutant], cases: Sequence[Case]) -> dict[Mutant, int]:
        """Return the mutants that fail a case, each with the number of the first one it fails."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def first_failing(mutant: Mutant) -> int | None:
            async with turn:
                for n, case in enumerate(cases):
                    outcome = await self.box.call(
                        mutant.source, self.function, case["args"], limits=MUTANT_LIMITS
                    )
                    if not holds(case, outcome):
                        return n
            return None

        found = await asyncio.gather(*map(first_failing, alive))
        return {one: n for one, n in zip(alive, found, strict=True) if n is not None}


async def adequacy(
    box: Sandbox,
    source: str,
    function: str,
    *,
    others: Sequence[str],
    cases: Sequence[Case],
    schema: Mapping[str, Any],
    inputs: Sequence[TestInput] = (),
) -> Adequacy:
    """Measure what the cases notice, and add cases until they notice enough.

    Args:
        box: Where everything runs.
        source: The tool, which passes the cases.
        function: Its name, in the other implementations too.
        others: Different implementations of the same need that could be run; may be empty.
        cases: Confirmed cases: `args`, `expected`, `raises`, `tolerance`.
        schema: JSON schema of the arguments.
        inputs: Further inputs that fit the need; new ones are made near these and those of the cases that
            return a value.

    Returns:
        The cases to add and the contested inputs, with the score over all cases.

    Raises:
        SandboxUnavailable: If a box could not be started.
    """
    bench = _Bench(box, function)
    every = [*stubs(function, cases), *mutants(source, function)]
    killed = await bench.killers(every, cases)
    alive = [one for one in every if one not in killed]
    added: list[dict[str, Any]] = []
    contested: list[dict[str, Any]] = []
    for batch in await _batches(cases, inputs, schema) if others else []:
        confirmed, disputed = await _confirm(bench, [source, *others], batch)
        contested += disputed
        killed = await bench.killers(alive, confirmed)
        alive = [one for one in alive if one not in killed]
        for n, case in enumerate(confirmed):
            if n in killed.values() or _kind(case) not in map(_kind, [*cases, *added]):
                added.append(case)
        if len(alive) <= (1 - ENOUGH) * len(every):
            break
    return Adequacy(
        added=tuple(added),
        contested=tuple(contested),
        killed=len(every) - len(alive),
        total=len(every),
        survivors=tuple(one.words for one in alive),
    )


async def _batches(
    cases: Sequence[Case], inputs: Sequence[TestInput], schema: Mapping[str, Any]
) -> list[list[TestInput]]:
    """Make inputs near those that are known to be valid."""
    known: list[TestInput] = [*inputs]
    for case in cases:
        kind: Any = "invalid" if case["raises"] else "typical"
        known.append({"kind": kind, "args": dict(case["args"])})
    # In a thread: it computes for a while, and reads files the first time.
    made = await asyncio.to_thread(generate, known, schema, BATCH * BATCHES)
    return [made[n : n + BATCH] for n in range(0, len(made), BATCH)]


async def _confirm(
    bench: _Bench, sources: Sequence[str], batch: Sequence[TestInput]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cases that the tool (the first source) and another one agree on, and the contested inputs."""
    table = await asyncio.gather(*(bench.run(source, batch) for source in sources))
    confirmed: list[dict[str, Any]] = []
    contested: list[dict[str, Any]] = []
    for one, outcomes in zip(batch, zip(*table, strict=True), strict=True):
        tool, *rest = outcomes
        agreed = vote(one["args"], outcomes).agreed
        if agreed is not None and same(agreed, tool):
            confirmed.append(case_of(one["args"], agreed, "agreement"))
        elif any(other.status == "ok" or refuses(other) for other in rest):
            why = "the others agree with each other, not with the tool" if agreed else ""
            results = [describe(outcome) for outcome in outcomes]
            contested.append({**one, "results": results, "why": why})
    return confirmed, contested


def _kind(case: Case) -> tuple[Any, ...]:
    """Tell outcomes apart roughly: refused, or of which type, and whether empty, negative or false."""
    value = case["expected"]
    if case["raises"]:
        return (case["raises"],)
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, int | float):
        return (float, (value > 0) - (value < 0))
    return (type(value), bool(value))
