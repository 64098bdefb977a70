"""Testing the tests: would the cases notice if the tool were wrong?

    await adequacy(box, source, function, others=…, cases=…, inputs=…, schema=…) -> Adequacy

No model is asked. Generated inputs are run by the tool and by the other implementations. Where these agree,
the input may become a case; where the tool stands alone, the input is contested, which says something about
the tool. A constant stub and mutants of the tool then run on the cases: one is killed when a case no longer
holds. Of the inputs that are agreed on, those are added that kill a mutant which the given cases let through, or
whose outcome is of a new kind. Without another implementation nothing can be confirmed: then there is only
the score.

The search runs in boxes that are kept, where a call costs little; what is reported was run again in fresh ones.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ...sandbox import Limits, Outcome, Sandbox
from .agree import holds, refuses, same, vote
from .cases import TEST_LIMITS, case_of, describe
from .inputs import TestInput, generate
from .mutate import Mutant, mutants, stubs

GENERATED: Final = 60
"""Inputs that are tried near the known ones."""
SHOWN: Final = 4
"""Contested inputs that are reported."""
LOW_SCORE: Final = 0.5
"""A tool below it needs a person to be promoted."""
AT_ONCE: Final = 4
"""Mutants that run side by side; the sandbox has its own queue."""
SEARCH_LIMITS: Final = Limits(wall_s=2.0, cpu_s=1)
"""A mutant may run for ever."""

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Adequacy:
    """What was found out about the cases of one tool, and so about the tool."""

    added: tuple[dict[str, Any], ...]
    """Cases to keep besides the given ones; the tool passes them."""
    contested: tuple[dict[str, Any], ...]
    """Inputs on which the tool and the others do not agree: `args`, `kind`, `results` (the tool's first), `why`."""
    total: int
    """Mutants and stubs that were run."""
    killed: int
    killed_before: int
    """By the given cases alone."""
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
    bench = _Bench(box, function, (source, *others))
    found = await bench.search(await _generated(cases, inputs, schema)) if others else _Found()
    every = [*stubs(function, cases), *mutants(source, function)]
    killers = await bench.killers(every, [*cases, *found.confirmed])
    kinds = [_kind(case) for case in cases]
    wanted: list[TestInput] = []
    for n, case in enumerate(found.confirmed, len(cases)):
        if n in killers or _kind(case) not in kinds:
            kinds.append(_kind(case))
            wanted.append({"kind": "generated", "args": case["args"]})
    final = await bench.settle(wanted)
    disputed = await bench.settle(found.contested[:SHOWN])
    alive = [one for one, killer in zip(every, killers, strict=True) if killer is None]
    return Adequacy(
        added=tuple(final.confirmed),
        contested=(*final.disputes, *disputed.disputes),
        total=len(every),
        killed=len(every) - len(alive),
        killed_before=sum(n is not None and n < len(cases) for n in killers),
        survivors=tuple(one.words for one in alive),
    )


@dataclass(frozen=True)
class _Found:
    """What the implementations made of inputs."""

    confirmed: list[dict[str, Any]] = field(default_factory=list)
    """Cases that the tool and another one agree on."""
    contested: list[TestInput] = field(default_factory=list)
    disputes: list[dict[str, Any]] = field(default_factory=list)
    """The contested inputs with what was made of them."""


@dataclass(frozen=True)
class _Bench:
    """Where things are run."""

    box: Sandbox
    function: str
    sources: tuple[str, ...]
    """The tool and the other implementations."""

    async def search(self, inputs: Sequence[TestInput]) -> _Found:
        """Run all implementations on inputs, one call after the other, each in a box that is kept."""

        async def row(source: str) -> list[Outcome]:
            return [await self._call(source, one["args"]) for one in inputs]

        return _compared(inputs, await asyncio.gather(*map(row, self.sources)))

    async def settle(self, inputs: Sequence[TestInput]) -> _Found:
        """Run all implementations on inputs, each call in a box of its own."""

        async def row(source: str) -> list[Outcome]:
            calls = (
                self.box.call(source, self.function, one["args"], limits=TEST_LIMITS, fresh=True)
                for one in inputs
            )
            return list(await asyncio.gather(*calls))

        return _compared(inputs, await asyncio.gather(*map(row, self.sources)))

    async def killers(self, every: Sequence[Mutant], cases: Sequence[Case]) -> list[int | None]:
        """Return for each mutant the number of the first case it fails; `None` for one that passes all."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def first_failing(mutant: Mutant) -> int | None:
            async with turn:
                for n, case in enumerate(cases):
                    if not holds(case, await self._call(mutant.source, case["args"])):
                        return n
            return None

        return list(await asyncio.gather(*map(first_failing, every)))

    async def _call(self, source: str, args: Mapping[str, Any]) -> Outcome:
        return await self.box.call(source, self.function, args, limits=SEARCH_LIMITS)


def _compared(inputs: Sequence[TestInput], table: Sequence[Sequence[Outcome]]) -> _Found:
    """Tell what is agreed on from what is contested; the first row is the tool's.

    An input on which no other implementation returns or refuses says nothing.
    """
    found = _Found()
    for one, outcomes in zip(inputs, zip(*table, strict=True), strict=True):
        tool, *rest = outcomes
        agreed = vote(one["args"], outcomes).agreed
        if agreed is not None and same(agreed, tool):
            found.confirmed.append(case_of(one["args"], agreed, "agreement"))
        elif any(other.status == "ok" or refuses(other) for other in rest):
            why = "the others agree with each other, not with the tool" if agreed else ""
            found.contested.append(one)
            found.disputes.append({**one, "results": list(map(describe, outcomes)), "why": why})
    return found


async def _generated(
    cases: Sequence[Case], inputs: Sequence[TestInput], schema: Mapping[str, Any]
) -> list[TestInput]:
    """Make inputs near those that are known to be valid."""
    known: list[TestInput] = [*inputs]
    for case in cases:
        kind: Literal["invalid", "typical"] = "invalid" if case["raises"] else "typical"
        known.append({"kind": kind, "args": dict(case["args"])})
    # In a thread: it computes for a while, and reads files the first time.
    return await asyncio.to_thread(generate, known, schema, GENERATED)


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
