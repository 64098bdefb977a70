"""Which fields of which records name other records, and a record with some of those names taken out or changed.

The one place to extend when a record gets a field that holds an id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..records import AgentRecord, ExperienceRecord, RunRecord, ToolRecord
from ..rows import AnyRecord

T = TypeVar("T", ToolRecord, AgentRecord, ExperienceRecord)

Renamed = Mapping[str, str]
"""Id → the id that takes its place; empty where nothing does."""

_OF_RUN = ("assets", "won", "lessons", "helped", "learned")
_OF_LESSON = ("supports", "contradicts")


def references_of(record: AnyRecord) -> set[str]:
    """Return the ids of records that a record names."""
    found = set(_names_in(record))
    found.discard("")
    return found


def _names_in(record: AnyRecord) -> Iterator[str]:
    if isinstance(record, RunRecord):
        for name in _OF_RUN:
            yield from getattr(record, name)
        for one in record.decisions:
            yield one.get("asset_id", "")
            yield from (candidate["id"] for candidate in one.get("candidates", []))
        for one in record.results:
            yield one.get("expert_id", "")
            yield from one.get("lessons", [])
            yield from (tool["id"] for tool in one.get("known", []))
        for one in record.creations:
            yield one.get("asset_id", "")
            yield from one.get("lessons", [])
        yield from (fault.get("id", "") for fault in record.critique.get("faults", []))
        return
    yield record.run_id
    yield record.supersedes
    yield from (change.run_id for change in record.history)
    if isinstance(record, ExperienceRecord):
        for name in _OF_LESSON:
            yield from getattr(record, name)


def rename_in(record: AnyRecord, renamed: Renamed, older: Renamed) -> AnyRecord:
    """Return the record with other names in the place of ids; those that nothing takes the place of are left out.

    Args:
        record: Any record. A lesson whose `run_id` is renamed gets another id by it.
        renamed: For all fields.
        older: Id of what is gone → what it had superseded, which a later version is now said to supersede.
    """
    if isinstance(record, RunRecord):
        return _in_run(record, renamed)
    if isinstance(record, ExperienceRecord):
        links = {name: _all(getattr(record, name), renamed) for name in _OF_LESSON}
        return _in_kept(record.model_copy(update=links), renamed, older)
    if isinstance(record, ToolRecord):
        return _in_kept(record, renamed, older)
    return _in_kept(record, renamed, older)


def _in_kept(record: T, renamed: Renamed, older: Renamed) -> T:
    history = tuple(
        change.model_copy(update={"run_id": _one(change.run_id, renamed)})
        for change in record.history
    )
    changed = {
        "run_id": _one(record.run_id, renamed),
        "supersedes": _one(_one(record.supersedes, older), renamed),
        "history": history,
    }
    return record.model_copy(update=changed)


def _in_run(run: RunRecord, renamed: Renamed) -> RunRecord:
    names: dict[str, Any] = {name: _all(getattr(run, name), renamed) for name in _OF_RUN}
    decisions = [
        _with(one, renamed, "asset_id")
        | _listed(one, "candidates", lambda found: _items(found, renamed))
        for one in run.decisions
    ]
    results = [
        _with(one, renamed, "expert_id")
        | _listed(one, "lessons", lambda found: [*_all(found, renamed)])
        | _listed(one, "known", lambda found: _items(found, renamed))
        for one in run.results
    ]
    creations = [
        _with(one, renamed, "asset_id")
        | _listed(one, "lessons", lambda found: [*_all(found, renamed)])
        for one in run.creations
    ]
    critique = run.critique | _listed(run.critique, "faults", lambda found: _items(found, renamed))
    changed = {"decisions": decisions, "results": results, "creations": creations}
    return run.model_copy(update={**names, **changed, "critique": critique})


def _one(key: str, renamed: Renamed) -> str:
    return renamed.get(key, key)


def _all(keys: Sequence[str], renamed: Renamed) -> tuple[str, ...]:
    return tuple(dict.fromkeys(new for key in keys if (new := _one(key, renamed))))


def _items(found: Sequence[Mapping[str, Any]], renamed: Renamed) -> list[dict[str, Any]]:
    """Change the `id` of each item; one whose record is gone goes too."""
    return [{**one, "id": _one(one["id"], renamed)} for one in found if _one(one["id"], renamed)]


def _with(one: Mapping[str, Any], renamed: Renamed, field: str) -> dict[str, Any]:
    return {**one, field: _one(one[field], renamed)} if field in one else dict(one)


def _listed(
    one: Mapping[str, Any], field: str, change: Callable[[Any], list[Any]]
) -> dict[str, list[Any]]:
    return {field: change(one[field])} if field in one else {}
