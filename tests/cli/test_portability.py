"""`mem2evolve memory export | import | migrate` on a terminal's terms."""

import asyncio
import json
import os
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.memory import Memory
from mem2evolve.settings import Settings

from ..memory.bundles import bundle_of, expert, lesson, run, tool
from .conftest import AS_ROOT, Say

ALL = (tool(), expert(), lesson(), run())


def remember(home: Path, *records: Any) -> None:
    """Put records into the memory of a home."""

    async def put() -> None:
        async with Memory.open(Settings(home=home)) as memory:
            await memory.put(*records)

    asyncio.run(put())


def contents(home: Path) -> dict[str, Any]:
    """Return all records of a home by id."""

    async def read() -> dict[str, Any]:
        async with Memory.open(Settings(home=home)) as memory:
            kinds = ("tool", "agent", "experience", "run")
            return {
                one.id: one.model_dump() for kind in kinds for one in await memory.list(kind, limit=None)
            }  # fmt: skip

    return asyncio.run(read())


@pytest.fixture
def home(say: Say, tmp_path: Path) -> Path:
    """A home with records."""
    remember(tmp_path / "home", *ALL)
    return tmp_path / "home"


def test_there_and_back(say: Say, home: Path, tmp_path: Path) -> None:
    """Export, look, import into an empty home: a person sees what comes in before it does."""
    done = say("memory", "export", "b.zip", "--licence", "CC0-1.0", ok=True)
    assert done.out == "written  b.zip  1 tools, 1 experts, 1 lessons, 1 runs\n"
    assert "--no-runs" in done.err

    say("--home", str(tmp_path / "other"), "memory", "import", "b.zip", "--dry-run", ok=True)
    assert contents(tmp_path / "other") == {}
    done = say("--home", str(tmp_path / "other"), "memory", "import", "b.zip", "--yes", ok=True)
    assert "licence CC0-1.0" in done.out
    assert "lessons  1    0     0            0" in done.out
    assert "Lessons and experts steer what the model does" in done.out
    assert "imported 1 tools, 1 experts, 1 lessons, 1 runs" in done.err
    assert contents(tmp_path / "other").keys() == contents(home).keys()
    assert (tmp_path / "other" / "tools_generated" / "double" / "v1" / "tool.py").is_file()
    again = say("--home", str(tmp_path / "other"), "memory", "import", "b.zip", "--yes", ok=True)
    assert "Nothing of it is new" in again.err


def test_as_json(say: Say, home: Path, tmp_path: Path) -> None:
    """One line on standard output, for programs."""
    done = say("memory", "export", "b.zip", "--no-runs", "--json", ok=True)
    told = json.loads(done.out)
    assert told["counts"] == {"tool": 1, "agent": 1, "experience": 1, "run": 0}
    assert told["left_out"] == {}
    words = ("--home", str(tmp_path / "other"), "memory", "import", "b.zip", "--json")
    told = json.loads(say(*words, "--dry-run", ok=True).out)
    assert told["preview"]["tools"] == {"new": 1, "same": 0, "conflicting": 0, "refused": 0}
    assert told["imported"] is None
    told = json.loads(say(*words, "--yes", ok=True).out)
    assert told["imported"] == {"tool": 1, "agent": 1, "experience": 1, "run": 0}


def test_nobody_to_ask(say: Say, home: Path) -> None:
    """Without a terminal and without --yes nothing is done, and the way out is named."""
    say("memory", "export", "b.zip", ok=True)
    say("memory", "export", "b.zip").refused("'b.zip' exists", "--yes")
    say("memory", "export", "b.zip", "--yes", ok=True)
    bundle_of(home.parent / "new.zip", lesson(title="New"))
    before = contents(home)
    done = say("memory", "import", "new.zip")
    assert (done.code, done.err.splitlines()[-2:]) == (
        2,
        [
            "error: Import 1 records? There is no terminal to ask on.",
            "hint: Add --yes to do it without asking.",
        ],
    )
    assert contents(home) == before


