"""Bundles: what is written, and that what is read is equal to it."""

import asyncio
import json
import math
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import InputError, StoreMismatch
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.bundle import write as writing
from mem2evolve.memory.bundle.form import KINDS
from mem2evolve.memory.bundle.plan import plan_import
from mem2evolve.memory.bundle.policy import objection
from mem2evolve.memory.bundle.read import Bundle
from mem2evolve.memory.bundle.write import export_bundle
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import Case, StatusChange
from mem2evolve.memory.rows import AnyRecord
from mem2evolve.memory.words import LESSON_CHARS

from .bundles import bundle_of, expert, lesson, run, tool
from .conftest import WordsEmbedder

ALL = (tool(), expert(), lesson(), run())
CHARS = st.characters(
    blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Cf"),
    blacklist_characters="\u115f\u1160\u3164\uffa0",
    max_codepoint=0xDFFFF,  # further up are letters that nobody sees
)
TEXT = st.text(CHARS, min_size=1, max_size=30).filter(str.strip)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
"""What a case may hold: whole numbers above 64 bits, infinities and lone surrogates too."""
CASES = st.builds(
    Case,
    args=st.dictionaries(NAMES, JSON, max_size=2),
    expected=JSON,
    origin=st.sampled_from(["task", "agreement"]),
)
SPACES = st.sampled_from(["default", "other"])
HISTORY = st.lists(
    st.builds(StatusChange, status=st.sampled_from(["candidate", "active"]), reason=TEXT),
    max_size=2,
).map(tuple)
KEPT = st.sampled_from(["superseded", "retired", "quarantined"])
TOOLS = st.builds(
    tool, name=NAMES, version=st.integers(1, 9), description=TEXT, namespace=SPACES,
    cases=st.lists(CASES, min_size=1, max_size=3).map(tuple), status=KEPT, history=HISTORY,
)  # fmt: skip
EXPERTS = st.builds(
    expert, name=TEXT, version=st.integers(1, 9), expertise=TEXT, strategy=TEXT,
    namespace=SPACES, status=KEPT, history=HISTORY,
)  # fmt: skip
LESSONS = st.builds(
    lesson, title=TEXT, description=TEXT, knowledge=TEXT, namespace=SPACES, history=HISTORY,
    status=st.sampled_from(["active", "superseded", "quarantined"]),
)  # fmt: skip
RUNS = st.builds(
    run, id=st.uuids().map(str), task=st.text(CHARS), namespace=SPACES,
    results=st.lists(st.dictionaries(NAMES, JSON, max_size=2), max_size=2),
)  # fmt: skip
RECORDS = st.lists(TOOLS | EXPERTS | LESSONS | RUNS, max_size=12, unique_by=lambda one: one.id)


async def memory_of(*records: AnyRecord) -> Memory:
    """Return a memory in this process with some records."""
    memory = Memory(ServerStore(location=":memory:"), WordsEmbedder())
    await memory.put(*records)
    return memory


async def everything(memory: Memory) -> dict[str, AnyRecord]:
    """Return all records by id."""
    return {one.id: one for kind in KINDS for one in await memory.list(kind, limit=None)}


def read(path: Path) -> dict[str, AnyRecord]:
    """Return all records of a bundle by id; none may be refused."""
    with Bundle(path) as bundle:
        lines = [one for kind in KINDS for one in bundle.lines(kind)]
    assert [one.refused for one in lines if one.refused] == []
    return {one.record.id: one.record for one in lines}


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return [path.name for path in folder.iterdir()]


