"""Reading a bundle: all of it is checked before any of it is used."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from ..records import RunRecord
from ..rows import RECORD_TYPE, AnyRecord, RecordKind
from .archive import Archive
from .form import HEAD, KINDS, MAX_RECORDS, RECORDS, SUMS, Head, first_fault, read_head, refuse
from .policy import objection
from .strict import Unfit, read_object

TOLD_EVERY: Final = 500
"""Records between two reports of how far the check is."""

Tell = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One record of a bundle."""

    where: str
    """Entry and line, for messages."""
    record: AnyRecord
    refused: str
    """Why it is not taken; empty when it is."""


class Bundle:
    """A bundle that was checked: hashes, sizes, JSON, records and their ids.

    Nothing of it is written to the disk, and nothing in its `tools/` is read but to compare the hash.

    Args:
        path: The file.
        tell: See `Tell`.

    Raises:
        InputError: If it is no bundle, or one that was changed, cut or forged.
        OSError: If it cannot be read.
    """

    def __init__(self, path: Path, tell: Tell = lambda *_: None) -> None:
        self._archive = Archive(path)
        try:
            text = self._archive.read(SUMS)
            self._sums = self._archive.sums(text, self._archive.where(SUMS))
            self.sha256 = hashlib.sha256(text).hexdigest()
            """Of the list of hashes: names the bundle, whatever its file is called."""
            head = self._checked(HEAD, b"".join)
            self.head: Head = read_head(head, self._archive.where(HEAD))
            self._check_records(tell)
            for name in self._archive.names:
                if name not in (SUMS, HEAD, *RECORDS.values()):
                    self._checked(name, lambda chunks: sum(map(len, chunks)))
            self.unpacked: int = self._archive.unpacked
            """Bytes of all entries, unpacked."""
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def lines(self, kind: RecordKind) -> Iterator[Line]:
        """Yield the records of a kind, each checked again; blocks."""
        self._archive.unpacked = 0
        name = RECORDS[kind]
        for number, text in enumerate(self._archive.lines(name), 1):
            yield read_line(kind, text, self._archive.where(name, number))

    def _check_records(self, tell: Tell) -> None:
        total = sum(self.head.counts.get(kind, 0) for kind in KINDS)
        done = 0
        for kind in KINDS:
            name, ids = RECORDS[kind], set[str]()
            digest = hashlib.sha256()
            for number, text in enumerate(self._archive.lines(name, digest), 1):
                where = self._archive.where(name, number)
                if number > MAX_RECORDS:
                    refuse(where, f"a bundle has at most {MAX_RECORDS:,} records of a kind")
                key = read_line(kind, text, where).record.id
                if key in ids:
                    refuse(where, f"the record {key} is there twice")
                ids.add(key)
                done += 1
                if done % TOLD_EVERY == 0:
                    tell("checked", done, max(total, done))
            self._compare(name, digest.hexdigest())
            if (said := self.head.counts.get(kind, 0)) != len(ids):
                refuse(
                    self._archive.where(name), f"it has {len(ids):,} records, {HEAD} says {said:,}"
                )

    def _checked(self, name: str, use: Callable[[Iterator[bytes]], Any]) -> Any:
        digest = hashlib.sha256()
        made = use(self._archive.chunks(name, digest))
        self._compare(name, digest.hexdigest())
        return made

    def _compare(self, name: str, found: str) -> None:
        if found != self._sums[name]:
            refuse(
                self._archive.where(name),
                f"its SHA-256 is {found[:12]}…, {SUMS} says {self._sums[name][:12]}…",
            )


def read_line(kind: RecordKind, text: bytes, where: str) -> Line:
    """Read one record.

    Raises:
        InputError: If it is none, or its id is not that of its content.
    """
    try:
        data = read_object(text)
    except Unfit as exc:
        refuse(where, str(exc))
    said = data.get("id")
    try:
        fields = {key: value for key, value in data.items() if kind == "run" or key != "id"}
        record = RECORD_TYPE[kind].model_validate(fields)
    except ValidationError as exc:
        refuse(where, f"it is no {kind} of this program: {first_fault(exc)}")
    if not isinstance(record, RunRecord) and said != record.id:
        refuse(where, f"its id is {said!r:.60}, its content has {record.id}")
    return Line(where=where, record=record, refused=objection(record))
