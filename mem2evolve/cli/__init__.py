"""The command line. Commands are loaded when used, so that `--help` stays quick."""

import contextlib
import os
import sys
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError

from ..errors import Mem2EvolveError
from ._lazy import LazyGroup
from ._text import drop_unwritten, one_line

COMMANDS: Final = {
    "run": "Solve a task; make the tools it lacks.",
    "batch": "Run many tasks from a file, some at a time.",
    "demo": "Two related tasks: the first makes a tool, the second uses it again.",
    "tools": "The tools it made: list, show; versions, edits by hand, tests.",
    "agents": "The expert agents it made: list, show.",
    "memory": "The lessons it wrote down, and the care of the whole memory.",
    "runs": "What it did: list, show, resume; say whether an answer was right.",
    "why": "Where an answer, a tool, an expert or a lesson comes from.",
    "mcp": "Serve the kept tools, and the agent, to MCP clients.",
    "model": "The embedded model: pull, serve, status, stop.",
    "doctor": "Check what a run needs, and say what to do.",
    "completion": "Print what a shell needs to complete commands.",
}
INTERRUPTED: Final = 130
REFUSED: Final = 2


@click.group(
    cls=LazyGroup,
    package=__name__,
    table={name: (name, about) for name, about in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mem2evolve")
@click.option(
    "--home",
    type=click.Path(file_okay=False),
    help="Folder of everything it keeps (MEM2EVOLVE_HOME).",
)
def app(home: str | None) -> None:
    """An agent that makes, tests and keeps its own tools, and learns from what it did."""
    if home is not None:
        os.environ["MEM2EVOLVE_HOME"] = home


def main() -> None:
    """Entry point: expected errors become two lines and exit code 2, Ctrl-C exit code 130."""
    _fill_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the run.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="mem2evolve", standalone_mode=False, color=_colours())
        sys.stdout.flush()
    except Mem2EvolveError as exc:
        _fail(str(exc), exc.hint)
    except NoArgsIsHelpError as exc:
        exc.show()
        _leave(REFUSED)
    except click.ClickException as exc:
        context = getattr(exc, "ctx", None)
        command = context.command_path if context else "mem2evolve"
        _fail(exc.format_message(), f"See `{command} --help`.")
    except (KeyboardInterrupt, click.Abort):
        _say("stopped; what was kept so far is safe")
        _leave(INTERRUPTED)
    except BrokenPipeError:
        _leave(1)
    except OSError as exc:
        _fail(
            f"{exc}.",
            "Check that there is room, and that output and files can be written. MEM2EVOLVE_DEBUG=1 shows where.",
        )
    except Exception as exc:
        if os.environ.get("MEM2EVOLVE_DEBUG"):
            raise
        _fail(
            f"{type(exc).__name__}: {exc}",
            "This is a fault of mem2evolve. MEM2EVOLVE_DEBUG=1 shows where.",
            code=1,
        )
    finally:
        drop_unwritten(sys.stderr)


def _fill_streams() -> None:
    """Put nothing in the place of standard streams that were closed: a file of ours would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open


def _fail(message: str, hint: str, *, code: int = REFUSED) -> None:
    _say(f"error: {one_line(message)}\nhint: {one_line(hint)}")
    _leave(code)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
        click.echo(text, err=True)


def _colours() -> bool | None:
    """Whether to colour: never with NO_COLOR or on a dumb terminal, else click looks for a terminal."""
    off = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if off else None


def _leave(code: int) -> None:
    """End at once: a thread that waits for a silent server must not keep the terminal."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
