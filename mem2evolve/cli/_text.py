"""Text for a terminal: made harmless, cut or wrapped to its width, as many columns wide as it looks."""

import contextlib
import os
import re
import unicodedata
from collections.abc import Iterator
from typing import IO, Any, Final

LABEL: Final = 10
"""Columns of the word before a line of the story."""
NARROWEST: Final = 40
"""A terminal narrower than this is written to as if it had so many columns."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Return text whose control characters are shown, not obeyed; line breaks and tabs stay.

    What models, tools and web pages say must not move the cursor or rename the window.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def visible(text: str) -> str:
    """Return text as `plain` does, with what nobody sees shown too: marks that reorder or hide what is read.

    For code that a person is asked about.
    """
    return "".join(
        f"\\u{ord(char):04x}" if unicodedata.category(char) in ("Cf", "Zl", "Zp") else char
        for char in plain(text)
    )


def one_line(text: str) -> str:
    """Return text on one line, made harmless."""
    return plain(" ".join(text.split()))


def typed(text: str) -> str:
    """Return an argument as it was typed: in a C locale Python takes no UTF-8, and keeps the bytes as surrogates."""
    if not any("\udc80" <= char <= "\udcff" for char in text):
        return text
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        return text


def drop_unwritten(stream: IO[str]) -> None:
    """Give up what a stream cannot write; it would fail again when the program ends, and be its exit code."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def width_of(stream: IO[Any]) -> int | None:
    """Return the columns of the terminal behind a stream, `None` if there is none: a file keeps whole lines."""
    try:
        if not stream.isatty():
            return None
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return max(columns, NARROWEST) if columns else None


def columns(text: str) -> int:
    """Return how many columns a text takes: East Asian ones and emoji two, combining marks none."""
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Fill up with spaces to that many columns."""
    return text + " " * (width - columns(text))


def cut(text: str, width: int | None) -> str:
    """Return text of at most that many columns, with an ellipsis where it was cut."""
    if width is None or columns(text) <= width:
        return text
    return f"{_head(text, max(width - 1, 0))}…"


def _head(text: str, width: int) -> str:
    used = 0
    for n, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:n]
    return text


def wrap(text: str, width: int | None) -> Iterator[str]:
    """Break text at spaces into lines of at most that many columns; a longer word is broken anywhere."""
    if width is None:
        yield text
        return
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if columns(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        line = word
        while columns(line) > width:
            head = _head(line, width) or line[0]
            yield head
            line = line[len(head) :]
    yield line


def hang(text: str, stream: IO[Any], indent: int = LABEL) -> str:
    """Return text wrapped to the terminal behind a stream, further lines below where the first begins.

    Args:
        text: One line, or several.
        stream: Where it will be written.
        indent: Columns that stand before the first line.
    """
    width = width_of(stream)
    room = None if width is None else max(width - indent - 1, NARROWEST // 2)
    lines = (part for line in text.splitlines() for part in wrap(line, room))
    return f"\n{' ' * indent}".join(lines)
