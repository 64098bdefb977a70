"""Runs the command line in processes that end themselves at a given step. A program, started by `killed.py`.

It loads everything once, then forks for each line on standard input, so that a life costs no start-up. A
line is JSON: `args`, `env`, `out` (a file for standard output, with `.err` for the other), `log`, `at` (the step
event at which to die; 0 for never) and `late` (seconds after it). It answers with the process's id, and once
it has ended with its exit status.

In the log is a line for each start and end of a step, of sub-graphs too, and for each question to the model.
The steps are seen from outside, by a callback handler: nothing in the program knows of this.
"""

import hashlib
import importlib
import json
import os
import signal
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

LOADED = (
    "mem2evolve.api", "mem2evolve.cli.run", "mem2evolve.cli.runs", "mem2evolve.cli._drive", "mem2evolve.cli._story",
    "mem2evolve.graph.build", "mem2evolve.memory.backends.edge", "mem2evolve.models.embeddings", "mem2evolve.sandbox",
    "langgraph.checkpoint.sqlite.aio", "langchain_openai", "openai", "aiosqlite", "onnxruntime", "tokenizers",
)  # fmt: skip
"""What a run imports sooner or later."""


def digest(texts: list[str]) -> str:
    """Return what tells one question to the model from another."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def below(pid: int) -> list[tuple[int, str]]:
    """Return the processes that descend from one: id and time of their start."""
    found: list[tuple[int, str]] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [(child, born(child)), *below(child)]
    except OSError:  # it ended meanwhile
        return found
    return found


def born(pid: int) -> str:
    """Return when a process began, in ticks; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


class Watch(BaseCallbackHandler):
    """Counts the starts and ends of steps, and dies at one of them."""

    run_inline = True  # in the event loop: the step waits for it

    def __init__(self, log: str, at: int, late: float) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._at, self._late = at, late
        self._count = 0
        self._running: dict[Any, tuple[str, str]] = {}

    def _write(self, **line: Any) -> None:
        os.write(self._log, json.dumps(line).encode() + b"\n")

    def _step(self, event: str, step: str, task: str) -> None:
        self._count += 1
        self._write(event=event, step=step, task=task)
        if self._count == self._at and self._late:
            threading.Thread(target=self._die_late, daemon=True).start()
        elif self._count == self._at:
            self._die()

    def _die_late(self) -> None:
        time.sleep(self._late)
        self._die()

    def _die(self) -> None:
        self._write(event="killed", below=below(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)

    def on_chain_start(self, *_: Any, run_id: Any, **facts: Any) -> None:
        """A step of a graph has a tag that says so; nothing else counts."""
        metadata = facts.get("metadata") or {}
        if any(tag.startswith("graph:step:") for tag in facts.get("tags") or ()):
            known = (metadata["langgraph_node"], task_of(metadata))
            self._running[run_id] = known
            self._step("start", *known)

    def on_chain_end(self, *_: Any, run_id: Any, **__: Any) -> None:
        """What a step returned is not stored yet."""
        if known := self._running.pop(run_id, None):
            self._step("end", *known)

    def on_chat_model_start(self, _: Any, messages: Any, **facts: Any) -> None:
        """Which step asks what."""
        asked = digest([str(message.content or "") for message in messages[0]])
        self._write(event="asks", what=asked, task=task_of(facts.get("metadata") or {}))


def task_of(metadata: dict[str, Any]) -> str:
    """Return the id under which LangGraph stores what the innermost step wrote."""
    steps = [part for part in metadata["langgraph_checkpoint_ns"].split("|") if ":" in part]
    return str(steps[-1].rpartition(":")[2])


def live(order: dict[str, Any]) -> None:
    """Be one process of the command line, from its arguments to its end."""
    os.setsid()
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    for fd, name in ((0, os.devnull), (1, order["out"]), (2, order["out"] + ".err")):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, fd)
        os.close(opened)
    watch: ContextVar[BaseCallbackHandler | None] = ContextVar("watch", default=None)
    register_configure_hook(watch, inheritable=True)
    watch.set(Watch(order["log"], order["at"], order["late"]))
    sys.argv = ["mem2evolve", *order["args"]]
    from mem2evolve.cli import main  # noqa: PLC0415 - loaded above

    main()


def _say(fact: object) -> None:
    sys.stdout.write(f"{fact}\n")
    sys.stdout.flush()


def serve() -> None:
    """Fork for each order, and wait for its end."""
    for name in LOADED:
        try:
            importlib.import_module(name)
        except ImportError:  # then a run does without it
            continue
    _say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                live(json.loads(line))
            except SystemExit as exc:
                os._exit(int(exc.code or 0))
            finally:
                sys.stdout.flush()
                os._exit(0 if sys.exc_info()[0] is None else 1)
        _say(pid)
        _say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    serve()
