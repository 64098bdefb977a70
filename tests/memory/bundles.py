"""Records, and bundles made by hand: whole ones, and forged ones."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mem2evolve.memory.bundle.form import RECORDS, SUMS
from mem2evolve.memory.manifest import SCHEMA_VERSION
from mem2evolve.memory.records import AgentRecord, Case, ExperienceRecord, RunRecord, ToolRecord
from mem2evolve.memory.rows import AnyRecord, RecordKind, payload_of

RUN_ID = "00000000-0000-5000-8000-000000000001"
CODE = """\
def double(n: int) -> int:
    \"\"\"Double a number.

    Args:
        n: The number.

    Returns:
        Twice the number.
    \"\"\"
    return 2 * n
"""


def tool(**changed: Any) -> ToolRecord:
    """Return a tool."""
    values: dict[str, Any] = {
        "name": "double",
        "description": "Doubles a number.",
        "input_schema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
        "code": CODE,
        "function": "double",
        "cases": tuple(
            Case(args={"n": n}, expected=2 * n, origin="agreement") for n in (0, 1, -3, 10)
        ),
        "status": "active",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return ToolRecord(**values | changed)


def expert(**changed: Any) -> AgentRecord:
    """Return an expert."""
    values: dict[str, Any] = {
        "name": "adder",
        "expertise": "Adds numbers.",
        "strategy": "Add them one by one.",
        "status": "active",
    }
    return AgentRecord(**values | changed)


def lesson(**changed: Any) -> ExperienceRecord:
    """Return a lesson."""
    values: dict[str, Any] = {
        "scope": "agent",
        "title": "Carry",
        "description": "Carry the one.",
        "applies_when": "Numbers are added.",
        "knowledge": "Add the columns from the right.",
        "learned_from": "Add 17 and 25.",
        "outcome": "success",
        "run_id": RUN_ID,
    }
    return ExperienceRecord(**values | changed)


def run(**changed: Any) -> RunRecord:
    """Return a run."""
    values: dict[str, Any] = {
        "id": RUN_ID,
        "task": "Add 17 and 25.",
        "mode": "full",
        "model": "scripted",
        "status": "done",
        "verdict": "success",
        "assets": (tool().id,),
        "won": (tool().id,),
        "lessons": (lesson().id,),
        "helped": (lesson().id,),
        "answer": "42",
    }
    return RunRecord(**values | changed)


KIND: dict[type[AnyRecord], RecordKind] = {
    ToolRecord: "tool",
    AgentRecord: "agent",
    ExperienceRecord: "experience",
    RunRecord: "run",
}


def kind_of(record: AnyRecord) -> RecordKind:
    """Return the kind of a record."""
    return KIND[type(record)]


def line(record: AnyRecord, **changed: Any) -> bytes:
    """Return a record as a line, with fields changed after its id was made."""
    return json.dumps({**payload_of(record), **changed}).encode() + b"\n"


def entries_of(*records: AnyRecord, **head: Any) -> dict[str, bytes]:
    """Return the entries of a bundle but for its hashes."""
    lines: dict[RecordKind, list[bytes]] = {kind: [] for kind in RECORDS}
    for record in records:
        lines[kind_of(record)].append(line(record))
    entries = {RECORDS[kind]: b"".join(found) for kind, found in lines.items()}
    counts = {kind: len(found) for kind, found in lines.items()}
    told = {
        "format_version": 1,
        "schema_version": SCHEMA_VERSION,
        "embedding": "words",
        "dim": 64,
        "created_at": "2026-01-01T00:00:00+00:00",
        "licence": "",
        "namespace": "",
        "counts": counts,
    }
    return {**entries, "bundle.json": json.dumps({**told, **head}).encode()}


def sums_of(entries: Mapping[str, bytes]) -> bytes:
    """Return the list of hashes."""
    return "".join(
        f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in entries.items()
    ).encode()


def write(path: Path, entries: Mapping[str, bytes], *, sums: bytes | None = None) -> Path:
    """Write a bundle with these entries; its hashes are right unless others are given."""
    listed = sums_of(entries) if sums is None else sums
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, body in {**entries, SUMS: listed}.items():
            out.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return path


def bundle_of(path: Path, *records: AnyRecord, **head: Any) -> Path:
    """Write a whole bundle of records."""
    return write(path, entries_of(*records, **head))
