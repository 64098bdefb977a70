"""Other processes on the memory under test."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_HEAD = """
import asyncio, sys, uuid
from pathlib import Path
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.store import Record

def row(key, name):
    return Record(id=key, vector=[1.0, 2.0], payload={"name": name})
"""

WRITER = (
    _HEAD
    + """
async def main():
    store, left = EdgeStore(Path(sys.argv[1])), int(sys.argv[2])
    while left:
        key = str(uuid.uuid4())
        await store.put("tools", [row(key, key)])
        print(key, flush=True)
        left -= 1

asyncio.run(main())
"""
)
"""Writes as many records as it is told to (-1: for ever) and prints the id of each that was acknowledged."""

HOLDER = (
    _HEAD
    + """
async def main():
    store = EdgeStore(Path(sys.argv[1]))
    await store.put("tools", [row(sys.argv[2], "held")])
    print("ready", flush=True)
    if sys.argv[3] == "wait":
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
)
"""Writes one record and, told to wait, stays until its standard input ends."""

KEEPER = (
    _HEAD
    + """
async def main():
    stores = {}
    for line in iter(sys.stdin.readline, ""):
        do, path = line.rstrip("\\n").split(" ", 1)
        if do == "open":
            stores[path] = EdgeStore(Path(path))
            await stores[path].count("tools")
        else:
            await stores.pop(path).close()
        print("done", flush=True)

asyncio.run(main())
"""
)
"""Owns the folders that it is told to open, until it is told to close them."""


class Child(NamedTuple):
    """A process, and what to read from it."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def line(self) -> str:
        """Return the next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        """Send it a line; return the next one it prints."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.line()

    def kill(self) -> list[str]:
        """Kill it as an impatient person would; return what it had printed."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        out = self.process.stdout.read()  # `communicate` would pass over what is buffered
        self.process.communicate(timeout=10)
        return out.splitlines()


def start(script: str, *args: str) -> Child:
    """Start Python on `script`."""
    return Child(
        subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-c", script, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )


def write_to(file: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a `WRITER` without end that prints into a file."""
    with file.open("wb") as out:
        return subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-c", WRITER, str(folder), "-1"], stdout=out
        )


def owner_pid(folder: Path) -> int:
    """Return the pid that `owner.lock` names, 0 if none."""
    try:
        return int(json.loads((folder / "owner.lock").read_text())["pid"])
    except (OSError, ValueError):
        return 0
