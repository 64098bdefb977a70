"""Arms and ablations, frozen runs, and how δ, its band and the fit check decide."""

from typing import Any

import pytest

from ..fakes import ScriptedModel
from ..openai_server import reply_tools
from .conftest import (
    EXPERT,
    LESSON,
    STRATEGY,
    TASK,
    TOOL,
    TOOL_LESSON,
    Agent,
    Cast,
    Open,
    agent_record,
    call,
    decision_on,
    first_run,
    lesson_record,
    making,
    offered,
    plan_of,
    said,
    tool_record,
)

PYTHON = reply_tools(("python", {"code": "sum(i * i for i in range(1, 11))"}))
SHOWN = f"{LESSON['applies_when']}: {LESSON['knowledge']}"
CUBES = {
    "name": "sum_of_cubes",
    "description": "Computes the sum of the cubes of the whole numbers from 1 to n",
}
"""Scores between low and high; δ is below its score."""
WORDS = {"name": "word_count", "description": "Counts the words of a text"}
"""Scores below low."""


async def test_experience_only_makes_nothing(agent: Agent) -> None:
    """Lessons are shown and written; what is lacking stays lacking, and `python` steps in."""
    await agent.seed(lesson_record())
    cast = Cast(plan=plan_of(), act=[PYTHON, "385"], second_answer="385")
    end = await agent.run(cast, mode="experience_only")

    assert SHOWN in cast.heard("plan")[0]
    assert SHOWN in cast.heard("act")[0]
    assert offered(cast.requests("act")[0]) == ["python"]
    for kind, why in (("tool", "making tools is off"), ("agent", "making experts is off")):
        assert decision_on(end, kind)["outcome"] == "none"
        assert decision_on(end, kind)["why"].endswith(why)
    assert "You are a careful expert." in said(cast.requests("act")[0])
    assert await agent.counts() == {"tool": 0, "agent": 0, "experience": 1, "run": 1}
    assert (await agent.record(end)).mode == "experience_only"


async def test_assets_only_learns_nothing(agent: Agent) -> None:
    """Tools and experts are made and promoted; lessons are neither shown nor written."""
    other = lesson_record(scope="tool", learned_from=f"{TOOL}: sums squares")
    await agent.seed(lesson_record(), other)
    cast = first_run(generalise=None, tool_lesson=None)
    end = await agent.run(cast, mode="assets_only")

    assert end["verdict"] == "success"
    assert not any(LESSON["knowledge"] in said(asked) for _, asked in cast.asked)
    assert (end["lessons"], end["learned"]) == ([], [])
    assert await agent.counts() == {"tool": 1, "agent": 2, "experience": 2, "run": 1}
    assert await agent.statuses() == {
        f"{TOOL} v1": "active",
        f"{EXPERT} v1": "superseded",
        f"{EXPERT} v2": "active",
    }


@pytest.mark.parametrize(
    ("switch", "left_out"),
    [
        ("create_tools", {"cases", "tool", "oracle", "tool_lesson"}),
        ("create_agents", {"agent"}),
        ("use_agent_experience", {"generalise"}),
        ("use_tool_experience", {"tool_lesson"}),
    ],
)
async def test_each_switch_takes_out_its_calls(
    agent: Agent, switch: str, left_out: set[str]
) -> None:
    """An ablation differs from the full method by exactly the requests of what it leaves out."""
    act = [PYTHON, "385"] if switch == "create_tools" else [call(), "385"]
    cast = first_run(act=act, **dict.fromkeys(left_out))
    await agent.run(cast, **{switch: False})

    assert (
        set(cast.order)
        == {
            *("plan", "agent", "cases", "tool", "oracle", "act", "second_answer"),
            *("generalise", "tool_lesson"),
        }
        - left_out
    )


@pytest.mark.parametrize("online", [[], ["web_search", "read_webpage"]])
async def test_react_has_the_built_in_tools_only(agent: Agent, online: list[str]) -> None:
    """No plan is asked for, nothing is recruited, and the memory's tools and lessons stay out."""
    await agent.seed(tool_record(), lesson_record())
    cast = Cast(act=[PYTHON, "385"], second_answer="385")
    end = await agent.run(cast, mode="react", web=bool(online))

    assert offered(cast.requests("act")[0]) == ["python", "read_file", *online]
    assert (end["answer"], end["verdict"], end["decisions"]) == ("385", "success", [])
    assert (end["lessons"], end["learned"]) == ([], [])
    assert SHOWN not in cast.heard("act")[0]


async def test_chain_of_thought_is_one_call(agent: Agent) -> None:
    """What stands behind ANSWER: is the answer."""
    cast = Cast(think="1 + 4 + 9 + … \nANSWER: 385")
    end = await agent.run(cast, mode="cot", evolve=False)

    assert (end["answer"], cast.order) == ("385", ["think"])


async def test_direct_is_one_call(agent: Agent) -> None:
    """Without judging, exactly one; the reply is the answer."""
    cast = Cast(answer="385")
    end = await agent.run(cast, mode="direct", evolve=False)

    assert (end["answer"], cast.order) == ("385", ["answer"])
    assert TASK in cast.heard("answer")[0]


async def test_a_model_object_serves_every_role(open_agent: Open) -> None:
    """A host's own chat model is used instead of the settings'."""
    model = ScriptedModel(replies=["385"])
    agent = open_agent(model=model)
    end = await agent.run(Cast(), mode="direct", evolve=False)

    model.assert_spent()
    assert end["answer"] == "385"
    assert TASK in str(model.asked[0][-1].content)


