"""How a model server is started: its command line, its environment, and what it needs."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...errors import ConfigError
from .catalogue import default_model
from .state import SERVE_MODULE, state_file

IDLE_MINUTES: Final = 30.0
MAX_THREADS: Final = 8
"""More do not help a model that waits for memory."""
_SECRET_SUFFIXES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def require_runtime() -> None:
    """Refuse to go on without the server's library.

    Raises:
        ConfigError: If it is not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "The embedded model needs the package xllamacpp, which is not installed.",
            hint='Run `pip install "mem2evolve[local]"`, or name another model.',
        )


def idle_from_env(env: Mapping[str, str]) -> float:
    """Read MEM2EVOLVE_MODEL_IDLE_MINUTES.

    Raises:
        ConfigError: If it is not a number of minutes.
    """
    text = env.get("MEM2EVOLVE_MODEL_IDLE_MINUTES")
    if not text:
        return IDLE_MINUTES
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1
    if not 0 <= minutes < float("inf"):
        raise ConfigError(
            f"MEM2EVOLVE_MODEL_IDLE_MINUTES={text!r} is not a number of minutes.",
            hint=f"Unset it to use {IDLE_MINUTES:g}; 0 means never.",
        )
    return minutes


def serve_command(
    model_file: Path, key: str, port: int, idle_minutes: float, instance: str
) -> list[str]:
    """Return the command line of a server."""
    model = default_model()
    # A file of the catalogue goes by its catalogue name, any other by its own.
    alias = model.name if model_file.name == model.file else model_file.stem
    options = {
        "model": str(model_file.absolute()),
        "alias": alias,
        "port": str(port),
        "context": str(model.context),
        "slots": str(model.slots),
        "threads": str(min(_processors(), MAX_THREADS)),
        "idle-minutes": str(idle_minutes),
        "state": str(state_file(key)),
        "instance": instance,
    }
    # -P: a folder the user happens to stand in must not lend modules to the server.
    command = [sys.executable, "-P", "-m", SERVE_MODULE]
    for name, value in options.items():
        command += [f"--{name}", value]
    return command


def serve_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: without keys it has no use for, and with patient threads.

    Threads that spin while they wait make a busy machine ten times slower.
    """
    kept = {k: v for k, v in env.items() if not k.upper().endswith(_SECRET_SUFFIXES)}
    return {**kept, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
