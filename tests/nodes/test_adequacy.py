"""Testing the tests, in the real sandbox: mutants, generated inputs, and what they say about a tool."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from mem2evolve.nodes.creation.adequacy import GENERATED, LOW_SCORE, SHOWN, adequacy
from mem2evolve.nodes.creation.agree import holds
from mem2evolve.sandbox import BubblewrapSandbox, Limits, Outcome
from mem2evolve.sandbox.signature import signature_schema

CLAMP: Final = """def clamp(value: int, low: int, high: int) -> int:
    if low > high:
        raise ValueError("low is above high")
    if value < low:
        return low
    if value > high:
        return high
    return value
"""
SECOND: Final = """def clamp(value, low, high):
    if high < low:
        raise ValueError
    return sorted([low, value, high])[1]
"""
WRONG: Final = CLAMP.replace("return high\n", "return high - 1\n")
SCHEMA: Final = signature_schema(CLAMP, "clamp")


@pytest.fixture
async def box() -> AsyncIterator[BubblewrapSandbox]:
    """A sandbox, closed afterwards."""
    made = BubblewrapSandbox()
    yield made
    await made.close()


def case(value: int, low: int, high: int, expected: int) -> dict[str, Any]:
    """A case that returns a value."""
    args = {"value": value, "low": low, "high": high}
    return {
        "args": args,
        "expected": expected,
        "raises": "",
        "tolerance": 0.0,
        "origin": "agreement",
    }


LAZY: Final = [case(5, 1, 9, 5), case(4, 2, 8, 4)]


async def test_without_another_implementation_there_is_only_a_score(
    box: BubblewrapSandbox,
) -> None:
    """Nothing can be confirmed: no case is added, and lazy cases show as a low score."""
    found = await adequacy(box, CLAMP, "clamp", others=[], cases=LAZY, schema=SCHEMA)

    assert (found.added, found.contested) == ((), ())
    assert found.total >= 6
    assert found.killed == found.killed_before == found.total - len(found.survivors)
    assert found.score == found.killed / found.total < 1
    assert any(words.startswith("line ") for words in found.survivors)


async def test_agreed_inputs_kill_what_lazy_cases_let_through(box: BubblewrapSandbox) -> None:
    """Only what kills a survivor or has an outcome of a new kind is added, and the tool passes it."""
    found = await adequacy(box, CLAMP, "clamp", others=[SECOND], cases=LAZY, schema=SCHEMA)

    assert found.contested == ()
    assert found.killed_before < found.killed
    assert found.score > 0.75
    assert 0 < len(found.added) <= found.total + 3
    assert any(one["raises"] == "ValueError" for one in found.added)
    for one in found.added:
        assert holds(one, await box.call(CLAMP, "clamp", one["args"]))
        assert one["origin"] == "agreement"
    assert not found.doubtful
    again = await adequacy(box, CLAMP, "clamp", others=[SECOND], cases=LAZY, schema=SCHEMA)
    assert again == found


async def test_cases_that_notice_everything_need_no_more(box: BubblewrapSandbox) -> None:
    """With what was added as cases, no mutant is left for new inputs to kill."""
    first = await adequacy(box, CLAMP, "clamp", others=[SECOND], cases=LAZY, schema=SCHEMA)
    cases = [*LAZY, *first.added]
    found = await adequacy(box, CLAMP, "clamp", others=[SECOND], cases=cases, schema=SCHEMA)

    assert found.killed_before >= first.killed
    assert len(found.added) < len(first.added)


async def test_a_wrong_tool_stands_alone(box: BubblewrapSandbox) -> None:
    """It passes its cases; a generated input is contested, with both results, and nothing wrong is added."""
    found = await adequacy(box, WRONG, "clamp", others=[SECOND], cases=LAZY, schema=SCHEMA)

    assert found.doubtful
    assert 0 < len(found.contested) <= SHOWN
    for one in found.contested:
        assert one["kind"] == "generated"
        tool, other = one["results"]
        assert tool != other
        assert one["args"]["value"] > one["args"]["high"]
    for one in found.added:
        assert holds(one, await box.call(SECOND, "clamp", one["args"]))


async def test_two_others_outvote_the_tool(box: BubblewrapSandbox) -> None:
    """What they agree on against it is said."""
    others = [SECOND, CLAMP]
    found = await adequacy(box, WRONG, "clamp", others=others, cases=LAZY, schema=SCHEMA)

    assert {one["why"] for one in found.contested} == {
        "the others agree with each other, not with the tool"
    }


async def test_an_implementation_that_crashes_has_no_say(box: BubblewrapSandbox) -> None:
    """Where no other one returns or refuses, nothing is confirmed and nothing contested."""
    broken = "def clamp(value, low, high):\n    return {}[value]\n"
    found = await adequacy(box, CLAMP, "clamp", others=[broken], cases=LAZY, schema=SCHEMA)

    assert (found.added, found.contested) == ((), ())


class Counted:
    """A sandbox that counts, and remembers what ran under which limits."""

    isolation = "none"

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool, Limits]] = []
        self.running = self.most = 0

    async def call(
        self,
        source: str,
        function: str,
        args: dict[str, Any],
        *,
        limits: Limits,
        fresh: bool = False,
    ) -> Outcome:
        """Return the value of the tool itself; all mutants loop for ever."""
        self.calls.append((source, fresh, limits))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if source in {CLAMP, SECOND}:
            value = sorted(args[name] for name in ("low", "value", "high"))[1]
            return Outcome(status="ok", value=value)
        return Outcome(status="timeout")


async def test_what_it_costs() -> None:
    """A mutant ends at its first failing case; the search is bounded and uses kept boxes, what is kept fresh ones."""
    box: Any = Counted()
    found = await adequacy(box, CLAMP, "clamp", others=[SECOND], cases=LAZY, schema=SCHEMA)

    ours = [one for one in box.calls if one[0] in {CLAMP, SECOND}]
    mutants = [one for one in box.calls if one[0] not in {CLAMP, SECOND}]
    assert found.score == 1 > LOW_SCORE
    assert len(mutants) == found.total
    assert all(
        not fresh and limits.wall_s <= 2 and limits.cpu_s <= 1 for _, fresh, limits in mutants
    )
    assert sum(not fresh for _, fresh, _ in ours) <= 2 * GENERATED
    assert sum(fresh for _, fresh, _ in ours) == 2 * len(found.added)
    assert box.most <= 10