def test_a_no_changes_nothing(say: Say, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person at the terminal decides, after the preview."""
    bundle_of(home.parent / "new.zip", lesson(title="New"))
    before = contents(home)
    monkeypatch.setattr("mem2evolve.cli.memory._ask.on_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    done = say("memory", "import", "new.zip", ok=True)

    assert "nothing was changed" in done.err
    assert contents(home) == before


def test_a_strangers_bundle_is_shown_harmlessly(say: Say, home: Path) -> None:
    """What it says cannot move the cursor, and what was refused is named with its line."""
    bundle_of(
        home.parent / "b.zip",
        lesson(title="a\x1b[2Jb"),
        lesson(knowledge="x" * (5 << 20)),
        tool(name="../x"),
        tool(name="\x1b]0;evil\x07"),
        created_at="\x1b[31mnow",
    )
    done = say("memory", "import", "b.zip", "--yes", ok=True)

    assert "\x1b" not in done.out + done.err
    assert "refused  b.zip, records/experiences.jsonl, line 1: title has U+001B" in done.out
    assert "line 2: knowledge has 5,242,880 characters; at most 2,000 are taken" in done.out
    assert "is no name of a tool" in done.out


def test_bad_bundles(say: Say, home: Path) -> None:
    """Two lines and exit code 2; the memory is as it was."""
    before = contents(home)
    (home.parent / "text.zip").write_text("no zip")
    bundle_of(home.parent / "new.zip", lesson(), schema_version=99)
    with zipfile.ZipFile(home.parent / "other.zip", "w") as file:
        file.writestr("../../evil", "x")
    say("memory", "import", "nowhere.zip", "--yes").refused("no such file")
    say("memory", "import", "text.zip", "--yes").refused("no zip file", "Nothing was changed")
    say("memory", "import", "new.zip", "--yes").refused("schema_version is 99", "Update mem2evolve")
    say("memory", "import", "other.zip", "--yes").refused("'../../evil' leads outside")
    bundle_of(home.parent / "b.zip", lesson(title="Fine"))
    say("memory", "import", "b.zip", "--yes", "--into", "../x").refused("'../x' is no name")
    say("memory", "export", "no/folder/b.zip").refused("There is no folder no/folder")

    assert contents(home) == before
    assert not (home.parent.parent / "evil").exists()


def test_a_home_of_a_later_version(say: Say, home: Path) -> None:
    """Nothing goes in or out of a memory that this program does not understand."""
    file = home / ".mem2evolve" / "memory" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 99}))
    bundle_of(home.parent / "b.zip", lesson(title="New"))

    say("memory", "export", "out.zip").refused("schema version 99")
    say("memory", "import", "b.zip", "--yes").refused("schema version 99")
    say("memory", "migrate", "--to", "http://127.0.0.1:9", "--yes").refused("schema version 99")
    assert not (home.parent / "out.zip").exists()


@AS_ROOT
def test_full_disks(say: Say, home: Path, small_disk: Path) -> None:
    """Into a home without room nothing comes; a bundle that does not fit is not left in part."""
    say("memory", "export", "b.zip", ok=True)
    words = ("--home", str(small_disk / "home"), "memory", "import", "b.zip", "--yes")
    done = say(*words)
    assert (done.code, "it is full" in done.err, "Free some space" in done.err) == (2, True, True)
    assert not list(small_disk.rglob("manifest.json"))

    remember(home, run(id="00000000-0000-5000-8000-000000000002", answer=os.urandom(1 << 20).hex()))
    (small_disk / "b.zip").write_text("old")
    words = ("--home", str(home), "memory", "export", str(small_disk / "b.zip"), "--yes")
    say(*words).refused("No space left")
    assert (small_disk / "b.zip").read_text() == "old"
    assert [path.name for path in small_disk.glob("*.new")] == []


class Refuses(BaseHTTPRequestHandler):
    """Answers every request as a server does that wants a key."""

    def do_GET(self) -> None:
        """Answer."""
        self.server.keys.append(self.headers.get("api-key"))  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A server on loopback that refuses every key; `keys` are those it was given."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    made.keys = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_servers_that_cannot_be_used(
    say: Say, home: Path, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    """Nobody there, no key, no address, no memory: told apart, and nothing is asked first."""
    before = contents(home)
    url = f"http://127.0.0.1:{server.server_port}"
    say("memory", "migrate", "--to", "http://127.0.0.1:9").refused("does not answer")
    say("memory", "migrate", "--to", url).refused("refuses the key", "QDRANT_API_KEY")
    say("memory", "migrate", "--to", "file:///etc").refused("no address of a server")
    say("memory", "migrate", "--to", "http://me:secret@host").refused("holds a user or a password")
    say("memory", "migrate", "--to", url, "--api-key-env", "NO_KEY").refused("NO_KEY is not set")
    words = ("--home", str(tmp_path / "none"), "memory", "migrate", "--to", url)
    say(*words).refused("no memory in")
    assert contents(home) == before


def test_migrating(say: Say, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made and compared, and what to set is said; the folder stays."""
    kept = ServerStore(location=":memory:")
    given: list[dict[str, Any]] = []

    def make(**options: Any) -> ServerStore:
        given.append(options)
        return kept

    before = contents(home)
    monkeypatch.setattr("mem2evolve.memory.backends.server.ServerStore", make)
    monkeypatch.setenv("THE_KEY", "secret")
    words = ("memory", "migrate", "--to", "http://127.0.0.1:6333", "--api-key-env", "THE_KEY")
    done = say(*words)
    assert (done.code, "Add --yes" in done.err) == (2, True)
    done = say(*words, "--yes", ok=True)
    assert "4 records are on the server, each compared" in done.out
    assert "QDRANT_URL=http://127.0.0.1:6333 and QDRANT_API_KEY" in done.out
    assert "secret" not in done.out + done.err
    assert given[0] == {"url": "http://127.0.0.1:6333", "api_key": "secret"}
    assert contents(home) == before
    told = json.loads(say(*words, "--json", ok=True).out)
    assert (told["copied"], told["verified"]) == (0, True)
