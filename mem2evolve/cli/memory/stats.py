"""What the memory holds, and where."""

from typing import TYPE_CHECKING, Any

import click

from .._common import open_memory, print_json, say, wait

if TYPE_CHECKING:
    from ...memory.memory import Memory
    from ...settings import Settings

WIDTH = 12
"""Columns of the word before a line."""


@click.command()
@click.option("--namespace", help="Only what is in this namespace.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def stats(namespace: str | None, *, as_json: bool) -> None:
    """Count what the memory holds; say what made it and where it is."""
    wait(_stats(namespace, as_json=as_json))


async def _stats(namespace: str | None, *, as_json: bool) -> None:
    from ...settings import Settings  # noqa: PLC0415 - `--help` stays quick

    settings = Settings.from_env()
    async with open_memory() as memory:
        found = await _count(memory, {"namespace": namespace} if namespace else {})
        found |= await _made_with(memory, settings)
    if as_json:
        print_json(found)
        return
    spaces = found.pop("namespaces")
    found["namespaces"] = ", ".join(f"{space} {count:,}" for space, count in spaces.items()) or "-"
    for word, counted in found.items():
        say(f"{word.replace('_', ' '):{WIDTH}}{_in_words(counted)}")


async def _count(memory: "Memory", where: dict[str, str]) -> dict[str, Any]:
    tools = {**where, "origin": "generated"}
    return {
        "tools": await memory.tally("tool", "status", tools),
        "agents": await memory.tally("agent", "status", where),
        "lessons": await memory.tally("experience", "status", where),
        "by_scope": await memory.tally("experience", "scope", {**where, "status": "active"}),
        "by_outcome": await memory.tally("experience", "outcome", {**where, "status": "active"}),
        "runs": await memory.tally("run", "verdict", where),
        "namespaces": {} if where else await _spaces(memory),
    }


async def _spaces(memory: "Memory") -> dict[str, int]:
    """Return how many records each namespace holds, built-in tools left out."""
    found: dict[str, int] = {}
    own = {"tool": {"origin": "generated"}}
    for kind in ("tool", "agent", "experience", "run"):
        for space, count in (await memory.tally(kind, "namespace", own.get(kind))).items():
            found[space] = found.get(space, 0) + count
    return found


async def _made_with(memory: "Memory", settings: "Settings") -> dict[str, Any]:
    limits = memory.calibration
    folder = settings.state_dir / "memory"
    size = sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
    return {
        "embedding": settings.embedding,
        "recall": {
            "delta": limits.delta,
            "low": limits.low,
            "high": limits.high,
            "twin": limits.twin,
        },
        "kept_in": settings.memory_place,
        "megabytes": None if settings.qdrant_url else round(size / 1e6, 1),
    }


def _in_words(counted: Any) -> str:
    """Say counts, the largest first; thresholds by name; nothing as `none`."""
    if not isinstance(counted, dict):
        return "-" if counted is None else str(counted)
    if any(isinstance(value, float) for value in counted.values()):
        return ", ".join(f"{word} {value:g}" for word, value in counted.items())
    ordered = sorted(counted.items(), key=lambda one: -one[1])
    return ", ".join(f"{count:,} {word}" for word, count in ordered) or "none"
