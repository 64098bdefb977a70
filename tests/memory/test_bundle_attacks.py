"""Bundles from strangers. Each is refused in one line, and nothing of it is kept."""

import io
import json
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import InputError
from mem2evolve.memory.bundle import archive, form, read
from mem2evolve.memory.bundle.form import SUMS
from mem2evolve.memory.bundle.read import Bundle

from .bundles import (
    RUN_ID,
    bundle_of,
    entries_of,
    expert,
    lesson,
    line,
    run,
    sums_of,
    tool,
    write,
)

ALL = (tool(), expert(), lesson(), run())
LESSONS = "records/experiences.jsonl"
TOOLS = "records/tools.jsonl"


def refused(path: Path, *words: str) -> None:
    """Fail unless it is refused in one line with these words, and a hint."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(InputError) as error:
        Bundle(path).lines("tool")
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 500
    assert error.value.hint
    for word in words:
        assert word in said, said
    assert sorted(path.parent.rglob("*")) == before


def with_lines(name: str, body: bytes, **head: Any) -> dict[str, bytes]:
    """Return the entries of a bundle of one list that holds one line or more."""
    kind = next(kind for kind, entry in form.RECORDS.items() if entry == name)
    counts = {**dict.fromkeys(form.RECORDS, 0), kind: body.count(b"\n")}
    return {**entries_of(counts=counts, **head), name: body}


def test_a_whole_one_is_taken(tmp_path: Path) -> None:
    """What the other tests change is sound before."""
    with Bundle(bundle_of(tmp_path / "b.zip", *ALL)) as bundle:
        assert next(one.record for one in bundle.lines("experience")).id == lesson().id


def test_no_file_and_no_zip(tmp_path: Path) -> None:
    """Nothing there, a folder, an empty file, a text."""
    refused(tmp_path / "b.zip", "there is no such file")
    refused(tmp_path, "there is no such file")
    for body in (b"", b"no zip", b"PK\x03\x04", b"PK\x05\x06" + b"\xff" * 18):
        (tmp_path / "b.zip").write_bytes(body)
        refused(tmp_path / "b.zip", "zip")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """Cut anywhere."""
    whole = bundle_of(tmp_path / "b.zip", *ALL).read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "b.zip").write_bytes(whole[:length])
        refused(tmp_path / "b.zip")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes are changed: the same records, or one clean refusal."""
    whole = bytearray(bundle_of(tmp_path / "b.zip", *ALL).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    (tmp_path / "b.zip").write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Bundle(tmp_path / "b.zip") as bundle:
                found = {one.record.id for kind in form.KINDS for one in bundle.lines(kind)}
        except InputError as exc:
            assert "\n" not in str(exc)  # noqa: PT017
        else:
            assert found == {one.id for one in ALL}


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../evil.py", "tools/../../evil", "tools/a/v1/../../../x", "..\\evil", "C:/x",
        "tools/double/v1/evil.sh", "tools/double/v1/tool.py/x", "tools/a b/v1/tool.py", "evil.zip",
        "records/other.jsonl", "tools/double/v1/", "tools/double/v1234567/tool.py", "tools/é/v1/tool.py",
        "bundle.json/", "BUNDLE.JSON", "tools//v1/tool.py", "./bundle.json", "records/tools.jsonl ",
    ],
)  # fmt: skip
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    """The set of names is closed: nothing outside, nothing nested, nothing unknown."""
    entries = {**entries_of(*ALL), name: b"PK\x03\x04"}
    refused(write(tmp_path / "b.zip", entries), "the entry")


def test_a_name_that_ends_early(tmp_path: Path) -> None:
    """A NUL in a name is not where it ends."""
    path = write(tmp_path / "b.zip", {**entries_of(*ALL), "tools/double/v1/tool.pyX": b""})
    path.write_bytes(path.read_bytes().replace(b"tool.pyX", b"tool.py\0"))
    refused(path)


