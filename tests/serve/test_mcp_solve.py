"""`solve_task`: the whole agent behind one MCP call."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..graph.kelvin import TASK, TOOL, answer
from ..openai_server import OpenAIServer, Reply
from .conftest import PATIENCE_S, Home, names, text, until


class Brain:
    """Answers by the script; `slow` makes it think for long."""

    def __init__(self) -> None:
        self.slow = False
        self.asked = 0

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request."""
        self.asked += 1
        if self.slow:
            return Reply(content="late", delay=60)
        return answer(asked)


@pytest.fixture
def brain(place: Home) -> Iterator[Brain]:
    """A model for the servers on the home."""
    made = Brain()
    with OpenAIServer(made) as server:
        place.env["OPENAI_BASE_URL"] = server.base_url
        yield made


def run(place: Home, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run another command on the home."""
    command = [sys.executable, "-m", "mem2evolve.cli", *words]
    return subprocess.run(  # noqa: S603 - our own program
        command, env=place.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


async def test_a_task_is_solved_and_its_tool_is_offered(place: Home, brain: Brain) -> None:
    """Answer, verdict and run id come structured; each stage is told; the tool made on the way can be called."""
    told: list[str] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")

    async with place.stdio("--no-web") as client:
        result = await client.call_tool("solve_task", {"task": TASK}, progress_callback=progress)
        assert TOOL in await names(client)
        assert text(await client.call_tool(TOOL, {"celsius": 0})) == "273.15"

    said = result.structured_content or {}
    assert (text(result), said["answer"], said["verdict"]) == ("293.15", "293.15", "success")
    assert (said["status"], said["tools_made"]) == ("answered", [TOOL])
    assert await place.memory.get("run", said["run_id"]) is not None
    stages = ["started", "planned: 1 steps", "created: tool", "step", "answered", "verdict"]
    at = [next(n for n, one in enumerate(told) if one.startswith(stage)) for stage in stages]
    assert at == sorted(at)


async def test_a_run_that_waits_for_a_person_says_how_it_goes_on(place: Home, brain: Brain) -> None:
    """It is no error, and nothing is lost: the command line goes on with it."""
    async with place.stdio("--no-web", "--ask", "always") as client:
        result = await client.call_tool("solve_task", {"task": TASK})
        said = result.structured_content or {}
        assert (result.is_error, said["status"], said["answer"]) == (False, "waiting", "")
        assert said["waiting_for"] == [f"whether {TOOL} may be kept"]
        assert f"runs resume {said['run_id'][:8]}" in said["how_to_resume"]
        done = await asyncio.to_thread(
            run, place, "runs", "resume", said["run_id"][:8], "--approve", "--json"
        )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "293.15"


async def test_a_cancelled_run_stops_and_can_be_resumed(place: Home, brain: Brain) -> None:
    """The server goes on with other calls."""
    brain.slow = True
    async with place.stdio("--no-web") as client:
        call = asyncio.create_task(client.call_tool("solve_task", {"task": TASK}))
        await until(lambda: brain.asked, "a question to the model")
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert text(await client.call_tool("double", {"n": 3})) == "6"
        for _ in range(100):
            listed = await asyncio.to_thread(run, place, "runs", "list", "--json")
            [begun] = json.loads(listed.stdout)
            if begun["status"] == "broken off":
                break

    assert begun["status"] == "broken off"


async def test_files_are_read_from_named_folders_only(
    place: Home, brain: Brain, tmp_path: Path
) -> None:
    """Whoever speaks to the client's model must not get any file of the machine."""
    shared, secret = tmp_path / "shared", tmp_path / "secret.txt"
    shared.mkdir()
    secret.write_text("secret")
    (shared / "link.txt").symlink_to(secret)
    async with place.stdio("--files", str(shared)) as client:
        for name in (str(secret), str(shared / ".." / "secret.txt"), str(shared / "link.txt")):
            result = await client.call_tool("solve_task", {"task": TASK, "files": [name]})
            assert result.is_error
            assert "not in a folder" in text(result)
        missing = await client.call_tool(
            "solve_task", {"task": TASK, "files": [str(shared / "no.txt")]}
        )
    async with place.stdio() as client:
        without = await client.call_tool("solve_task", {"task": TASK, "files": [str(secret)]})

    assert (missing.is_error, without.is_error) == (True, True)
    assert "unexpected" in text(without)
    assert brain.asked == 0


async def test_a_model_that_cannot_be_reached_is_said(place: Home) -> None:
    """As a result that is read, with what to do."""
    async with place.stdio() as client:
        result = await client.call_tool("solve_task", {"task": TASK})

    assert result.is_error
    assert "127.0.0.1:9" in text(result)
