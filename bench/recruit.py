"""Is the right asset recruited, and the wrong one not? No model is needed but the embedding model.

    python bench/recruit.py [--embedded]

60 cards lie in a memory of the default kind; 90 wanted cards, and 40 near misses that differ from a card in one
crucial respect, are recalled from it and chosen among as in a run (`Memory.recall_assets`, `nodes.fitting.choose`).
Queries without a right card are tried in each collection. With `--embedded` the embedded chat model judges fits, and
writes wanted cards from the raw queries; that takes an hour. The last line is one JSON object; the exit code is 1
below a bar.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from recruit_models import PerfectJudge, with_chat_model

from mem2evolve.api import open_resources
from mem2evolve.graph.context import Context
from mem2evolve.graph.state import Wanted
from mem2evolve.memory.calibrate import Trial, best_delta
from mem2evolve.memory.labelled_set import Card, Collection, LabelledSet, Query, load
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import Candidate, Need
from mem2evolve.memory.records import AgentRecord, ExperienceRecord, ToolRecord
from mem2evolve.nodes.desk import Desk, Resources
from mem2evolve.nodes.fitting import choose, thresholds
from mem2evolve.settings import EMBEDDED_MODEL, Settings

BARS: Final = {"accuracy_wanted": 0.97, "accuracy_wanted_cv5": 0.95, "accuracy_with_judge": 0.99}
FOLDS: Final = 5
STAGE: Final = "select_or_create_asset"

Json = dict[str, Any]


class Worded(Need):
    """A need that is recalled by a text of any form, as by the words of the raw query."""

    @property
    def card(self) -> str:
        """What is embedded."""
        return self.description


@dataclass
class Bench:
    """The labelled set in a memory, and what is chosen from it."""

    resources: Resources
    labelled: LabelledSet
    ids: dict[str, str] = field(default_factory=dict)
    """Id of the set's card → of our record."""

    async def fill(self) -> None:
        """Write the cards."""
        records = {card.id: record_of(card) for card in self.labelled.cards}
        await self.resources.memory.put(*records.values())
        self.ids = {key: record.id for key, record in records.items()}

    async def found(self, text: str, kind: Collection) -> list[Candidate]:
        """Recall what is closest to a text in one collection."""
        memory = self.resources.memory
        if kind != "experience":
            [found] = await memory.recall_assets([Worded(kind=kind, name="", description=text)])
            return found
        lessons = await memory.recall_lessons(text, scope="agent", k=5)
        return [
            Candidate(
                id=lesson.id,
                kind="tool",  # what follows makes no difference between kinds
                name=lesson.title,
                version=1,
                card=lesson.card,
                score=score,
                status=lesson.status,
                uses=0,
                wins=0,
            )
            for lesson, score in lessons
        ]

    async def chosen(self, text: str, kinds: Sequence[Collection], settings: Context) -> list[str]:
        """Return the ids of what is recruited for a text in those collections."""
        desk = Desk(self.resources, settings, STAGE)
        limits = await thresholds(desk)
        name, _, sentence = text.partition(": ")
        need = Wanted(
            kind="tool", name=name, description=sentence, input="", output="", subtasks=[]
        )
        picks = [await choose(desk, need, await self.found(text, kind), limits) for kind in kinds]
        return [pick.candidate.id for pick in picks if pick.candidate]

    async def right(self, query: Query, text: str, settings: Context) -> bool:
        """Whether what is recruited for a query is its card and no other, or nothing if it has none."""
        chosen = await self.chosen(text, self.labelled.collections_of(query), settings)
        return chosen == ([self.ids[query.answer]] if query.answer else [])

    async def accuracy(self, settings: Context, *, raw: bool = False) -> float:
        """Return the share of right decisions over the whole set."""
        return mean(
            [await self.right(one, text_of(one, raw), settings) for one in self.labelled.queries]
        )

    async def trials(self, *, raw: bool = False) -> list[Trial]:
        """Return for each query the closest card, as it was recalled."""
        return [await self._trial(query, text_of(query, raw)) for query in self.labelled.queries]

    async def _trial(self, query: Query, text: str) -> Trial:
        kinds = self.labelled.collections_of(query)
        best = max([(await self.found(text, kind))[0] for kind in kinds], key=lambda one: one.score)
        right = best.id == self.ids.get(query.answer)
        return Trial(score=best.score, answered=bool(query.answer), right=right)

    async def cross_validated(self, trials: Sequence[Trial]) -> float:
        """Return the accuracy on each fifth with the δ that fits the other four best."""
        right: list[bool] = []
        for fold in range(FOLDS):
            delta = best_delta([one for n, one in enumerate(trials) if n % FOLDS != fold])
            held_out = self.labelled.queries[fold::FOLDS]
            settings = Context(fit_check=False, delta=delta)
            right += [await self.right(query, query.want, settings) for query in held_out]
        return mean(right)

    async def near_recruited(self, settings: Context) -> list[str]:
        """Return the ids of the near misses for which something is recruited."""
        kind = {card.id: card.asset for card in self.labelled.cards}
        return [
            one.id
            for one in self.labelled.near
            if await self.chosen(one.wanted, (kind[one.card],), settings)
        ]


