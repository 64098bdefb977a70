"""What a killed process may leave: processes, and records and files that differ from those of an unbroken run."""

import os
import re
import time
from pathlib import Path
from typing import Any, Final

from mem2evolve.memory.memory import Memory
from mem2evolve.settings import Settings

from .killed_life import born

PATIENCE_S: Final = 60.0
"""For the boxes of a killed process to end, on a machine that does other things."""
PASSING: Final = {"created_at", "at", "seconds", "started", "ended"}
"""Fields that hold a time."""


async def all_records(home: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all records of a home, by kind."""
    async with Memory.open(Settings(home=home)) as memory:
        kinds = ("tool", "agent", "experience", "run")
        return {
            kind: [
                {**one.model_dump(mode="json"), "id": one.id}
                for one in await memory.list(kind, limit=None)  # type: ignore[call-overload]
            ]
            for kind in kinds
        }


def named(value: Any, names: dict[str, str]) -> Any:
    """Return JSON with ids replaced and times left out; a set of ids in a record is in the order of their names."""
    if isinstance(value, dict):
        return {
            key: sorted(named(one, names)) if key in ("assets", "won") else named(one, names)
            for key, one in value.items()
            if key not in PASSING
        }
    if isinstance(value, list):
        return [named(one, names) for one in value]
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", lambda m: names.get(m[0], m[0]), value)
    return value


def differ(wanted: Any, found: Any, path: str) -> list[str]:
    """Return where two JSON values are not the same."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            line
            for key in sorted({*wanted, *found})
            if key != "run_id"
            for line in differ(wanted.get(key), found.get(key), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for n, pair in pairs for line in differ(*pair, f"{path}[{n}]")]
    return [] if wanted == found else [f"{path} is {str(found)[:300]!r}, not {str(wanted)[:300]!r}"]


def processes_left(known: list[tuple[int, str]], session: int) -> list[str]:
    """Wait until nothing is left of a killed process's boxes; return what stays.

    One kind may stay, and is ended here: the child of a bwrap that was itself killed between making that child
    and telling it to go on. It waits for that word, holds nothing, and has run nothing yet.

    Args:
        known: What descended from the process when it was killed: ids and times of start.
        session: Its id, which is that of its session: what it had just started is in there too.
    """
    deadline = time.monotonic() + PATIENCE_S
    while left := _alive(known, session):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    bad = []
    for pid in left:
        try:
            what = (Path(f"/proc/{pid}/comm").read_text().strip(), _waits(pid))
        except OSError:
            continue
        if what != ("bwrap", "eventfd_read"):
            bad.append(f"process {pid}: {what}")
        os.kill(pid, 9)
    return bad


def _alive(known: list[tuple[int, str]], session: int) -> list[int]:
    left = [pid for pid, start in known if start and born(pid) == start and not _dead(pid)]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] not in "ZX" and int(folder.name) not in left:
                left.append(int(folder.name))
    return left


def _dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _waits(pid: int) -> str:
    return Path(f"/proc/{pid}/wchan").read_text().strip()
