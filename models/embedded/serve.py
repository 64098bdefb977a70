"""The model server's own process: llama.cpp's OpenAI-compatible server, on loopback only.

Started by `client.py` as `python -m mem2evolve.models.embedded.serve`; it ends by itself when
nobody has asked it anything for a while, or when its state file names another server.
"""

import argparse
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ...errors import Mem2EvolveError
from . import files
from .gguf import chat_template
from .state import ServerState, read_state, write_state

CACHE_MIB: Final = 512
"""Memory for prompts that have left their slot; the library would take up to 8 GiB."""
UBATCH_TOKENS: Final = 512
MAX_LOG_BYTES: Final = 5_000_000
MAX_POLL_SECONDS: Final = 15.0
_COUNTERS: Final = ("prompt_tokens_total", "prompt_tokens_cached_total", "tokens_predicted_total")
_GAUGES: Final = ("requests_processing", "requests_deferred")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop, or idle for too long; return the exit code."""
    options = _parse(arguments)
    try:
        template = chat_template(options.model)
    except Mem2EvolveError as exc:
        print(f"error: {exc}\nhint: {exc.hint}", file=sys.stderr)  # noqa: T201 - its log
        return 2
    server = _load(options, template)
    os.chdir("/")  # it may run for long, and must not hold the folder it was started from
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _setter(stopping))
    port = int(server.listening_address.rpartition(":")[2])
    write_state(options.state, _describe(options, port))
    print(f"ready: {server.listening_address}/v1", file=sys.stderr, flush=True)  # noqa: T201
    _watch(server, options, stopping)
    if _owns(options):
        options.state.unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # The library's own ending waits for requests that run, which may take minutes.
    os._exit(0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mem2evolve model server")
    parser.add_argument("--model", type=_absolute, required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--idle-minutes", type=float, default=0.0)
    parser.add_argument("--state", type=_absolute, required=True)
    parser.add_argument("--instance", required=True)
    parser.add_argument("--log", type=_absolute, default=None)
    return parser.parse_args(arguments)


def _absolute(text: str) -> Path:
    return Path(text).absolute()


def _load(options: argparse.Namespace, template: str | None) -> Any:
    import xllamacpp  # noqa: PLC0415 - heavy, and wanted in this process only

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx = options.context
    params.n_parallel = options.slots
    params.n_ubatch = UBATCH_TOKENS
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = CACHE_MIB
    params.use_jinja = True
    if template is not None:
        params.chat_template = template
    params.endpoint_metrics = True  # also lets `handle_metrics` count, see `Activity`
    params.endpoint_slots = False
    params.ui = False
    params.cors_origins = ""  # no page in a browser has business here
    return xllamacpp.Server(params)


def _describe(options: argparse.Namespace, port: int) -> ServerState:
    return ServerState(
        pid=os.getpid(),
        port=port,
        model=options.alias,
        model_file=str(options.model),
        instance=options.instance,
        started=time.time(),
        host=platform.node(),
        log=str(options.log or ""),
        idle_minutes=options.idle_minutes,
    )


class Activity:
    """Tells when something last happened, from the server's own counters and the state file.

    Clients touch the state file when they are given the server's address.
    """

    def __init__(self, state: Path, now: float) -> None:
        self._state = state
        self._seen: tuple[float, ...] = ()
        self._last = now

    def idle_seconds(self, metrics: str, now: float) -> float:
        """Return how long nothing has happened; 0 while a request runs or waits.

        Args:
            metrics: What `handle_metrics` returned, in Prometheus' text format.
            now: On the clock that the constructor was given, seconds.
        """
        values = parse_metrics(metrics)
        seen = (*(values.get(name, 0.0) for name in _COUNTERS), _changed(self._state))
        if seen != self._seen or any(values.get(name, 0.0) for name in _GAUGES):
            self._seen, self._last = seen, now
        return now - self._last


def parse_metrics(text: str) -> dict[str, float]:
    """Read the unlabelled values of llama.cpp's metrics; lines of another form are passed over."""
    values = {}
    for line in text.splitlines():
        name, _, value = line.removeprefix("llamacpp:").partition(" ")
        try:
            values[name] = float(value)
        except ValueError:
            continue
    return values


def _watch(server: Any, options: argparse.Namespace, stopping: threading.Event) -> None:
    """Return when the server should end."""
    limit = options.idle_minutes * 60 or float("inf")
    poll = min(MAX_POLL_SECONDS, limit / 4)
    activity = Activity(options.state, time.monotonic())
    while not stopping.wait(poll):
        idle = activity.idle_seconds(server.handle_metrics(), time.monotonic())
        _cap(options.log)
        if idle == 0:
            continue
        if not _owns(options):
            return
        if idle >= limit and _resign(options, activity, server):
            return


def _resign(options: argparse.Namespace, activity: Activity, server: Any) -> bool:
    """Remove the state file, unless a client is just being given our address."""
    try:
        with files.held(options.state.with_suffix(".lock"), seconds=0):
            if activity.idle_seconds(server.handle_metrics(), time.monotonic()) == 0:
                return False
            options.state.unlink(missing_ok=True)
            return True
    except files.LockTimeout:
        return False


def _owns(options: argparse.Namespace) -> bool:
    state = read_state(options.state)
    return state is not None and state.instance == options.instance


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _cap(log: Path | None) -> None:
    if log is not None and log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        os.truncate(log, 0)


def _setter(event: threading.Event) -> Any:
    def handle(_signal: int, _frame: FrameType | None) -> None:
        event.set()

    return handle


if __name__ == "__main__":
    sys.exit(main())
