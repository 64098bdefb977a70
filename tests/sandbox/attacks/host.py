"""What an attack is after on the host, set up for one trial and looked at afterwards."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

GONE_S: Final = 2.0
"""For the kernel to take away killed processes on a busy machine."""
CORE_PATTERN: Final = Path("/proc/sys/kernel/core_pattern")
SHARED: Final = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - where a bare tool leaves its things


class Host:
    """A scratch folder with a secret and tools, listeners on loopback, and a process with a secret in its environment.

    All of it belongs to whoever runs the trial: permissions alone keep no attack away from it.
    """

    def __init__(self) -> None:
        self._cleanup = contextlib.ExitStack()
        self.tag: Final = "m2e-" + secrets.token_hex(5)
        """A late process takes this name, by which it is found from outside. At most 15 bytes."""
        self.token: Final = secrets.token_hex(16)
        """What every secret holds."""
        self.facts: dict[str, Any] = {}
        """What the attack is told, so that it need not search."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._set_up(stack)
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _set_up(self, stack: contextlib.ExitStack) -> None:
        self.scratch = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True)
            )
        )
        self.scratch.chmod(0o755)
        self.secret = self.scratch / "id_ed25519"
        self.secret.write_text(self.token)
        self.secret.chmod(0o644)
        self.tools = self.scratch / "tools_generated"
        self.tools.mkdir()
        (self.tools / "tool.py").write_text("def f(): pass\n")
        self._tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        self._abstract.bind("\0" + self.tag)
        self._abstract.listen()
        self._named = stack.enter_context(socket.socket(socket.AF_UNIX))
        self._named.bind(str(self.scratch / "socket"))
        self._named.listen()
        for listener in (self._tcp, self._udp, self._abstract, self._named):
            listener.setblocking(False)
        self.witness = subprocess.Popen(  # noqa: S603 - cat
            [shutil.which("cat") or "/bin/cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={"MEM2EVOLVE_CANARY": self.token},
        )
        stack.callback(self._end_witness)
        stack.callback(self._sweep)
        self._core_pattern = CORE_PATTERN.read_text()
        self._expected = sorted(p.name for p in self.scratch.rglob("*"))
        self.facts = {
            "tag": self.tag,
            "scratch": str(self.scratch),
            "secret": str(self.secret),
            "tools": str(self.tools),
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "abstract": "\0" + self.tag,
            "socket": str(self.scratch / "socket"),
            "pid": self.witness.pid,
            "program": __file__,
            "home": str(Path.home()),
        }

    def damage(self) -> list[str]:
        """Say what the attack did to the host. Blocks for a moment if something of it still runs."""
        seen = [
            f"{what} was reached"
            for what, listener in (
                ("the TCP listener", self._tcp),
                ("the abstract socket", self._abstract),
                ("the named socket", self._named),
            )
            if _was_called(listener)
        ]
        with contextlib.suppress(BlockingIOError):
            self._udp.recv(1)
            seen.append("the UDP socket was reached")
        if (found := sorted(p.name for p in self.scratch.rglob("*"))) != self._expected:
            seen.append(f"the scratch folder holds {found}")
        elif self.secret.read_text() != self.token:
            seen.append("the secret was changed")
        if self.witness.poll() is not None:
            seen.append(f"the witness ended with {self.witness.returncode}")
        elif _state(self.witness.pid) in {"T", "t"}:
            seen.append("the witness was stopped")
        if CORE_PATTERN.read_text() != self._core_pattern:
            seen.append("core_pattern was changed")
        if self._something_stays():
            seen.append("a process of it is still there")
        return seen

    def _something_stays(self) -> bool:
        until = time.monotonic() + GONE_S
        while any(_named(self.tag)):
            if time.monotonic() > until:
                return True
            time.sleep(0.05)
        return False

    def _end_witness(self) -> None:
        if self.witness.stdin:
            self.witness.stdin.close()
        self.witness.kill()
        self.witness.wait()

    def _sweep(self) -> None:
        for folder in SHARED:
            for path in folder.glob(self.tag + "*"):
                path.unlink(missing_ok=True)


def _was_called(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _named(name: str) -> Iterator[int]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_text()
                if f"({name})" in stat and stat.rpartition(")")[2].split()[0] != "Z":
                    yield int(entry)
