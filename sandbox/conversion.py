"""Makes of JSON what a tool's annotations name, and JSON of what it returns.

Loaded by `bootstrap.py` inside the box, only for a tool that needs it; never imported by the program.
What is to be made is said by a plan, which the host reads from the source (`_plan.py`).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # without `typing`, which costs memory
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WRITTEN = {
    "date": "date (YYYY-MM-DD)",
    "datetime": "date with time (YYYY-MM-DDTHH:MM:SS)",
    "time": "time (HH:MM:SS)",
}
KINDS: dict[type, str] = {list: "list", dict: "object"}
TYPES: dict[str, Any] = {
    "null": type(None), "boolean": bool, "integer": int, "number": (int, float), "string": str,
    "array": list, "object": dict,
}  # fmt: skip
MAX_DEPTH = 100
"""Lists and dicts inside one another, as in `harness.py`."""
SHOWN_CHARS = 80


class _TooDeepError(Exception):
    """The result is nested too deeply, or without end."""


class Conversion:
    """Follows the plan of one tool."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._args, self._records = plan["args"], plan["records"]
        self._result = plan["result"]
        self._names: dict[str, Any] = {}
        self._made: dict[str, Callable[[Any, list[Any], str], Any]] = {
            "list": self._list,
            "row": lambda value, parts, where: tuple(self._list(value, parts, where)),
            "tuple": self._tuple,
            "dict": self._dict,
            "union": self._union,
            "record": self._record,
        }

    def call(
        self, function: Callable[..., Any], args: dict[str, Any], names: dict[str, Any]
    ) -> Any:
        """Call a function as its annotations say, and return its result as JSON.

        Args:
            function: The tool.
            args: JSON values by parameter.
            names: Those of the tool's module; its classes are among them.

        Raises:
            ValueError: If a value is none of what it has to be, as a text that is no date.
            TypeError: If it is of another kind, or fields are missing or unknown.
        """
        self._names = names
        made = {
            name: self._fit(value, self._args.get(name, ""), f"argument {name!r}")
            for name, value in args.items()
        }
        value = function(**made)
        try:
            return _plain(value, 0) if self._result else value
        except _TooDeepError:  # `harness.py` will say so of the value
            return value

    def _fit(self, value: Any, form: Any, where: str) -> Any:
        if isinstance(form, list):
            return self._made[form[0]](value, form[1:], where)
        return _moment(value, form, where) if form in WRITTEN else value

    def _list(self, value: Any, parts: list[Any], where: str) -> list[Any]:
        _expect(value, list, where)
        return [self._fit(item, parts[0], f"{where}[{n}]") for n, item in enumerate(value)]

    def _tuple(self, value: Any, parts: list[Any], where: str) -> tuple[Any, ...]:
        _expect(value, list, where)
        if len(value) != len(parts):
            raise ValueError(f"{where}: it has {len(value)} items; it must have {len(parts)}")
        return tuple(
            self._fit(item, part, f"{where}[{n}]")
            for n, (item, part) in enumerate(zip(value, parts, strict=True))
        )

    def _dict(self, value: Any, parts: list[Any], where: str) -> dict[Any, Any]:
        _expect(value, dict, where)
        key, item = parts
        return {
            self._fit(name, key, f"a key of {where}"): self._fit(one, item, f"{where}[{name!r}]")
            for name, one in value.items()
        }

    def _union(self, value: Any, parts: list[Any], where: str) -> Any:
        """Take the first type that fits, those that are made from JSON before JSON itself."""
        plain = [part for part in parts if isinstance(part, str) and part not in WRITTEN]
        if value is None and "null" in plain:
            return None
        troubles = []
        for part in parts:
            if part not in plain:
                try:
                    return self._fit(value, part, where)
                except (ValueError, TypeError) as exc:
                    troubles.append(exc)
        if any(_is(value, part) for part in plain):
            return value
        if len(troubles) == 1:
            raise troubles[0]
        raise ValueError(f"{where}: {_shown(value)} is none of what it may be")

    def _record(self, value: Any, parts: list[Any], where: str) -> Any:
        record, made = self._records[parts[0]], self._names[parts[0]]
        if record["kind"] == "enum":
            try:
                return made(value)
            except ValueError:
                known = ", ".join(repr(one.value) for one in made)
                raise ValueError(f"{where}: {_shown(value)} is none of {known}") from None
        _expect(value, dict, where)
        fields = record["fields"]
        missing = [repr(name) for name in record["required"] if name not in value]
        unknown = [repr(name) for name in value if name not in fields]
        for names, problem in ((missing, "has no"), (unknown, "has the unknown")):
            if names:
                raise TypeError(
                    f"{where}: it {problem} {', '.join(names)}; its fields are {', '.join(fields)}"
                )
        fit = {
            name: self._fit(one, fields[name], f"{where}[{name!r}]") for name, one in value.items()
        }
        return made(**fit) if record["kind"] == "dataclass" else fit


def _moment(value: Any, kind: str, where: str) -> Any:
    import datetime as dates  # noqa: ICN001, PLC0415 - only tools with dates need it

    if not isinstance(value, str):
        raise TypeError(f"{where}: {_shown(value)} is no {WRITTEN[kind]}")
    try:
        made = getattr(dates, kind).fromisoformat(value)
    except ValueError:
        made = None
    # Weeks and dates without dashes are ISO too, but not what the schema says.
    if made is None or (kind == "date" and made.isoformat() != value):
        raise ValueError(f"{where}: {_shown(value)} is no {WRITTEN[kind]}")
    return made


def _expect(value: Any, kind: type, where: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{where}: {_shown(value)} is no {KINDS[kind]}")


def _is(value: Any, kind: str) -> bool:
    """Whether a JSON value is of a kind; a bool is no number."""
    if kind == "any":
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _plain(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _TooDeepError
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain(key, depth + 1): _plain(item, depth + 1) for key, item in value.items()}
    # What the tool has of these, it has imported.
    dates, enums, classes = map(sys.modules.get, ("datetime", "enum", "dataclasses"))
    if dates and isinstance(value, (dates.date, dates.time)):
        return value.isoformat()
    if enums and isinstance(value, enums.Enum):
        return value.value
    if classes and classes.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in classes.fields(value)]
        return {name: _plain(getattr(value, name), depth + 1) for name in names}
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
