"""Reads the text of a PDF document, from one page on. Needs `pypdf` on the path.

Run inside a box; the program never imports it.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

ENOUGH_S: Final = 5.0
"""CPU seconds after which no further page is begun."""
MAX_META_CHARS: Final = 200


class Refused(Exception):
    """Why the file is not read; shown as it is."""


def read(path: str, start: int, limit: int, page_chars: int, page: int) -> dict[str, object]:
    """Read pages from `page` (from 1) on, its characters from `start`, until `limit` characters."""
    with open(path, "rb") as file:  # noqa: PTH123 - a box need not load `pathlib`
        reader = _opened(PdfReader(file))
        try:
            count = len(reader.pages)
        except (PyPdfError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
            raise Refused(f"it is damaged ({type(exc).__name__}: {exc})") from exc
        if not count:
            raise Refused("it has no pages")
        if page > count:
            raise Refused(f"it has {count} pages, so there is no page {page}")
        found: dict[str, object] = {"kind": "pdf", "page_count": count, **_about(reader)}
        return found | _pages(reader, count, page, start, min(limit, page_chars))


def _pages(reader: PdfReader, count: int, page: int, start: int, limit: int) -> dict[str, object]:
    pieces: list[str] = []
    left, unread, empty, first = limit, [], [], page
    following: tuple[int, int] | None = None
    while page <= count:
        if left <= 0 or (pieces and time.process_time() > ENOUGH_S):
            following = (page, 0)
            break
        try:
            text = reader.pages[page - 1].extract_text()
        except Exception as exc:  # noqa: BLE001 - one damaged page does not hide the others
            unread.append(f"{page} ({type(exc).__name__}: {exc})"[:200])
            text = ""
        else:
            if not text.strip():
                empty.append(page)
        text = text[start:]
        head = f"[page {page}]\n"
        if pieces and len(head) + len(text) > left:
            following = (page, 0)
            break
        if len(text) > left:  # the first page of this answer, longer than an answer
            end = text.rfind("\n", left * 4 // 5, left) + 1 or left
            pieces.append(f"{head}{text[:end]}\n")
            following = (page, start + end)
            page += 1
            break
        pieces.append(f"{head}{text}\n")
        left -= len(head) + len(text) + 1
        page, start = page + 1, 0
    return {
        "page": first,
        "last_page": page - 1,
        "next_page": following[0] if following else None,
        "next_start": following[1] if following else None,
        "pages_without_text": empty,
        "pages_not_read": unread[:20],
        "text": "".join(pieces),
    }


def _opened(reader: PdfReader) -> PdfReader:
    """Open what needs no password, or only the empty one."""
    if reader.is_encrypted:
        try:
            opened = reader.decrypt("")
        except (DependencyError, NotImplementedError) as exc:
            raise Refused("it is encrypted") from exc
        if not opened:
            raise Refused("it is protected by a password")
    return reader


def _about(reader: PdfReader) -> dict[str, object]:
    found: dict[str, object] = {}
    with contextlib.suppress(Exception):  # of no account beside the text
        for name, value in (reader.metadata or {}).items():
            if name in {"/Title", "/Author"} and str(value).strip():
                found[name[1:].lower()] = str(value)[:MAX_META_CHARS]
    return found
