"""Who loses, what is unused, what says the same, and what a person is told of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.care.checkup import examine
from mem2evolve.memory.care.hygiene import Move, Plan, loses, plan_pruning, upper_bound
from mem2evolve.memory.care.links import links_of
from mem2evolve.memory.care.snapshot import Ledger, Snapshot, brought_back, moment, take_snapshot
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import Usage

from .conftest import WordsEmbedder
from .made import expert, lesson, run, tool, went

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RECENT, OLD = "2026-05-20T00:00:00+00:00", "2026-01-01T00:00:00+00:00"


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_rule_for_losers(wins: int, losses: int) -> None:
    """A win never makes a loser of what was none, a loss never saves one; nothing loses on little evidence."""
    usage = Usage(wins + losses, wins)
    assert 0.0 <= upper_bound(usage) <= 1.0
    if loses(usage):
        assert usage.uses >= 5
        assert wins < losses
        assert loses(Usage(usage.uses + 1, wins))
    else:
        assert not loses(Usage(usage.uses + 1, wins + 1))


def test_figures_of_the_rule() -> None:
    """Five losses in a row are enough, one win in five is not."""
    assert [loses(Usage(n, 0)) for n in (0, 4, 5)] == [False, False, True]
    assert [loses(Usage(n, 1)) for n in (5, 7, 8)] == [False, False, True]
    assert loses(Usage(100, 39))
    assert not loses(Usage(100, 41))


def used(key: str, count: int, *, wins: int = 0, at: str = RECENT, start: int = 0) -> list[Any]:
    """Return judged runs that used an asset or were shown a lesson."""
    return [
        run(
            start + n,
            assets=(key,),
            lessons=(key,),
            won=(key,) if n < wins else (),
            helped=(key,) if n < wins else (),
            verdict="success" if n < wins else "failure",
            created_at=at,
        )
        for n in range(count)
    ]


async def planned(memory: Memory, *records: Any, **options: Any) -> Plan:
    """Keep records, and return what is due."""
    await memory.put(*records)
    return await plan_pruning(memory, await take_snapshot(memory), now=NOW, **options)


def told(moves: tuple[Move, ...]) -> dict[str, tuple[str, str]]:
    """Return rule and new status by name."""
    return {move.name: (move.rule, move.to) for move in moves}


async def test_losers_are_quarantined(memory: Memory) -> None:
    """Tools, experts and lessons alike, with the figures; built-in and host tools are left alone."""
    bad = [
        tool("bad", created_at=RECENT),
        expert("worse", created_at=RECENT, status="candidate"),
        lesson("harm", created_at=RECENT),
    ]
    fine = [
        tool("own", origin="builtin"),
        tool("given", origin="host"),
        tool("out", status="retired"),
    ]
    runs = [one for n, rec in enumerate([*bad, *fine]) for one in used(rec.id, 6, start=10 * n)]
    plan = await planned(memory, *bad, *fine, *runs)
    assert told(plan.moves) == dict.fromkeys(
        ("bad v1", "worse v1", "harm"), ("loses", "quarantined")
    )
    assert plan.moves[0].reason == (
        "loses: 0 of 6 judged runs won; with 95 % confidence below 0.39, 0.50 is fair"
    )


async def test_what_was_brought_back_is_judged_by_its_uses_since(memory: Memory) -> None:
    """A person's word is not undone by the losses before it."""
    history = (went("quarantined", at=OLD), went("active", at="2026-03-01T00:00:00+00:00"))
    back = tool(created_at=OLD, history=history)
    before = used(back.id, 9, at="2026-02-01T00:00:00+00:00")
    assert (await planned(memory, back, *before, *used(back.id, 4, start=20))).moves == ()
    [move] = (await planned(memory, *used(back.id, 5, start=20))).moves
    assert "0 of 5 judged runs" in move.reason


