"""How good the tools are that the embedded model makes, with and without agreement and tool experience.

    python bench/creation.py [--needs 8] [--keep FILE]

Every fourth need of `tests/data/tool_specs.jsonl` is made in four ways by the same sub-graph that a run
uses. Lessons come from the first pass without experience, each distilled as a run would, and a need never
sees its own. What was made is called with the need's reference checks, which the program never sees.
The last line is one JSON object. There is no bar: this is what the small model does.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from mem2evolve.api import open_resources
from mem2evolve.graph.context import Context
from mem2evolve.graph.state import Wanted
from mem2evolve.memory.records import ExperienceRecord, card
from mem2evolve.nodes.creation import build_creation, trajectory_of
from mem2evolve.nodes.creation.agree import normal_form
from mem2evolve.nodes.creation.cases import passes
from mem2evolve.nodes.desk import Desk, Resources
from mem2evolve.nodes.distill import tool_lesson
from mem2evolve.nodes.naming import tool_name
from mem2evolve.settings import Settings

SPECS: Final = Path(__file__).parents[1] / "tests" / "data" / "tool_specs.jsonl"
STRIDE: Final = 4
"""Every fourth need, so that nobody chose them."""
ARMS: Final = [
    (agreement, experience) for experience in (False, True) for agreement in (True, False)
]
FIRST: Final = (True, False)
"""The arm whose makings are distilled for those with experience."""
SIDE_BY_SIDE: Final = 3
"""Tools in the making at once: the embedded model answers four requests together in half the time."""


async def main() -> int:
    """Make every tool in every way; print a line for each, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--needs", type=int, default=8)
    parser.add_argument(
        "--keep",
        type=Path,
        help="A JSON line for each tool goes here; those that are there are not made again.",
    )
    options = parser.parse_args()
    specs = [json.loads(line) for line in SPECS.read_text().splitlines()][::STRIDE][: options.needs]
    rows: list[dict[str, Any]] = []
    known = kept(options.keep)
    with tempfile.TemporaryDirectory() as home:
        resources = open_resources(Settings(home=Path(home), model="embedded"), write_files=False)
        places = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(spec: dict[str, Any], arm: tuple[bool, bool]) -> dict[str, Any]:
            row = known.get((spec["id"], *arm))
            if row is None:
                async with places:
                    row = await make(resources, spec, agreement=arm[0], experience=arm[1])
                keep(options.keep, row)
            shown = {key: value for key, value in row.items() if key != "trajectory"}
            print(json.dumps(shown), flush=True)
            return row

        try:
            for arm in ARMS:
                made = await asyncio.gather(*(one(spec, arm) for spec in specs))
                rows += made
                if arm == FIRST:
                    for spec, row in zip(specs, made, strict=True):
                        await teach(resources, row["trajectory"], spec, specs)
        finally:
            await resources.close()
    print(json.dumps({name: summary(mine) for name, mine in by_arm(rows).items()}))
    return 0


def kept(file: Path | None) -> dict[tuple[str, bool, bool], dict[str, Any]]:
    """Return the rows of an earlier call that was broken off, by need and arm."""
    if file is None or not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {(row["need"], row["agreement"], row["experience"]): row for row in rows}


def keep(file: Path | None, row: dict[str, Any]) -> None:
    """Add a row to the file."""
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")


