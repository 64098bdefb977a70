"""What becomes of a kept tool: verified anew in another environment, rolled back, its chain of versions."""

import os
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import SandboxUnavailable
from mem2evolve.memory.records import Case
from mem2evolve.nodes.creation.verify import passed_reason
from mem2evolve.sandbox import Outcome, bubblewrap

from ..wheels import add_wheel
from .conftest import (
    FORMULA,
    LESSON,
    LOOP,
    NEXT_TASK,
    TASK,
    TODAY,
    TOOL,
    Agent,
    Cast,
    agent_record,
    call,
    decision_on,
    fenced,
    first_run,
    plan_of,
    subtask,
    tool_record,
    wanted,
)

ELSEWHERE = {**TODAY, "python": "3.9"}
WRONG = Case(args={"n": 4}, expected=31, origin="agreement")
"""What the tool does not do: 1 + 4 + 9 + 16 is 30."""


def recruiting(**parts: Any) -> Cast:
    """Return the script of a run that recruits the tool."""
    return Cast(
        **{
            "plan": plan_of(),
            "act": [call(), "385"],
            "second_answer": "385",
            "generalise": LESSON,
            **parts,
        }
    )


def making_anew(**parts: Any) -> Cast:
    """Return the script of a run that makes the tool under another name."""
    numbered = f"{TOOL}_2"
    return first_run(
        agent=None,
        tool=fenced(FORMULA.replace(TOOL, numbered)),
        oracle=fenced(LOOP.replace(TOOL, numbered)),
        act=[call(10, numbered), "385"],
        **parts,
    )


async def only_tool(agent: Agent) -> Any:
    """Return the newest version of the tool."""
    return (await agent.memory.find_by_name("tool", TOOL))[0]


@pytest.mark.parametrize(
    "recorded",
    [ELSEWHERE, {**TODAY, "platform": "linux-vax"}, {**TODAY, "isolation": "none"}, {}],
    ids=["python", "platform", "isolation", "nothing"],
)
async def test_a_tool_from_elsewhere_is_verified_once(
    agent: Agent, recorded: dict[str, str]
) -> None:
    """Its cases are run before it is used; that they pass is logged, and they are not run again."""
    await agent.seed(tool_record(environment=recorded), agent_record())
    end = await agent.run(recruiting())
    assert decision_on(end, "tool")["outcome"] == "recruited"
    before = await only_tool(agent)
    assert before.status == "active"
    assert [change.reason for change in before.history] == [passed_reason(TODAY)]
    assert before.history[0].run_id == end["run_id"]

    again = Cast(
        plan=plan_of(subtask(NEXT_TASK, wanted())), act=[call(20), "2870"], second_answer="2870"
    )
    await agent.run(again, NEXT_TASK)
    assert (await only_tool(agent)).history == before.history


async def test_a_tool_that_fails_here_is_quarantined_and_made_anew(agent: Agent) -> None:
    """The failing cases are the reason; the decision says why the tool was not used."""
    cases = (*tool_record().cases, WRONG)
    await agent.seed(tool_record(environment=ELSEWHERE, cases=cases), agent_record())
    end = await agent.run(making_anew())

    assert await agent.statuses() == {
        f"{TOOL} v1": "quarantined",
        f"{TOOL}_2 v1": "active",
        "arithmetician v1": "superseded",
        "arithmetician v2": "active",
    }
    reason = (await only_tool(agent)).history[-1].reason
    assert reason.startswith(f"its cases fail under python {TODAY['python']}, platform")
    assert 'called with {"n": 4} it returned 30; it should have returned 31' in reason
    decision = decision_on(end, "tool")
    assert (decision["outcome"], decision["asset_name"]) == ("created", f"{TOOL}_2")
    assert f"{TOOL} v1 is passed over: its cases fail" in decision["why"]