async def test_a_frozen_run_leaves_the_memory_as_it_was(agent: Agent) -> None:
    """What it makes is usable in it, and nowhere else: no record, no file, no run, no verdict."""
    await agent.seed(lesson_record())
    before = await agent.counts()
    cast = Cast(plan=plan_of(), **making(), act=[call(), "385"])
    end = await agent.run(cast, evolve=False)

    assert end["results"][0]["calls"] == [
        {"tool": TOOL, "args": {"n": 10}, "ok": True, "result": "385"}
    ]
    assert STRATEGY in said(cast.requests("act")[0])
    assert decision_on(end, "tool")["outcome"] == "created"
    assert (end["answer"], end["verdict"], end["learned"]) == ("385", "", [])
    assert SHOWN in cast.heard("plan")[0]
    assert await agent.counts() == before == {"tool": 0, "agent": 0, "experience": 1, "run": 0}
    assert agent.files() == {}


async def test_namespaces_do_not_see_each_other(agent: Agent) -> None:
    """Tool, expert and lesson of one namespace are not recruited or recalled in another."""
    await agent.seed(tool_record(), agent_record(), lesson_record())
    cast = first_run()
    end = await agent.run(cast, namespace="other")

    assert decision_on(end, "tool")["outcome"] == "created"
    assert SHOWN not in cast.heard("plan")[0]
    assert f"@other/{TOOL}/v1/tool.py" in agent.files()


FIT = "Sums of cubes were never asked for."


async def decide(agent: Agent, *, fit: int | None, made: bool, **settings: Any) -> dict[str, Any]:
    """Run once, frozen; return the decision about the tool. `fit` is the model's choice, `None`: not asked."""
    cast = Cast(
        plan=plan_of(),
        **({"fit": {"why": FIT, "fits": fit}} if fit is not None else {}),
        **(making(agent=None) if made else {}),
        act="385",
    )
    return decision_on(await agent.run(cast, evolve=False, **settings), "tool")


async def test_between_the_band_the_model_decides_for(agent: Agent) -> None:
    """Shown the need and the near matches, it names the one that fits."""
    await agent.seed(tool_record(**CUBES), agent_record())
    decision = await decide(agent, fit=1, made=False)

    assert (decision["outcome"], decision["asset_name"]) == ("recruited", "sum_of_cubes")
    assert 0.35 < decision["score"] < 0.8
    assert decision["why"] == FIT


@pytest.mark.parametrize("number", [0, 2, 9])
async def test_between_the_band_the_model_decides_against(agent: Agent, number: int) -> None:
    """0, or a number that is not on the list, means that none fits: a tool is made."""
    await agent.seed(tool_record(**CUBES), agent_record())
    decision = await decide(agent, fit=number, made=True)

    assert (decision["outcome"], decision["asset_name"]) == ("created", TOOL)
    assert decision["runner_up"] == "sum_of_cubes"


async def test_the_model_may_prefer_a_lower_score(agent: Agent) -> None:
    """Its choice counts, not the order."""
    near = {"name": "power_sum", "description": "Adds up the squares of a list of numbers"}
    await agent.seed(tool_record(**CUBES), tool_record(**near), agent_record())
    decision = await decide(agent, fit=2, made=False)

    assert [one["name"] for one in decision["candidates"][:2]] == ["power_sum", "sum_of_cubes"]
    assert (decision["asset_name"], decision["runner_up"]) == ("sum_of_cubes", "power_sum")
    assert decision["score"] == decision["candidates"][0]["score"]


async def test_above_the_band_nobody_is_asked(agent: Agent) -> None:
    """The same card is recruited at once."""
    await agent.seed()
    assert (await decide(agent, fit=None, made=False))["outcome"] == "recruited"


async def test_below_the_band_nobody_is_asked(agent: Agent) -> None:
    """What has nothing to do with the need is passed over at once."""
    await agent.seed(tool_record(**WORDS), agent_record())
    decision = await decide(agent, fit=None, made=True)

    assert (decision["outcome"], decision["runner_up"]) == ("created", "word_count")
    assert decision["score"] < 0.35


@pytest.mark.parametrize(("delta", "outcome"), [(0.6, "recruited"), (0.7, "created")])
async def test_without_the_fit_check_delta_decides(
    agent: Agent, delta: float, outcome: str
) -> None:
    """A δ of the run's own is compared with the score, and stands in the decision."""
    await agent.seed(tool_record(**CUBES), agent_record())
    settings = {"fit_check": False, "delta": delta}
    decision = await decide(agent, fit=None, made=outcome == "created", **settings)

    assert (decision["outcome"], decision["delta"]) == (outcome, delta)
    assert decision["why"].startswith(f"closest scores {decision['score']:.2f}, δ is {delta:.2f}")


async def test_a_delta_beyond_the_band_widens_it(agent: Agent) -> None:
    """With δ = .95, a score of .9 is no longer beyond doubt; with δ = .01 hardly anything is below it."""
    await agent.seed(tool_record(**WORDS), agent_record())
    decision = await decide(agent, fit=0, made=True, delta=0.01)

    assert decision["why"].startswith(FIT)


async def test_lessons_shown_are_a_setting(agent: Agent) -> None:
    """None with 0."""
    await agent.seed(tool_record(), agent_record(), lesson_record())
    parts = {"act": [call(), "385"], "second_answer": "385", "generalise": TOOL_LESSON}
    cast = Cast(plan=plan_of(), contradicts={"why": "It adds.", "opposite": 0}, **parts)
    end = await agent.run(cast, lessons_for_planning=0)

    assert end["lessons"] == []
    assert SHOWN not in cast.heard("plan")[0] + cast.heard("act")[0]