def contents(path: Path) -> dict[str, bytes]:
    """Return the entries of a zip file."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(records=RECORDS)
def test_what_is_read_is_what_was_written(tmp_path: Path, records: list[AnyRecord]) -> None:
    """Every record comes back equal, history, odd numbers and all, and writing it again gives the same bytes."""

    async def check() -> None:
        memory = await memory_of(*records)
        done = await export_bundle(memory, tmp_path / "one.zip")
        kept = await everything(memory)
        assert done.left_out == {}
        assert read(tmp_path / "one.zip") == kept
        await export_bundle(await memory_of(*kept.values()), tmp_path / "two.zip")
        one, two = contents(tmp_path / "one.zip"), contents(tmp_path / "two.zip")
        for name in ("bundle.json", "SHA256SUMS"):  # the time is in them
            one.pop(name), two.pop(name)
        assert one == two

    asyncio.run(check())


async def test_the_same_memory_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same moment, that is: nothing hangs on the order of writing, the clock or the machine."""
    monkeypatch.setattr(writing, "now", lambda: "2026-01-01T00:00:00+00:00")
    await export_bundle(await memory_of(*ALL), tmp_path / "one.zip", licence="CC0-1.0")
    await export_bundle(await memory_of(*ALL[::-1]), tmp_path / "two.zip", licence="CC0-1.0")

    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


async def test_the_entries_of_a_bundle(tmp_path: Path) -> None:
    """A head, four lists, the tools as files, and the hashes as `sha256sum` writes them."""
    other = tool(namespace="team", name="twice")
    await export_bundle(await memory_of(*ALL, other), tmp_path / "b.zip", licence="MIT")
    found = contents(tmp_path / "b.zip")

    assert sorted(found) == [
        "SHA256SUMS", "bundle.json", "records/agents.jsonl", "records/experiences.jsonl",
        "records/runs.jsonl", "records/tools.jsonl",
        *(f"tools/@team/twice/v1/{name}" for name in ("cases.json", "tool.json", "tool.py")),
        *(f"tools/double/v1/{name}" for name in ("cases.json", "tool.json", "tool.py")),
    ]  # fmt: skip
    head = json.loads(found["bundle.json"])
    assert (head["embedding"], head["dim"], head["licence"]) == ("words", 64, "MIT")
    assert head["counts"] == {"tool": 2, "agent": 1, "experience": 1, "run": 1}
    assert json.loads(found["records/agents.jsonl"]) == {
        **expert().model_dump(mode="json"),
        "id": expert().id,
        "created_at": json.loads(found["records/agents.jsonl"])["created_at"],
    }
    assert b"vector" not in b"".join(found.values())
    assert names(tmp_path) == ["b.zip"]


async def test_a_part_of_a_memory(tmp_path: Path) -> None:
    """By namespace and by kind; what is left out leaves an empty list."""
    memory = await memory_of(*ALL, lesson(namespace="team"), tool(namespace="team"))
    await export_bundle(memory, tmp_path / "b.zip", namespace="team", kinds=["experience", "run"])

    assert list(read(tmp_path / "b.zip")) == [lesson(namespace="team").id]
    assert not [name for name in contents(tmp_path / "b.zip") if name.startswith("tools/")]


async def test_what_no_import_takes_is_left_out(tmp_path: Path) -> None:
    """Built-in tools belong to the program; what cannot be read elsewhere is named with the reason."""
    refused = [
        (tool(name="read_file", origin="builtin"), "origin is 'builtin'"),
        (tool(name="nan", cases=(Case(args={}, expected=math.nan, origin="task"),)), "NaN"),
        (lesson(title="bell\a"), "U+0007"),
        (lesson(knowledge="x" * 2001), "2,001 characters"),
    ]
    memory = await memory_of(*ALL, *(one for one, _ in refused))
    done = await export_bundle(memory, tmp_path / "b.zip")

    assert {*done.left_out} == {one.id for one, _ in refused}
    for one, why in refused:
        assert why in done.left_out[one.id]
    assert len(read(tmp_path / "b.zip")) == len(ALL)


