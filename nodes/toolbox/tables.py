"""CSV files: columns with their types, how many rows there are, and one page of the rows."""

import csv
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final, TextIO

from pydantic import JsonValue

from ._shared import PAGE_CHARS, clean, shorten

DELIMITERS: Final = ",;\t|"
SAMPLE_CHARS: Final = 16_384
SAMPLE_ROWS: Final = 20
TYPED_ROWS: Final = 10_000
"""Rows from which the types of the columns are told."""
COUNTED_ROWS: Final = 300_000
"""Counting stops here, so that a huge file does not keep the agent waiting."""
MAX_COLUMNS: Final = 200
CELL_CHARS: Final = 2_000

INTEGER: Final = re.compile(r"[+-]?\d{1,300}", re.ASCII)
NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DATE: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
)
BOOLEAN: Final = re.compile(r"true|false|yes|no", re.IGNORECASE)
TYPES: Final = (("integer", INTEGER), ("number", NUMBER), ("date", DATE), ("boolean", BOOLEAN))
"""Tried in this order; a column is of the first type that fits all its cells."""


class NotATable(Exception):
    """The file does not read as CSV."""


def read_table(
    file: TextIO, *, start: int, limit: int | None, tab: bool = False
) -> dict[str, JsonValue]:
    """Read one page of rows, and enough of the rest to describe it.

    Args:
        file: At its beginning, opened with `newline=""`.
        start: First row to return, from 0; the header is no row.
        limit: At most so many rows; fewer if they would fill more than `PAGE_CHARS`.
        tab: Whether the delimiter is known to be the tab.

    Raises:
        NotATable: If it cannot be read as CSV, or has too many columns to describe.
    """
    delimiter = "\t" if tab else _delimiter(file.read(SAMPLE_CHARS))
    file.seek(0)
    rows = _rows(file, delimiter)
    first = next(rows, [])
    if len(first) > MAX_COLUMNS:
        raise NotATable(f"{len(first)} columns")
    headed = not (first and all(NUMBER.fullmatch(cell.strip()) for cell in first))
    names = first if headed else [f"column_{i + 1}" for i in range(len(first))]
    pending = [] if headed else [first]
    columns = _Columns(len(names))
    page = _RowPage(start, limit)
    count, complete = 0, True
    for row in chain(pending, rows):
        if count >= COUNTED_ROWS and page.full:
            complete = False
            break
        page.offer(count, row)
        if count < TYPED_ROWS:
            columns.see(row)
        count += 1
    return {
        "delimiter": delimiter,
        "header": headed,
        "columns": [
            {"name": clean(name)[:200], "type": kind}
            for name, kind in zip(names, columns.types(), strict=True)
        ],
        "row_count": count,
        "row_count_complete": complete,
        "start": start,
        "next_start": page.next_start,
        "rows": [*page.rows],
    }


class _Columns:
    """The types that still fit what each column held."""

    def __init__(self, count: int) -> None:
        self._fitting = [list(TYPES) for _ in range(count)]
        self._seen = [False] * count

    def see(self, row: list[str]) -> None:
        for index, cell in enumerate(row[: len(self._seen)]):
            text = cell.strip()
            if text:
                self._seen[index] = True
                self._fitting[index] = [k for k in self._fitting[index] if k[1].fullmatch(text)]

    def types(self) -> list[str]:
        return [
            "empty" if not seen else fitting[0][0] if fitting else "text"
            for seen, fitting in zip(self._seen, self._fitting, strict=True)
        ]


class _RowPage:
    """Rows from `start` on, until there are enough or they fill a page."""

    def __init__(self, start: int, limit: int | None) -> None:
        self.rows: list[JsonValue] = []
        self.full = False
        self.next_start: int | None = None
        self._start, self._limit, self._chars = start, limit, 0

    def offer(self, index: int, row: list[str]) -> None:
        if index < self._start or self.full:
            return
        cells: list[JsonValue] = [shorten(clean(cell), CELL_CHARS) for cell in row]
        size = len(json.dumps(cells, ensure_ascii=False))
        # The first row is always taken: otherwise no call would ever get past a wide one.
        too_many = self._limit is not None and len(self.rows) >= self._limit
        if too_many or (self.rows and self._chars + size > PAGE_CHARS):
            self.full, self.next_start = True, index
            return
        if size > PAGE_CHARS:
            cells = [shorten(json.dumps(cells, ensure_ascii=False))]
        self.rows.append(cells)
        self._chars += size


def _rows(file: TextIO, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows that are not blank.

    Raises:
        NotATable: Where the CSV reader gives up.
    """
    try:
        yield from filter(None, csv.reader(file, delimiter=delimiter))
    except csv.Error as exc:
        raise NotATable(str(exc)) from exc


def _delimiter(sample: str) -> str:
    """Return the delimiter that cuts the most columns out of every line of the sample."""
    lines = sample.splitlines()[:SAMPLE_ROWS]
    if len(sample) == SAMPLE_CHARS and len(lines) > 1:
        lines.pop()  # may be half a line

    def columns(delimiter: str) -> int:
        try:
            return min(
                (len(row) for row in csv.reader(lines, delimiter=delimiter) if row), default=1
            )
        except csv.Error:
            return 0

    return max(DELIMITERS, key=columns)
