"""What a draft asks for beyond computing: a person says yes or no before anything of it is installed or run."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mem2evolve.nodes.permitted import permissions_of
from mem2evolve.sandbox import Fetcher

from ..wheels import add_wheel
from .conftest import (
    FORMULA,
    TASK,
    TOOL,
    Agent,
    Cast,
    agent_record,
    call,
    decision_on,
    fenced,
    first_run,
    plan_of,
)
from .test_loop_creation import ONE_OFF, creation_of

THREAD: Final[Any] = {"configurable": {"thread_id": "t"}}
PACKAGE: Final = "package:tiny-sums"
HOST: Final = "network:api.example.org"


def head(*permissions: str, packages: tuple[str, ...] = (), why: str = "") -> str:
    """Return the head of a module that asks for something."""
    return (
        f"# /// script\n# dependencies = {json.dumps(packages)}\n# [tool.mem2evolve]\n"
        f"# permissions = {json.dumps(permissions)}\n# why = {json.dumps(why)}\n# ///\n"
    )


PACKED: Final = (
    head(packages=("tiny-sums",), why="it has the roots")
    + "import squares\n\n\n"
    + FORMULA.replace("return n *", "return squares.root(n) *")
)
FETCHING: Final = head("network:api.example.org") + FORMULA.replace(
    "return n *", 'return int(fetch("http://api.example.org/one")) * n *'
)
READING: Final = head("files") + FORMULA.replace(
    "return n *", 'return len(open("/data/one.txt").read()) * n *'
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where environments are made, from a folder of one wheel."""
    add_wheel(tmp_path / "wheels", "tiny_sums", {"squares.py": "def root(x):\n    return x\n"})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "environments"


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """An agent whose runs can wait."""
    agent.compile(checkpointer=InMemorySaver())
    return agent


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was fetched; every address answers `1`, and nothing leaves this machine."""
    seen: list[str] = []

    def answer(self: Fetcher, url: str, turn: int = 0) -> dict[str, str]:
        self._parts(url)  # raises for a host that it may not fetch from
        seen.append(url)
        return {"text": "1", "error": ""}

    monkeypatch.setattr(Fetcher, "answer", answer)
    return seen


def made(cache: Path) -> bool:
    """Whether any environment was made, or begun."""
    return cache.exists()


async def begin(agent: Agent, cast: Cast, **settings: Any) -> dict[str, Any]:
    """Run until it waits; return the one question."""
    end = await agent.start(
        cast, {"task": TASK, **settings.pop("given", {})}, config=THREAD, **settings
    )
    [asked] = end["__interrupt__"]
    return asked.value  # type: ignore[no-any-return]


async def answer(agent: Agent, value: Any, **settings: Any) -> dict[str, Any]:
    """Resume with an answer; return the state in which it stops next."""
    return await agent.start(agent.cast, Command(resume=value), config=THREAD, **settings)  # type: ignore[arg-type]


async def only_tool(agent: Agent) -> Any:
    """Return the one version of the tool."""
    [tool] = await agent.memory.find_by_name("tool", TOOL)
    return tool


async def test_a_package_is_asked_for_once_before_it_is_there(agent: Agent, cache: Path) -> None:
    """The question shows what is wanted by which code; nothing is installed before the answer; then it is kept."""
    cast = first_run(tool=fenced(PACKED))
    question = await begin(agent, cast)

    assert (question["kind"], question["tool"]) == ("tool_permission", TOOL)
    assert question["permissions"] == [PACKAGE]
    assert "the package 'tiny-sums'" in question["reasons"][0]
    [draft] = question["drafts"]
    assert (draft["permissions"], draft["why"]) == ([PACKAGE], "it has the roots")
    assert draft["code"] == PACKED
    assert "a person decides" in cast.heard("tool")[0]
    assert not made(cache)
    assert await agent.memory.find_by_name("tool", TOOL) == []

    end = await answer(agent, True)
    cast.assert_spent()
    assert (end["answer"], "__interrupt__" in end) == ("385", False)
    assert made(cache)
    tool = await only_tool(agent)
    assert (tool.permissions, tool.dependencies) == ((PACKAGE,), ("tiny-sums",))
    assert tool.id != tool.model_copy(update={"permissions": ()}).id
    assert f"a person allowed {PACKAGE}" in [change.reason for change in tool.history]
    assert creation_of(end)["granted"] == [PACKAGE]
    assert tool.environment["packages"] == "tiny-sums==1.0"
    assert tool.mutation_score is not None


async def test_a_kept_tool_keeps_what_it_was_allowed(agent: Agent, cache: Path) -> None:
    """A later run uses it without a question, though the package is on no list."""
    await begin(agent, first_run(tool=fenced(PACKED)))
    await answer(agent, True)
    agent.compile()
    agent.reopen()
    end = await agent.run(Cast(plan=plan_of(), act=[call(), "385"], second_answer="385"))
    assert decision_on(end, "tool")["outcome"] == "recruited"
    assert end["results"][0]["calls"][0]["ok"]


async def test_another_process_goes_on(agent: Agent, cache: Path) -> None:
    """The grant is in the run's state; no model is asked again."""
    saver, cast = InMemorySaver(), first_run(tool=fenced(PACKED))
    agent.compile(checkpointer=saver)
    await begin(agent, cast)
    await agent.resources.close()
    agent.compile(checkpointer=saver)
    agent.reopen()
    end = await answer(agent, "yes")

    cast.assert_spent()
    assert cast.order.count("tool") == cast.order.count("cases") == 1
    assert end["answer"] == "385"
    assert (await only_tool(agent)).permissions == (PACKAGE,)


