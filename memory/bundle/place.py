"""What a record of a bundle is called here: its namespace and its runs."""

import hashlib
import json
from typing import Any, Final

from ..records import RunRecord, stable_id
from ..rows import AnyRecord, payload_of

_CHANGING: Final = ("id", "status", "history", "created_at", "run_id", "environment", "origin")
"""Fields in which two records of one id may differ without a conflict; the status is compared by itself."""


def moved_into(record: AnyRecord, into: str) -> AnyRecord:
    """Return a record of another namespace as one of this one. Its runs become others too: ids are of one namespace."""
    if not into or record.namespace == into:
        return record
    update: dict[str, Any] = {"namespace": into}
    if isinstance(record, RunRecord):
        update["id"] = _run_id(record.id, into)
    else:
        update["run_id"] = _run_id(record.run_id, into)
        update["history"] = tuple(
            change.model_copy(update={"run_id": _run_id(change.run_id, into)})
            for change in record.history
        )
    return record.model_copy(update=update)


def _run_id(run_id: str, into: str) -> str:
    return stable_id("run", into, run_id) if run_id else ""


def content_of(record: AnyRecord) -> str:
    """Return a hash of what may not differ between two records of one id."""
    payload = payload_of(record)
    body = {name: value for name, value in payload.items() if name not in _CHANGING}
    for name in ("version", "supersedes", "supports", "contradicts"):  # numbers and links may move
        body.pop(name, None)
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
