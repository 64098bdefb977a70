"""An agent in a home of its own: real client, sandbox, memory and embeddings; only the model is scripted."""

import json
import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.api import build_graph, open_resources
from mem2evolve.memory.records import AgentRecord, Case, ExperienceRecord, RunRecord, ToolRecord
from mem2evolve.nodes.desk import Resources
from mem2evolve.settings import Settings

from ..fakes import Asked, Cast, said
from ..openai_server import OpenAIServer, Reply, reply_tools

__all__ = ["Asked", "Cast", "said"]

TOOL = "sum_of_squares"
ABOUT = "Computes the sum of the squares of the whole numbers from 1 to n"
EXPERT = "arithmetician"
EXPERTISE = "Computes sums and series of whole numbers"
STRATEGY = "Call the tool once and copy its value."
TASK = "What is the sum of the squares of the whole numbers from 1 to 10?"
NEXT_TASK = "What is the sum of the squares of the whole numbers from 1 to 20?"

TODAY = {
    "python": ".".join(map(str, sys.version_info[:2])),
    "platform": f"{platform.system().lower()}-{platform.machine()}",
    "isolation": "bubblewrap",
}
"""What a tool of this test run is recorded to have passed under."""

SHM = Path("/dev/shm")  # noqa: S108 - folders in it are made by `tempfile`

FORMULA = f'''\
def {TOOL}(n: int) -> int:
    """Sum the squares from 1 to n.

    Args:
        n: Last number.

    Returns:
        The sum.
    """
    if n < 0:
        raise ValueError("n is negative")
    return n * (n + 1) * (2 * n + 1) // 6
'''
LOOP = f"""\
def {TOOL}(n):
    if n < 0:
        raise ValueError("no")
    total = 0
    for i in range(1, n + 1):
        total += i * i
    return total
"""
INPUTS = {"typical": [{"n": 10}, {"n": 3}], "edge": [{"n": 0}, {"n": 1}], "invalid": [{"n": -1}]}
LESSON = {
    "title": "Sums by tool",
    "description": "Sums of series come from a tool, not from the head.",
    "applies_when": "A task asks for the sum of a series of whole numbers",
    "knowledge": "Call the tool with the last number and give its value.",
}
TOOL_LESSON = {
    "title": "Closed forms",
    "description": "A closed form is exact and quick.",
    "applies_when": "A tool sums a polynomial series",
    "knowledge": "Use the closed form with integer division and refuse negative n.",
}


def fenced(source: str) -> str:
    """Return code as a model sends it."""
    return f"```python\n{source}```"


def wanted(name: str = TOOL, about: str = ABOUT, takes: str = "n: int") -> dict[str, str]:
    """Return a tool as a plan wants it."""
    return {"name": name, "description": about, "input": takes, "output": "int"}


