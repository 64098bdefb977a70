"""Where the output goes is not always a patient terminal that speaks UTF-8."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ..openai_server import OpenAIServer, reply_text
from .brain import Brain
from .conftest import COMMAND, TASK, Cli

QUICK = ("run", TASK, "--mode", "direct", "--no-evolve")
SAID = "🎉 ünï \x1b[31mred"


def shell(cli: Cli, redirection: str, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in a shell, which redirects."""
    script = f'set -o pipefail; "$@" {redirection}'
    return subprocess.run(  # noqa: S603 - our own program
        ["/bin/bash", "-c", script, "bash", *COMMAND, *(words or QUICK)],
        env=cli.env,
        cwd=cli.folder,
        capture_output=True,
        timeout=40,
        check=False,
    )


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_other_encodings(cli: Cli, env: dict[str, str]) -> None:
    """A character that cannot be shown does not end the run."""
    cli.env |= env
    with OpenAIServer(Brain(answers={"act": reply_text("🎉 done")})) as server:
        cli.model(server)
        done = cli(*QUICK, "--namespace", "ünï", ok=True)

    assert done.out.endswith(" done\n")


def test_a_pipe_gets_every_byte(cli: Cli) -> None:
    """What the model said is not changed on its way to a file."""
    with OpenAIServer(Brain(answers={"act": reply_text(SAID)})) as server:
        cli.model(server)
        assert cli(*QUICK, ok=True).out == f"{SAID}\n"


def test_nobody_reads_the_answer(cli: Cli) -> None:
    """`| head -0` ends with exit code 1, not with a traceback; what was learned is kept."""
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        done = shell(cli, "| true", "run", TASK, "--no-web")

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"could not be written" in done.stderr
    assert "→ 42" in cli("runs", "list", ok=True).out


def test_full_disk_behind_the_answer(cli: Cli) -> None:
    """As with a closed pipe: said once, and the run goes on."""
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        done = shell(cli, "> /dev/full")

    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("redirection", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams(cli: Cli, redirection: str) -> None:
    """A run without standard streams works, and none of its files takes their numbers."""
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        done = shell(cli, redirection)

    assert done.returncode == 0, done
    assert done.stdout == (b"" if ">&- " in redirection else b"42\n")
    assert b"Traceback" not in done.stderr


def test_list_that_cannot_be_written(cli: Cli) -> None:
    """A reader that went away ends it quietly, a full disk with a reason."""
    done = shell(cli, "| true", "tools", "list", "--json")
    assert done.stderr == b""

    done = shell(cli, "> /dev/full", "tools", "list", "--json")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: [Errno 28] No space left on device.\nhint: ")
    assert done.stderr.count(b"\n") == 2


class Terminal:
    """What a program writes to a terminal of that many columns."""

    def __init__(self, cli: Cli, columns: int, *words: str, **env: str) -> None:
        import fcntl  # noqa: PLC0415 - Unix only
        import pty  # noqa: PLC0415
        import struct  # noqa: PLC0415
        import termios  # noqa: PLC0415

        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*COMMAND, *words],
            env={"TERM": "xterm-256color", **cli.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        said = bytearray()
        try:
            while data := os.read(ours, 1 << 16):
                said += data
        except OSError:  # the terminal's other end was closed
            pass
        os.close(ours)
        self.code = process.wait(40)
        self.text = said.decode().replace("\r\n", "\n")


def test_story_fits_the_terminal(cli: Cli) -> None:
    """Long lines are wrapped below their own beginning; what a model says cannot steer the terminal."""
    task = f"{TASK} " + "It must be the whole number alone, without words. " * 4
    with OpenAIServer(Brain(answers={"act": reply_text(SAID)})) as server:
        cli.model(server)
        seen = Terminal(cli, 80, "run", task, "--no-web", "--no-evolve", NO_COLOR="1")

    assert seen.code == 0
    assert "\x1b" not in seen.text
    assert r"🎉 ünï \x1b[31mred" in seen.text
    lines = seen.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("task      What is")
    assert lines[1].startswith("          ")


def test_colours_on_a_terminal_only(cli: Cli) -> None:
    """There, labels are coloured; a dumb terminal gets none."""
    assert "\x1b[" in Terminal(cli, 80, "doctor", OPENAI_BASE_URL="x").text
    assert "\x1b[" not in Terminal(cli, 80, "doctor", OPENAI_BASE_URL="x", TERM="dumb").text


def test_stored_text_is_utf8_whatever_the_locale(cli: Cli) -> None:
    """The manifest and the tools' files do not depend on who wrote them."""
    cli.env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        cli("run", f"{TASK} ünï 🎉", "--no-web", ok=True)
    [run] = json.loads(cli("runs", "list", "--json", ok=True).out)

    assert run["task"].endswith("ünï 🎉")
    for path in Path(cli.home).rglob("*.json"):
        path.read_text(encoding="utf-8")
