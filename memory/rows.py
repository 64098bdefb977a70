"""Between records and the rows of a store."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import ValidationError

from ..errors import StoreDamaged
from .recall import Candidate, Usage
from .records import AgentRecord, ExperienceRecord, Kind, RunRecord, ToolRecord
from .store import Collection, Hit, Record

Asset = ToolRecord | AgentRecord
Kept = ToolRecord | AgentRecord | ExperienceRecord
AnyRecord = ToolRecord | AgentRecord | ExperienceRecord | RunRecord
KeptKind = Literal["tool", "agent", "experience"]
RecordKind = Literal["tool", "agent", "experience", "run"]

COLLECTION: Final[dict[RecordKind, Collection]] = {
    "tool": "tools",
    "agent": "agents",
    "experience": "experiences",
    "run": "runs",
}
RECORD_TYPE: Final[dict[RecordKind, type[AnyRecord]]] = {
    "tool": ToolRecord,
    "agent": AgentRecord,
    "experience": ExperienceRecord,
    "run": RunRecord,
}
_FIRST_WRITE: Final = ("status", "history", "created_at", "run_id")
"""Fields that a later `put` of the same content leaves as they are."""


def payload_of(record: AnyRecord) -> dict[str, Any]:
    """Return what is stored of a record: its fields as JSON, and its id."""
    return {**record.model_dump(mode="json"), "id": record.id}


def row_of(record: AnyRecord, vector: Sequence[float], kept: Record | None) -> Record:
    """Return a record as a row; of `kept`, the row that is there already, some fields stay."""
    payload = payload_of(record)
    if kept is not None:
        payload |= {key: kept.payload[key] for key in _FIRST_WRITE if key in kept.payload}
    return Record(id=record.id, vector=vector, payload=payload)


def lesson(record_id: str, payload: Mapping[str, Any]) -> ExperienceRecord:
    """Read a lesson from what a store returned.

    Raises:
        StoreDamaged: If it is none.
    """
    record = parse("experience", record_id, payload)
    assert isinstance(record, ExperienceRecord)  # noqa: S101 - for the type checker
    return record


def candidate(kind: Kind, hit: Hit, usage: Usage | None) -> Candidate:
    """Read an asset from what a search returned.

    Raises:
        StoreDamaged: If it is none.
    """
    record = parse(kind, hit.id, hit.payload)
    assert isinstance(record, ToolRecord | AgentRecord)  # noqa: S101 - for the type checker
    uses, wins = usage or (0, 0)
    return Candidate(
        id=hit.id,
        kind=kind,
        name=record.name,
        version=record.version,
        card=record.card,
        score=hit.score,
        status=record.status,
        uses=uses,
        wins=wins,
    )


def parse(kind: RecordKind, record_id: str, payload: Mapping[str, Any]) -> AnyRecord:
    """Read a record back.

    Raises:
        StoreDamaged: If it is not one of its kind.
    """
    data = {key: value for key, value in payload.items() if kind == "run" or key != "id"}
    try:
        return RECORD_TYPE[kind].model_validate(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        raise StoreDamaged(
            f"The {kind} {record_id} cannot be read: {first['loc']}: {first['msg']}",
            hint="Was it written by a later version of mem2evolve? Update, or delete the record.",
        ) from exc
