"""`mem2evolve memory edit | delete | prune | doctor`, through the command line."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from mem2evolve.api import open_resources
from mem2evolve.cli._checkpoints import Unfinished, list_unfinished, open_checkpoints
from mem2evolve.cli.memory import _ask
from mem2evolve.memory.care.snapshot import Snapshot, take_snapshot
from mem2evolve.settings import Settings

from ..memory.made import expert, lesson, run, tool, went
from ..openai_server import OpenAIServer
from .brain import Brain
from .conftest import TASK, Say, Seed

OLD = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """A quick place for homes."""
    return in_memory


def kept() -> Snapshot:
    """Return what the home holds."""

    async def read() -> Snapshot:
        resources = open_resources()
        try:
            return await take_snapshot(resources.memory)
        finally:
            await resources.close()

    return asyncio.run(read())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is there to be asked."""
    monkeypatch.setattr(_ask, "on_terminal", lambda: True)
    monkeypatch.setattr("mem2evolve.cli.memory.edit.on_terminal", lambda: True)


def test_two_runs_are_the_evidence_of_one_lesson(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole loop twice: one record of each lesson, and `memory show` lists both runs."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        ids = [
            json.loads(say("run", TASK, "--no-web", "--json", ok=True).out)["run_id"]
            for _ in range(2)
        ]
    [found] = json.loads(say("memory", "list", "--scope", "agent", "--json", ok=True).out)
    shown = json.loads(say("memory", "show", found["id"], "--json", ok=True).out)
    assert sorted(shown["evidence"]) == sorted(ids)
    told = say("memory", "show", found["id"][:8], ok=True).out
    assert all(key[:8] in told for key in ids)


def test_edit_makes_a_new_record(say: Say, seed: Seed) -> None:
    """The old one is superseded with the reason; evidence and links are shown on both."""
    taught = run(1)
    old = lesson(run_id=taught.id, supports=(), status="active")
    heir = lesson("heir", supports=(old.id,))
    seed(old, heir, taught.model_copy(update={"learned": (old.id,)}))
    words = ("--knowledge", "Read one page at a time.", "--because", "it\ntimes out")
    done = json.loads(say("memory", "edit", old.id[:8], *words, "--json", ok=True).out)

    assert (done["knowledge"], done["title"]) == ("Read one page at a time.", old.title)
    assert (done["supersedes"], done["status"]) == (old.id, "active")
    again = say("memory", "edit", old.id[:8], *words, ok=True)  # as after it was killed
    assert done["id"] in again.out
    before = json.loads(say("memory", "show", old.id, "--json", ok=True).out)
    after = json.loads(say("memory", "show", done["id"], "--json", ok=True).out)
    assert (before["status"], before["knowledge"]) == ("superseded", old.knowledge)
    assert before["history"][-1]["reason"] == (
        f"a person edited it: it times out (now {done['id']})"
    )
    assert len(before["history"]) == 1
    assert before["links"]["superseded_by"] == [done["id"]]
    assert before["links"]["supported_by"] == [heir.id]
    assert after["evidence"] == [taught.id]
    told = say("memory", "show", done["id"][:8], ok=True).out
    assert f"supersedes      {old.id[:8]}  superseded" in told
    assert "active: a person edited it: it times out" in told


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--knowledge", "x"), "No reason is given"),
        (("--because", "b"), "nothing to change, and no terminal"),
        (("--knowledge", "x", "--because", " "), "The reason is empty"),
        (("--knowledge", "", "--because", "b"), "knowledge has 0 characters"),
        (("--knowledge", "x" * 5_000, "--because", "b"), "knowledge has 5,000 characters"),
        (("--title", "a\x1b[2Jb", "--because", "b"), "title holds U+001B"),
        (("--knowledge", "read all pages", "--because", "b"), "Nothing differs"),
    ],
)
def test_an_edit_that_cannot_be_is_refused(
    say: Say, seed: Seed, words: tuple[str, ...], error: str
) -> None:
    """With what to do; nothing has changed."""
    old = lesson()
    seed(old)
    say("memory", "edit", old.id[:8], *words).refused(error)
    assert kept().lessons == (old,)


