"""The tool `read_file`: the task's files, a page at a time. Names are looked up, never opened.

Text, JSON and CSV are read here; formats that need a parser are read in a box, by `documents.py`.
"""

import asyncio
import codecs
import json
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from pydantic import JsonValue

from ...errors import ToolFailure
from ...sandbox.base import Sandbox
from ._shared import PAGE_CHARS, clean, cut_page
from .documents import Kind, document_kind, read_document
from .tables import NotATable, read_table

TOOL: Final = "read_file"
HEAD_BYTES: Final = 64 << 10
"""Looked at to tell text from other files."""
CHECKED_BYTES: Final = 64 << 20
"""Looked at to tell UTF-8 from Latin-1."""
CHUNK: Final = 1 << 20
JSON_BYTES: Final = 2 << 20
"""A larger JSON file is shown as text only, without its outline."""
MAX_CONTROL_SHARE: Final = 0.05
MAX_KEYS: Final = 50

# Longest first: the mark of UTF-32 begins with that of UTF-16.
MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MAGIC: Final = (
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an Office document of the old kind, or one with a password"),
    (b"\x1f\x8b", "gzip data"),
    (b"SQLite format 3\x00", "an SQLite database"),
)
TEXT_CONTROLS: Final = frozenset(b"\t\n\r\f\b\x1b")


class Encoding(NamedTuple):
    """How a file's bytes are read as text."""

    name: str
    note: str = ""


async def read_file(
    name: str,
    *,
    files: Mapping[str, Path],
    sandbox: Sandbox | None = None,
    start: int = 0,
    limit: int | None = None,
    sheet: str | None = None,
    page: int = 1,
) -> JsonValue:
    """Read one page of one of the task's files.

    Args:
        name: A key of `files`.
        files: The files that may be read.
        sandbox: Where workbooks, PDF documents and images are parsed; without one they are refused.
        start: First character of a text or of a PDF's page, or first row of a table; from 0.
        limit: At most so many characters or rows; never more than fit in `PAGE_CHARS`.
        sheet: Name of a workbook's sheet, or its number from 1; else the first.
        page: First page of a PDF document, from 1.

    Returns:
        An object with `kind` (`text`, `json`, `csv`, `xlsx`, `pdf`, `image`), `next_start` (null at
        the end) and either `text`, or `columns` and `rows`, or what an image says of itself.

    Raises:
        ToolFailure: If there is no such file, or it cannot be read, or is of no known kind.
        SandboxUnavailable: If a box is needed and cannot be started.
    """
    path = files.get(name) or files.get(name.removeprefix("/data/"))
    if path is None:
        known = ", ".join(map(repr, sorted(files))) or "none: the task came without files"
        raise ToolFailure(TOOL, f"There is no file {name!r:.200}. The files are: {known}.")
    name = name.removeprefix("/data/")
    try:
        kind = await asyncio.to_thread(_document, name, path)
        if kind is not None:
            wanted = {"start": start, "limit": limit or PAGE_CHARS, "sheet": sheet, "page": page}
            found = await read_document(name, path, kind, sandbox=sandbox, wanted=wanted)
            if found is not None:
                return {"name": name, "size_bytes": path.stat().st_size, **found}
        return await asyncio.to_thread(_read, name, path, start, limit)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ToolFailure(TOOL, f"{name!r} cannot be read: {reason}.") from exc


def _document(name: str, path: Path) -> Kind | None:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device could block for ever
        raise ToolFailure(TOOL, f"{name!r} is not a regular file.")
    with path.open("rb") as file:
        return document_kind(file.read(16))


def _read(name: str, path: Path, start: int, limit: int | None) -> JsonValue:
    status = path.stat()
    encoding = _encoding(name, path)
    found: dict[str, JsonValue] = {
        "name": name,
        "kind": "text",
        "encoding": encoding.name,
        "size_bytes": status.st_size,
    }
    notes = [encoding.note] if encoding.note else []
    suffix = path.suffix.lower() or Path(name).suffix.lower()
    if suffix in {".csv", ".tsv"}:
        try:
            with _opened(path, encoding, newline="") as file:
                tab = suffix == ".tsv"
                found |= {"kind": "csv", **read_table(file, start=start, limit=limit, tab=tab)}
            return _with_note(found, notes, unit="row")
        except NotATable as exc:
            found["kind"] = "text"
            notes.append(f"It does not read as a table ({exc}), so it is shown as text.")
    if suffix == ".json":
        found["kind"] = "json"
        found["outline"] = _outline(path, encoding, status.st_size)
    with _opened(path, encoding, newline=None) as file:
        _skip(file, start)
        size = min(limit or PAGE_CHARS, PAGE_CHARS)
        text = file.read(size + 1)
        page = cut_page(text, start=start, limit=size)
    if start and not text:
        notes.append(f"The file ends before character {start}.")
    found |= {"start": start, "next_start": page.next_start, "text": page.text}
    return _with_note(found, notes, unit="character")


def _with_note(found: dict[str, JsonValue], notes: list[str], *, unit: str) -> JsonValue:
    following = found["next_start"]
    if following is not None:
        notes.append(
            f"Cut before {unit} {following}. To read on, call read_file again with "
            f"start={following}."
        )
    return found | {"note": " ".join(notes)} if notes else found


def _opened(path: Path, encoding: Encoding, *, newline: str | None) -> TextIO:
    return path.open(encoding=encoding.name, errors="replace", newline=newline)


def _skip(file: TextIO, count: int) -> None:
    while count > 0:
        skipped = len(file.read(min(count, CHUNK)))
        if not skipped:
            return
        count -= skipped


def _encoding(name: str, path: Path) -> Encoding:
    """Tell how to read the file.

    Raises:
        ToolFailure: If it is not text.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    kind = next((kind for magic, kind in MAGIC if head.startswith(magic)), "")
    if not kind:
        for mark, encoding in MARKS:
            if head.startswith(mark):
                return Encoding(encoding)
    controls = sum(byte < ord(" ") and byte not in TEXT_CONTROLS for byte in head)
    if kind or 0 in head or controls > MAX_CONTROL_SHARE * len(head):
        raise ToolFailure(
            TOOL,
            f"{name!r} is not text but {kind or 'binary data'}, {path.stat().st_size:,} bytes. "
            f"Python code may be able to read it, as the file /data/{name}.",
        )
    if _is_utf8(path):
        return Encoding("utf-8")
    return Encoding("latin-1", "It is not UTF-8, so it was read as Latin-1; letters may be wrong.")


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        chunks: Iterator[bytes] = iter(lambda: file.read(CHUNK), b"")
        try:
            for chunk in islice(chunks, CHECKED_BYTES // CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=not file.read(1))
        except UnicodeDecodeError:
            return False
    return True


def _outline(path: Path, encoding: Encoding, size: int) -> JsonValue:
    """Say what a JSON file holds at its top, or why that cannot be said."""
    if size > JSON_BYTES:
        return "too large to outline; read it in pages"
    try:
        with _opened(path, encoding, newline=None) as file:
            value = json.load(file)
    except (ValueError, RecursionError) as exc:
        return clean(f"not valid JSON: {exc}")[:300]
    if isinstance(value, dict):
        keys: list[JsonValue] = [clean(key)[:100] for key in islice(value, MAX_KEYS)]
        return {"type": "object", "key_count": len(value), "keys": keys}
    if isinstance(value, list):
        kinds: list[JsonValue] = [*sorted({type(item).__name__ for item in value})]
        return {"type": "array", "length": len(value), "item_types": kinds}
    return {"type": type(value).__name__}
