"""Reads one page of rows of an XLSX workbook.

Run inside a box, where the modules lie side by side; the program never imports it.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING
from xml.parsers import expat

if TYPE_CHECKING:
    from .cells import MAX_COLUMNS, Cell, Row, Rows, column_of, date_cell, number_cell
    from .workbook import KEPT_CHARS, MAX_SHEETS, Book, NotAWorkbook, Package, Refused, Text
else:
    from cells import MAX_COLUMNS, Cell, Row, Rows, column_of, date_cell, number_cell
    from workbook import KEPT_CHARS, MAX_SHEETS, Book, NotAWorkbook, Package, Refused, Text


def read(
    path: str, start: int, limit: int, page_chars: int, sheet: str | None = None
) -> dict[str, object]:
    """Read one page of one sheet, and enough of the rest to describe it."""
    try:
        package = Package(path)
        book = Book(package)
        name, part = book.choose(sheet)
        rows = Rows(start, limit, page_chars)
        reader = SheetReader(rows, book.date_styles(), era_1904=book.era_1904)
        package.parse(part, reader.start, reader.end, reader.text, rows.enough)
        if rows.too_far:
            raise Refused(f"row {start} lies too far down to be reached in time")
        return {
            "kind": "xlsx",
            "sheets": [one[:100] for one, _ in book.sheets[:MAX_SHEETS]],
            "sheet": name[:100],
            **rows.described(book.texts(rows.wanted())),
            "columns_left_out": reader.wide,
            "formulas_without_value": reader.empty_formulas,
        }
    except NotAWorkbook:
        return {"kind": "other"}
    except expat.ExpatError as exc:
        raise Refused(f"its XML is damaged ({exc})") from exc
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as exc:
        raise Refused(f"the archive is damaged ({exc})") from exc
    except (NotImplementedError, RuntimeError) as exc:
        raise Refused(f"the archive cannot be unpacked ({exc})") from exc


class SheetReader:
    """Turns the elements of a sheet into rows of cells."""

    def __init__(self, rows: Rows, date_styles: set[int], *, era_1904: bool) -> None:
        self.wide = False
        """Whether there are cells beyond the columns that are shown."""
        self.empty_formulas = 0
        """Formulas of the sheet, as far as it was read, whose value was never stored."""
        self._rows, self._date_styles, self._era_1904 = rows, date_styles, era_1904
        self._number = 0
        """Of the row, from 1."""
        self._row: Row = []
        self._column = -1
        self._attrs: dict[str, str] = {}
        self._value: list[str] = []
        self._kept = 0
        self._in_value = self._formula = False
        self._inline = Text()

    def start(self, element: str, attrs: dict[str, str]) -> None:
        """See an element begin."""
        if element == "c":
            column = column_of(attrs.get("r", ""))
            self._column = self._column + 1 if column is None else column
            self._attrs = attrs
            self._value.clear()
            self._inline.clear()
            self._kept = 0
            self._formula = False
        elif element == "row":
            given = attrs.get("r", "")
            self._number = int(given[:9]) if given.isdecimal() else self._number + 1
            self._row, self._column = [], -1
        elif element == "f":
            self._formula = True
        self._in_value = element == "v"
        self._inline.enter(element)

    def text(self, piece: str) -> None:
        """Take a piece of what an element holds."""
        if self._in_value and self._kept < KEPT_CHARS:
            self._value.append(piece)
            self._kept += len(piece)
        self._inline.add(piece)

    def end(self, element: str) -> None:
        """See an element end."""
        self._in_value = False
        self._inline.leave(element)
        if element == "c":
            self._place(self._cell())
        elif element == "row" and any(self._row):
            self._rows.offer(self._number, self._row)
            self._row = []

    def _place(self, cell: Cell | None) -> None:
        if cell is None:
            self.empty_formulas += self._formula
        elif self._column >= MAX_COLUMNS:
            self.wide = True
        else:
            self._row += [None] * (self._column + 1 - len(self._row))
            self._row[self._column] = cell

    def _cell(self) -> Cell | None:
        kind, text = self._attrs.get("t", "n"), "".join(self._value)
        if kind == "inlineStr":
            text = self._inline.whole()
        if not text.strip():
            return None
        if kind == "n":
            return self._number_cell(text.strip())
        if kind == "s":
            return Cell("shared", int(text[:9])) if text.isdecimal() else None
        if kind == "b":
            return Cell("boolean", text.strip() in {"1", "true"})
        # The text of a formula, or an error such as #DIV/0!
        return Cell("date" if kind == "d" else "text", text)

    def _number_cell(self, text: str) -> Cell:
        number, style = number_cell(text), self._attrs.get("s", "")
        if style.isdecimal() and int(style[:9]) in self._date_styles:
            return date_cell(number, era_1904=self._era_1904)
        return number
