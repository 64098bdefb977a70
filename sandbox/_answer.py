"""Reading what the box says, none of which is believed before it is checked."""

import json
import math
import signal
from collections.abc import Mapping
from typing import Any, Final, Literal

from .base import Limits, Outcome

MARKER_BYTES: Final = 32
SIZE_DIGITS: Final = 10
HEADER_BYTES: Final = MARKER_BYTES + SIZE_DIGITS
"""Before the JSON of an answer: the marker of the call and how many bytes follow."""
MAX_NAME_CHARS: Final = 200
MAX_NAMES: Final = 10
MAX_ERROR_CHARS: Final = 2_000
MAX_TRACEBACK_CHARS: Final = 4_000
MAX_DEPTH: Final = 100
"""Lists and dicts inside one another. The box says so too; this is the check that counts."""

Claim = Literal["ok", "raised", "bad_result", "no_function"]
CLAIMS: Final[dict[str, Claim]] = {
    "ok": "ok",
    "raised": "raised",
    "bad_result": "bad_result",
    "no_function": "no_function",
}
"""What a tool's process may say of itself. The rest is seen from outside."""


class _NotStrict(ValueError):
    """The document is not what our own encoder writes."""


def read_document(document: bytes, *, marker: str, limits: Limits, code: int) -> Outcome:
    """Turn the bytes of the result pipe and the exit code into an outcome.

    Args:
        document: All that came over the result pipe.
        marker: Drawn for this call. A document without it was not written by our encoder but
            by code that hoped to pass for it; code that copies it from our frames has only
            gained another way to return its own value.
        limits: Named in the messages.
        code: Exit code of the tool's process as its parent saw it; negative for a signal.
    """
    head, body = document[:HEADER_BYTES], document[HEADER_BYTES:]
    if code != 0 or head != f"{marker}{len(body):0{SIZE_DIGITS}}".encode():
        return Outcome(status="killed", error=_describe_end(code, limits))
    try:
        answer = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite)
        if not isinstance(answer, dict):
            raise _NotStrict("it is not an object")
        status = CLAIMS.get(str(answer.get("status")))
        if status is None:
            raise _NotStrict("it has no known status")
        if status == "ok":
            _check(answer.get("value"))
            return Outcome(status="ok", value=answer.get("value"))
    except (ValueError, RecursionError) as exc:
        return Outcome(status="bad_result", error=f"The result is not strict JSON: {exc}"[:300])
    return Outcome(
        status=status,
        error_type=_text(answer, "error_type", MAX_NAME_CHARS),
        error_bases=_names(answer.get("error_bases")),
        error=_text(answer, "error", MAX_ERROR_CHARS),
        traceback=_text(answer, "traceback", MAX_TRACEBACK_CHARS),
    )


def encode_args(args: Mapping[str, Any]) -> str:
    """Return the arguments as JSON.

    Raises:
        ValueError: If they are not strict JSON; it is the caller's mistake, not the tool's.
    """
    try:
        text = json.dumps(dict(args), allow_nan=False)
        _check(json.loads(text))
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"The arguments are not strict JSON: {exc}") from exc
    return text


def _describe_end(code: int, limits: Limits) -> str:
    if code == -signal.SIGXCPU:
        return f"It used more than {limits.cpu_s} s of CPU time."
    if code == -signal.SIGKILL:
        return "It was killed (SIGKILL), most likely for using too much memory or CPU time."
    if code < 0:
        names = {int(s): s.name for s in signal.Signals}
        return f"It crashed with {names.get(-code, f'signal {-code}')}."
    return f"It exited with status {code} before it returned a result."


def _refuse_constant(name: str) -> float:
    raise _NotStrict(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotStrict(f"{text[:40]} is out of range")
    return number


def _check(value: Any) -> None:
    """Refuse lone surrogates and depth, level by level so that depth cannot hurt us.

    Raises:
        ValueError: If the value holds either.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 2):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                item.encode()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, dict):
                below += item
                below += item.values()
        if not below:
            return
        level = below
    raise _NotStrict(f"it is nested more than {MAX_DEPTH} deep")


def _text(answer: dict[str, Any], key: str, limit: int) -> str:
    text = answer.get(key, "")
    return clean(text, limit) if isinstance(text, str) else ""


def _names(value: Any) -> tuple[str, ...]:
    found = value if isinstance(value, list) else []
    return tuple(clean(one, MAX_NAME_CHARS) for one in found[:MAX_NAMES] if isinstance(one, str))


def clean(text: str, limit: int) -> str:
    """Return text that can be stored anywhere: no lone surrogates, at most `limit` characters."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"
