"""Reads what models write: JSON among prose, fenced code, truncated and echoed replies."""

import json
import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)

_FENCE: Final = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\r?\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_THOUGHTS: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class Unusable(ValueError):
    """A reply does not fit. The text says why, in words for the model."""


def without_thoughts(text: str) -> str:
    """Drop `<think>` blocks that some models put before their reply."""
    text = _THOUGHTS.sub("", whole(text))
    return text.rsplit("</think>", 1)[-1].strip()


def whole(text: str) -> str:
    """Replace halves of surrogate pairs, which no file, database or request can hold."""
    return text.encode("utf-8", "replace").decode()


def parse_json(text: str, shape: type[T], *, cut: bool = False) -> T:
    """Read the one JSON value in `text` as `shape`.

    The value may stand in a code fence or among prose.

    Args:
        text: The reply.
        shape: What it must be.
        cut: Whether the reply was ended by the token limit.

    Raises:
        Unusable: If there is no such value; says why.
    """
    reasons: list[str] = []
    for value in _candidates(without_thoughts(text)):
        if (
            isinstance(value, dict)
            and "properties" in value
            and "properties" not in shape.model_fields
        ):
            reasons.append("it repeats the schema instead of filling it in")
            continue
        try:
            return shape.model_validate(value)
        except ValidationError as exc:
            reasons.append(_explain(exc))
    if cut:
        raise Unusable("it was cut off at the token limit; make it shorter")
    raise Unusable(reasons[0] if reasons else "it holds no JSON object")


def extract_code(text: str) -> str:
    """Return the Python source in a reply: its longest fenced block, or the whole text without fences."""
    text = without_thoughts(text)
    blocks = [
        body
        for language, body in _FENCE.findall(text)
        if language.lower() in ("", "python", "py", "python3")
    ]
    return (max(blocks, key=len) if blocks else text).strip() + "\n"


def _candidates(text: str) -> list[Any]:
    """Return the JSON values that could be meant: the whole text, fenced blocks, then the outermost objects."""
    found: list[Any] = []
    for piece in (text, *(body for _, body in _FENCE.findall(text))):
        try:
            found.append(_sound(_DECODER.decode(piece)))
        except (ValueError, RecursionError):
            continue
    if found:
        return found
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
            value = _sound(value)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        found.append(value)
        at = text.find("{", end)
    return found


def _sound(value: Any) -> Any:
    """Replace halves of surrogate pairs, which JSON can escape, in every string of the value."""
    return json.loads(whole(json.dumps(value, ensure_ascii=False)))


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
"""Refuses NaN and infinities, which are not JSON and which no tool could be given."""


def _explain(exc: ValidationError) -> str:
    first = exc.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the value"
    return f"{where}: {first['msg']}"
