"""MCP over standard input and output, by the official client and by hand."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ToolListChangedNotification

from mem2evolve.memory.store import Record

from .conftest import (
    CALLED,
    DOUBLE,
    HELLO,
    MODES,
    PATIENCE_S,
    SLEEP,
    TOKEN,
    Home,
    alive,
    another,
    boxes,
    made,
    names,
    request,
    server_below,
    sleeping,
    text,
    until,
)

PRINTS = 'import sys\n\n\ndef prints(n: int) -> int:\n    print("{}")\n    sys.stdout.flush()\n    return 2 * n\n'


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_and_called(place: Home, mode: str) -> None:
    """What a process before has kept is there, with its schemas; calls run in a box."""
    async with place.stdio("--no-solve", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("double", {"n": 21})

    assert set(tools) == {"double", "sleeps"}
    assert tools["double"].input_schema["required"] == ["n"]
    assert tools["double"].output_schema is not None
    assert (text(result), result.structured_content) == ("42", {"result": 42})


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_made_by_another_process_appears(place: Home, mode: str) -> None:
    """The client is told that the list has changed, and calls it: no restart."""
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async def listen(client: Any) -> None:
        async with client.listen(tools_list_changed=True) as events:
            listening.set()
            async for _ in events:
                changed.set()

    listening = asyncio.Event()
    async with place.stdio(mode=mode, message_handler=heard) as client:
        assert "trebled" not in await names(client)
        watch = asyncio.create_task(listen(client)) if mode == "auto" else None
        if watch:
            await listening.wait()
        await place.memory.put(another("trebled"))
        await asyncio.wait_for(changed.wait(), PATIENCE_S)
        assert "trebled" in await names(client)
        assert text(await client.call_tool("trebled", {"n": 4})) == "8"
        if watch:
            watch.cancel()
            await asyncio.wait({watch})


async def test_a_tool_is_called_before_the_list_was_looked_at(place: Home) -> None:
    """A call looks the tool up in the bank as it is now; so does one of a tool that went."""
    async with place.stdio("--no-solve") as client:
        [first] = await place.memory.put(another("first"))
        assert text(await client.call_tool("first", {"n": 1})) == "2"
        await place.memory.set_status("tool", first, "retired", "a test")
        with pytest.raises(MCPError, match="no tool 'first'"):
            await client.call_tool("first", {"n": 1})


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"n": "x"}, "not of type 'integer'"),
        ({}, "'n' is a required property"),
        ({"n": 1, "m": 2}, "'m' was unexpected"),
        ({"n": 11}, "ran too long"),
    ],
)
async def test_a_call_that_fails_says_why(place: Home, args: dict[str, Any], words: str) -> None:
    """As a result that the client's model reads, not as an error of the protocol."""
    async with place.stdio("--no-solve") as client:
        result = await client.call_tool("sleeps", args)

    assert result.is_error
    assert words in text(result)


async def test_an_exception_of_the_tool_is_told(place: Home) -> None:
    """Its type and its words."""
    await place.memory.put(
        made(
            "odd",
            'def odd(n: int) -> int:\n    if n > 9:\n        raise KeyError("ten")\n    return 2 * n\n',
        )
    )
    async with place.stdio("--no-solve") as client:
        result = await client.call_tool("odd", {"n": 10})

    assert result.is_error
    assert text(result) == "KeyError: 'ten'"


async def test_progress_is_told_to_who_asked(place: Home) -> None:
    """It goes up, and ends with the call."""
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, _: float | None, message: str | None) -> None:
        told.append((done, message))

    async with place.stdio("--no-solve") as client:
        await client.call_tool("sleeps", {"n": 3}, progress_callback=progress)

    assert told[0] == (1, "sleeps is called in its box")
    assert len(told) > 1
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_leaves_no_box(place: Home, mode: str) -> None:
    """The box is killed at once, and the server goes on."""
    async with place.stdio("--no-solve", mode=mode) as client:
        server = server_below(os.getpid())
        call = await sleeping(client)
        assert boxes(server)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await until(lambda: not boxes(server), "the end of the box")
        assert text(await client.call_tool("double", {"n": 1})) == "2"


async def test_a_tool_that_fails_its_cases_here_is_not_offered(place: Home) -> None:
    """It passed elsewhere; here it is quarantined."""
    wrong = made(
        "wrong", DOUBLE.replace("double", "wrong"), expected=3, environment={"python": "2"}
    )
    right = made("right", DOUBLE.replace("double", "right"), environment={"python": "2"})
    await place.memory.put(wrong, right)
    async with place.stdio("--no-solve") as client:
        listed = await names(client)
        with pytest.raises(MCPError):
            await client.call_tool("wrong", {"n": 1})

    assert ("right" in listed, "wrong" in listed) == (True, False)
    kept = await place.memory.get("tool", wrong.id)
    assert kept is not None
    assert kept.status == "quarantined"


async def test_content_that_was_changed_is_not_run(place: Home) -> None:
    """The id of a record is made of what was checked."""
    tool = another("sound")
    await place.memory.put(tool)
    [row] = await place.memory._store.get("tools", [tool.id])
    evil = {**row.payload, "code": tool.code.replace("2 * n", "666")}
    await place.memory._store.put("tools", [Record(id=row.id, vector=row.vector, payload=evil)])
    async with place.stdio("--no-solve") as client:
        assert "sound" not in await names(client)
        with pytest.raises(MCPError):
            await client.call_tool("sound", {"n": 1})


async def test_only_the_namespace_is_offered(place: Home) -> None:
    """Memories are kept apart."""
    await place.memory.put(another("mine").model_copy(update={"namespace": "me"}))
    async with place.stdio("--no-solve", "--namespace", "me") as client:
        assert await names(client) == ["mine"]


async def _talk(process: "subprocess.Popen[bytes]", lines: bytes, answers: int) -> list[Any]:
    """Say lines, and read so many answers; each must be one of the protocol."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines)
    process.stdin.flush()
    read = process.stdout.readline
    return [json.loads(await asyncio.to_thread(read)) for _ in range(answers)]


async def test_standard_output_carries_the_protocol_only(place: Home) -> None:
    """Neither the program nor a tool that prints disturbs it."""
    await place.memory.put(made("prints", PRINTS))
    with place.popen("--no-solve", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        call = request(2, "tools/call", name="prints", arguments={"n": 1})
        said = await _talk(process, HELLO + call + b"no json\n", 2)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        rest = [json.loads(line) for line in process.stdout.read().splitlines()]

    assert [one["jsonrpc"] for one in [*said, *rest]] == ["2.0"] * (2 + len(rest))
    assert said[0]["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert said[1]["result"]["structuredContent"] == {"result": 2}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, None])
async def test_an_end_in_the_middle_of_a_call_leaves_no_box(
    place: Home, how: signal.Signals | None
) -> None:
    """Ctrl-C, SIGTERM, or a client that closes the pipe."""
    with place.popen("--no-solve", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        first = request(2, "tools/call", name="sleeps", arguments={"n": 0})
        await _talk(process, HELLO + first, 2)
        [told] = await _talk(process, request(3, "tools/call", **SLEEP, _meta=TOKEN), 1)
        assert told["params"]["message"] == CALLED
        running = boxes(process.pid)
        assert running
        assert process.stdin is not None
        if how is None:
            process.stdin.close()
        else:
            process.send_signal(how)
        assert process.wait(PATIENCE_S) == 0
        await until(lambda: not any(map(alive, running)), "the end of the box")
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read().decode()