async def make(
    resources: Resources, spec: dict[str, Any], *, agreement: bool, experience: bool
) -> dict[str, Any]:
    """Make one tool in one way, and hold it to the reference checks."""
    name, _, sentence = spec["card"].partition(": ")
    context = Context(
        agreement=agreement,
        use_tool_experience=experience,
        namespace=namespace_of(spec) if experience else "default",
        approve="never",
        evolve=False,
        web=False,
    )
    started = time.monotonic()
    start = {"run_id": "bench", "need": need_of(spec), "task": sentence, "files": [], "near": []}
    end = await build_creation(resources).ainvoke(start, context=context)
    made = end["tool"]
    checks = [{"raises": "", "expected": None, "tolerance": 0.0, **one} for one in spec["checks"]]
    function = tool_name(name)
    first = next((one["source"] for one in end["drafts"] if one["role"] == "tool"), "")
    oracles = [one["source"] for one in end["drafts"] if one["role"] == "oracle"]
    wrong = await passes(resources.sandbox, made["code"], made["function"], checks) if made else []
    return {
        "need": spec["id"],
        "agreement": agreement,
        "experience": experience,
        "lessons": len(end["lessons"]),
        "first_draft_right": bool(first)
        and not await passes(resources.sandbox, first, function, checks),
        "first_pass": end["first_pass"],
        "rounds": end["round"],
        "made": bool(made),
        "right": bool(made) and not wrong,
        "fails": len(wrong),
        "mutation_score": made["mutation_score"] if made else None,
        "why": end["outcome"],
        "different": sum(differs(one, end["drafts"]) for one in oracles),
        "oracles": len(oracles),
        "prompt": sum(line["prompt"] for line in end["ledger"]),
        "generated": sum(line["completion"] for line in end["ledger"]),
        "seconds": round(time.monotonic() - started, 1),
        "trajectory": trajectory_of(end),
    }


def need_of(spec: dict[str, Any]) -> Wanted:
    """Return the need as an exact planner would write it."""
    inside, _, output = spec["signature"].partition("(")[2].rpartition(") -> ")
    return Wanted(
        kind="tool",
        name=spec["card"].partition(": ")[0],
        description=spec["need"],
        input=inside,
        output=output,
        subtasks=["a"],
    )


async def teach(
    resources: Resources,
    trajectory: dict[str, Any],
    taught: dict[str, Any],
    specs: list[dict[str, Any]],
) -> None:
    """Distil a lesson as a run would, for all other needs."""
    desk = Desk(resources, Context(), "distill", "backward")
    reply = await tool_lesson(desk, trajectory)
    for spec in specs:
        if spec["id"] != taught["id"]:
            record = ExperienceRecord(
                scope="tool",
                outcome="success" if trajectory["asset_id"] else "failure",
                run_id=taught["id"],
                namespace=namespace_of(spec),
                learned_from=card(trajectory["need"]["name"], taught["card"].partition(": ")[2]),
                **reply.model_dump(),
            )
            await resources.memory.remember(record)


def namespace_of(spec: dict[str, Any]) -> str:
    """Return where the lessons for a need are kept: of all needs but itself."""
    return f"for-{spec['id']}"


def differs(source: str, drafts: list[dict[str, Any]]) -> bool:
    """Whether a second opinion is Python, and other code than every draft of the tool."""
    try:
        own = normal_form(source)
        return all(own != normal_form(one["source"]) for one in drafts if one["role"] == "tool")
    except SyntaxError:
        return False


def by_arm(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group the rows by the way in which the tools were made."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        words = (
            "agreement" if row["agreement"] else "alone",
            "experience" if row["experience"] else "none",
        )
        arms.setdefault("+".join(words), []).append(row)
    return arms


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one way."""
    made = [row for row in rows if row["made"]]
    oracles = sum(row["oracles"] for row in rows)
    return {
        "needs": len(rows),
        "first_draft_right": sum(row["first_draft_right"] for row in rows),
        "first_pass": sum(row["first_pass"] for row in rows),
        "made": len(made),
        "right": sum(row["right"] for row in made),
        "false_promotion_rate": round(sum(not row["right"] for row in made) / max(1, len(made)), 3),
        "rounds": round(statistics.mean(row["rounds"] for row in rows), 2),
        "different_share": round(sum(row["different"] for row in rows) / oracles, 3)
        if oracles
        else None,
        "prompt": round(statistics.mean(row["prompt"] for row in rows)),
        "generated": round(statistics.mean(row["generated"] for row in rows)),
        "seconds": round(statistics.mean(row["seconds"] for row in rows)),
    }


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
