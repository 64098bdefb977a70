"""A zip file from a stranger, read entry by entry and never unpacked to the disk."""

import contextlib
import hashlib
import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from ...errors import InputError
from .form import (
    FOLDER_ENTRY,
    HEAD,
    MAX_BUNDLE_BYTES,
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_HEAD_BYTES,
    MAX_LINE_BYTES,
    MAX_SMALL_BYTES,
    MAX_TOTAL_BYTES,
    NEEDED,
    RECORDS,
    SUMS,
    refuse,
)

CHUNK: Final = 64 << 10
MAX_RATIO: Final = 200
"""Unpacked by packed bytes of an entry. Deflate reaches 1,032; near copies of one text some 50."""
FREE_BYTES: Final = 16 << 20
"""Of an entry, to which the ratio does not apply."""
MAX_DIRECTORY_BYTES: Final = 8 << 20
"""Of the list of entries, which the reader takes into memory as a whole."""
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError),
    *(OverflowError, IndexError),
)
"""What the standard library raises for a file that is none, or a cut or forged one."""
_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")


class _Bounded(io.FileIO):
    """A file of which nothing is read in one piece that is larger than a list of entries may be."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"the list of entries has {size:,} bytes")
        return super().read(-1 if size is None else size)


class Archive:
    """The entries of a bundle. Opening it checks their names, kinds and number; reading, their size.

    All methods block.

    Args:
        path: The file.

    Raises:
        InputError: (from any method, as the rest) If it is not what a bundle may be.
        OSError: If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            refuse(str(path), "there is no such file", "Name a file that `memory export` wrote.")
        size = path.stat().st_size
        if size > MAX_BUNDLE_BYTES:
            self._refuse(f"it has {size:,} bytes, a bundle at most {MAX_BUNDLE_BYTES:,}")
        self._file = _Bounded(path, "rb")
        try:
            with self._faults():
                self._zip = zipfile.ZipFile(self._file)
            self._entries = self._checked(size)
        except BaseException:
            self._file.close()
            raise
        self.unpacked = 0
        """Bytes that were read so far, all entries together."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        """Names of the entries, as they lie in the file."""
        return list(self._entries)

    def where(self, name: str, line: int = 0) -> str:
        """Return how messages call an entry, or a line of it."""
        return f"{self.path.name}, {name}" + (f", line {line}" if line else "")

    def read(self, name: str) -> bytes:
        """Return a small entry."""
        return b"".join(self.chunks(name))

    def sums(self, text: bytes, where: str) -> dict[str, str]:
        """Return the SHA-256 of each entry, as the list of them says, after comparing the names."""
        found: dict[str, str] = {}
        for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
            match = _SUM.fullmatch(line)
            if match is None or match[2] in found:
                refuse(f"{where}, line {number}", "it is no SHA-256 and the name of one entry")
            found[match[2]] = match[1]
        for name in self._entries:
            if name not in found and name != SUMS:
                refuse(where, f"the entry {name!r} is not in it")
        for name in found:
            if name not in self._entries:
                refuse(where, f"the entry {name[:100]!r}, which it names, is missing")
        return found

    def lines(self, name: str, digest: "hashlib._Hash | None" = None) -> Iterator[bytes]:
        """Yield the lines of an entry without their ends.

        Args:
            name: The entry.
            digest: Is fed with every byte.
        """
        number, pieces, length = 1, [], 0
        for chunk in self.chunks(name, digest):
            first, *others = chunk.split(b"\n")
            pieces.append(first)
            length += len(first)
            for other in others:
                yield b"".join(pieces)
                number, pieces, length = number + 1, [other], len(other)
            if length > MAX_LINE_BYTES:
                refuse(
                    self.where(name, number),
                    f"it has more than {MAX_LINE_BYTES:,} bytes, which no record may have",
                )
        if length:
            refuse(self.where(name, number), "the entry ends in the middle of it")

    def chunks(self, name: str, digest: "hashlib._Hash | None" = None) -> Iterator[bytes]:
        """Yield an entry piece by piece; what is unpacked is counted, whatever the headers say."""
        entry, unpacked = self._entries[name], 0
        limit = _limit(name)
        with self._faults(name), self._zip.open(entry) as file:
            while chunk := file.read(CHUNK):
                unpacked += len(chunk)
                self.unpacked += len(chunk)
                if unpacked > limit or self.unpacked > MAX_TOTAL_BYTES:
                    self._refuse(f"the entry {name!r} unpacks to more than {limit:,} bytes")
                if unpacked > FREE_BYTES + MAX_RATIO * entry.compress_size:
                    self._refuse(f"the entry {name!r} unpacks to over {MAX_RATIO} times its size")
                if digest is not None:
                    digest.update(chunk)
                yield chunk

    def _checked(self, size: int) -> dict[str, zipfile.ZipInfo]:
        entries = self._zip.infolist()
        if len(entries) > MAX_ENTRIES:
            self._refuse(f"it has {len(entries):,} entries, a bundle at most {MAX_ENTRIES:,}")
        found: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            if fault := _fault(entry):
                self._refuse(f"the entry {entry.filename[:100]!r} {fault}")
            if entry.filename in found:
                self._refuse(f"the entry {entry.filename!r} is there twice")
            found[entry.filename] = entry
        if sum(entry.compress_size for entry in entries) > size:
            self._refuse("its entries overlap")
        if missing := sorted(NEEDED - set(found)):
            self._refuse(f"the entry {missing[0]!r} is missing: it is no bundle, or cut")
        return found

    def _refuse(self, why: str) -> None:
        refuse(self.path.name, why)

    @contextlib.contextmanager
    def _faults(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except _BROKEN as exc:
            what = f"the entry {name!r} is damaged" if name else "it is no zip file, or a cut one"
            said = " ".join(str(exc).split())[:160] or type(exc).__name__
            raise InputError(
                f"{self.path.name}: {what} ({said}).",
                hint="Nothing was changed. Get the bundle again from where it was made.",
            ) from exc


def _limit(name: str) -> int:
    if name in RECORDS.values():
        return MAX_ENTRY_BYTES
    return MAX_HEAD_BYTES if name == HEAD else MAX_SMALL_BYTES


def _fault(entry: zipfile.ZipInfo) -> str:
    """Say why an entry has no place in a bundle; empty if it has."""
    name, mode = entry.orig_filename, entry.external_attr >> 16
    outside = name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or ":" in name
    faults = {
        "is encrypted": entry.flag_bits & _ENCRYPTED,
        "is a symbolic link": stat.S_ISLNK(mode),
        "leads outside": outside,
        "is no regular file": stat.S_IFMT(mode) not in (0, stat.S_IFREG) or entry.is_dir(),
        "does not belong into a bundle": name not in NEEDED and not FOLDER_ENTRY.fullmatch(name),
        "is packed in a way that is not read here": entry.compress_type not in _PACKED,
        f"says that it has {entry.file_size:,} bytes": entry.file_size > _limit(name),
    }
    return next((why for why, wrong in faults.items() if wrong), "")
