"""Each program in `examples/`, run as it stands: a process of its own, a key and a server in its environment."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ..cli.brain import ANSWER, Brain
from ..graph.test_dev_server import dev_server
from ..openai_server import OpenAIServer, Reply, reply_text, reply_tools

FOLDER: Final = Path(__file__).parents[2] / "examples"
FILES: Final = sorted(path.name for path in FOLDER.glob("*.py"))
PATIENCE_S: Final = 120.0


class Hosted(Brain):
    """A brain that is also the model of an agent which has ours as a tool."""

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request."""
        if "mem2evolve" not in [tool["function"]["name"] for tool in asked.get("tools", [])]:
            return super().__call__(asked)
        last = asked["messages"][-1]
        if last["role"] == "tool":
            return reply_text(f"The tool says {last['content']}.")
        return reply_tools(("mem2evolve", {"task": "What is three times 14?"}))


class Reader:
    """Somebody who has a key and runs an example in a folder of theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MEM2EVOLVE_HOME": str(folder / "home"),
            "MEM2EVOLVE_CACHE": str(folder / "cache"),
            "OPENAI_API_KEY": "test",
            "LANGSMITH_TRACING": "false",
            "NO_PROXY": "127.0.0.1",
            "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
        }

    def run(self, name: str, stdin: str = "") -> str:
        """Run an example to its end; return what it printed."""
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, str(FOLDER / name)],
            env=self.env,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == "", done.stderr
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader whose provider is a scripted server."""
    reader = Reader(tmp_path)
    with OpenAIServer(Hosted()) as server:
        reader.env["OPENAI_BASE_URL"] = server.base_url
        yield reader


SAID: Final = {
    "sync_use.py": [
        f"{ANSWER} success",
        "recruited agent arithmetician",
        "recruited tool triple_number",
    ],
    "streaming.py": ["started", "decided: triple_number created", f"answer: {ANSWER}", "finished"],
    "host_tools.py": [
        "the host's own tool is called with 14",
        f"{ANSWER} success by checker",
        "recruited tool triple_number",
    ],
    "subgraph_shared_state.py": [f"{ANSWER} success"],
    "subgraph_separate_state.py": [f"{{'items': 14, 'total': '{ANSWER}', 'checked': True}}"],
    "node_function.py": [f"'reply': '{ANSWER}', 'checked': 'success'"],
    "tool_in_agent.py": [f"tool: {ANSWER} {{'run_id': '", f"The tool says {ANSWER}."],
}
"""What an example must print, in this order."""


@pytest.mark.parametrize("name", SAID)
def test_example(reader: Reader, name: str) -> None:
    """It prints what it is there to show."""
    in_order(reader.run(name), SAID[name])


def test_approval(reader: Reader) -> None:
    """It shows the code and the reason, asks again what it did not understand, and keeps the tool."""
    out = reader.run("approval.py", stdin="yes, but later\nyes\n")
    in_order(out, ["def triple_number", "approve=always", "Keep triple_number?", ANSWER])
    assert out.count("Keep triple_number?") == 2, "a yes with conditions is asked about again"
    assert (reader.folder / "home" / "tools_generated" / "triple_number").is_dir()


def test_remote(reader: Reader, tmp_path: Path) -> None:
    """A server's question is asked here and the answer arrives there; what it kept is recruited by `RemoteGraph`."""
    with dev_server(tmp_path, Brain()) as server:
        reader.env["LANGGRAPH_URL"] = server.url
        asked = reader.run("remote_node.py", stdin="yes\n")
        called = reader.run("remote_graph.py")
    in_order(asked, ["def triple_number", "Keep this tool?", ANSWER])
    kept = f"kept on the server: {ANSWER} success"
    in_order(called, ["started", kept, "recruited tool triple_number"])


def test_every_example_is_run_and_listed() -> None:
    """The table in `examples/README.md` names each, and each is run here."""
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\[`?([a-z_]+\.py)`?\]", table)) == FILES
    assert sorted([*SAID, "approval.py", "remote_graph.py", "remote_node.py"]) == FILES


def in_order(text: str, parts: list[str]) -> None:
    """Fail unless the parts stand in the text one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing from {text[at:]!r}"
        at = found + len(part)
