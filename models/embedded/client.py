"""Start, find and stop model servers. Processes share them: one server per model file and user."""

import contextlib
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...errors import ConfigError, ModelFileError, ModelUnavailable
from . import files, gguf
from .catalogue import default_model
from .launch import idle_from_env, require_runtime, serve_command, serve_environment
from .state import ServerState, answers, is_ours, read_state, server_key, state_file

START_SECONDS: Final = 120.0
"""Longest wait for a server to load its model: 4 s on a quiet machine."""
ANSWER_SECONDS: Final = 60.0
"""A living server that does not answer for so long is replaced. Others may be waiting for its
replies, so it must be plainly stuck and not only on a busy machine."""
STOP_SECONDS: Final = 10.0
"""From the polite signal to the other one."""
LOG_LINES: Final = 12
"""Of a server that did not start, quoted in the error."""
_POLL_SECONDS: Final = 0.1


class Endpoint(NamedTuple):
    """Where a client reaches the model."""

    base_url: str
    """With `/v1`, on loopback; no key is needed."""
    model: str


def ensure_running(
    model_file: Path,
    *,
    port: int = 0,
    idle_minutes: float | None = None,
    start_seconds: float = START_SECONDS,
) -> Endpoint:
    """Return a server for a model file, starting one if none runs.

    Also tells a running server that it is wanted: its idle time begins anew.

    Args:
        model_file: The GGUF file.
        port: On loopback; 0 lets the system choose.
        idle_minutes: For a server started now; None reads MEM2EVOLVE_MODEL_IDLE_MINUTES, or takes
            30; 0 lets it run until it is stopped.
        start_seconds: Longest wait for the model to load.

    Raises:
        ModelFileError: If the file is absent or no GGUF file.
        ConfigError: If the server's library is not installed, or a setting does not fit.
        ModelUnavailable: If the server did not start; the end of its log is in the message.
    """
    gguf.check_header(model_file)
    idle = idle_from_env(os.environ) if idle_minutes is None else idle_minutes
    with _locked(model_file, start_seconds + ANSWER_SECONDS) as key:
        state = _living(key)
        if state is None:
            require_runtime()
            state = _start(model_file, key, port, idle, start_seconds)
        elif port not in (0, state.port):
            raise ConfigError(
                f"The model is served on port {state.port} already, not on {port}.",
                hint="Run `mem2evolve model stop` first, or leave the port out.",
            )
        with contextlib.suppress(FileNotFoundError):  # it was stopped this moment
            os.utime(state_file(key))
        return Endpoint(state.base_url, state.model)


def status() -> list[ServerState]:
    """Return the servers of this user on this computer that are alive."""
    states = map(read_state, sorted(files.servers_dir().glob("*.json")))
    return [state for state in states if state is not None and is_ours(state)]


def stop() -> list[ServerState]:
    """End all servers of this user on this computer; return those that ran."""
    stopped = status()
    for state in stopped:
        _end(state)
    for path in files.servers_dir().glob("*.json"):
        state_now = read_state(path)
        if state_now is None or (state_now in stopped and not is_ours(state_now)):
            path.unlink(missing_ok=True)
    return stopped


def run_in_foreground(model_file: Path, *, port: int = 0) -> None:
    """Become the server, until interrupted. Others share it like any server.

    Raises:
        ModelFileError: If the file is absent or no GGUF file.
        ConfigError: If the library is not installed, or the model is served already.
    """
    gguf.check_header(model_file)
    require_runtime()
    with _locked(model_file, ANSWER_SECONDS) as key:
        if state := _living(key):
            raise ConfigError(
                f"The model is served already: {state.base_url} (process {state.pid}).",
                hint="Use that one, or run `mem2evolve model stop` first.",
            )
    command = serve_command(model_file, key, port, 0, uuid.uuid4().hex)
    os.execve(command[0], command, serve_environment(os.environ))  # noqa: S606 - that is the point


@contextlib.contextmanager
def _locked(model_file: Path, seconds: float) -> Iterator[str]:
    """Hold the right to start or judge the server of a model file; yield its key."""
    folder = files.make_folder(files.servers_dir())
    try:
        key = server_key(model_file)
        with files.held(folder / f"{key}.lock", seconds=seconds):
            yield key
    except files.LockTimeout as exc:
        raise ModelUnavailable(
            f"Another process has been starting the model server for {seconds:.0f} s.",
            hint="Look at `mem2evolve model status` and try again.",
        ) from exc
    except OSError as exc:
        raise ModelFileError(
            f"The model server's files in {str(folder)!r} cannot be used: {exc}.",
            hint="Name a folder that can be written with MEM2EVOLVE_CACHE.",
        ) from exc


def _living(key: str) -> ServerState | None:
    """Return the running server of that key; one that has stopped answering is ended first."""
    state = read_state(state_file(key))
    if state is None or not is_ours(state):
        return None
    deadline = time.monotonic() + ANSWER_SECONDS
    while is_ours(state):
        if answers(state):
            return state
        if time.monotonic() > deadline:
            _end(state)
            return None
        time.sleep(_POLL_SECONDS)
    return None


def _start(
    model_file: Path, key: str, port: int, idle_minutes: float, seconds: float
) -> ServerState:
    """Start a server that outlives us and wait until it is ready; leave none behind on failure."""
    instance = uuid.uuid4().hex
    log = state_file(key).with_suffix(".log")
    command = serve_command(model_file, key, port, idle_minutes, instance)
    state_file(key).unlink(missing_ok=True)
    log.write_bytes(b"")
    with log.open("ab") as out:  # appending, so that the server can empty it when it grows
        process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, "--log", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=serve_environment(os.environ),
            start_new_session=True,
        )
    try:
        state = _await_ready(process, key, instance, seconds)
    except BaseException:
        process.kill()
        process.wait()
        state_file(key).unlink(missing_ok=True)
        raise
    if state is None:
        returncode = process.poll()  # None: still loading
        process.kill()
        process.wait()
        state_file(key).unlink(missing_ok=True)
        raise _not_started(returncode, seconds, log)
    # Reaps it when it ends, so that a long-lived parent keeps no zombie.
    threading.Thread(target=process.wait, name="model-server-reaper", daemon=True).start()
    return state


def _await_ready(
    process: subprocess.Popen[bytes], key: str, instance: str, seconds: float
) -> ServerState | None:
    """Return the state of a ready server; None if it ended or takes too long."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        state = read_state(state_file(key))
        if state is not None and state.instance == instance and answers(state):
            return state
        time.sleep(_POLL_SECONDS)
    return None


def _not_started(returncode: int | None, seconds: float, log: Path) -> ModelUnavailable:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    how = f"was not ready after {seconds:g} s" if returncode is None else f"ended ({returncode})"
    ram = default_model().ram_bytes / 1e9
    hint = f"The whole log is {log}."
    if returncode == -signal.SIGKILL:
        hint = f"It was killed, perhaps for want of memory: it needs {ram:.1f} GB. {hint}"
    return ModelUnavailable("\n".join([f"The model server {how}:", *lines]), hint=hint)


def _end(state: ServerState) -> None:
    """End a server; each signal is sent only to a process just seen to be it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_ours(state):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while is_ours(state) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
