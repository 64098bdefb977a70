"""The measure of `make bench-recruit`: its figures, its bars, and what it asks a chat model."""

import asyncio
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from mem2evolve.memory.labelled_set import load

from ..fakes import ScriptedModel

FILE: Final = Path(__file__).parents[2] / "bench" / "recruit.py"
GOOD: Final = {
    "accuracy_wanted": 0.97,
    "accuracy_wanted_cv5": 0.95,
    "accuracy_with_judge": 0.99,
    "near_recruited_with_judge": 0,
}


@pytest.fixture
def recruit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module; it finds the one beside it as a started program does."""
    monkeypatch.syspath_prepend(FILE.parent)
    spec = importlib.util.spec_from_file_location("recruit", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses ask for it
    spec.loader.exec_module(module)
    return module


def test_the_bars_are_met(recruit: Any, tmp_path: Path) -> None:
    """With the built-in embedding model, through the real memory and the real choice."""
    found = asyncio.run(recruit.run(tmp_path, embedded=False))

    assert found["ok"], found
    assert found["delta"] == 0.5
    assert found["accuracy_raw"] < found["accuracy_wanted"]
    assert found["near_recruited"] > 0  # else they would not be near
    assert found["near_judge_asked"] == found["near"] == 40


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy_wanted": 0.96},
        {"accuracy_wanted_cv5": 0.94},
        {"accuracy_with_judge": 0.98},
        {"near_recruited_with_judge": 1},
    ],
)
def test_the_bars_bite(recruit: Any, change: dict[str, Any]) -> None:
    """Each of them."""
    assert recruit.good_enough(GOOD)
    assert not recruit.good_enough({**GOOD, **change})


async def test_a_chat_model_judges_and_plans(recruit: Any, tmp_path: Path) -> None:
    """It is asked with the prompts of the fit check and of the plan; what it wants is recalled and chosen."""
    labelled = load()
    queries = [query for query in labelled.queries if query.id in ("q01", "q02", "n29")]
    few = replace(labelled, queries=tuple(queries), near=labelled.near[:2])
    wanted = {query.query: query.want for query in queries}

    def speak(messages: Any) -> str:
        text = str(messages[-1].content)
        if "On hand:" in text:
            return json.dumps({"why": "The first.", "fits": 1})
        want = next(wanted[query] for query in wanted if query in text)
        name, _, about = want.partition(": ")
        tool = {"name": name, "description": about, "input": "x: str", "output": "str"}
        expert = {"name": "nobody", "expertise": "Does nothing that is known here at all"}
        part = {"id": "a", "goal": "g", "depends_on": [], "expert": expert}
        return json.dumps({"subtasks": [{**part, "tools": [] if "bird" in want else [tool]}]})

    bench = await recruit.open_bench(tmp_path, few, model=ScriptedModel(replies=speak))
    found = await recruit.with_chat_model(bench)
    await bench.resources.close()

    assert found["as_judge"]["near_recruited"] == 2  # it finds that everything fits
    assert found["as_planner"] == {"queries": 3, "accuracy": 1.0, "no_card": 0, "unusable": 0}
