"""The cells of a sheet: what they hold, and one page of rows of them.

Run inside a box; the program never imports it. Standard library only.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

# As for CSV files, in `tables.py`.
MAX_COLUMNS: Final = 200
CELL_CHARS: Final = 2_000
TYPED_ROWS: Final = 10_000
COUNTED_ROWS: Final = 300_000

COUNT_S: Final = 6.0
"""CPU seconds after which rows beyond the page are no longer counted."""
GIVE_UP_S: Final = 15.0
"""CPU seconds after which the page is no longer searched for."""

REFERENCE: Final = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})", re.ASCII)
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - a workbook knows no time zone
EPOCH_1904: Final = datetime(1904, 1, 1)  # noqa: DTZ001
FALSE_LEAP_DAY: Final = 60
"""Excel holds 1900 for a leap year: numbers before this day are off by one."""


class Cell(NamedTuple):
    """One value."""

    kind: str
    """`integer`, `number`, `date`, `boolean`, `text`, or `shared`: a text known by its number."""
    value: Any


Row = list[Cell | None]


def column_of(reference: str) -> int | None:
    """Return the column of a cell's reference, from 0; None if it is no reference."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        return None
    number = 0
    for letter in match[1].upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def number_cell(text: str) -> Cell:
    """Return a number as it is stored."""
    try:
        if INTEGER.fullmatch(text):
            return Cell("integer", int(text))
        value = float(text)
    except ValueError:
        return Cell("text", text)
    return Cell("number", value) if math.isfinite(value) else Cell("text", text)


def date_cell(number: Cell, *, era_1904: bool) -> Cell:
    """Return what a number shows under a format of dates; the number itself if that is no day."""
    days = number.value
    if number.kind == "text" or days < 0:
        return number
    if not era_1904 and FALSE_LEAP_DAY <= days < FALSE_LEAP_DAY + 1:
        return number
    early = not era_1904 and days < FALSE_LEAP_DAY
    try:
        # Times are stored in binary parts of a day: whole milliseconds are what was meant.
        moment = (EPOCH_1904 if era_1904 else EPOCH) + timedelta(
            days=early, milliseconds=round(days * 86_400_000)
        )
    except OverflowError:
        return number
    if days < 1 and days:
        return Cell("text", moment.time().isoformat())
    if moment.time() == moment.min.time():
        return Cell("date", moment.date().isoformat())
    return Cell("date", moment.isoformat())


class Rows:
    """One page of rows, and what is told of the others: types and how many."""

    def __init__(self, start: int, limit: int, page_chars: int) -> None:
        self._start, self._limit, self._page_chars = start, limit, page_chars
        self._began = time.process_time()
        self._first: Row | None = None
        self._headed = self._full = False
        self._page: list[tuple[int, Row]] = []
        self._cells = self._count = self._width = 0
        self._stopped = self.too_far = False
        self._kinds: list[set[str]] = []

    def enough(self) -> bool:
        """Whether reading on would cost more than it tells."""
        spent = time.process_time() - self._began
        if self._full:
            self._stopped = self._count >= COUNTED_ROWS or spent > COUNT_S
        else:
            self.too_far = self._stopped = spent > GIVE_UP_S
        return self._stopped

    def offer(self, number: int, row: Row) -> None:
        """See the next row that is not blank; `number` is the sheet's own, from 1."""
        if self._first is None:
            self._first = row
            self._headed = not all(cell.kind in {"integer", "number"} for cell in row if cell)
            if self._headed:
                return
        if self._count >= self._start and not self._full:
            self._page.append((number, row))
            self._cells += len(row)
            # A cell takes a character at least, so that no more rows than these can be shown.
            self._full = len(self._page) >= self._limit or self._cells > self._page_chars
        if self._count < TYPED_ROWS:
            while len(self._kinds) < len(row):
                self._kinds.append(set())
            for kinds, cell in zip(self._kinds, row, strict=False):
                if cell is not None:
                    kinds.add(cell.kind)
        self._count += 1

    def wanted(self) -> set[int]:
        """Return the numbers of the shared texts that are shown."""
        shown = [self._first or [], *(row for _, row in self._page)]
        return {cell.value for row in shown for cell in row if cell and cell.kind == "shared"}

    def described(self, texts: dict[int, str]) -> dict[str, object]:
        """Return columns, counts and the rows that fill a page."""
        header = [_shown(cell, texts) for cell in self._first or []] if self._headed else []
        width = max(len(header), len(self._kinds))
        header += [None] * (width - len(header))
        kinds = [*self._kinds, *(set[str]() for _ in range(width - len(self._kinds)))]
        rows: list[list[object]] = []
        chars = 0
        for _, row in self._page:
            shown = [_shown(cell, texts) for cell in row]
            size = len(json.dumps(shown, ensure_ascii=False))
            # The first row is always taken: otherwise no call would ever get past a wide one.
            if rows and chars + size > self._page_chars:
                break
            if size > self._page_chars:
                shown = [_shorten(json.dumps(shown, ensure_ascii=False), self._page_chars)]
            rows.append(shown)
            chars += size
        following = self._start + len(rows)
        goes_on = following < self._count or self._stopped
        return {
            "header": self._headed,
            "columns": [
                {"name": f"column_{i + 1}" if name is None else str(name)[:200], "type": _type(one)}
                for i, (name, one) in enumerate(zip(header, kinds, strict=True))
            ],
            "row_count": self._count,
            "row_count_complete": not self._stopped,
            "start": self._start,
            "next_start": following if goes_on else None,
            "sheet_rows": ", ".join(_ranges([number for number, _ in self._page[: len(rows)]])),
            "rows": rows,
        }


def _type(kinds: set[str]) -> str:
    """Return the first type that fits all cells of a column."""
    if not kinds:
        return "empty"
    if kinds == {"integer", "number"}:
        return "number"
    kind = next(iter(kinds)) if len(kinds) == 1 else "text"
    return "text" if kind == "shared" else kind


def _shown(cell: Cell | None, texts: dict[int, str]) -> object:
    if cell is None:
        return None
    value = texts.get(cell.value, "") if cell.kind == "shared" else cell.value
    return _shorten(value, CELL_CHARS) if isinstance(value, str) else value


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    missing = len(text) - head - tail
    return f"{text[:head]}\n[... {missing:,} characters left out ...]\n{text[-tail:]}"


def _ranges(numbers: list[int]) -> Iterator[str]:
    """Yield `2-5`, `7`."""
    begin = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield f"{numbers[begin]}-{number}" if begin < i else str(number)
            begin = i + 1
