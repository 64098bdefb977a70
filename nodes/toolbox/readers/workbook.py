"""An XLSX workbook: its parts, sheets, styles and texts.

Run inside a box; the program never imports it. Standard library only. Nothing is unpacked to disk: a
part is read as a stream, by its name in the archive, and only as far as needed.
"""

from __future__ import annotations

import os
import posixpath
import re
import zipfile
from collections.abc import Callable
from typing import Final
from xml.parsers import expat

MAX_PARTS: Final = 10_000
MAX_UNPACKED: Final = 512 << 20
"""Bytes of all parts that are read."""
MAX_RATIO: Final = 200
"""Unpacked bytes per byte of the file, beyond `FREE_BYTES`; deflate itself reaches 1,000."""
FREE_BYTES: Final = 16 << 20
CHUNK: Final = 64 << 10
MAX_SHEETS: Final = 100
KEPT_CHARS: Final = 40_000
"""Of one cell; Excel itself stops at 32,767."""

ESCAPE: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
LITERAL: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
"""What a number format shows as it stands, and its colours and conditions."""
ELAPSED: Final = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
DATE_FORMATS: Final = {*range(14, 23), *range(27, 37), *range(50, 59)}
"""Built into Excel; 45 to 47 are durations."""


class Refused(Exception):
    """Why the file is not read; shown as it is."""


class NotAWorkbook(Exception):
    """The archive is something else."""