async def test_the_next_candidate_takes_the_place_of_one_that_fails(agent: Agent) -> None:
    """Nothing is made where another tool fits."""
    other = "sum_of_the_squares"
    spare = tool_record(
        name=other, function=other, code=FORMULA.replace(TOOL, other), status="candidate"
    )
    broken = tool_record(environment=ELSEWHERE, cases=(*tool_record().cases, WRONG))
    await agent.seed(broken, spare, agent_record())
    end = await agent.run(recruiting(act=[call(10, other), "385"]))

    assert decision_on(end, "tool")["outcome"] == "recruited"
    assert (await agent.statuses())[f"{TOOL} v1"] == "quarantined"
    assert (await agent.statuses())[f"{other} v1"] == "active"


async def test_a_frozen_run_verifies_and_writes_nothing(agent: Agent) -> None:
    """A tool that fails is not used, but its record stays as it was."""
    await agent.seed(
        tool_record(environment=ELSEWHERE, cases=(*tool_record().cases, WRONG)), agent_record()
    )
    cast = making_anew(second_answer=None, generalise=None, tool_lesson=None)
    end = await agent.run(cast, evolve=False)

    assert decision_on(end, "tool")["outcome"] == "created"
    tool = await only_tool(agent)
    assert (tool.status, tool.history) == ("active", ())


async def test_a_sandbox_that_is_down_changes_nothing(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That says nothing about the tool; the run stops before it is used."""
    await agent.seed(tool_record(environment=ELSEWHERE), agent_record())
    monkeypatch.setattr(bubblewrap._choice, "path", "")
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter(()))
    with pytest.raises(SandboxUnavailable):
        await agent.start(Cast(plan=plan_of()), {"task": TASK})

    tool = await only_tool(agent)
    assert (tool.status, tool.history) == ("active", ())


async def test_other_versions_of_a_package_are_another_environment(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the declared packages were resolved to is recorded, and compared before the tool is used again."""
    root = {"squares.py": "def root(x):\n    return x\n"}
    add_wheel(tmp_path / "wheels", "tiny_sums", root)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    agent.reopen(packages=("tiny-sums",))
    head = '# /// script\n# dependencies = ["tiny_sums"]\n# ///\nimport squares\n\n\n'
    source = head + FORMULA.replace("return n *", "return squares.root(n) *")
    await agent.run(first_run(tool=fenced(source)))
    assert (await only_tool(agent)).environment["packages"] == "tiny-sums==1.0"

    add_wheel(tmp_path / "wheels", "tiny_sums", root, version="2.0")
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "new-cache"))
    agent.reopen(packages=("tiny-sums",))
    await agent.run(Cast(plan=plan_of(), act=[call(), "385"], second_answer="385"))
    passed = passed_reason({**TODAY, "packages": "tiny-sums==2.0"})
    assert (await only_tool(agent)).history[-1].reason == passed

    agent.reopen(packages=())
    end = await agent.start(making_anew(), {"task": TASK})
    assert "'tiny-sums' may not be used" in decision_on(end, "tool")["why"]
    new, old = await agent.memory.find_by_name("tool", TOOL)  # a twin that needs no package
    assert [change.status for change in old.history[-2:]] == ["active", "superseded"]
    assert (old.history[-2].reason, new.version, new.dependencies) == (passed, 2, ())


async def test_a_case_that_fails_only_once_is_no_fault(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that ran out of time on a busy machine is made once more before the tool is quarantined."""
    await agent.seed(tool_record(environment=ELSEWHERE), agent_record())
    call_box, late = agent.resources.sandbox.call, [Outcome(status="timeout")] * 3

    async def busy(*args: Any, **options: Any) -> Outcome:
        return late.pop() if late else await call_box(*args, **options)

    monkeypatch.setattr(agent.resources.sandbox, "call", busy)
    await agent.run(recruiting())

    assert late == []
    assert [change.reason for change in (await only_tool(agent)).history] == [passed_reason(TODAY)]