def test_what_was_superseded_is_not_edited(say: Say, seed: Seed) -> None:
    """The one in its place is."""
    old = lesson(status="superseded", history=(went("superseded", "a person edited it"),))
    seed(old)
    say("memory", "edit", old.id[:8], "--title", "t", "--because", "b").refused("is superseded")


@pytest.mark.usefixtures("terminal")
def test_edit_in_an_editor(say: Say, seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four texts as YAML; what is no such thing is refused, and so is closing it unsaved."""
    old = lesson()
    seed(old)

    def saves(change: Callable[[str], str | None]) -> None:
        monkeypatch.setattr(click, "edit", lambda text, **_: change(text))

    for change, error in (
        (lambda _: None, "Nothing was saved"),
        (lambda text: text + "more: x\n", "is not title, description"),
        (lambda _: "a: [", "is no YAML"),
    ):
        saves(change)
        say("memory", "edit", old.id[:8], "--because", "b").refused(error)
    saves(lambda text: text.replace("read all pages", "Read: one page"))
    refused = say("memory", "edit", old.id[:8], "--because", "b")
    refused.refused("is no YAML", "What you wrote is in ")
    written = Path(refused.err.rpartition("What you wrote is in ")[2].strip().rstrip("."))
    assert "Read: one page" in written.read_text()
    written.unlink()
    say("memory", "edit", old.id[:8], "--title", "\u200b", "--because", "b").refused("U+200B")
    saves(lambda text: text.replace("read all pages", "'Read: one page'"))
    say("memory", "edit", old.id[:8], "--because", "b", ok=True)
    assert {one.knowledge for one in kept().lessons} == {"read all pages", "Read: one page"}


def test_delete_a_tool(say: Say, seed: Seed, tmp_path: Path) -> None:
    """Shown first and asked for; then records, files and mentions are gone, the way back is told."""
    one = tool(version=1, status="superseded", code="1")
    two = tool(version=2, code="2", supersedes=one.id)
    used = run(1, assets=(two.id,), won=(two.id,))
    seed(one, two, used)
    files = tmp_path / "home" / "tools_generated" / one.name
    dry = say("memory", "delete", "word_count@v2", "--dry-run", ok=True).out
    assert f"delete   tool {two.id[:8]} word_count v2: asked for" in dry
    assert f"rewrite  run {used.id[:8]}: names 1 that is deleted or renamed" in dry
    assert "mem2evolve tools activate word_count@v1 --because" in dry
    say("memory", "delete", "word_count@v2").refused("no terminal to ask on", "add --yes")
    assert len(kept().tools) == 2

    done = json.loads(say("memory", "delete", "word_count@v2", "--yes", "--json", ok=True).out)
    assert (done["done"], [gone["name"] for gone in done["deleted"]]) == (True, ["word_count v2"])
    left = kept()
    assert [(tool_.version, tool_.status) for tool_ in left.tools] == [(1, "superseded")]
    assert (left.runs[0].assets, left.runs[0].won) == ((), ())
    assert sorted(path.name for path in files.iterdir()) == ["v1"]
    say("memory", "delete", "word_count", "--yes", ok=True)
    assert (kept().tools, files.exists()) == ((), False)
    say("memory", "delete", "word_count", "--yes").refused("no run, tool, expert or lesson")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 1), (b"y\n", 0)])
def test_delete_asks(say: Say, seed: Seed, answer: bytes, left: int) -> None:
    """A no changes nothing."""
    one = lesson()
    seed(one)
    done = say("memory", "delete", one.id, stdin=answer, ok=True)
    assert len(kept().lessons) == left
    assert ("nothing was changed" in done.err) == bool(left)


def test_delete_an_unfinished_run(say: Say, seed: Seed) -> None:
    """Its state, and the candidates that it made."""
    begun = run(7)
    made = tool(run_id=begun.id, status="candidate")
    seed(made, tool("other"))

    async def begin() -> None:
        async with open_checkpoints(Settings.from_env()) as checkpoints:
            await checkpoints.begin(
                Unfinished(run_id=begun.id, given={"task": "t"}, context={}, model="m")
            )

    asyncio.run(begin())
    done = json.loads(say("memory", "delete", begun.id, "--yes", "--json", ok=True).out)
    assert (done["unfinished"], [one["name"] for one in done["deleted"]]) == (
        [begun.id],
        ["word_count v1"],
    )
    assert list_unfinished(Settings.from_env()) == []
    assert [one.name for one in kept().tools] == ["other"]


def test_delete_refuses_what_is_not_its_own(say: Say, seed: Seed) -> None:
    """Built-in tools come back; a name elsewhere needs its namespace."""
    away = tool("away", namespace="elsewhere")
    seed(tool("python", origin="builtin"), away)
    say("memory", "delete", "python", "--yes").refused("builtin tool")
    say("memory", "delete", "away", "--yes").refused("--namespace elsewhere")
    say("memory", "delete", "away", "--namespace", "elsewhere", "--yes", ok=True)
    assert [one.name for one in kept().tools] == ["python"]


def test_prune(say: Say, seed: Seed, tmp_path: Path) -> None:
    """The plan first, the same with and without --dry-run; statuses only, and files follow."""
    idle = tool("idle", created_at=OLD, code="1")
    away = tool("away", created_at=OLD, namespace="elsewhere", code="1")
    bad, twins = expert("bad"), [lesson(run_id=f"r{n}") for n in range(2)]
    runs = [run(n, assets=(bad.id,), verdict="failure") for n in range(5)]
    seed(idle, away, bad, *twins, *runs)
    folder = tmp_path / "home" / "tools_generated" / "idle"
    assert folder.exists()
    dry = json.loads(say("memory", "prune", "--dry-run", "--json", ok=True).out)["moves"]
    assert {(one["rule"], one["to"], one["done"]) for one in dry} == {
        ("unused", "retired", False),
        ("loses", "quarantined", False),
        ("twin", "superseded", False),
    }
    say("memory", "prune").refused("no terminal to ask on")
    assert {one.status for one in kept().kept} == {"active"}

    here = ("--namespace", "default", "--only", "unused")
    [moved] = json.loads(say("memory", "prune", *here, "--yes", "--json", ok=True).out)["moves"]
    assert (moved["name"], moved["done"]) == ("idle v1", True)
    assert not folder.exists()
    done = say("memory", "prune", "--yes", ok=True)
    assert "3 changed" in done.err
    assert "@elsewhere/away v1" in done.out
    assert sorted(one.status for one in kept().kept) == [
        *("active", "quarantined", "retired", "retired", "superseded")
    ]
    assert "Nothing is due" in say("memory", "prune", "--yes", ok=True).err


def test_doctor(say: Say, seed: Seed) -> None:
    """Each finding with a command to type; text of records is made harmless."""
    old = lesson("old\x1b[2J", run_id="r1")
    new = lesson("new", run_id="r2", contradicts=(old.id,), knowledge="read no page")
    away = lesson("away", namespace="elsewhere")
    taught = run(1, learned=(old.id, new.id))
    seed(old, new, away, taught)
    found = json.loads(say("memory", "doctor", "--json", ok=True).out)
    assert [(one["trouble"], one["namespace"]) for one in found] == [
        ("contradiction", "default"),
        ("no evidence", "elsewhere"),
    ]
    assert found[0]["ids"] == [new.id, old.id]
    told = say("memory", "doctor", "--only", "contradiction", ok=True).out
    assert f"→ mem2evolve memory edit {new.id[:8]} --knowledge … --because …" in told
    assert "\x1b[2J" not in told
    assert "away" not in told
    words = ("--knowledge", "Read each page once.", "--because", "settled")
    say("memory", "edit", new.id[:8], *words, ok=True)
    here = say("memory", "doctor", "--namespace", "default", ok=True)
    assert (here.out, here.err.strip()) == ("", "Nothing to settle.")
