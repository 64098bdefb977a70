"""What is known about servers: a state file each, and whether it still tells the truth."""

import hashlib
import http.client
import json
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from . import files

SERVE_MODULE: Final = "mem2evolve.models.embedded.serve"
HEALTH_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """A server as it described itself when it was ready."""

    pid: int
    port: int
    model: str
    """The name that clients ask for."""
    model_file: str
    instance: str
    """Random, and one of the server's arguments: a reused process id does not have it."""
    started: float
    """Seconds since 1970."""
    host: str
    """A cache folder may be shared by computers; a process id is not."""
    log: str
    idle_minutes: float
    """The server ends after so long without a request; 0: never."""

    @property
    def base_url(self) -> str:
        """Return what an OpenAI client takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"


def server_key(model_file: Path) -> str:
    """Name a server by the file it serves: a file that was replaced gets a new server.

    Raises:
        OSError: If the file cannot be examined.
    """
    stat = model_file.stat()
    facts = (platform.node(), str(model_file.resolve()), stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def state_file(key: str) -> Path:
    """Return the state file of a server."""
    return files.servers_dir() / f"{key}.json"


def write_state(path: Path, state: ServerState) -> None:
    """Write a state file in one step."""
    files.write_json(path, asdict(state))


def read_state(path: Path) -> ServerState | None:
    """Read a state file; None if it is absent, damaged, or made by another version."""
    data = files.read_json(path)
    if not isinstance(data, dict):
        return None
    try:
        state = ServerState(**data)
    except TypeError:
        return None
    numbers = (state.pid, state.port, state.started, state.idle_minutes)
    if not all(type(n) in (int, float) for n in numbers) or state.pid <= 1:
        return None
    return state


def is_ours(state: ServerState) -> bool:
    """Whether the process of that id lives and is the server that wrote the state."""
    if state.host != platform.node():
        return False
    arguments = _arguments(state.pid)
    return SERVE_MODULE in arguments and state.instance in arguments


def answers(state: ServerState) -> bool:
    """Whether the server answers and serves the model it should.

    Asked without a client library: a proxy set in the environment must not be asked for loopback.
    """
    connection = http.client.HTTPConnection("127.0.0.1", state.port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/v1/models")
        reply = connection.getresponse()
        body = json.loads(reply.read())
        return reply.status == http.client.OK and any(
            entry["id"] == state.model for entry in body["data"]
        )
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def _arguments(pid: int) -> list[str]:
    """Return a process's command line; empty if it is gone, a zombie, or not ours to see."""
    if sys.platform == "linux":
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return raw.decode("utf-8", errors="replace").split("\0")
    listing = subprocess.run(  # noqa: S603 - a number and constants
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607 - where it is differs
        capture_output=True,
        text=True,
        check=False,
    )
    return listing.stdout.split()