def subtask(
    goal: str, *tools: dict[str, str], key: str = "a", after: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a sub-task as a model plans it."""
    expert = {"name": EXPERT, "expertise": EXPERTISE}
    return {
        "id": key,
        "goal": goal,
        "depends_on": list(after),
        "expert": expert,
        "tools": list(tools),
    }


def plan_of(*subtasks: dict[str, Any]) -> dict[str, Any]:
    """Return a plan; by default one sub-task that wants the tool."""
    return {"subtasks": list(subtasks or (subtask(TASK, wanted()),))}


def call(n: int = 10, tool: str = TOOL) -> Reply:
    """Return a native tool call."""
    return reply_tools((tool, {"n": n}))


def making(**changed: Any) -> dict[str, Any]:
    """Return the parts of a run that makes the tool: what is asked before anybody acts."""
    parts = {"cases": INPUTS, "tool": fenced(FORMULA), "oracle": fenced(LOOP)}
    return {
        name: part for name, part in {**parts, "agent": {"strategy": STRATEGY}, **changed}.items()
        if part is not None
    }  # fmt: skip


def first_run(**changed: Any) -> Cast:
    """Return the script of a whole first run, with parts changed, added, or (`None`) left out."""
    parts = {
        "plan": plan_of(),
        **making(),
        "act": [call(), "385"],
        "second_answer": "385",
        "generalise": LESSON,
        "tool_lesson": TOOL_LESSON,
    }
    return Cast(**{name: part for name, part in {**parts, **changed}.items() if part is not None})


def tool_record(**changed: Any) -> ToolRecord:
    """Return the tool as a run before has left it."""
    parts = {
        "name": TOOL,
        "description": ABOUT,
        "input_schema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
        "code": FORMULA,
        "function": TOOL,
        "documentation": "Sum the squares from 1 to n.",
        "cases": tuple(
            Case(args={"n": n}, expected=value, origin="agreement")
            for n, value in ((0, 0), (1, 1), (3, 14), (10, 385))
        ),
        "second_opinion": True,
        "environment": TODAY,
        "status": "active",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return ToolRecord(**{**parts, **changed})


def agent_record(**changed: Any) -> AgentRecord:
    """Return the expert as a run before has left it."""
    parts = {
        "name": EXPERT,
        "expertise": EXPERTISE,
        "strategy": STRATEGY,
        "tools": (TOOL,),
        "status": "active",
    }
    return AgentRecord(**{**parts, **changed})


def lesson_record(**changed: Any) -> ExperienceRecord:
    """Return the lesson as a run before has left it."""
    parts = {**LESSON, "scope": "agent", "outcome": "success", "learned_from": TASK, "run_id": "r0"}
    return ExperienceRecord(**{**parts, **changed})


class Agent:
    """An agent in its home, and what one looks at in a test.

    Attributes:
        home: Where it keeps things.
        cast: The script of the run that comes next.
    """

    def __init__(self, home: Path, **options: Any) -> None:
        self.home = home
        self.cast = Cast()
        self.server = OpenAIServer(self._reply)
        self._settings = Settings(home=home, model="openai:scripted")
        self._options = options
        self._compile: dict[str, Any] = {}
        self._opened: list[Resources] = []
        self.reopen()

    def _reply(self, asked: Asked) -> Reply:
        return self.cast(asked)

    def reopen(self, **options: Any) -> None:
        """Open the home anew, as another process would; `options` are `packages` and those of `open_resources`."""
        self._settings = replace(self._settings, packages=options.pop("packages", ()))
        self._options |= options
        self.resources = open_resources(self._settings, **self._options)
        self._opened.append(self.resources)
        self.graph = build_graph(self.resources, **self._compile)

    async def close(self) -> None:
        """Close the home, as often as it was opened."""
        for resources in self._opened:
            await resources.close()

    def compile(self, **options: Any) -> None:
        """Compile the graph with other options."""
        self._compile = options
        self.graph = build_graph(self.resources, **options)

    @property
    def memory(self) -> Any:
        """Its memory."""
        return self.resources.memory

    async def run(self, cast: Cast, task: str = TASK, **settings: Any) -> dict[str, Any]:
        """Run one task by a script, all of which must be asked for; return the end state."""
        end = await self.start(cast, {"task": task}, **settings)
        cast.assert_spent()
        return end

    async def start(
        self, cast: Cast, given: Mapping[str, Any], *, config: Any = None, **settings: Any
    ) -> dict[str, Any]:
        """Run with any input and settings."""
        self.cast = cast
        end: dict[str, Any] = await self.graph.ainvoke(
            given, config, context={"web": False, **settings}
        )
        return end

    async def record(self, end: Mapping[str, Any]) -> RunRecord:
        """Return what was recorded of a run."""
        found = await self.memory.get("run", end["run_id"])
        assert found is not None
        return found

    async def seed(self, *records: Any) -> None:
        """Put records into the memory, by default the tool and the expert."""
        await self.memory.put(*(records or (tool_record(), agent_record())))

    async def counts(self) -> dict[str, int]:
        """Return how many records of each kind there are, built-in tools left out."""
        made = [tool for tool in await self.memory.list("tool") if tool.origin == "generated"]
        others = {kind: await self.memory.count(kind) for kind in ("agent", "experience", "run")}
        return {"tool": len(made), **others}

    async def statuses(self) -> dict[str, str]:
        """Return the status of each generated tool and expert, by name and version."""
        assets = [*await self.memory.list("tool"), *await self.memory.list("agent")]
        return {
            f"{one.name} v{one.version}": one.status for one in assets if one.origin == "generated"
        }

    def files(self) -> dict[str, str]:
        """Return the files in `tools_generated/`, by path."""
        root = self.home / "tools_generated"
        return {
            path.relative_to(root).as_posix(): path.read_text()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


Open = Callable[..., Agent]


@contextmanager
def new_home() -> Iterator[Path]:
    """Make an empty home, in memory where it can be: on a disk the many files of the store cost seconds."""
    where = SHM if os.access(SHM, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="mem2evolve-") as folder:
        yield Path(folder) / "home"


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home."""
    with new_home() as made:
        yield made


@pytest.fixture
async def open_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Open an agent with the options of `open_resources`; closed, and its script checked, at the end."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    opened: list[Agent] = []

    def make(**options: Any) -> Agent:
        made = Agent(home, **options)
        monkeypatch.setenv("OPENAI_BASE_URL", made.server.base_url)
        made.server.__enter__()
        opened.append(made)
        return made

    yield make
    for made in opened:
        await made.close()
        made.server.__exit__(None, None, None)


@pytest.fixture
def agent(open_agent: Open) -> Agent:
    """An agent with nothing but the built-in tools, in an empty home."""
    return open_agent()


def decision_on(end: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the one decision about a kind of asset."""
    [found] = [one for one in end["decisions"] if one["need"]["kind"] == kind]
    return found  # type: ignore[no-any-return]


def offered(asked: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers natively."""
    return [tool["function"]["name"] for tool in asked.get("tools") or []]


def as_json(text: str) -> Any:
    """Read a file's JSON."""
    return json.loads(text)