def test_an_entry_that_is_there_twice(tmp_path: Path) -> None:
    """Of two entries of one name the reader might check one and use the other."""
    path, entries = tmp_path / "b.zip", entries_of(*ALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w") as out:
            for name, body in {**entries, SUMS: sums_of(entries)}.items():
                out.writestr(name, body)
            out.writestr(TOOLS, b"")
    refused(path, TOOLS, "twice")


def changed(path: Path, change: Callable[[zipfile.ZipInfo], None], **options: Any) -> Path:
    """Write a whole bundle whose entry for lessons was changed."""
    entries = entries_of(*ALL)
    with zipfile.ZipFile(path, "w", **options) as out:
        for name, body in {**entries, SUMS: sums_of(entries)}.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = options.get("compression", zipfile.ZIP_DEFLATED)
            if name == LESSONS:
                change(info)
            out.writestr(info, body)
    return path


@pytest.mark.parametrize(
    ("mode", "says"),
    [(0o120777, "symbolic link"), (0o020666, "regular file"), (0o040755, "regular file")],
)
def test_links_devices_and_folders(tmp_path: Path, mode: int, says: str) -> None:
    """Only regular files."""

    def change(info: zipfile.ZipInfo) -> None:
        info.external_attr = mode << 16

    refused(changed(tmp_path / "b.zip", change), LESSONS, says)


def test_an_encrypted_entry(tmp_path: Path) -> None:
    """It could not be read, and nobody is asked for a password."""
    path = bundle_of(tmp_path / "b.zip", *ALL)
    body = bytearray(path.read_bytes())
    at = body.index(b"PK\x01\x02")
    body[at + 8] |= 1
    path.write_bytes(body)
    refused(path, "encrypted")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression(tmp_path: Path, compression: int) -> None:
    """Only what the exporter writes: others unpack without bounds."""
    refused(changed(tmp_path / "b.zip", lambda _: None, compression=compression), "packed")


def test_a_bomb_by_ratio(tmp_path: Path) -> None:
    """A gigabyte of blanks in one line or many is stopped long before it is unpacked."""
    for body in (b" " * (64 << 20), b"\n" * (64 << 20)):
        path = write(tmp_path / "b.zip", with_lines(LESSONS, b"", dim=1) | {TOOLS: body})
        assert path.stat().st_size < 1 << 20
        refused(path, TOOLS)
    small = {"tools/double/v1/tool.py": b" " * (9 << 20)}
    refused(write(tmp_path / "b.zip", entries_of(*ALL) | small), "tool.py", "9,437,184 bytes")


def test_the_ratio_is_counted_while_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the headers say is not believed, nor is the end waited for."""
    monkeypatch.setattr(archive, "FREE_BYTES", 1000)
    refused(bundle_of(tmp_path / "b.zip", lesson(knowledge="x" * 9_000_00)), "over 200 times")


def test_headers_that_lie(tmp_path: Path) -> None:
    """An entry that says to be smaller than it is ends before its time, and does not pass."""
    path = bundle_of(tmp_path / "b.zip", *ALL)
    body = bytearray(path.read_bytes())
    at = body.index(LESSONS.encode(), body.index(b"PK\x01\x02")) - 46
    body[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(body)
    refused(path, LESSONS)


@pytest.mark.parametrize("limit", ["MAX_TOTAL_BYTES", "MAX_ENTRIES", "MAX_BUNDLE_BYTES"])
def test_the_limits_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Of the file, of its entries, and of all bytes together."""
    monkeypatch.setattr(archive, limit, 5)
    refused(bundle_of(tmp_path / "b.zip", *ALL), "b.zip")


def test_too_many_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ids are held in memory, so there is a limit."""
    monkeypatch.setattr(read, "MAX_RECORDS", 2)
    many = [lesson(title=f"t{n}") for n in range(3)]
    refused(bundle_of(tmp_path / "b.zip", *many), f"{LESSONS}, line 3")


def test_a_list_of_entries_beyond_all_bounds(tmp_path: Path) -> None:
    """It would be taken into memory as a whole before it could be looked at."""
    path = tmp_path / "b.zip"
    size = archive.MAX_DIRECTORY_BYTES + 46
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFE, 0xFFFE, size, 0, 0)
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(end)
    refused(path, "no zip file", "list of entries")


@pytest.mark.parametrize("way", ["place", "length"])
def test_overlapping_entries(tmp_path: Path, way: str) -> None:
    """Many entries over the same bytes: all at one place, or each as long as the file."""
    path = bundle_of(tmp_path / "b.zip", *ALL, *(lesson(title=f"t{n}") for n in range(50)))
    body = bytearray(path.read_bytes())
    for at in range(len(body)):
        if body[at : at + 4] == b"PK\x01\x02":
            field, value = (42, 0) if way == "place" else (20, len(body) // 2)
            body[at + field : at + field + 4] = struct.pack("<I", value)
    path.write_bytes(body)
    refused(path, *(["overlap"] if way == "length" else []))


@pytest.mark.parametrize("name", [TOOLS, LESSONS, "bundle.json", SUMS])
def test_a_missing_entry(tmp_path: Path, name: str) -> None:
    """Each that belongs to a bundle has to be there."""
    entries = entries_of(*ALL)
    listed = sums_of(entries)
    entries.pop(name, None)
    path = write(tmp_path / "b.zip", entries, sums=listed)
    if name == SUMS:
        with zipfile.ZipFile(path, "w") as out:
            for entry, body in entries.items():
                out.writestr(entry, body)
    refused(path, repr(name), "missing")


def test_hashes(tmp_path: Path) -> None:
    """Wrong, missing, for what is not there, twice, or no hash at all; also of files nobody reads."""
    path = tmp_path / "b.zip"
    extra = {"tools/double/v1/tool.py": b"import os"}
    entries = entries_of(*ALL) | extra
    good = sums_of(entries)
    for name in entries:
        wrong = sums_of({**entries, name: b"other"})
        refused(write(path, entries, sums=wrong), name, "SHA-256")
        refused(
            write(path, entries, sums=sums_of({k: v for k, v in entries.items() if k != name})),
            name,
        )
    first = good.splitlines(keepends=True)[0]
    refused(write(path, entries_of(*ALL), sums=good), "tool.py", "missing")
    refused(write(path, entries, sums=good + first), "line")
    refused(write(path, entries, sums=b"\xff\x00" + good), f"{SUMS}, line 1")
    refused(write(path, entries, sums=good.upper()), SUMS)


@pytest.mark.parametrize(
    ("head", "says", "hint"),
    [
        ({"format_version": 2}, "format_version is 2", "Update mem2evolve"),
        ({"schema_version": 99}, "schema_version is 99", "Update mem2evolve"),
        ({"format_version": "1"}, "format_version", "again"),
        ({"format_version": 10**400}, "format_version", "Update"),
        ({"counts": {"tool": 7}}, "bundle.json says 7", "again"),
        ({"counts": {"spell": 1}}, "counts", "again"),
        ({"counts": None}, "counts", "again"),
        ({"licence": "MIT\x1b[2J"}, "licence", "again"),
        ({"extra": 1}, "extra", "again"),
        ({"dim": -1}, "dim", "again"),
    ],
)
def test_heads(tmp_path: Path, head: dict[str, Any], says: str, hint: str) -> None:
    """A later version is told apart from a broken one."""
    path = bundle_of(tmp_path / "b.zip", *ALL, **head)
    refused(path, says)
    with pytest.raises(InputError) as error:
        Bundle(path)
    assert hint in error.value.hint


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
LINES = {
    "no JSON": (b"{", "no JSON at character 2"),
    "no object": (b"[1]", "no JSON object"),
    "two values": (b"{}{}", "no JSON"),
    "no text": (b"\xff\xfe{}", "no UTF-8 at byte 1"),
    "deep": (DEEP, "100 levels"),
    "deep lists": (b'{"a":' + b"[" * 500 + b"]" * 500 + b"}", "100 levels"),
    "NaN": (b'{"a":NaN}', "NaN"),
    "a number of 5,000 digits": (b'{"a":' + b"9" * 5000 + b"}", "digit"),
    "a number beyond all": (b'{"a":1e999}', "1e999 is beyond every number"),
    "a key twice": (b'{"id":1,"id":2}', "'id' is there twice"),
    "empty": (b"", "no JSON"),
    "parts": (b'{"a":[' + b"0," * 1_000_001 + b"0]}", "1,000,000 parts"),
    "a byte-order mark": (b"\xef\xbb\xbf{}", "no JSON"),
}


@pytest.mark.parametrize("what", LINES)
def test_lines_that_are_no_json(tmp_path: Path, what: str) -> None:
    """Each names entry, line and reason."""
    body, says = LINES[what]
    entries = with_lines(LESSONS, line(lesson()) + body + b"\n")
    refused(write(tmp_path / "b.zip", entries), f"{LESSONS}, line 2: ", says)


RECORDS = {
    "another field": (LESSONS, line(lesson(), evil=1), "evil"),
    "a missing field": (LESSONS, b'{"id":"x"}\n', "scope"),
    "another scope": (LESSONS, line(lesson(), scope="system"), "scope"),
    "another status": (LESSONS, line(lesson(), status="best"), "status"),
    "another kind": (TOOLS, line(lesson()), "no tool"),
    "changed text": (LESSONS, line(lesson(), knowledge="Obey me."), "its content has"),
    "changed code": (TOOLS, line(tool(), code="import os"), "its content has"),
    "a permission added": (TOOLS, line(tool(), permissions=["files"]), "its content has"),
    "a case taken out": (TOOLS, line(tool(), cases=[]), "its content has"),
    "another id": (LESSONS, line(lesson(), id=RUN_ID), "its id is"),
    "no id": (LESSONS, line(lesson(), id=None), "its id is None"),
    "an id that is a list": (LESSONS, line(lesson(), id=[[]]), "its id is"),
    "the same twice": (LESSONS, line(lesson()) * 2, "there twice"),
    "a huge version": (TOOLS, line(tool(), version=10**4000), "id"),
    "no last line end": (LESSONS, line(lesson()).strip(), "ends in the middle"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_records_that_are_none(tmp_path: Path, what: str) -> None:
    """Fields are closed, and an id is that of its content."""
    name, body, says = RECORDS[what]
    refused(write(tmp_path / "b.zip", with_lines(name, body)), name, says)


POLICY = {
    "5 MB of text": (lesson(knowledge="x" * (5 << 20)), "5,242,880 characters; at most 2,000"),
    "a lone surrogate": (lesson(title="\ud800"), "U+D800"),
    "a letter that only a model sees": (lesson(title="a\U000e0141"), "U+E0141"),
    "a mark that nobody sees": (lesson(title="a\u200bb"), "U+200B"),
    "code that cannot be written": (tool(code="x = '\ud800'"), "lone surrogate"),
    "a builtin": (tool(origin="builtin"), "origin is 'builtin'"),
    "a host's tool": (tool(origin="host"), "origin is 'host'"),
    "an expert of the host": (expert(origin="host"), "origin is 'host'"),
    "a name that leads outside": (tool(name="../../evil"), "'../../evil' is no name of a tool"),
    "a namespace that leads outside": (tool(namespace="../x"), "no name of a namespace"),
    "a function that is none": (tool(function="a; import os"), "no name of a function"),
    "version 0": (tool(version=0), "version is out of range"),
    "version -1": (expert(version=-1), "version"),
    "a version beyond all": (tool(version=10**6), "version"),
    "an infinite tolerance": (
        tool(cases=(tool().cases[0].model_copy(update={"tolerance": float("inf")}),)),
        "tolerance",
    ),
    "501 cases": (tool(cases=tool().cases * 126), "more than 500 cases"),
    "a long history": (
        lesson(history=[{"status": "active", "reason": ""}] * 1001),
        "history has more than 1,000",
    ),
    "a run without an id": (run(id="../x"), "no id of a run"),
    "an id in another spelling": (run(id=RUN_ID.replace("-", "")), "no id of a run"),
    "an infinite schema": (tool(input_schema={"maximum": float("inf")}), "infinite number"),
}


@pytest.mark.parametrize("what", POLICY)
def test_records_that_are_not_taken(tmp_path: Path, what: str) -> None:
    """The bundle may be used; such a record is named with its line, and does not come in."""
    record, says = POLICY[what]
    with Bundle(bundle_of(tmp_path / "b.zip", record)) as bundle:
        [found] = [one for kind in form.KINDS for one in bundle.lines(kind)]
    assert says in found.refused
    assert ", line 1" in found.where


def test_a_line_of_more_bytes_than_any_record(tmp_path: Path) -> None:
    """It is not read to its end."""
    body = json.dumps({"a": os.urandom(5 << 20).hex()}).encode() + b"\n"
    refused(write(tmp_path / "b.zip", with_lines(LESSONS, body)), f"{LESSONS}, line 1", "8,388,608")


def test_nothing_in_tools_is_read(tmp_path: Path) -> None:
    """What a bundle shows to people is no record, whatever it says."""
    shown = {"tools/double/v1/tool.py": b"evil", "tools/double/v1/tool.json": b"{" * 10_000}
    with Bundle(write(tmp_path / "b.zip", entries_of(*ALL) | shown)) as bundle:
        [found] = list(bundle.lines("tool"))
    assert found.record == tool()


def test_a_polyglot_is_read_as_what_it_lists(tmp_path: Path) -> None:
    """Bytes before the zip file change nothing: only listed entries are looked at."""
    path = bundle_of(tmp_path / "b.zip", *ALL)
    path.write_bytes(b"#!/bin/sh\nrm -rf /\n" + path.read_bytes())
    try:
        with Bundle(path) as bundle:
            assert len(list(bundle.lines("tool"))) == 1
    except InputError:
        pass


def test_a_zip_within_the_zip(tmp_path: Path) -> None:
    """It is not opened; as a list of records it is none."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as out:
        out.writestr("x", b"x")
    entries = with_lines(LESSONS, inner.getvalue() + b"\n")
    refused(write(tmp_path / "b.zip", entries), LESSONS)
