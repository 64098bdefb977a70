"""Writing a bundle: page by page, aside, and renamed when it is whole."""

import asyncio
import contextlib
import glob
import hashlib
import json
import os
import time
import uuid
import zipfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

from ...errors import InputError
from ..memory import Memory
from ..projection import files_of, has_folder
from ..records import ToolRecord, now
from ..rows import COLLECTION, AnyRecord, RecordKind, payload_of
from ..store import Where
from .form import (
    HEAD,
    KINDS,
    LICENCE,
    MAX_ENTRY_BYTES,
    MAX_FOLDERS,
    MAX_LINE_BYTES,
    RECORDS,
    SUMS,
    Head,
)
from .read import Tell, read_line

_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""Of every entry: the same memory gives the same bytes."""
_MODE: Final = 0o100644 << 16
LEFT_S: Final = 60.0
"""A file aside that was not written to for so long was left by a process that is no more."""


@dataclass(kw_only=True)
class Exported:
    """What a bundle holds."""

    path: Path
    counts: dict[RecordKind, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Ids of records that no import would take, each with the reason."""


async def export_bundle(
    memory: Memory,
    path: Path,
    *,
    kinds: Sequence[RecordKind] = KINDS,
    namespace: str | None = None,
    licence: str = "",
    tell: Tell = lambda *_: None,
) -> Exported:
    """Write records into a bundle. Vectors are left out: whoever imports it makes them anew.

    What no import would take, such as built-in tools, is left out and named.

    Args:
        memory: The records.
        path: The file; one that is there is replaced.
        kinds: Which records.
        namespace: Only those of this one.
        licence: An SPDX expression under which the content may be used.
        tell: See `Tell`.

    Raises:
        InputError: If the licence is malformed, or there is too much for one bundle.
        OSError: If the file cannot be written. What was there is still there then.
        StoreError: If the memory cannot be read.
    """
    if not LICENCE.fullmatch(licence):
        raise InputError(
            f"{licence[:100]!r} is no SPDX licence expression.", hint="Such as CC-BY-4.0 or MIT."
        )
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent}.", hint="Make it, or name another.")
    done = Exported(path=path)
    await asyncio.to_thread(_sweep, path)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        with aside.open("wb") as file:
            with _Writer(file) as out:
                await _write(memory, out, done, kinds, namespace, licence, tell)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return done


def _sweep(path: Path) -> None:
    """Remove what an export to the same file left that was killed: it may hold tasks and answers."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        if time.time() - left.stat().st_mtime > LEFT_S:
            left.unlink(missing_ok=True)


class _Writer:
    """Entries of a zip file, with their hashes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self._sums: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, ValueError):  # what went wrong was raised already
            self.zip.close()

    def open(self, name: str) -> "_Entry":
        entry = zipfile.ZipInfo(name, _MOMENT)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = _MODE
        return _Entry(self.zip.open(entry, "w"), name, self._sums)

    def put(self, name: str, text: bytes) -> None:
        with self.open(name) as entry:
            entry.write(text)

    def end(self) -> None:
        lines = [f"{self._sums[name]}  {name}\n" for name in sorted(self._sums)]
        self.put(SUMS, "".join(lines).encode())
        self.zip.close()


class _Entry:
    def __init__(self, file: IO[bytes], name: str, sums: dict[str, str]) -> None:
        self._file, self._name, self._sums = file, name, sums
        self._digest, self._length = hashlib.sha256(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._sums[self._name] = self._digest.hexdigest()

    def write(self, text: bytes) -> None:
        self._length += len(text)
        if self._length > MAX_ENTRY_BYTES:
            raise InputError(
                f"{self._name} would have more than {MAX_ENTRY_BYTES:,} bytes.",
                hint="Export one namespace at a time with --namespace, or add --no-runs.",
            )
        self._digest.update(text)
        self._file.write(text)


async def _write(
    memory: Memory,
    out: _Writer,
    done: Exported,
    kinds: Sequence[RecordKind],
    namespace: str | None,
    licence: str,
    tell: Tell,
) -> None:
    where: Where = {"namespace": namespace} if namespace else {}
    chosen = [kind for kind in KINDS if kind in kinds]
    total = sum([await memory.count(kind, where) for kind in chosen])
    seen = 0
    for kind in KINDS:
        done.counts[kind] = 0
        with out.open(RECORDS[kind]) as entry:
            async for page in _pages(memory, kind, chosen, where):
                text = await asyncio.to_thread(_lines, kind, page, done)
                await asyncio.to_thread(entry.write, text)
                seen += len(page)
                tell("exported", seen, max(total, seen))
    if "tool" in chosen:
        await _write_folders(memory, out, done, where)
    manifest = await memory.manifest()
    head = Head(
        embedding=manifest.embedding if manifest else "",
        dim=manifest.dim if manifest else 0,
        created_at=now(),
        licence=licence,
        namespace=namespace or "",
        counts=done.counts,
    )
    out.put(HEAD, (head.model_dump_json(indent=2) + "\n").encode())
    await asyncio.to_thread(out.end)


async def _pages(
    memory: Memory, kind: RecordKind, chosen: Sequence[RecordKind], where: Where
) -> AsyncIterator[Sequence[AnyRecord]]:
    if kind in chosen:
        async for page in memory.pages(kind, where):
            yield page


def _lines(kind: RecordKind, page: Sequence[AnyRecord], done: Exported) -> bytes:
    """Return the lines of a page, without what no import would take."""
    lines: list[bytes] = []
    for record in page:
        text = json.dumps(payload_of(record), separators=(",", ":")).encode()
        if why := _unfit(kind, record, text):
            done.left_out[record.id] = f"{COLLECTION[kind]}: {why}"
        else:
            lines.append(text + b"\n")
    done.counts[kind] += len(lines)
    return b"".join(lines)


def _unfit(kind: RecordKind, record: AnyRecord, text: bytes) -> str:
    if len(text) > MAX_LINE_BYTES:
        return f"it has {len(text):,} bytes; at most {MAX_LINE_BYTES:,} fit"
    try:
        return read_line(kind, text, str(record.id)).refused
    except InputError as exc:
        return str(exc).partition(": ")[2].rstrip(".")


async def _write_folders(memory: Memory, out: _Writer, done: Exported, where: Where) -> None:
    written: set[str] = set()
    async for page in memory.pages("tool", where):
        for record in page:
            if not isinstance(record, ToolRecord) or record.id in done.left_out:
                continue
            folder = _folder(record)
            if folder in written or len(written) >= MAX_FOLDERS or not has_folder(record):
                continue
            written.add(folder)
            for name, text in files_of(record).items():
                data = text.encode("utf-8", "surrogatepass")
                await asyncio.to_thread(out.put, f"{folder}/{name}", data)


def _folder(record: ToolRecord) -> str:
    space = "" if record.namespace == "default" else f"@{record.namespace}/"
    return f"tools/{space}{record.name}/v{record.version}"
