"""From the records of an older version to those of this one.

Each step leads from one schema version to the next, may be repeated, and may be killed anywhere: the version in
the manifest is raised after the step. Whoever opens an older memory first takes it along.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .manifest import Manifest
from .store import Collection, MemoryStore

PAGE: Final = 256
"""Records rewritten at once."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One step."""

    to: int
    """The schema version that it leads to, from the one before."""
    name: str
    apply: Callable[[MemoryStore], Awaitable[None]]


async def migrate(store: MemoryStore, manifest: Manifest) -> Manifest:
    """Bring a store to this program's schema; return its manifest, as it is now.

    Raises:
        StoreMismatch: If it is of a later schema.
        StoreError: If it cannot be read or written. What was done stays, and is done again next time.
    """
    manifest.check_schema()
    for step in MIGRATIONS:
        if step.to > manifest.schema_version:
            await step.apply(store)
            manifest = replace(manifest, schema_version=step.to)
            await store.write_manifest(manifest.to_json())
    return manifest


async def _write_again(
    store: MemoryStore, collection: Collection, defaults: Mapping[str, str]
) -> None:
    """Write each record with the fields it lacks, and copies of its indexed ones (see `memory.backends.payload`)."""
    after: str | None = None
    while True:
        page, after = await store.scroll(collection, limit=PAGE, after=after)
        await store.put(
            collection, [replace(row, payload={**defaults, **row.payload}) for row in page]
        )
        if after is None:
            return


async def _find_runs_by_more(store: MemoryStore) -> None:
    await _write_again(store, "runs", {"origin": "own"})


MIGRATIONS: Final = (
    Migration(
        to=2,
        name="runs can be found by what they taught, the fits they confirmed and where they were made",
        apply=_find_runs_by_more,
    ),
)
"""In order, one for each version after the first."""