class Package:
    """The parts of the file, by name. Names are looked up and never used as paths."""

    def __init__(self, path: str) -> None:
        self._zip = zipfile.ZipFile(path)
        infos = self._zip.infolist()
        if len(infos) > MAX_PARTS:
            raise Refused(f"it has {len(infos):,} parts; at most {MAX_PARTS:,} are read")
        self._infos = {info.filename.lower(): info for info in infos}
        self._most = min(MAX_UNPACKED, max(FREE_BYTES, MAX_RATIO * os.stat(path).st_size))  # noqa: PTH116
        self._read = 0

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return part.lower() in self._infos

    def parse(
        self,
        part: str,
        start: Callable[[str, dict[str, str]], None],
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
        enough: Callable[[], bool] = bool,
    ) -> None:
        """Stream a part's elements, named without their namespace, until there is enough."""
        info = self._infos.get(part.lower())
        if info is None:
            raise Refused(f"its part {part!r:.100} is missing")
        if info.flag_bits & 1:
            raise Refused("it is protected by a password")
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        # Entities are declared in a document type, and no workbook has one.
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = lambda name, attrs: start(_local(name), attrs)
        if end is not None:
            parser.EndElementHandler = lambda name: end(_local(name))
        if text is not None:
            parser.CharacterDataHandler = text
        with self._zip.open(info) as file:
            while not enough():
                data = file.read(CHUNK)
                self._read += len(data)
                if self._read > self._most:
                    raise Refused(f"it unpacks to more than {self._most >> 20} MB")
                parser.Parse(data, not data)
                if not data:
                    return

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the type and the part of each relation of a part, by id."""
        folder, _, name = part.rpartition("/")
        listed = posixpath.join(folder, "_rels", f"{name}.rels")
        found: dict[str, tuple[str, str]] = {}

        def start(element: str, attrs: dict[str, str]) -> None:
            if element == "Relationship" and attrs.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, attrs.get("Target", "")))
                kind = attrs.get("Type", "").rpartition("/")[2]
                found[attrs.get("Id", "")] = (kind, target.lstrip("/"))

        if self.has(listed):
            self.parse(listed, start)
        return found


def _refuse_doctype(*_: object) -> None:
    raise Refused("its XML declares a document type, as only an attack does")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


class Book:
    """The workbook: its sheets, styles and texts."""

    def __init__(self, package: Package) -> None:
        self._package = package
        main = [part for kind, part in package.relations("").values() if kind == "officeDocument"]
        if not main:
            raise NotAWorkbook
        if main[0].endswith(".bin"):
            raise Refused("it is a binary workbook (XLSB)")
        self.era_1904 = False
        self.sheets: list[tuple[str, str]] = []
        """Name and part."""
        self._relations = package.relations(main[0])
        self._root = ""
        package.parse(main[0], self._start)
        if self._root != "workbook":
            raise NotAWorkbook
        if not self.sheets:
            raise Refused("it has no sheet with cells")

    def _start(self, element: str, attrs: dict[str, str]) -> None:
        self._root = self._root or element
        if element == "workbookPr":
            self.era_1904 = attrs.get("date1904") in {"1", "true"}
        elif element == "sheet":
            ids = {_local(name): value for name, value in attrs.items() if " " in name}
            kind, part = self._relations.get(ids.get("id", ""), ("", ""))
            if kind == "worksheet":
                self.sheets.append((attrs.get("name", ""), part))

    def choose(self, wanted: str | None) -> tuple[str, str]:
        """Return the sheet of that name or number from 1; without one, the first."""
        if not wanted:
            return self.sheets[0]
        key = wanted.strip().casefold()
        named = [one for one in self.sheets if one[0] == wanted]
        named += [one for one in self.sheets if one[0].strip().casefold() == key]
        if key.isdecimal() and 0 < int(key[:9]) <= len(self.sheets):
            named.append(self.sheets[int(key[:9]) - 1])
        if not named:
            known = ", ".join(repr(name)[:100] for name, _ in self.sheets[:MAX_SHEETS])
            raise Refused(f"it has no sheet {wanted!r:.100}; its sheets are: {known}")
        return named[0]

    def _part(self, wanted: str) -> str | None:
        parts = [part for kind, part in self._relations.values() if kind == wanted]
        return parts[0] if parts and self._package.has(parts[0]) else None

    def date_styles(self) -> set[int]:
        """Return the numbers of the cell styles that show a number as a date or a time."""
        codes: dict[str, str] = {}
        formats: list[str] = []
        inside = ""

        def start(element: str, attrs: dict[str, str]) -> None:
            nonlocal inside
            if element == "numFmt":
                codes[attrs.get("numFmtId", "")] = attrs.get("formatCode", "")
            elif element in {"cellXfs", "cellStyleXfs", "cellStyles"}:
                inside = element
            elif element == "xf" and inside == "cellXfs":
                formats.append(attrs.get("numFmtId", "0"))

        part = self._part("styles")
        if part is not None:
            self._package.parse(part, start)
        return {i for i, one in enumerate(formats) if _shows_date(one, codes.get(one))}

    def texts(self, wanted: set[int]) -> dict[int, str]:
        """Return shared texts by their numbers, in one pass that keeps no others."""
        found: dict[int, str] = {}
        part = self._part("sharedStrings")
        if part is None or not wanted:
            return found
        last, index = max(wanted), -1
        text = Text()

        def start(element: str, _: dict[str, str]) -> None:
            nonlocal index
            if element == "si":
                index += 1
                text.clear()
            text.enter(element)

        def end(element: str) -> None:
            text.leave(element)
            if element == "si" and index in wanted:
                found[index] = text.whole()

        self._package.parse(part, start, end, text.add, lambda: index > last)
        return found


def _shows_date(number: str, code: str | None) -> bool:
    if code is None:
        return number.isdecimal() and int(number[:9]) in DATE_FORMATS
    if ELAPSED.search(code):  # a duration is no date: its number, in days, says more
        return False
    shown = LITERAL.sub("", code.partition(";")[0]).casefold()
    return "general" not in shown and any(letter in shown for letter in "dmyhs")


class Text:
    """What the `t` elements of one cell hold, without the phonetic help for readers."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._kept = 0
        self._inside = self._aloud = False

    def clear(self) -> None:
        """Begin anew."""
        self._pieces, self._kept = [], 0
        self._inside = self._aloud = False

    def enter(self, element: str) -> None:
        """See an element begin."""
        self._aloud = self._aloud or element == "rPh"
        self._inside = element == "t" and not self._aloud

    def leave(self, element: str) -> None:
        """See an element end."""
        self._inside = False
        self._aloud = self._aloud and element != "rPh"

    def add(self, piece: str) -> None:
        """Take a piece, if it belongs to the text."""
        if self._inside and self._kept < KEPT_CHARS:
            self._pieces.append(piece)
            self._kept += len(piece)

    def whole(self) -> str:
        """Return the text, with the characters that XML cannot hold put back."""
        return ESCAPE.sub(lambda match: chr(int(match[1], 16)), "".join(self._pieces))
