"""`--help` is quick: nothing heavy is loaded for it."""

import json
import subprocess
import sys

import pytest

from mem2evolve.cli import COMMANDS
from mem2evolve.cli.memory import COMMANDS as MEMORY_COMMANDS

from .conftest import Say

HEAVY = (
    *("langgraph", "langchain", "langchain_core", "openai", "langsmith", "qdrant_client"),
    *("qdrant_edge", "numpy", "onnxruntime", "httpx", "pydantic", "hypothesis", "starlette"),
)
SCRIPT = """
import json, sys
from mem2evolve.cli import app
for words in json.loads(sys.argv[1]):
    try:
        app(words)
    except SystemExit as exc:
        assert exc.code == 0, words
print(json.dumps(sorted(sys.modules)))
"""
PAGES = [
    ["--help"],
    ["-h"],
    ["--version"],
    *([name, "--help"] for name in COMMANDS),
    *(["tools", name, "--help"] for name in ("list", "show", "sync", "adopt", "rollback")),
    *(["tools", name, "--help"] for name in ("quarantine", "retire", "activate", "export-tests")),
    *(["agents", name, "--help"] for name in ("list", "show")),
    *(["memory", name, "--help"] for name in MEMORY_COMMANDS),
    *(["runs", name, "--help"] for name in ("list", "show", "resume", "verdict")),
    ["mcp", "serve", "--help"],
    *(["model", name, "--help"] for name in ("pull", "serve", "status", "stop")),
]


def test_help_loads_nothing_heavy() -> None:
    """No page of help loads the stack behind the program."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", SCRIPT, json.dumps(PAGES)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(done.stdout.splitlines()[-1])

    assert not set(HEAVY) & set(loaded)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_command(say: Say, name: str) -> None:
    """The table of commands is what people see."""
    done = say("--help")

    assert done.code == 0
    assert f"  {name} " in done.out


@pytest.mark.parametrize("words", [[], ["tools"], ["runs"]])
def test_no_command_shows_the_help(say: Say, words: list[str]) -> None:
    """Nobody has to guess what may follow."""
    done = say(*words)

    assert done.code == 2
    assert done.err.startswith("Usage: mem2evolve")
