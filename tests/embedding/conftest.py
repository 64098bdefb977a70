"""An agent in a home of its own whose model is scripted, and hosts that embed it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from mem2evolve import Context, Mem2Evolve, Settings

from ..cli.brain import ANSWER, Brain
from ..graph.conftest import new_home
from ..openai_server import OpenAIServer, Reply, reply_text, reply_tools

TASK: Final = "What is three times 14?"
TOOL: Final = "triple_number"
QUIET: Final = Context(web=False)
ASKING: Final = Context(web=False, approve="always")
THREAD: Final[Any] = {"configurable": {"thread_id": "t"}}

__all__ = ["ANSWER", "Brain"]


class Hosted(Brain):
    """A brain that is also the model of an agent which has ours as a tool."""

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request."""
        if "mem2evolve" not in [tool["function"]["name"] for tool in asked.get("tools", [])]:
            return super().__call__(asked)
        last = asked["messages"][-1]
        if last["role"] == "tool":
            return reply_text(f"The tool says: {last['content']}")
        return reply_tools(("mem2evolve", {"task": TASK}))


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home."""
    with new_home() as made:
        yield made


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Brain]:
    """The model, served, and named by the environment."""
    brain = Hosted()
    with OpenAIServer(brain) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield brain


Open = Callable[..., Mem2Evolve]


@pytest.fixture
async def open_agent(home: Path, brain: Brain) -> AsyncIterator[Open]:
    """Open agents with the options of `Mem2Evolve`; closed at the end."""
    opened: list[Mem2Evolve] = []

    def make(**options: Any) -> Mem2Evolve:
        options = {"context": QUIET, **options}
        opened.append(Mem2Evolve(Settings(home=home, model="openai:scripted"), **options))
        return opened[-1]

    yield make
    for agent in opened:
        await agent.close()


class Ticket(TypedDict, total=False):
    """State of a host that shares nothing with ours."""

    question: str
    reply: str
    checked: str


def around(node: Any, **options: Any) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return a host's graph of one node."""
    graph = StateGraph(Ticket)
    graph.add_node("solve", node)
    graph.add_edge(START, "solve")
    graph.add_edge("solve", END)
    return graph.compile(**options)