async def test_what_is_refused_is_a_fault_of_the_draft(agent: Agent, cache: Path) -> None:
    """Its writer is told by whom and why, the next draft does without, and nobody is asked twice."""
    cast = first_run(tool=[fenced(PACKED), fenced(PACKED), fenced(FORMULA)])
    await begin(agent, cast)
    end = await answer(agent, "no, because it is too large")

    cast.assert_spent()
    assert "__interrupt__" not in end
    told = "line 2: a person refused the package 'tiny-sums': it is too large"
    assert told in cast.heard("tool")[1]
    assert told in cast.heard("tool")[2]
    tool = await only_tool(agent)
    assert (tool.code, tool.permissions) == (FORMULA, ())
    assert creation_of(end)["refused"] == {PACKAGE: "it is too large"}
    assert not made(cache)


async def test_a_later_draft_that_asks_for_more_is_asked_about(agent: Agent, cache: Path) -> None:
    """What was granted is not asked again."""
    broken = FETCHING.replace("dependencies = []", 'dependencies = ["tiny-sums"]').replace(
        "fetch(", "open("
    )
    cast = first_run(
        tool=[fenced(broken), fenced(broken.replace('e.org"]', 'e.org", "files"]'))], **ONE_OFF
    )
    first = await begin(agent, cast, debug_rounds=2)
    assert first["permissions"] == [HOST, PACKAGE]
    waiting = await answer(agent, True, debug_rounds=2)
    [second] = waiting["__interrupt__"]
    assert second.value["permissions"] == ["files"]
    await answer(agent, False, debug_rounds=2)
    assert await agent.memory.find_by_name("tool", TOOL) == []


@pytest.mark.parametrize(
    ("compile_with", "policy"), [({}, "risky"), ({"checkpointer": InMemorySaver()}, "never")]
)
async def test_where_nobody_can_be_asked_it_is_refused(
    agent: Agent, cache: Path, compile_with: dict[str, Any], policy: str
) -> None:
    """By the screen, as a fault of the draft; the writer is not told that it might ask."""
    agent.compile(**compile_with)
    source = PACKED.replace(
        "permissions = []", 'permissions = ["files", "network:api.example.org"]'
    )
    cast = first_run(tool=[fenced(source), fenced(FORMULA)])
    end = await agent.start(cast, {"task": TASK}, config=THREAD, approve=policy)

    cast.assert_spent()
    assert "__interrupt__" not in end
    assert "'tiny-sums' may not be used: none is allowed" in cast.heard("tool")[1]
    assert "The permission 'files' was not given" in cast.heard("tool")[1]
    assert "tool.mem2evolve" not in cast.heard("tool")[0]
    assert (await only_tool(agent)).permissions == ()
    assert not made(cache)


async def test_nobody_is_asked_about_what_is_no_code(agent: Agent) -> None:
    """A head that is malformed, and a body that is no Python, are refused anyway."""
    bad = [FETCHING.replace("api.example.org", "http://h", 1), FETCHING + "def (:\n", FORMULA]
    cast = first_run(tool=[fenced(source) for source in bad])
    end = await agent.start(cast, {"task": TASK}, config=THREAD)

    assert "__interrupt__" not in end
    assert "names no host" in cast.heard("tool")[1]
    assert (await only_tool(agent)).code == FORMULA