def main() -> int:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--embedded", action="store_true", help="Also with the embedded chat model."
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run(Path(folder), embedded=options.embedded))
    print(json.dumps(report))
    return 0 if report["ok"] else 1


async def run(home: Path, *, embedded: bool) -> Json:
    """Measure everything in a home of its own."""
    labelled = load()
    judge = PerfectJudge(right=right_cards(labelled))
    bench = await open_bench(home, labelled, model=judge)
    try:
        report = await measure(bench, judge)
    finally:
        await bench.resources.close()
    if embedded:
        bench = await open_bench(home / "embedded", labelled)
        try:
            report["embedded"] = await with_chat_model(bench)
        finally:
            await bench.resources.close()
    return report


async def open_bench(
    home: Path, labelled: LabelledSet, *, model: BaseChatModel | None = None
) -> Bench:
    """Open a home with the labelled set in it; without a model, with the embedded one."""
    resources = open_resources(Settings(home=home, model=EMBEDDED_MODEL), model=model)
    memory = Memory.open(resources.settings, lesson_floor=-1.0)
    bench = Bench(replace(resources, memory=memory), labelled)
    await bench.fill()
    return bench


async def measure(bench: Bench, judge: PerfectJudge) -> Json:
    """Measure with the embedding model alone, and with a judge that knows the labels."""
    alone, checked = Context(fit_check=False), Context()
    trials, raw = await bench.trials(), await bench.trials(raw=True)
    raw_delta = best_delta(raw)
    report: Json = {
        "accuracy_wanted": await bench.accuracy(alone),
        "accuracy_wanted_cv5": await bench.cross_validated(trials),
        "accuracy_raw": await bench.accuracy(Context(fit_check=False, delta=raw_delta), raw=True),
        "raw_delta": raw_delta,
        "accuracy_with_judge": await bench.accuracy(checked),
        "delta": bench.resources.memory.calibration.delta,
        "best_delta": best_delta(trials),
    }
    choices = sum(len(bench.labelled.collections_of(one)) for one in bench.labelled.queries)
    report |= {"choices": choices, "judge_asked": round(len(judge.asked) / choices, 3)}
    asked = len(judge.asked)
    slipped = await bench.near_recruited(checked)
    report |= {
        "near": len(bench.labelled.near),
        "near_recruited": len(await bench.near_recruited(alone)),
        "near_recruited_with_judge": len(slipped),
        "near_judge_asked": len(judge.asked) - asked,
    }
    return report | {"ok": good_enough(report)}


def record_of(card: Card) -> ToolRecord | AgentRecord | ExperienceRecord:
    """Return a card as a record whose own card has the same text."""
    name, _, text = card.text.partition(": ")
    if card.asset == "tool":
        return ToolRecord(name=name, description=text, input_schema={}, status="active")
    if card.asset == "agent":
        return AgentRecord(name=name, expertise=text, strategy="", status="active")
    return ExperienceRecord(
        scope="agent",
        title=name,
        description=text,
        applies_when="",
        knowledge="",
        learned_from=text,
        outcome="success",
        run_id="bench",
    )


def right_cards(labelled: LabelledSet) -> dict[str, str]:
    """Return for each wanted card that has one the text of the card that does it."""
    text = {card.id: card.text for card in labelled.cards}
    return {query.want: text[query.answer] for query in labelled.queries if query.answer}


def text_of(query: Query, raw: bool) -> str:  # noqa: FBT001 - the one thing that differs
    """Return what a query is recalled by."""
    return query.query if raw else query.want


def good_enough(report: Mapping[str, Any]) -> bool:
    """Whether every bar is met, and no near miss gets past the judge."""
    met = all(report[name] >= bar for name, bar in BARS.items())
    return met and report["near_recruited_with_judge"] == 0


def mean(flags: Sequence[bool]) -> float:
    """Return the share of true ones, 0 of none."""
    return round(sum(flags) / len(flags), 3) if flags else 0.0


if __name__ == "__main__":
    sys.exit(main())