async def test_the_unused_retire(memory: Memory) -> None:
    """Not those that are young, were used or taught lately, were moved by a person, or are in no use."""
    stay = [
        tool("young", created_at=RECENT),
        tool("busy", created_at=OLD),
        tool("moved", created_at=OLD, history=(went("active", at=RECENT),)),
        tool("gone", created_at=OLD, status="superseded"),
        tool("builtin", created_at=OLD, origin="builtin"),
        lesson("taught", created_at=OLD),
        lesson("recalled", created_at=OLD),
        tool("undated", created_at="?"),
    ]
    go = [
        tool("idle", created_at=OLD),
        tool("trial", created_at=OLD, status="candidate"),
        expert("idler", created_at=OLD),
        lesson("stale", created_at=OLD),
    ]
    runs = [
        run(1, assets=(stay[1].id,), verdict="abstained", created_at=RECENT),
        run(2, learned=(stay[5].id,), created_at=RECENT),
        run(3, lessons=(stay[6].id,), created_at=RECENT),
        run(4, assets=(go[0].id,), created_at="2026-02-01T00:00:00+00:00"),
    ]
    plan = await planned(memory, *stay, *go, *runs)
    assert told(plan.moves) == dict.fromkeys(
        ("idle v1", "trial v1", "idler v1", "stale"), ("unused", "retired")
    )
    reasons = {move.name: move.reason for move in plan.moves}
    assert reasons["idle v1"] == "not used since 2026-02-01, more than 90 days"
    assert (await planned(memory, unused_days=365)).moves == ()


async def test_a_long_quarantine_ends_in_retirement(memory: Memory) -> None:
    """The old reason stays in the new one."""
    long = tool("long", status="quarantined", history=(went("quarantined", "it lies", OLD),))
    short = tool("short", status="quarantined", history=(went("quarantined", "it", RECENT),))
    [move] = (await planned(memory, long, short)).moves
    assert (move.name, move.to) == ("long v1", "retired")
    assert move.reason == "quarantined since 2026-01-01, more than 90 days: it lies"


async def test_twins_give_way_to_the_better_record(memory: Memory) -> None:
    """Of lessons that say the same one stays; another namespace, scope or outcome, or a contradiction, is no twin."""
    weak, strong, third = (lesson(run_id=f"r{n}", created_at=RECENT) for n in range(3))
    others = [
        lesson(namespace="elsewhere", created_at=RECENT),
        lesson(scope="tool", created_at=RECENT),
        lesson(outcome="failure", created_at=RECENT),
    ]
    against = lesson(
        run_id="r9", knowledge="read no page", created_at=RECENT,
        contradicts=(weak.id, strong.id, third.id),
    )  # fmt: skip
    records = [weak, strong, third, *others, against]
    plan = await planned(memory, *records, *used(strong.id, 2, wins=2), *used(third.id, 1, start=5))
    assert {move.id for move in plan.moves} == {weak.id, third.id}
    assert {(move.rule, move.to) for move in plan.moves} == {("twin", "superseded")}
    assert all(strong.id in move.reason for move in plan.moves)


async def test_twin_assets_are_only_reported(memory: Memory) -> None:
    """Versions of one tool are no twins of each other."""
    said = {"description": "Counts words.", "created_at": RECENT}
    one, two = tool("word", **said), tool("Word", **said)
    version = tool("word", version=2, code="2", **said)
    plan = await planned(memory, one, two, version)
    assert plan.moves == ()
    assert plan.twins
    assert all(two.id in (pair.first.id, pair.second.id) for pair in plan.twins)


async def test_each_finding_says_what_to_type(memory: Memory) -> None:
    """Contradictions first; a contradiction ends with the activity of either lesson."""
    a, b = lesson("a", created_at=RECENT), lesson("b", created_at=RECENT, knowledge="read none")
    b = b.model_copy(update={"contradicts": (a.id,)})
    broken = tool("broken", status="quarantined", history=(went("quarantined", "it lies", OLD),))
    knows = expert(tools=("broken", "nowhere"), created_at=RECENT)
    bad = lesson("harm", created_at=RECENT, run_id="r3")
    runs = [*used(bad.id, 5), run(9, learned=(a.id, b.id, bad.id), created_at=RECENT)]
    alone = lesson("alone", created_at=RECENT, run_id="r4")
    await memory.put(a, b, broken, knows, bad, alone, *runs)
    found = await examine(memory, await take_snapshot(memory), now=NOW)
    assert [one.trouble for one in found] == [
        *("contradiction", "loser", "missing tool", "missing tool", "quarantined", "no evidence")
    ]
    assert found[0].records == (b, a)
    assert f"mem2evolve memory delete {b.id[:8]} or {a.id[:8]}" in found[0].do
    assert found[1].do == "mem2evolve memory prune"
    assert found[2].do == f"mem2evolve tools activate {broken.id[:8]} --because …"
    assert "which does not exist" in found[3].what
    assert found[5].records == (alone,)
    await memory.set_status("experience", a.id, "superseded", "edited")
    found = await examine(memory, await take_snapshot(memory), now=NOW)
    assert "contradiction" not in {one.trouble for one in found}