async def test_a_granted_host_is_fetched_from(agent: Agent, fetched: list[str]) -> None:
    """While it is tried out and when it is called; not before the answer, and its tests are not tested over the net."""
    cast = first_run(tool=fenced(FETCHING))
    await begin(agent, cast)
    assert fetched == []
    end = await answer(agent, True)

    assert (end["answer"], decision_on(end, "tool")["outcome"]) == ("385", "created")
    tool = await only_tool(agent)
    assert (tool.permissions, tool.mutation_score) == ((HOST,), None)
    assert set(fetched) == {"http://api.example.org/one"}
    assert len(fetched) < 20
    assert end["results"][0]["calls"][0]["ok"]


async def test_a_listed_host_needs_no_question(agent: Agent, fetched: list[str]) -> None:
    """Nor does it stand in the record: it ends with the list."""
    settings = replace(agent.resources.settings, fetch_hosts=("api.example.org",))
    agent.resources = replace(agent.resources, settings=settings)
    agent.compile()
    cast = first_run(tool=fenced(FETCHING))
    end = await agent.run(cast)

    assert "allowed are network:api.example.org" in cast.heard("tool")[0]
    assert end["results"][0]["calls"][0]["ok"]
    tool = await only_tool(agent)
    assert tool.permissions == ()
    assert permissions_of(tool, settings) == (HOST,)
    assert permissions_of(tool, replace(settings, fetch_hosts=())) == ()


async def test_a_granted_tool_reads_the_tasks_files(agent: Agent, tmp_path: Path) -> None:
    """Under /data, while it is tried out and when it is called."""
    (tmp_path / "one.txt").write_text("x")
    cast = first_run(tool=fenced(READING))
    question = await begin(agent, cast, given={"files": [str(tmp_path / "one.txt")]})
    assert (question["permissions"], question["files"]) == (["files"], ["one.txt"])
    end = await answer(agent, True)

    assert end["answer"] == "385"
    assert (await only_tool(agent)).permissions == ("files",)
    assert end["results"][0]["calls"][0]["ok"]


async def test_always_still_asks_whether_it_is_kept(agent: Agent, cache: Path) -> None:
    """For that reason alone, and with what it was allowed."""
    await begin(agent, first_run(tool=fenced(PACKED)), approve="always")
    waiting = await answer(agent, True, approve="always")
    [kept] = waiting["__interrupt__"]

    assert kept.value["kind"] == "tool_approval"
    assert kept.value["reasons"] == ["every tool is shown to a person (approve=always)"]
    assert kept.value["permissions"] == [PACKAGE]


async def test_what_is_no_answer_is_asked_again(agent: Agent, cache: Path) -> None:
    """With a note; still nothing was installed."""
    await begin(agent, first_run(tool=fenced(PACKED)))
    waiting = await answer(agent, "perhaps")
    [again] = waiting["__interrupt__"]

    assert "neither yes nor no" in again.value["note"]
    assert not made(cache)


async def test_a_mended_version_may_do_what_the_old_one_might(agent: Agent, cache: Path) -> None:
    """And nothing else: what it asks for beyond that is a fault of the draft."""
    await begin(agent, first_run(tool=fenced(PACKED)))
    await answer(agent, True)
    more = PACKED.replace("permissions = []", 'permissions = ["files"]') + "\n# more\n"
    better = PACKED.replace("// 6", "// 6 + 0")
    cast = Cast(
        plan=plan_of(), act=[call(), "386"], second_answer="385",
        judge={"evidence": "386", "verdict": "failure", "reason": "It is 385.",
               "faults": [{"name": TOOL, "why": "wrong", "args": {"n": 10}, "expected": 386}]},
        tool=[fenced(more), fenced(better.replace("+ 0", "+ (n == 10)"))],
        diagnose_run={"title": "t", "description": "d", "applies_when": "a", "knowledge": "k"},
    )  # fmt: skip
    old = await only_tool(agent)
    changed = old.model_copy(
        update={"cases": tuple(one for one in old.cases if one.args != {"n": 10})}
    )
    await agent.memory.set_status("tool", old.id, "retired", "for the test")
    await agent.seed(changed.model_copy(update={"version": 2, "status": "active"}), agent_record())
    end = await agent.start(cast, {"task": TASK}, config={"configurable": {"thread_id": "u"}})
    [asked] = end["__interrupt__"]

    assert "The permission 'files' was not given" in cast.heard("tool")[1]
    assert asked.value["permissions"] == [PACKAGE]
    assert asked.value["version"] == 3
