"""Runs that wait for a person, are stopped or killed, and go on."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mem2evolve.cli._checkpoints import Unfinished, hold, list_unfinished
from mem2evolve.settings import Settings

from ..openai_server import OpenAIServer, reply_text
from .brain import ANSWER, TOOL, Brain
from .conftest import COMMAND, PATIENCE_S, TASK, Cli, Done, Say

ASKING = ("run", TASK, "--no-web", "--ask", "always")
PROMPT = "[q]uit (resume later): "
HIDDEN = TOOL.replace("times a whole number.", "times \x1b[2Ja whole\u202e number.")


@pytest.fixture
def brain() -> Brain:
    """The model of a test."""
    return Brain()


@pytest.fixture(autouse=True)
def server(brain: Brain, cli: Cli, say: Say, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A scripted model for commands with and without a process of their own; `say` clears the environment first."""
    with OpenAIServer(brain) as running:
        cli.model(running)
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield


def unfinished(cli: Cli) -> list[Unfinished]:
    """Return what is left of runs in the home."""
    return list_unfinished(Settings(home=cli.home))


class Terminal:
    """A command whose input and standard error are a terminal."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self._out = (cli.folder / "terminal-out").open("wb")
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [*COMMAND, *words],
            env={**cli.env, "NO_COLOR": "1"},
            cwd=cli.folder,
            stdin=slave,
            stdout=self._out,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def until(self, words: str) -> str:
        """Read until the terminal shows these words after what was read before; return what came."""
        start, deadline = len(self.seen), time.monotonic() + PATIENCE_S
        while words not in self.seen[start:]:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, self.seen
            try:
                self.seen += os.read(self._master, 4096).decode(errors="replace")
            except OSError:  # its other side is closed: the command has ended
                assert words in self.seen[start:], self.seen
        return self.seen[start:]

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._master, text.encode() + b"\n")

    def end(self) -> Done:
        """Read to the end."""
        try:
            while select.select([self._master], [], [], PATIENCE_S)[0] and (
                data := os.read(self._master, 4096)
            ):
                self.seen += data.decode(errors="replace")
        except OSError:
            pass
        code = self.process.wait(PATIENCE_S)
        return Done(code, Path(self._out.name).read_text(), self.seen)

    def close(self) -> None:
        """Close what was opened for it."""
        self._out.close()
        os.close(self._master)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(cli: Cli) -> Iterator[Open]:
    """Start commands on terminals; those that still run at the end are ended."""
    opened: list[Terminal] = []

    def start(*words: str) -> Terminal:
        opened.append(Terminal(cli, *words))
        return opened[-1]

    yield start
    for one in opened:
        one.process.kill()
        one.process.wait()
        one.close()


def test_a_run_that_nobody_can_answer_waits(say: Say, cli: Cli) -> None:
    """Exit code 3, and how to go on; then it is listed, and goes on with an answer as if never stopped."""
    done = say(*ASKING)
    [left] = unfinished(cli)
    short = left.run_id[:8]

    assert (done.code, done.out) == (3, "")
    assert "approval  may triple_number v1 be kept?" in done.err
    assert f"mem2evolve runs resume {short}" in done.err.splitlines()[-1]
    listed = say("runs", "list", ok=True).out
    assert f"{short}" in listed
    assert "waiting" in listed
    [shown] = json.loads(say("runs", "list", "--json", ok=True).out)
    assert (shown["id"], shown["status"], shown["task"]) == (left.run_id, "waiting", TASK)

    done = say("runs", "resume", short, "--approve", ok=True)
    assert done.out == f"{ANSWER}\n"
    assert "triple_number approved" in done.err
    assert "approved by a person" in say("tools", "show", "triple_number", ok=True).out
    [shown] = json.loads(say("runs", "list", "--json", ok=True).out)
    assert (shown["id"], shown["status"]) == (left.run_id, "done")
    assert unfinished(cli) == []
    say("runs", "resume", short, "--approve").refused(short, "is done", "runs show")


def test_json_says_what_is_asked(say: Say) -> None:
    """A program gets the question whole, and answers with a reason."""
    done = say(*ASKING, "--json")
    told = json.loads(done.out)
    assert done.code == 3
    assert told["waiting"][0]["tool"] == "triple_number"

    done = say("runs", "resume", told["run_id"], "--reject", "too clever", "--json", ok=True)
    said = json.loads(done.out)
    assert [one["outcome"] for one in said["decisions"] if one["need"]["kind"] == "tool"] == [
        "none"
    ]


def test_yes_and_no_from_the_start(say: Say) -> None:
    """`--approve` answers unasked; with `--reject` it is refused."""
    done = say(*ASKING, "--approve", ok=True)
    assert done.out == f"{ANSWER}\n"
    say(*ASKING, "--approve", "--reject", "no").refused("exclude each other")


@pytest.mark.parametrize("brain", [Brain(answers={"tool": reply_text(HIDDEN)})])
def test_a_terminal_asks(cli: Cli, terminal: Open, brain: Brain) -> None:
    """It shows reasons, code and cases, with nothing hidden in them, and goes on with a yes."""
    started = terminal(*ASKING)
    shown = started.until(PROMPT)
    assert "May triple_number v1 be kept? Multiply a whole number by three" in shown
    assert "why you are asked: every tool is shown" in shown
    assert "def triple_number(n: int) -> int:" in shown
    assert "\\x1b[2Ja whole\\u202e number" in shown
    assert "\x1b" not in shown
    assert "triple_number(n=14) = 42 [agreement]" in shown
    started.type("maybe")
    started.until(PROMPT)
    started.type("s")
    assert "return 3 * n" in started.until(PROMPT)
    started.type("y")
    done = started.end()

    assert (done.code, done.out) == (0, f"{ANSWER}\n")
    assert unfinished(cli) == []


WISH = TOOL.replace(
    "```python\n",
    "```python\n# /// script\n# [tool.mem2evolve]\n# permissions = ['files']\n# why = 'to \u202e read'\n# ///\n",
)


@pytest.mark.parametrize("brain", [Brain(answers={"tool": reply_text(WISH)})])
def test_a_terminal_asks_what_a_tool_may_do(terminal: Open, brain: Brain) -> None:
    """Before its code has run: what is asked for, by which code and why, with nothing hidden in it."""
    started = terminal("run", TASK, "--no-web")
    shown = started.until(PROMPT)
    assert "triple_number is being made, and asks for more than to compute" in shown
    assert "may it read the task's files?" in shown
    assert "draft 1 (tool) asks for files" in shown
    assert "its writer says: to \\u202e read" in shown
    assert "implementations confirm" not in shown
    started.type("s")
    assert "return 3 * n" in started.until(PROMPT)
    started.type("y")
    done = started.end()

    assert (done.code, done.out) == (0, f"{ANSWER}\n")
    assert "triple_number asks for files: allowed" in done.err
    assert started.seen.count(PROMPT) == 2


@pytest.mark.parametrize("brain", [Brain(answers={"tool": reply_text(WISH)})])
def test_without_a_terminal_a_wish_waits(say: Say, cli: Cli) -> None:
    """Exit code 3; then `--approve` grants it, and in another run `--reject` refuses it."""
    done = say("run", TASK, "--no-web")
    [left] = unfinished(cli)
    assert (done.code, done.out) == (3, "")
    assert "waits for a person's word on what triple_number may do" in done.err
    say("runs", "resume", left.run_id, "--approve", ok=True)
    kept = json.loads(say("tools", "show", "triple_number", "--json", ok=True).out)
    assert kept["permissions"] == ["files"]

    say("tools", "retire", "triple_number", "--because", "again", ok=True)
    done = say("run", TASK, "--no-web", "--reject", "no files", ok=True)
    assert done.err.count("asks for files: refused (no files)") == 1
    assert "no tool was made: no draft of the tool passed the screen" in done.err


def test_a_no_is_asked_why(cli: Cli, terminal: Open, brain: Brain) -> None:
    """The writer is told the reason; what comes next is asked about anew."""
    started = terminal(*ASKING)
    started.until(PROMPT)
    started.type("n")
    started.until("because: ")
    started.type("use addition")
    assert "why you are asked" in started.until(PROMPT)
    started.type("y")
    done = started.end()

    assert done.code == 0
    assert "triple_number rejected: use addition" in done.err
    assert brain.said.count("tool") > 1


@pytest.mark.parametrize(("quits", "code"), [("q", 3), ("\x04", 3), ("ctrl-c", 130)])
def test_quitting_leaves_it_waiting(
    cli: Cli, say: Say, terminal: Open, quits: str, code: int
) -> None:
    """By q, the end of input or Ctrl-C; it says how to go on."""
    started = terminal(*ASKING)
    started.until(PROMPT)
    if quits == "ctrl-c":
        os.killpg(started.process.pid, signal.SIGINT)
    elif quits == "q":
        started.type("q")
    else:
        os.write(started._master, b"\x04")
    done = started.end()
    [left] = unfinished(cli)

    assert (done.code, done.out) == (code, "")
    assert f"mem2evolve runs resume {left.run_id[:8]}" in done.err
    assert say("runs", "resume", left.run_id, "--approve", ok=True).out == f"{ANSWER}\n"


def test_killed_at_the_prompt(cli: Cli, say: Say, terminal: Open, brain: Brain) -> None:
    """Even then nothing is lost: no model is asked twice for what it had answered."""
    started = terminal(*ASKING)
    started.until(PROMPT)
    os.kill(started.process.pid, signal.SIGKILL)
    started.process.wait()
    before = list(brain.said)
    [left] = unfinished(cli)
    done = say("runs", "resume", left.run_id[:8], "--approve", ok=True)

    assert done.out == f"{ANSWER}\n"
    assert brain.said[: len(before)] == before
    assert not {"plan", "tool", "oracle", "cases", "agent"} & set(brain.said[len(before) :])


@pytest.mark.parametrize("brain", [Brain(delays={"lesson": 30})])
def test_a_killed_run_goes_on(cli: Cli, say: Say, brain: Brain) -> None:
    """It is marked as broken off; the answer is told again, since it came before."""
    started = cli.start("run", TASK, "--no-web")
    started.wait_until(lambda: "lesson" in brain.said)
    say("runs", "resume", unfinished(cli)[0].run_id).refused(f"process {started.process.pid}")
    os.kill(started.process.pid, signal.SIGKILL)
    started.end()
    assert "broken off" in say("runs", "list", ok=True).out
    brain._delays = {}
    done = say("runs", "resume", unfinished(cli)[0].run_id, ok=True)

    assert done.out == f"{ANSWER}\n"
    assert brain.said.count("plan") == brain.said.count("second_answer") == 1
    assert "done" in [run["status"] for run in json.loads(say("runs", "list", "--json").out)]


def test_one_process_at_a_time(cli: Cli, say: Say) -> None:
    """A second one is told who works on the run."""
    say(*ASKING)
    [left] = unfinished(cli)
    with hold(Settings(home=cli.home), left.run_id):
        assert "running" in say("runs", "list", ok=True).out
        done = say("runs", "resume", left.run_id, "--approve")
    done.refused(left.run_id[:8], f"process {os.getpid()}")


def test_an_unknown_run(say: Say) -> None:
    """It is refused by name."""
    say("runs", "resume", "nosuch").refused("There is no run 'nosuch'")
