"""Does testing keep wrong tools out, and let right ones in? No model is needed.

    python bench/creation_gate.py [--only s01,s02]

32 needs, each with a reference, three plausible wrong implementations and an independent right one
(`tests/data`). A *good writer* of tests has every check of the need as a case, a *lazy* one the first two that
return a value. A wrong tool that passes the lazy cases goes through the mutation step, with the independent
implementation as second opinion and without: it is *caught* when a generated input is contested, *flagged*
when the mutation score is too low. The last line is one JSON object; the exit code is 1 below a bar.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mem2evolve.nodes.creation.adequacy import LOW_SCORE, Adequacy, adequacy
from mem2evolve.nodes.creation.cases import passes
from mem2evolve.nodes.creation.spec import make_spec
from mem2evolve.sandbox import BubblewrapSandbox, Sandbox

DATA: Final = Path(__file__).resolve().parents[1] / "tests" / "data"
LAZY_CASES: Final = 2
AT_ONCE: Final = 3
"""Needs that are tried side by side."""
MIN_CAUGHT: Final = 0.6
"""Of the wrong tools that pass the lazy writer's cases."""
MAX_FLAGGED: Final = 0.2
"""Of the references."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Need:
    """One need, with its implementations."""

    id: str
    name: str
    schema: Json
    cases: tuple[Json, ...]
    reference: str
    second: str
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    """What is wrong with each of `wrong`."""

    @property
    def lazy(self) -> tuple[Json, ...]:
        """The cases of a writer who does not look far."""
        return tuple(case for case in self.cases if not case["raises"])[:LAZY_CASES]


@dataclass(frozen=True)
class Trial:
    """What became of one implementation."""

    need: str
    note: str
    """What is wrong with it; empty for the reference."""
    good: bool
    """Whether it would be promoted on the good writer's cases."""
    lazy: Adequacy | None
    """The mutation step on the lazy writer's cases; `None` where it failed one of these."""


