"""Which records are taken from a bundle. One that is not is named with its line and the reason; others may come in."""

import math
import uuid
from typing import Any, Final

from ..projection import MAX_FILE_BYTES, NAME
from ..records import AgentRecord, ExperienceRecord, RunRecord, StatusChange, ToolRecord
from ..rows import AnyRecord
from ..words import HIDDEN, LESSON_CHARS, SOURCE_CHARS, unseen
from .strict import has_infinity

MAX_LABEL: Final = 100
"""Of a name, an id or a time."""
EXPERT_CHARS: Final = {"name": 80, "expertise": 400, "strategy": 2000}
TOOL_CHARS: Final = {"function": MAX_LABEL, "description": 1000, "documentation": 20_000}
MAX_SCHEMA_CHARS: Final = 64 << 10
MAX_CASES: Final = 500
MAX_VERSION: Final = 999_999
MAX_LINKS: Final = 1_000
MAX_HISTORY: Final = 1_000
MAX_REASON_CHARS: Final = 1_000


def objection(record: AnyRecord) -> str:
    """Say why a record is not taken from a bundle; empty when it is."""
    labels = {"namespace": record.namespace, "created_at": record.created_at}
    if not isinstance(record, RunRecord):
        labels |= {"run_id": record.run_id, "supersedes": record.supersedes}
        if len(record.history) > MAX_HISTORY:
            return f"its history has more than {MAX_HISTORY:,} lines"
    if not NAME.fullmatch(record.namespace):
        return f"{record.namespace[:MAX_LABEL]!r} is no name of a namespace"
    if fault := _prose(labels, dict.fromkeys(labels, MAX_LABEL)):
        return fault
    if isinstance(record, ToolRecord):
        return _tool(record)
    if isinstance(record, AgentRecord):
        return _expert(record)
    return _lesson(record) if isinstance(record, ExperienceRecord) else _run(record)


def readable(change: StatusChange) -> StatusChange:
    """Return a line of history without what a person cannot see."""
    reason = HIDDEN.sub("\N{REPLACEMENT CHARACTER}", change.reason)[:MAX_REASON_CHARS]
    return change.model_copy(update={"reason": reason})


def _tool(record: ToolRecord) -> str:
    name, function = record.name[:MAX_LABEL], record.function[:MAX_LABEL]
    faults = {
        f"its origin is {record.origin!r}": record.origin != "generated",
        f"{name!r} is no name of a tool": not NAME.fullmatch(record.name),
        "its version is out of range": not 1 <= record.version <= MAX_VERSION,
        f"{function!r} is no name of a function": not record.function.isidentifier(),
        f"its code has more than {MAX_FILE_BYTES:,} characters": len(record.code) > MAX_FILE_BYTES,
        f"it has more than {MAX_CASES} cases": len(record.cases) > MAX_CASES,
        "a case has a tolerance that is no number from 0": not all(
            0 <= case.tolerance < math.inf for case in record.cases
        ),
        "its code has a lone surrogate": not record.code.isascii() and _unwritable(record.code),
        "description is empty": not record.description,
    }
    return next((why for why, wrong in faults.items() if wrong), "") or _tool_texts(record)


def _tool_texts(record: ToolRecord) -> str:
    schemas = {"input_schema": record.input_schema, "output_schema": record.output_schema}
    short = {"permissions": list(record.permissions), "dependencies": list(record.dependencies)}
    facts = {"environment": record.environment}
    words = {name: getattr(record, name) for name in TOOL_CHARS}
    return (
        _prose(words, TOOL_CHARS)
        or _prose(schemas, dict.fromkeys(schemas, MAX_SCHEMA_CHARS))
        or _prose({**short, **facts}, dict.fromkeys((*short, *facts), MAX_SCHEMA_CHARS))
    )


def _expert(record: AgentRecord) -> str:
    if record.origin != "generated":
        return f"its origin is {record.origin!r}"
    if not 1 <= record.version <= MAX_VERSION or len(record.tools) > MAX_LINKS:
        return "its version or its tools are out of range"
    fields = {name: getattr(record, name) for name in EXPERT_CHARS}
    if empty := [name for name, value in fields.items() if not value.strip()]:
        return f"{empty[0]} is empty"
    return _prose(fields, EXPERT_CHARS) or _prose(
        {"tools": list(record.tools)}, {"tools": MAX_LINKS}
    )


def _lesson(record: ExperienceRecord) -> str:
    fields = {name: getattr(record, name) for name in LESSON_CHARS}
    if empty := [name for name, value in fields.items() if not value.strip()]:
        return f"{empty[0]} is empty"
    links = {"supports": list(record.supports), "contradicts": list(record.contradicts)}
    for name, ids in links.items():
        if len(ids) > MAX_LINKS or any(len(one) > MAX_LABEL for one in ids):
            return f"{name} is more than {MAX_LINKS:,} ids"
    source = {"learned_from": record.learned_from, **links}
    limits = {"learned_from": SOURCE_CHARS, **dict.fromkeys(links, MAX_LINKS * MAX_LABEL)}
    return _prose(fields, LESSON_CHARS) or _prose(source, limits)


def _run(record: RunRecord) -> str:
    try:
        canonical = str(uuid.UUID(record.id))
    except ValueError:
        canonical = ""
    if canonical != record.id:
        return f"{record.id[:MAX_LABEL]!r} is no id of a run"
    links = (
        *record.assets,
        *record.won,
        *record.lessons,
        *record.helped,
        *record.learned,
        *record.confirmed,
    )
    if len(links) > MAX_LINKS or any(len(one) > MAX_LABEL for one in links):
        return f"it links to more than {MAX_LINKS:,} records, or to what is no id"
    return ""


def _prose(fields: dict[str, Any], limits: dict[str, int]) -> str:
    """Say which text is too long, or holds what a person who reads it does not see."""
    for name, value in fields.items():
        texts = list(_texts(value))
        if sum(map(len, texts)) > limits[name]:
            return f"{name} has {sum(map(len, texts)):,} characters; at most {limits[name]:,} are taken"
        if found := next(filter(None, map(unseen, texts)), ""):
            return f"{name} has {found}, which a reader does not see"
        if has_infinity(value):
            return f"{name} has an infinite number"
    return ""


def _unwritable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _texts(value: Any) -> list[str]:
    left, found = [value], []
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            left += one
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return found
