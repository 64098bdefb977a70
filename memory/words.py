"""What a lesson's texts may be, whoever wrote them: a model, a person, or somebody elsewhere."""

import re
from typing import Final

LESSON_CHARS: Final = {
    "title": 200,
    "description": 1000,
    "applies_when": 1000,
    "knowledge": 2000,
}
"""Most characters of each text."""
SOURCE_CHARS: Final = 300
"""Of the task, or the wanted card, that taught a lesson, kept with it."""
HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control characters, marks that reorder what is read, lone surrogates, and letters that only a model sees.

Joiners (U+200C, U+200D) stay: several scripts and emoji are written with them."""


def unseen(text: str) -> str:
    """Name the first character that a reader does not see, as `U+202E`; empty when there is none."""
    found = HIDDEN.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""
