"""What a model said of a fit is remembered with the run, and not asked again."""

from typing import Any

import pytest

from mem2evolve.memory.recall import Need
from mem2evolve.memory.records import fit_id
from mem2evolve.models.embeddings import _Cached

from .conftest import (
    ABOUT,
    EXPERT,
    EXPERTISE,
    LESSON,
    TASK,
    TOOL,
    Agent,
    Cast,
    agent_record,
    call,
    decision_on,
    fenced,
    making,
    plan_of,
    subtask,
    tool_record,
    wanted,
)

NAMED = "square_sum"
WORDED = "Adds up the squares of the whole numbers from 1 to n"
CARD = f"{TOOL}: {ABOUT}"
BROKEN = fenced("import os\n")
UNFAULTED = {"evidence": "385", "verdict": "failure", "reason": "Not in words.", "faults": []}
YES = {"why": "It sums the squares.", "fits": 1}


def other_words() -> Any:
    """Return the tool in other words than the plan's, so that a model has to look."""
    return tool_record(name=NAMED, description=WORDED)


def use(**changed: Any) -> Cast:
    """Return the script of a run that recruits it after a fit check."""
    parts: dict[str, Any] = {
        "plan": plan_of(),
        "fit": YES,
        "act": [call(tool=NAMED), "385"],
        "second_answer": "385",
        "generalise": LESSON,
    }
    return Cast(**{name: part for name, part in {**parts, **changed}.items() if part is not None})


async def test_a_confirmed_fit_is_not_asked_again(agent: Agent) -> None:
    """The decision says by which run; the pair stands in that run's record, and only there."""
    tool = other_words()
    await agent.seed(tool, agent_record())
    first = await agent.run(use())
    pair = fit_id(CARD, tool.id)
    assert decision_on(first, "tool")["fit"] == pair
    assert (await agent.record(first)).confirmed == (pair,)

    second = await agent.run(use(fit=None, generalise=None))
    decision = decision_on(second, "tool")
    assert decision["outcome"] == "recruited"
    assert f"confirmed before (run {first['run_id'][:8]})" in decision["why"]
    assert (await agent.record(second)).confirmed == ()


async def test_it_is_asked_again_elsewhere(agent: Agent) -> None:
    """In another namespace, and for another version of the tool."""
    tool = other_words()
    await agent.seed(tool, agent_record())
    await agent.run(use())
    there = {"namespace": "other"}
    await agent.seed(other_words().model_copy(update=there), agent_record(**there))
    await agent.run(use(), **there)
    newer = other_words().model_copy(update={"version": 2})
    await agent.memory.set_status("tool", tool.id, "superseded", "newer")
    await agent.seed(newer)
    cast = use(generalise=None)
    await agent.run(cast)
    assert cast.order.count("fit") == 1


async def test_a_frozen_run_leaves_nothing_to_remember(agent: Agent) -> None:
    """It has no record: the next run asks again."""
    await agent.seed(other_words(), agent_record())
    frozen = use(second_answer=None, generalise=None)
    await agent.run(frozen, evolve=False)
    await agent.run(use())


async def test_a_run_without_a_verdict_is_remembered(agent: Agent) -> None:
    """Whether an asset fits is a statement about two cards; that nobody could judge the answer does not touch it."""
    await agent.seed(other_words(), agent_record())
    judge = {"evidence": "?", "verdict": "abstained", "reason": "Unclear."}
    first = await agent.run(use(second_answer="UNKNOWN", judge=judge, generalise=None))
    assert first["verdict"] == "abstained"
    assert len((await agent.record(first)).confirmed) == 1


@pytest.mark.parametrize("named", [True, False])
async def test_a_faulted_asset_is_not_confirmed(agent: Agent, named: bool) -> None:  # noqa: FBT001 - a case
    """A person says that the run was wrong: because of the tool, then the fit is forgotten; or not, then it stands."""
    await agent.seed(other_words(), agent_record())
    run = await agent.run(use())
    because = f"{NAMED} leaves out the last number" if named else "It was asked for in words"
    cast = Cast(**({"tool": [BROKEN] * 3} if named else {"judge": UNFAULTED}), diagnose_run=LESSON)
    verdict = {"run_id": run["run_id"], "right": False, "because": because}
    await agent.start(cast, {"correction": verdict})

    record = await agent.record(run)
    assert record.verdict == "failure"
    assert len(record.confirmed) == (0 if named else 1)


async def test_of_two_confirmed_ones_the_best_ranked_wins(agent: Agent) -> None:
    """Whichever was confirmed first."""
    near = tool_record(name="power_sum", description="Adds up the squares of a list of numbers")
    await agent.seed(other_words(), agent_record())
    await agent.run(use())
    await agent.seed(near)
    [ranked] = await agent.memory.recall_assets([Need(kind="tool", name=TOOL, description=ABOUT)])
    assert [one.name for one in ranked[:2]] == [NAMED, "power_sum"]
    run = (await agent.memory.list("run"))[0]
    both = tuple(fit_id(CARD, one.id) for one in reversed(ranked[:2]))
    await agent.memory.put(run.model_copy(update={"confirmed": both}))
    end = await agent.run(use(fit=None, generalise=None))
    assert decision_on(end, "tool")["asset_name"] == NAMED


async def test_a_decision_says_everything(agent: Agent) -> None:
    """Need, candidates with scores, δ, what was chosen, the runner-up, and why: in the record too."""
    near = tool_record(name="power_sum", description="Adds up the squares of a list of numbers")
    await agent.seed(other_words(), near, agent_record())
    end = await agent.run(use())
    run = await agent.record(end)
    [decision] = [one for one in run.decisions if one["need"]["kind"] == "tool"]
    assert decision["need"]["name"] == TOOL
    assert [one["name"] for one in decision["candidates"][:2]] == [NAMED, "power_sum"]
    assert all(-1 <= one["score"] <= 1 for one in decision["candidates"])
    assert decision["delta"] == 0.5
    assert decision["score"] == decision["candidates"][0]["score"]
    assert (decision["asset_name"], decision["runner_up"]) == (NAMED, "power_sum")
    assert decision["why"] == YES["why"]


async def test_all_needs_of_a_plan_are_embedded_in_one_call(agent: Agent, monkeypatch: Any) -> None:
    """One pass of the model serves the merging of the needs and the recall of each."""
    batches: list[list[str]] = []
    embedder: Any = agent.memory._embedder
    compute = embedder._compute

    def counted(texts: list[str]) -> list[list[float]]:
        batches.append(texts)
        found: list[list[float]] = compute(texts)
        return found

    monkeypatch.setattr(embedder, "_compute", counted)
    assert isinstance(embedder, _Cached)
    cubes = wanted("sum_of_cubes", "Computes the sum of the cubes of the whole numbers from 1 to n")
    primes = wanted("count_primes", "Counts the prime numbers up to n")
    plan = plan_of(subtask(TASK, wanted(), cubes), subtask(TASK, primes, key="b"))
    cast = Cast(plan=plan, agent=making()["agent"], act=lambda _: "385", aggregate="385")
    await agent.start(cast, {"task": TASK}, evolve=False, create_tools=False)

    cards = {CARD, f"{EXPERT}: {EXPERTISE}"}
    cards |= {f"{one['name']}: {one['description']}" for one in (cubes, primes)}
    assert len(cards) == 4
    assert [cards & set(batch) for batch in batches if cards & set(batch)] == [cards]
