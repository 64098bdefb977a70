"""A host that embeds ours, asks a person, is killed twice, and finishes."""

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from ..cli.brain import ANSWER, Brain
from ..openai_server import OpenAIServer, Reply

HOST: Final = Path(__file__).with_name("host.py")
PATIENCE_S: Final = 60.0


class Held(Brain):
    """A brain that says when it is asked for the lesson, and answers that only once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request."""
        if self._what(asked) == "lesson":
            self.reached.set()
            self.go.wait(PATIENCE_S)
        return super().__call__(asked)


@pytest.mark.parametrize("way", ["sub-graph", "node"])
def test_killed_and_resumed(tmp_path: Path, way: str) -> None:
    """Killed while it waits for a person, and again while it learns: the third process ends what the first began."""
    brain = Held()
    with OpenAIServer(brain) as server:
        env = {
            "PATH": os.environ["PATH"],
            "MEM2EVOLVE_HOME": str(tmp_path / "home"),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "test",
            "NO_PROXY": "127.0.0.1",
        }

        def life() -> "subprocess.Popen[str]":
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, str(HOST), way, str(tmp_path / "host.sqlite")],
                env=env,
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

        with life() as first:
            assert line_of(first) == "asked triple_number"
            first.kill()
        with life() as second:
            assert line_of(second) == "asked triple_number"
            tell(second, "yes")
            assert brain.reached.wait(PATIENCE_S)
            second.kill()
        brain.go.set()
        with life() as third:
            assert line_of(third) == f"ended; read; sent {ANSWER}"
            assert third.wait(PATIENCE_S) == 0

    said = Counter(brain.said)
    once = {what: said[what] for what in ("plan", "tool", "oracle", "cases", "second_answer")}
    assert once == dict.fromkeys(once, 1), "what was done is not done again"
    kept = tmp_path / "home" / "tools_generated"
    assert [path.name for path in sorted(kept.iterdir())] == ["triple_number"]
    assert [path.name for path in (kept / "triple_number").iterdir()] == ["v1"]


def line_of(life: "subprocess.Popen[str]") -> str:
    """Return what it prints next."""
    assert life.stdout is not None
    return life.stdout.readline().strip()


def tell(life: "subprocess.Popen[str]", words: str) -> None:
    """Answer it."""
    assert life.stdin is not None
    life.stdin.write(f"{words}\n")
    life.stdin.flush()
