"""What a person means by a name or the start of an id: a run, an asset or a lesson."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import InputError, NotFoundError
from ..records import ExperienceRecord, named_version
from ..rows import Asset
from .hygiene import kind_of, name_of
from .snapshot import Snapshot

MIN_ID: Final = 4
"""Characters of an id that name something to be deleted."""
DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was meant."""

    what: str
    """In words."""
    runs: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def find_target(
    snapshot: Snapshot, wanted: str, namespace: str | None, unfinished: Iterable[str] = ()
) -> Target:
    """Return what is meant: `NAME` is all versions of an asset, `NAME@v2` is one, else it is the start of an id.

    Args:
        snapshot: The whole memory.
        wanted: What a person typed.
        namespace: Where that name is, `default` if not given; an id is looked for everywhere then.
        unfinished: Ids of runs that may have no record yet.

    Raises:
        NotFoundError: If there is none, or more than one.
        InputError: If it is a built-in or a host's tool.
    """
    named = _named(snapshot, wanted, namespace or DEFAULT)
    if named:
        return _assets(named, wanted)
    ids: dict[str, str] = {run: f"run {run[:8]}" for run in unfinished}
    ids |= {
        run.id: f"run {run.id[:8]}" for run in snapshot.runs if namespace in (None, run.namespace)
    }
    runs = {*ids}
    for one in snapshot.kept:
        if namespace in (None, one.namespace):
            kind = "lesson" if isinstance(one, ExperienceRecord) else kind_of(one)
            ids[one.id] = f"{kind} {name_of(one)} ({one.id[:8]})"
    found = [key for key in ids if len(wanted) >= MIN_ID and key.startswith(wanted)]
    if len(found) > 1:
        fits = ", ".join(ids[key] for key in found[:5])
        raise NotFoundError(
            f"{wanted!r} fits {len(found)} records: {fits}.", hint="Give more of the id."
        )
    if not found:
        raise _not_found(snapshot, wanted, namespace)
    if found[0] in runs:
        return Target(what=ids[found[0]], runs=(found[0],))
    return _one(snapshot, found[0], ids[found[0]])


def _one(snapshot: Snapshot, key: str, what: str) -> Target:
    asset = next((one for one in snapshot.assets if one.id == key), None)
    return _assets([asset], what) if asset else Target(what=what, kept=(key,))


def _named(snapshot: Snapshot, wanted: str, namespace: str) -> list[Asset]:
    name, version = named_version(wanted)
    return [
        one
        for one in snapshot.assets
        if (one.name, one.namespace) == (name, namespace) and version in (None, one.version)
    ]


def _assets(found: Sequence[Asset], wanted: str) -> Target:
    kinds = sorted({kind_of(one) for one in found})
    if len(kinds) > 1:
        ids = ", ".join(f"{kind_of(one)} v{one.version} {one.id[:8]}" for one in found[:6])
        raise NotFoundError(
            f"{wanted!r} names a tool and an expert: {ids}.", hint="Give the start of an id."
        )
    if given := [one for one in found if one.origin != "generated"]:
        raise InputError(
            f"{given[0].name} is a {given[0].origin} tool: the next run would put it back.",
            hint="Only what was made here can be deleted; see `mem2evolve tools list`.",
        )
    versions = ", ".join(f"v{one.version}" for one in sorted(found, key=lambda one: one.version))
    name = found[0].name
    return Target(what=f"{kinds[0]} {name} {versions}", kept=tuple(one.id for one in found))


def _not_found(snapshot: Snapshot, wanted: str, namespace: str | None) -> NotFoundError:
    name = wanted.partition("@")[0]
    elsewhere = sorted({one.namespace for one in snapshot.assets if one.name == name})
    hint = (
        "`mem2evolve tools list`, `agents list`, `memory list` and `runs list` show names and ids."
    )
    if elsewhere and elsewhere != [namespace or DEFAULT]:
        hint = f"There is one in another namespace: add `--namespace {elsewhere[0]}`."
    if not elsewhere and 0 < len(wanted) < MIN_ID:
        hint = f"Give at least {MIN_ID} characters of an id."
    return NotFoundError(f"There is no run, tool, expert or lesson {wanted!r}.", hint=hint)
