"""Looks at a shard's files before the engine opens them: it takes lost ones for an empty shard, and begins anew."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .faults import damaged

CONTENTS: Final = "contents.json"
"""How many records each collection had when it was last flushed. Lies beside the shards; old memories have none."""
PARTS: Final = ("segment.json", "version.info")
"""Of every whole segment."""
TRACKER: Final = "*id_tracker.mappings"
"""Of a segment with records: it only grows, also when they are deleted."""


def noted(root: Path) -> dict[str, int]:
    """Return what was noted; nothing where that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        data = json.loads((root / CONTENTS).read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return {name: count for name, count in data.items() if isinstance(count, int)}
    return {}


def note(root: Path, counts: Mapping[str, int]) -> None:
    """Note how many records there are. It only helps to find damage: trouble in writing it is passed over."""
    aside = root / f"{CONTENTS}.new"
    with contextlib.suppress(OSError):
        aside.write_text(json.dumps({**noted(root), **counts}, sort_keys=True), encoding="utf-8")
        aside.replace(root / CONTENTS)


def check_whole(folder: Path, shard: Path) -> None:
    """Refuse a shard whose records' files are lost. Nothing is opened.

    Args:
        folder: Of the memory, for the message.
        shard: The shard's folder, which need not exist.

    Raises:
        StoreDamaged: If it is gone, has no whole segment, or a segment without its records.
    """
    count = noted(shard.parent).get(shard.name)
    if not shard.exists():
        if count is not None:
            raise damaged(folder, f"{shard.name}, which held {count:,} records, is missing")
        return
    whole = [
        one for one in shard.glob("segments/*") if all((one / part).is_file() for part in PARTS)
    ]
    if not whole:
        raise damaged(folder, f"{shard.name}/segments holds no segment with {' and '.join(PARTS)}")
    trackers = [file for one in whole for file in one.glob(TRACKER)]
    if count and not any(file.stat().st_size for file in trackers):
        raise damaged(folder, f"{shard.name} held {count:,} records, and {TRACKER} is lost")


def room_to_open(shard: Path) -> int:
    """Return the bytes that opening a shard takes on its disk.

    The engine's files have holes, and it looks at all of them. In memory (tmpfs) each hole that is looked at is
    filled, and where that is not possible the process is killed.
    """
    if not _in_memory(shard):
        return 0
    states = [file.stat() for file in shard.rglob("*") if file.is_file()]
    return sum(max(0, one.st_size - one.st_blocks * 512) for one in states)


def _in_memory(path: Path) -> bool:
    """Whether a path is on a tmpfs, as far as the system says."""
    best, kind = "", ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
            _, place, found, *_ = line.split(" ")
            place = place.replace("\\040", " ")
            if path.resolve().is_relative_to(place) and len(place) >= len(best):
                best, kind = place, found
    return kind in ("tmpfs", "ramfs")