def test_evidence_follows_the_wordings() -> None:
    """The runs that taught what was reworded count, those of another namespace do not; a circle ends."""
    one = lesson("one")
    two = lesson("two", supersedes=one.id)
    runs = (
        run(1, learned=(one.id,)),
        run(2, learned=(two.id,)),
        run(3, namespace="x", learned=(two.id,)),
    )
    ledger = Ledger(Snapshot(lessons=(one, two), runs=runs))
    assert {found.id for found in ledger.evidence(two)} == {runs[0].id, runs[1].id}
    assert [found.id for found in ledger.evidence(one)] == [runs[0].id]
    round_ = one.model_copy(update={"supersedes": two.id})
    assert len(Ledger(Snapshot(lessons=(round_, two), runs=runs)).evidence(two)) == 2


def test_links_go_both_ways() -> None:
    """What a lesson names, and what names it."""
    old = lesson("old")
    heir = lesson("heir", supports=(old.id,), contradicts=("gone",))
    edit = lesson("edit", supersedes=old.id)
    found = links_of(old, [old, heir, edit])
    assert {how: [one.title for one in ones] for how, ones in found.items() if ones} == {
        "supported_by": ["heir"],
        "superseded_by": ["edit"],
    }
    assert {how for how, ones in links_of(heir, [old, heir]).items() if ones} == {"supports"}


def test_times_are_read_with_care() -> None:
    """What is no time is none; one without a zone is UTC."""
    assert moment("soon") is None
    assert moment("2026-01-01") == datetime(2026, 1, 1, tzinfo=UTC)
    assert brought_back([went("active"), went("quarantined")]) is None


async def test_a_contradiction_is_no_twin_at_its_birth(memory: Memory) -> None:
    """Else it would be evidence for what it denies."""
    known = lesson()
    denial = lesson(run_id="r2", knowledge="read no page", contradicts=(known.id,))
    await memory.remember(known)
    assert await memory.remember(denial) == (denial.id, True)
    assert [one.id for one in await memory.opponents(known)] == [denial.id]
    assert [one.id for one in await memory.opponents(denial)] == [known.id]
    await memory.set_status("experience", known.id, "retired", "old")
    assert await memory.opponents(denial) == []


async def test_opponents_stay_in_their_namespace(memory: Memory) -> None:
    """Also where a record names another namespace's."""
    known = lesson()
    foreign = lesson(namespace="elsewhere", contradicts=(known.id,))
    await memory.put(known, foreign)
    assert await memory.opponents(known) == []
    assert await memory.opponents(foreign) == []
    assert await memory.near_lessons(known.card, scope="agent", namespace="elsewhere") == [
        (foreign, pytest.approx(1.0, abs=1e-5))
    ]


async def test_thousands_of_lessons_are_compared(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Every pair is compared, in blocks; twins across blocks are found."""
    words = WordsEmbedder()
    lessons = [
        lesson(f"w{n} x{n * 7} y{n * 13}", created_at=RECENT, run_id=f"r{n}") for n in range(3000)
    ]
    twin = lesson("w1 x7 y13", created_at=RECENT, run_id="again")
    async with Memory(EdgeStore(tmp_path_factory.mktemp("m")), words) as memory:
        plan = await planned(memory, *lessons, twin)
    assert twin.id in {move.id for move in plan.moves} or lessons[1].id in {
        move.id for move in plan.moves
    }
    assert len({move.id for move in plan.moves}) == len(plan.moves)
