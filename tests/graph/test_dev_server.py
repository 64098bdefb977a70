"""`langgraph dev` with its defaults: reload on, blocking calls refused, no key, no network."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from ..openai_server import OpenAIServer, Script
from .kelvin import TASK, TOOL, answer

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 45.0
STOP_S: Final = 15.0


@dataclass(frozen=True)
class DevServer:
    """A running server. Its working directory is its home, so that every file it writes is watched."""

    url: str
    home: Path
    log_file: Path

    @property
    def log(self) -> str:
        """What it has printed."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def starts(self) -> int:
        """How often it has started: more than once after a reload."""
        return self.log.count("Application started up")


@contextlib.contextmanager
def dev_server(folder: Path, script: Script = answer) -> Iterator[DevServer]:
    """Run `langgraph dev` on the project's langgraph.json, and end it as Ctrl-C would."""
    home = folder / "home"
    home.mkdir()
    shutil.copy(ROOT / "langgraph.json", home)
    with OpenAIServer(script) as model:
        port = _free_port()
        server = DevServer(f"http://127.0.0.1:{port}", home, folder / "log")
        command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser"]
        with server.log_file.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command line
                [*command, "--port", str(port)],
                cwd=home,
                env=_environment(home, model.base_url),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _await_start(server, process)
            yield server
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(home: Path, base_url: str) -> dict[str, str]:
    """Nothing of the developer's own: no keys, no proxies, no tracing."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "MEM2EVOLVE_HOME": str(home),
        "MEM2EVOLVE_MODEL": "openai:scripted",
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "test",
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "NO_COLOR": "1",
    }


def _await_start(server: DevServer, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_S
    with httpx.Client(trust_env=False) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if client.get(f"{server.url}/ok").is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
    pytest.fail(f"The server did not start:\n{server.log}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started for it
        process.wait()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is on this machine, whatever the environment says of the world outside."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One server for the tests that only read or run."""
    with dev_server(tmp_path_factory.mktemp("dev")) as running:
        yield running


async def run_task(
    client: LangGraphClient, given: dict[str, Any], *, thread: str = "", **settings: Any
) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """Run on a thread, a new one by default; return its id, the last values, and the events."""
    thread = thread or (await client.threads.create())["thread_id"]
    events, values = [], {}
    async for part in client.runs.stream(
        thread,
        "mem2evolve",
        input=given,
        context={"web": False, **settings},
        stream_mode=["custom", "values"],
        stream_subgraphs=True,  # a tool is made in a sub-graph
    ):
        assert part.event != "error", part.data
        if part.event.partition("|")[0] == "custom":
            events.append(part.data)
        elif part.event == "values":
            values = part.data
    return thread, values, events


async def test_schemas_tell_what_each_field_means(server: DevServer) -> None:
    """Studio's forms for input and settings come from these."""
    async with get_client(url=server.url) as client:
        [assistant] = await client.assistants.search()
        schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])

    shown = schemas["input_schema"]["properties"]
    assert set(shown) == {"task", "messages", "files", "correction"}
    assert [field for field in shown.values() if not field.get("description")] == []
    settings = schemas["context_schema"]["properties"]
    assert settings["mode"]["enum"][0] == settings["mode"]["default"] == "full"
    assert [name for name, field in settings.items() if not field.get("description")] == []
    came_of_it = schemas["output_schema"]["properties"]
    lacking = {name for name, field in came_of_it.items() if not field.get("description")}
    assert lacking == set(shown), "pydantic leaves out the texts of inherited fields"
    assert {"Decision", "Judgement", "Result"} <= set(schemas["state_schema"]["$defs"])


async def test_a_run_makes_a_tool_and_streams_why(server: DevServer) -> None:
    """Making a tool neither restarts the server nor blocks its event loop; the next run recruits it."""
    async with get_client(url=server.url) as client:
        thread, values, events = await run_task(client, {"task": TASK}, namespace="made")
        history: Any = await client.threads.get_history(thread)
        _, again, _ = await run_task(client, {"task": TASK}, namespace="made")

    assert (values["answer"], values["verdict"]) == ("293.15", "success")
    decided = {event["need"]["kind"]: event for event in events if event["event"] == "decided"}
    assert decided["tool"]["outcome"] == "created"
    assert {"planned", "creating", "acted", "answered", "judged", "learned"} <= {
        event["event"] for event in events
    }
    assert history[0]["values"]["answer"] == "293.15"
    assert {state["next"][0] for state in history if state["next"]} >= {"plan", "act", "distill"}
    assert {one["outcome"] for one in again["decisions"]} == {"recruited"}
    assert server.starts == 1, server.log
    assert "watchfiles.main" in server.log, "the reloader does not watch"
    assert "BlockingError" not in server.log, server.log


async def test_a_run_waits_for_a_person(server: DevServer) -> None:
    """The server keeps a run that asks; a client answers by the SDK, and it goes on."""
    asking = {"web": False, "approve": "always", "namespace": "asked"}
    async with get_client(url=server.url) as client:
        thread = (await client.threads.create())["thread_id"]
        waiting: Any = await client.runs.wait(
            thread, "mem2evolve", input={"task": TASK}, context=asking
        )
        [asked] = waiting["__interrupt__"]
        assert (asked["value"]["tool"], asked["value"]["note"]) == (TOOL, "")
        values: Any = await client.runs.wait(
            thread, "mem2evolve", command={"resume": {"approve": True}}, context=asking
        )

    assert (values["answer"], values["verdict"]) == ("293.15", "success")
    assert values["creations"][0]["approval"] == "approved by a person"
    assert server.starts == 1, server.log
    assert "BlockingError" not in server.log, server.log


async def test_a_conversation_is_a_task(server: DevServer) -> None:
    """Chat mode: the last human message is the task, the answer is the reply, turn after turn."""
    said = {"messages": [{"role": "user", "content": TASK}]}
    async with get_client(url=server.url) as client:
        thread, _, _ = await run_task(client, said, namespace="chat")
        _, values, _ = await run_task(client, said, thread=thread, namespace="chat")

    assert values["task"] == TASK
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "human", "ai"]
    assert values["messages"][-1]["content"] == values["answer"] == "293.15"


async def test_files_of_tools_are_written_when_the_server_stops(tmp_path: Path) -> None:
    """Not before: a `.py` below the working directory restarts a reloading server."""
    with dev_server(tmp_path) as server:
        folder = server.home / "tools_generated" / TOOL / "v1"
        async with get_client(url=server.url) as client:
            await run_task(client, {"task": TASK})
        assert not folder.exists()

    assert "def celsius_to_kelvin" in (folder / "tool.py").read_text(encoding="utf-8")
    assert len(json.loads((folder / "cases.json").read_text(encoding="utf-8"))) >= 4
    owner = server.home / ".mem2evolve" / "memory" / "owner.lock"
    assert owner.read_text() == "", "the memory was not closed"