def main() -> int:
    """Try every implementation, print what escaped, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="Beginnings of ids, with commas.")
    only = tuple(filter(None, parser.parse_args().only.split(",")))
    needs = [need for need in load() if not only or need.id.startswith(only)]
    start = time.monotonic()
    trials = asyncio.run(try_all(needs))
    explain(trials)
    report = summary(trials) | {"seconds": round(time.monotonic() - start)}
    print(json.dumps(report))
    return 0 if report["ok"] else 1


def load() -> list[Need]:
    """Read the needs and their second opinions."""
    seconds = {row["id"]: row["source"] for row in rows("second_opinions.jsonl")}
    return [need_of(row, seconds[row["id"]]) for row in rows("tool_specs.jsonl")]


def rows(file: str) -> list[Json]:
    """Read a file of one JSON object a line."""
    return [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]


def need_of(row: Json, second: str) -> Need:
    """Make a need from its row."""
    name, _, sentence = row["card"].partition(": ")
    spec = make_spec(name, sentence, row["signature"].removeprefix("def "))
    if spec is None:
        raise ValueError(f"{row['id']} has the signature {row['signature']!r}, which is no Python.")
    return Need(
        id=row["id"],
        name=name,
        schema=spec.schema,
        cases=tuple(map(case_of, row["checks"])),
        reference=row["reference"],
        second=second,
        wrong=tuple(row["wrong"]),
        notes=tuple(row["wrong_notes"]),
    )


def case_of(check: Json) -> Json:
    """Make a case from a check."""
    return {
        "args": check["args"],
        "expected": check.get("expected"),
        "raises": check.get("raises", ""),
        "tolerance": check.get("tolerance", 0.0),
        "origin": "task",
    }


async def try_all(needs: Sequence[Need]) -> list[Trial]:
    """Try every implementation of every need, a few needs at a time."""
    turn = asyncio.Semaphore(AT_ONCE)
    box = BubblewrapSandbox()

    async def one(need: Need) -> list[Trial]:
        async with turn:
            found = [await try_tool(box, need, need.reference, "")]
            for source, note in zip(need.wrong, need.notes, strict=True):
                found.append(await try_tool(box, need, source, note))
            print(f"{need.id}: {', '.join(map(verdict, found))}", flush=True)
            return found

    try:
        return [trial for found in await asyncio.gather(*map(one, needs)) for trial in found]
    finally:
        await box.close()


async def try_tool(box: Sandbox, need: Need, source: str, note: str) -> Trial:
    """Put one implementation through the tests of both writers."""

    async def step(cases: Sequence[Json], *others: str) -> Adequacy:
        return await adequacy(
            box, source, need.name, others=others, cases=cases, schema=need.schema
        )

    good = not await passes(box, source, need.name, need.cases)
    if good:
        good = (await step(need.cases)).score >= LOW_SCORE
    lazy = None
    if not await passes(box, source, need.name, need.lazy):
        lazy = await step(need.lazy, need.second)
    return Trial(need.id, note, good, lazy)


def verdict(trial: Trial) -> str:
    """Say in a few words what the mutation step made of it."""
    who = "wrong" if trial.note else "right"
    if trial.lazy is None:
        return f"{who} failed two cases"
    said = "contested" if trial.lazy.contested else "flagged" if trial.lazy.doubtful else "passed"
    return f"{who} {said} at {trial.lazy.score:.2f}"


def explain(trials: Sequence[Trial]) -> None:
    """Print the wrong tools that escaped and the right ones that did not pass."""
    for trial in trials:
        if trial.lazy is None:
            continue
        escaped = trial.note and not trial.lazy.doubtful
        if trial.good == bool(trial.note):
            print(f"{trial.need}: judged wrongly on all cases: {trial.note or 'the reference'}")
        if escaped:
            added = [case["args"] for case in trial.lazy.added]
            print(
                f"{trial.need}: escaped: {trial.note}; score {trial.lazy.score:.2f}, added {added}"
            )
        if not trial.note and trial.lazy.doubtful:
            print(f"{trial.need}: the reference is flagged, score {trial.lazy.score:.2f}:")
            for one in trial.lazy.contested:
                print(f"    {json.dumps(one['args'])[:200]}: {' / '.join(one['results'])[:300]}")
            print(f"    survivors: {'; '.join(trial.lazy.survivors)[:500]}")


def summary(trials: Sequence[Trial]) -> Json:
    """Count, and hold the counts against the bars."""
    wrong = [trial for trial in trials if trial.note]
    right = [trial for trial in trials if not trial.note]
    passed = [trial.lazy for trial in wrong if trial.lazy]
    references = [trial.lazy for trial in right if trial.lazy]
    found: Json = {
        "wrong_tools": len(wrong),
        "promoted_good_writer": sum(trial.good for trial in wrong),
        "right_tools": len(right),
        "right_rejected_good_writer": sum(not trial.good for trial in right),
        "lazy_wrong_passing": len(passed),
        "lazy_wrong_caught": share(one.doubtful for one in passed),
        "lazy_wrong_contested": share(bool(one.contested) for one in passed),
        "lazy_right_flagged": share(one.doubtful for one in references),
        "lazy_wrong_flagged_alone": share(alone(one) < LOW_SCORE for one in passed),
        "lazy_right_flagged_alone": share(alone(one) < LOW_SCORE for one in references),
        "lazy_right_score": mean([one.score for one in references]),
        "lazy_right_score_alone": mean(list(map(alone, references))),
        "lazy_cases_added": mean([len(one.added) for one in references]),
    }
    return found | {"ok": good_enough(found)}


def alone(found: Adequacy) -> float:
    """Return the score that the given cases have without a second opinion."""
    return found.killed_before / found.total


def good_enough(found: Mapping[str, Any]) -> bool:
    """Whether every bar is met."""
    return bool(
        found["promoted_good_writer"] == 0
        and found["right_rejected_good_writer"] == 0
        and found["lazy_wrong_caught"] >= MIN_CAUGHT
        and found["lazy_right_flagged"] <= MAX_FLAGGED
    )


def share(flags: Any) -> float:
    """Return the share of true ones."""
    return mean([float(one) for one in flags])


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of none."""
    return round(sum(values) / len(values), 3) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