@pytest.mark.parametrize("failing", ["fsync", "compress"])
async def test_a_full_disk_leaves_the_old_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """It is written aside: the one that was there is whole, and nothing else is left."""
    (tmp_path / "b.zip").write_bytes(b"old")

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    if failing == "fsync":
        monkeypatch.setattr(writing.os, "fsync", full)
    else:
        monkeypatch.setattr(writing._Entry, "write", full)
    with pytest.raises(OSError, match="No space left"):
        await export_bundle(await memory_of(*ALL), tmp_path / "b.zip")

    assert (tmp_path / "b.zip").read_bytes() == b"old"
    assert names(tmp_path) == ["b.zip"]


async def test_a_memory_of_a_later_version_is_not_exported(tmp_path: Path) -> None:
    """What this program does not understand it does not hand on."""
    store = EdgeStore(tmp_path / "memory")
    async with Memory(store, WordsEmbedder()) as memory:
        await memory.put(expert())
        await store.write_manifest({**(await store.read_manifest() or {}), "schema_version": 99})
    with pytest.raises(StoreMismatch, match="schema version 99"):
        await export_bundle(Memory(store, WordsEmbedder()), tmp_path / "b.zip")
    await store.close()
    assert names(tmp_path) == ["memory"]


@pytest.mark.parametrize("licence", ["MIT\n", "<b>", "x" * 201])
async def test_a_licence_is_an_expression(tmp_path: Path, licence: str) -> None:
    """Anything else is refused before a file is made."""
    with pytest.raises(InputError, match="no SPDX licence"):
        await export_bundle(await memory_of(), tmp_path / "b.zip", licence=licence)
    assert names(tmp_path) == []


def test_the_limits_of_a_lesson_are_those_of_our_own() -> None:
    """A stranger's lesson may be as long as one of ours, no longer."""
    for name, most in LESSON_CHARS.items():
        assert objection(lesson(**{name: "x" * most})) == ""
        assert name in objection(lesson(**{name: "x" * (most + 1)}))
        assert name in objection(lesson(**{name: " "}))


@pytest.mark.parametrize(
    "bad", ["\x00", "\x1b[2J", "\x7f", "\x9b", "\u202e", "\u2066", "\U000e0041", "\u2028"]
)
def test_what_cannot_be_seen_is_refused(bad: str) -> None:
    """Control characters, marks that reorder a line, and letters that only a model sees."""
    texts = ("title", "description", "applies_when", "knowledge", "learned_from")
    for record in (
        *(lesson(**{name: f"a{bad}b"}) for name in texts),
        *(expert(**{name: f"a{bad}b"}) for name in ("name", "expertise", "strategy")),
        tool(description=f"a{bad}b"),
        tool(input_schema={"properties": {"n": {"description": f"a{bad}b"}}}),
    ):
        assert "does not see" in objection(record)
    assert objection(lesson(knowledge="two lines\nand\ta tab, ünïcode, 例, 👩‍👧")) == ""


async def test_many_lessons_in_bounded_memory(tmp_path: Path) -> None:
    """Checking and planning hold ids, not texts: what a record adds is small beside it."""
    memory = await memory_of()
    peaks = []
    for count in (500, 2_000):
        many = (lesson(title=f"Carry {n}", knowledge=f"{n:06} " * 280) for n in range(count))
        path = bundle_of(tmp_path / f"{count}.zip", *many)
        tracemalloc.start()
        with Bundle(path) as bundle:
            plan = await plan_import(memory, bundle)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert plan.tallies["experience"].new == count

    assert (peaks[1] - peaks[0]) / 1_500 < 600  # bytes for a record of 2,400


async def test_what_a_killed_export_left_is_removed(tmp_path: Path) -> None:
    """By the next one to the same file; one that is just being written stays."""
    left, fresh = tmp_path / ".b.zip.0123abcd.new", tmp_path / ".b.zip.4567abcd.new"
    for one in (left, fresh):
        one.write_bytes(b"tasks and answers")
    os.utime(left, (0, 0))

    await export_bundle(await memory_of(), tmp_path / "b.zip")

    assert sorted(names(tmp_path)) == [fresh.name, "b.zip"]
