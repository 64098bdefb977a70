"""The real command line, in a home of its own."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from mem2evolve import cli as command_line
from mem2evolve.api import open_resources
from mem2evolve.memory.projection import write_projection
from mem2evolve.memory.records import ToolRecord

from ..openai_server import OpenAIServer

COMMAND = (sys.executable, "-m", "mem2evolve.cli")
TASK = "What is three times 14?"
PATIENCE_S = 40.0
SHM = Path("/dev/shm")  # noqa: S108 - folders in it are made by `tempfile`
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def refused(self, *words: str, story: bool = False) -> None:
        """Fail unless it is a clean refusal that holds these words.

        Args:
            words: Parts of the two lines.
            story: Whether the run had begun, and its story stands above the two lines.
        """
        lines = self.err.splitlines()
        assert self.code == 2, self
        assert self.out == "", self
        assert len(lines) == 2 or (story and len(lines) > 2), self
        assert lines[-2].startswith("error: "), self
        assert lines[-1].startswith("hint: "), self
        assert len(lines[-1]) > len("hint: "), self
        for word in words:
            assert word in "\n".join(lines[-2:]), self


class Started:
    """A command that runs. Standard error goes to a file, so that it can be watched."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: IO[bytes], err: IO[bytes]) -> None:
        self.process = process
        self._files = (out, err)

    @property
    def out(self) -> str:
        """What is on standard output by now."""
        return Path(self._files[0].name).read_text()

    @property
    def err(self) -> str:
        """What is on standard error by now."""
        return Path(self._files[1].name).read_text()

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait for something to happen while the command runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            assert self.process.poll() is None, (self.process.returncode, self.out, self.err)
            assert time.monotonic() < deadline, (self.out, self.err)
            time.sleep(0.02)

    def interrupt(self) -> Done:
        """Press Ctrl-C: the terminal sends SIGINT to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.end()

    def end(self) -> Done:
        """Wait for the end."""
        code = self.process.wait(PATIENCE_S)
        return Done(code, self.out, self.err)


class Cli:
    """Runs `mem2evolve` with a home, a cache and a user of its own.

    Attributes:
        env: The whole environment; change it as needed.
        home: The home.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder / "user"),
            "MEM2EVOLVE_HOME": str(self.home),
            "MEM2EVOLVE_CACHE": str(folder / "cache"),
        }
        (folder / "user").mkdir()
        self._started: list[Started] = []

    def model(self, server: OpenAIServer) -> None:
        """Use a scripted server."""
        self.env |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}

    def __call__(self, *words: str | bytes, stdin: bytes = b"", ok: bool = False) -> Done:
        """Run to the end."""
        done = subprocess.run(  # noqa: S603 - our own program
            [*COMMAND, *words],
            env=self.env,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert not ok or result.code == 0, result
        assert "Traceback" not in result.err
        return result

    def start(self, *words: str) -> Started:
        """Start a command in a process group of its own."""
        number = len(self._started)
        out = (self.folder / f"out{number}").open("wb")
        err = (self.folder / f"err{number}").open("wb")
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*COMMAND, *words],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        self._started.append(Started(process, out, err))
        return self._started[-1]

    def close(self) -> None:
        """End what still runs."""
        for started in self._started:
            if started.process.poll() is None:
                started.process.kill()
                started.process.wait()
            for file in started._files:
                file.close()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """Return the command line."""
    cli = Cli(tmp_path)
    yield cli
    cli.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in memory where it can be: on a disk the many files of the store cost seconds."""
    where = SHM if os.access(SHM, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="mem2evolve-") as made:
        yield Path(made)


Seed = Callable[..., list[Any]]


@pytest.fixture
def seed(say: "Say") -> Seed:
    """Put records into the home of the command line, and write the files of generated tools; return them."""

    async def put(*records: Any) -> None:
        resources = open_resources()
        try:
            await resources.memory.put(*records)
        finally:
            await resources.close()
        for one in records:
            if isinstance(one, ToolRecord) and one.origin == "generated":
                write_projection(resources.settings.tools_dir, one)

    def make(*records: Any) -> list[Any]:
        asyncio.run(put(*records))
        return list(records)

    return make


class _Left(BaseException):
    """Stands in for the end of the process."""


Say = Callable[..., Done]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Return the command line without a process of its own, which is quicker; its home is `tmp_path / "home"`."""
    for name in list(os.environ):
        if name.startswith(("MEM2EVOLVE_", "OPENAI_", "QDRANT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MEM2EVOLVE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")
    monkeypatch.chdir(tmp_path)

    def leave(code: int) -> None:
        raise _Left(code)

    def run(*words: str, stdin: bytes = b"", ok: bool = False) -> Done:
        monkeypatch.setattr(command_line, "_leave", leave)
        monkeypatch.setattr(sys, "argv", ["mem2evolve", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            command_line.main()
        except (_Left, SystemExit) as exc:
            code = int(exc.args[0] or 0)
        done = Done(code, *capsys.readouterr())
        assert not ok or done.code == 0, done
        return done

    return run
