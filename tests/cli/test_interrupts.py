"""Ctrl-C at any moment: exit code 130, no box left behind, and the next run works."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..openai_server import OpenAIServer, reply_text
from .brain import ANSWER, Brain
from .conftest import TASK, Cli, Say, Started

SLEEPER = reply_text('''```python
import time
def triple_number(n: int) -> int:
    """Return three times a number.

    Args:
        n: The number.
    """
    time.sleep(9)
    return 3 * n
```''')


def children(pid: int) -> list[int]:
    """Return the processes that descend from one, by pid."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
    found, level = [], [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def gone(pids: list[int]) -> bool:
    """Whether none of these processes is left, after a moment."""
    deadline = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def at(what: str) -> Callable[[Started, Brain], bool]:
    """Return whether the model has been asked for that."""
    return lambda _, brain: what in brain.said


def in_a_box(started: Started, _: Brain) -> bool:
    """Whether generated code is running."""
    return "drafts" in started.err and len(children(started.process.pid)) > 2


@pytest.mark.parametrize(
    ("brain", "when", "answered"),
    [
        pytest.param(Brain(delays={"plan": 30}), at("plan"), False, id="model call"),
        pytest.param(Brain(delays={"tool": 30}), at("tool"), False, id="creation"),
        pytest.param(
            Brain(answers={"tool": SLEEPER, "oracle": SLEEPER}), in_a_box, False, id="sandbox"
        ),
        pytest.param(Brain(delays={"lesson": 30}), at("lesson"), True, id="distill"),
    ],
)
def test_ctrl_c(
    cli: Cli,
    say: Say,
    monkeypatch: pytest.MonkeyPatch,
    brain: Brain,
    when: Callable[[Started, Brain], bool],
    *,
    answered: bool,
) -> None:
    """It ends at once and cleanly, whatever was going on."""
    with OpenAIServer(brain) as server:
        cli.model(server)
        started = cli.start("run", TASK, "--no-web")
        started.wait_until(lambda: when(started, brain))
        below = children(started.process.pid)
        pressed = time.monotonic()
        done = started.interrupt()

    assert done.code == 130
    assert time.monotonic() - pressed < 5
    assert done.out == (f"{ANSWER}\n" if answered else "")
    assert done.err.splitlines()[-1] == "stopped; what was kept so far is safe"
    assert "Traceback" not in done.err
    assert gone(below)
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        again = say("run", TASK, "--mode", "direct", "--no-evolve", ok=True)
    assert again.out == f"{ANSWER}\n"


def test_two_at_once_on_one_home(cli: Cli) -> None:
    """The second one reads what the first one keeps; the first one goes on."""
    brain = Brain(delays={"plan": 3})
    with OpenAIServer(brain) as server:
        cli.model(server)
        first = cli.start("run", TASK, "--no-web")
        first.wait_until(lambda: "plan" in brain.said)
        second = cli("runs", "list")
        done = first.end()

    assert second.code == 0
    assert TASK in second.out
    assert (done.code, done.out) == (0, f"{ANSWER}\n")


def test_killed_run_leaves_a_usable_home(cli: Cli, say: Say) -> None:
    """Even SIGKILL while it learns loses nothing that was kept."""
    brain = Brain(delays={"lesson": 30})
    with OpenAIServer(brain) as server:
        cli.model(server)
        started = cli.start("run", TASK, "--no-web")
        started.wait_until(lambda: "lesson" in brain.said)
        os.kill(started.process.pid, 9)
        started.end()

    assert "triple_number" in say("tools", "list", ok=True).out
    assert "→ 42" in say("runs", "list", ok=True).out
