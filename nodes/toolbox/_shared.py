"""What the built-in tools share: cleaning untrusted text, cutting it, and reading arguments."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ...errors import ToolFailure

PAGE_CHARS: Final = 8_000
"""Characters of one answer, so that a single observation cannot fill a small model's context."""

UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but not tab and line feed
    "\u202a-\u202e\u2066-\u2069"  # change the order in which text is shown
    "\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"  # invisible copies of ASCII: text no person can see
)


def clean(text: str) -> str:
    r"""Drop what no reader sees: control characters (not `\n`, `\t`) and their Unicode kin."""
    return UNSEEN.sub("", text)


class Page(NamedTuple):
    """A piece of a longer text."""

    text: str
    next_start: int | None
    """Where the next piece begins; None at the end."""


def cut_page(text: str, *, start: int, limit: int) -> Page:
    """Cut one page, at the end of a line where one ends late in the page.

    Args:
        text: The text from `start` on; one character more than `limit` says that it goes on.
        start: Where `text` begins in the whole.
        limit: Characters of a page, at least 1.
    """
    if len(text) <= limit:
        return Page(clean(text), None)
    piece = text[:limit]
    line_end = piece.rfind("\n", limit * 4 // 5) + 1
    piece = piece[: line_end or limit]
    return Page(clean(piece), start + len(piece))


def shorten(text: str, limit: int = PAGE_CHARS) -> str:
    """Keep the beginning and the end, and say between them how much is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    missing = len(text) - head - tail
    return f"{text[:head]}\n[... {missing:,} characters left out ...]\n{text[-tail:]}"


def text_argument(tool: str, args: Mapping[str, Any], key: str) -> str:
    """Return a text that must be there.

    Raises:
        ToolFailure: If it is missing, blank, or no text.
    """
    value = args.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ToolFailure(tool, f"{key!r} must be a text that is not empty, got {value!r:.100}.")
    return value


def whole_argument(
    tool: str, args: Mapping[str, Any], key: str, *, default: int, low: int, high: int | None = None
) -> int:
    """Return a whole number; a larger one than `high` is taken as `high`.

    Raises:
        ToolFailure: If it is no whole number, or below `low`.
    """
    value = args.get(key)
    if value is None:
        return default
    # Small models write "5" and 5.0 for 5.
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ToolFailure(tool, f"{key!r} must be a whole number from {low}, got {value!r:.100}.")
    return value if high is None else min(value, high)
