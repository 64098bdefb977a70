"""`langgraph dev` seen from other programs: through `RemoteGraph`, as a node of a host, over A2A and over MCP."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client

from mem2evolve import Context, remote_node
from mem2evolve.errors import ConfigError, RemoteError
from mem2evolve.graph.two_ways import in_background

from ..graph.test_dev_server import DevServer, dev_server
from ..openai_server import Reply
from .conftest import ANSWER, TASK, THREAD, TOOL, Brain, around

ASKED: Final[Any] = {"question": TASK}
NAMES: Final[Any] = {"task": "question", "answer": "reply", "keep": {"verdict": "checked"}}
PATIENCE_S: Final = 60.0


class Held(Brain):
    """A brain that can be held at one question."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = ""
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request, when it is let go."""
        if self._what(asked) == self.hold:
            self.reached.set()
            self.go.wait(PATIENCE_S)
        return super().__call__(asked)


@pytest.fixture(scope="module")
def brain() -> Held:
    """The server's model."""
    return Held()


@pytest.fixture(scope="module")
def server(brain: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One server; each test has a namespace of its own there."""
    with dev_server(tmp_path_factory.mktemp("dev"), brain) as running:
        yield running
        assert "BlockingError" not in running.log, running.log


@pytest.fixture(autouse=True)
def afresh(brain: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was said yet; the server is on this machine."""
    brain.said.clear()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def remote(server: DevServer) -> AsyncIterator[RemoteGraph]:
    """The graph there."""
    remote = RemoteGraph("mem2evolve", url=server.url)
    yield remote
    assert remote.client is not None
    await remote.client.aclose()


def asking(namespace: str) -> Context:
    """Return settings under which each tool is asked about."""
    return Context(web=False, approve="always", namespace=namespace)


def asked_of(end: dict[str, Any]) -> Any:
    """Return the one question."""
    [asked] = end["__interrupt__"]
    return asked.value


async def runs_of(server: DevServer, thread: str) -> list[Any]:
    """Return the runs on a thread of the server."""
    async with get_client(url=server.url) as client:
        return await client.runs.list(thread)


async def test_called_directly(remote: RemoteGraph) -> None:
    """Invoke, stream, state, and a question that is answered, all by `RemoteGraph` itself."""
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    context = {"web": False, "approve": "always", "namespace": "direct"}
    waiting = await remote.ainvoke({"task": TASK}, config, context=context)
    assert [need["name"] for need in waiting["needs"] if need["kind"] == "tool"] == [TOOL]
    state = await remote.aget_state(config)
    assert [one.value["tool"] for one in state.interrupts] == [TOOL]
    events = [
        event["event"]
        async for _, event in remote.astream(
            Command(resume="yes"), config, context=context, stream_mode="custom", subgraphs=True
        )
    ]
    assert {"approval", "answered"} <= set(events)
    assert (await remote.aget_state(config)).values["answer"] == ANSWER


async def test_a_node_relays_each_question(
    server: DevServer, remote: RemoteGraph, brain: Held
) -> None:
    """Two questions one after the other, each answered in the host; the task is begun there once."""
    node = remote_node(remote, **NAMES, context=asking("relayed"))
    host = around(node, checkpointer=InMemorySaver())
    assert asked_of(await host.ainvoke(ASKED, THREAD))["note"] == ""
    again = asked_of(await host.ainvoke(Command(resume="perhaps"), THREAD))
    assert "neither yes nor no" in again["note"]
    events = [
        event["event"]
        async for event in host.astream(Command(resume="yes"), THREAD, stream_mode="custom")
    ]
    end = (await host.aget_state(THREAD)).values

    assert end == {"question": TASK, "reply": ANSWER, "checked": "success"}
    assert {"approval", "answered", "finished"} <= set(events)
    async with get_client(url=server.url) as client:
        found = await client.threads.search(values={"namespace": "relayed"})
    [thread] = found
    assert len(await runs_of(server, thread["thread_id"])) == 3, "one for the task and each answer"
    assert brain.said.count("plan") == brain.said.count("tool") == 1


async def test_a_node_that_was_broken_off(remote: RemoteGraph, brain: Held) -> None:
    """The run goes on there; when the host begins the node again it finds that run, and starts none."""
    context = Context(web=False, namespace="broken")
    host = around(remote_node(remote, **NAMES, context=context), checkpointer=InMemorySaver())
    brain.hold = "tool"
    begun = asyncio.create_task(host.ainvoke(ASKED, THREAD))
    assert await asyncio.to_thread(brain.reached.wait, PATIENCE_S)
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    brain.hold = ""
    brain.go.set()
    end = await host.ainvoke(None, THREAD)

    assert end["reply"] == ANSWER
    assert brain.said.count("plan") == brain.said.count("tool") == 1


def test_a_node_without_an_event_loop(server: DevServer) -> None:
    """`host.invoke` asks and resumes too."""
    remote = RemoteGraph("mem2evolve", url=server.url)
    node = remote_node(remote, **NAMES, context=asking("sync"))
    host = around(node, checkpointer=InMemorySaver())
    assert asked_of(host.invoke(ASKED, THREAD))["tool"] == TOOL
    assert host.invoke(Command(resume=True), THREAD)["reply"] == ANSWER
    assert remote.client is not None
    in_background(remote.client.aclose())


async def test_a_host_that_cannot_wait(server: DevServer, remote: RemoteGraph) -> None:
    """The error says what to do, and the run waits on its thread there."""
    host = around(remote_node(remote, **NAMES, context=asking("unasked")))
    with pytest.raises(ConfigError, match="no checkpointer") as caught:
        await host.ainvoke(ASKED)

    assert "Compile the host's graph with a checkpointer" in caught.value.hint
    thread = str(caught.value).split("thread ")[1].split(" ")[0]
    waiting: Any = {"configurable": {"thread_id": thread}}
    assert len((await remote.aget_state(waiting)).interrupts) == 1
    [run] = await runs_of(server, thread)
    assert run["metadata"]["mem2evolve_step"] == 0


async def test_a_run_that_fails_there(server: DevServer, remote: RemoteGraph) -> None:
    """The host gets its words and its thread; running again begins the failed step again."""
    host = around(remote_node(remote, **NAMES), checkpointer=InMemorySaver())
    for tries in (1, 2):
        with pytest.raises(RemoteError, match="The task is empty") as caught:
            await host.ainvoke({"question": " "} if tries == 1 else None, THREAD)
        thread = str(caught.value).split("thread ")[1].split(" ")[0]
        assert len(await runs_of(server, thread)) == tries


async def test_no_server() -> None:
    """It is said which graph, and that nothing is lost."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    host = around(remote_node(RemoteGraph("mem2evolve", url=url), **NAMES))
    with pytest.raises(RemoteError, match="'mem2evolve' on thread") as caught:
        await host.ainvoke(ASKED)
    assert "what was done is kept" in caught.value.hint


async def rpc(url: str, method: str, params: dict[str, Any]) -> Any:
    """Call a method by JSON-RPC over HTTP."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"Accept": "application/json, text/event-stream"}
        reply = (await client.post(url, json=body, headers=accept)).json()
    assert "error" not in reply, reply
    return reply["result"]


def says(text: str, **more: str) -> dict[str, Any]:
    """Return a person's message as A2A writes it."""
    parts = [{"kind": "text", "text": text}]
    return {"role": "user", "parts": parts, "messageId": str(uuid4()), **more}


async def test_a2a(server: DevServer) -> None:
    """A message is a task; a question for a person is answered by the next message; the answer is an artifact."""
    async with get_client(url=server.url) as client:
        [assistant] = await client.assistants.search(graph_id="mem2evolve")
    url = f"{server.url}/a2a/{assistant['assistant_id']}"
    async with httpx.AsyncClient(trust_env=False) as client:
        card = (await client.get(f"{url}/.well-known/agent-card.json")).json()
    assert card["name"] == "mem2evolve"
    assert "tools that it makes" in card["description"]

    context = {"web": False, "approve": "always", "namespace": "a2a"}
    task = await rpc(url, "message/send", {"message": says(TASK), "context": context})
    assert task["status"]["state"] == "input-required"
    question = task["artifacts"][0]["parts"][0]["data"]["value"]
    assert question["tool"] == TOOL
    answer = says("yes", contextId=task["contextId"], taskId=task["id"])
    task = await rpc(url, "message/send", {"message": answer, "context": context})
    assert task["status"]["state"] == "completed"
    assert [part["text"] for part in task["artifacts"][0]["parts"]] == [ANSWER]


async def test_mcp(server: DevServer) -> None:
    """The graph is a tool that takes `task` or `messages`; its result holds the answer, and what was not asked."""
    url = f"{server.url}/mcp"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}}
    assert (await rpc(url, "initialize", hello))["serverInfo"]["name"] == "LangGraph"
    [tool] = (await rpc(url, "tools/list", {}))["tools"]
    assert tool["name"] == "mem2evolve"
    assert {"task", "messages", "files"} <= set(tool["inputSchema"]["properties"])
    for given in ({"task": TASK}, {"messages": TASK}):
        call = {
            "name": "mem2evolve",
            "arguments": given,
            "context": {"web": False, "namespace": "mcp"},
        }
        result = await rpc(url, "tools/call", call)
        assert not result.get("isError"), result
        assert f"'answer': '{ANSWER}'" in result["content"][0]["text"]
    unasked = {"web": False, "namespace": "unasked-mcp", "approve": "always"}
    call = {"name": "mem2evolve", "arguments": {"task": TASK}, "context": unasked}
    text = (await rpc(url, "tools/call", call))["content"][0]["text"]
    assert f"'answer': '{ANSWER}'" in text
    assert "needs approval" in text
    refused = await rpc(
        url, "tools/call", {"name": "mem2evolve", "arguments": {"task": " "}, "context": {}}
    )
    assert refused["isError"]
