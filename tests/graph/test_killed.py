"""A command that is killed with SIGKILL, at every step, and resumed: as if nothing had happened. `make test-kill`.

For each moment of death these hold:

- The records of all kinds, with their statuses and histories, the files in `tools_generated/` and what the command
  prints (answer, verdict, decisions, what was kept and learned, tokens) are those of a run that nothing broke, but
  for times and random ids. So there is no second record of a tool, an expert, a lesson or a run.
- Nothing is half written, right after the kill and at the end; nothing of the run is left among unfinished ones.
- A step whose result was stored does not start again, and the model is asked exactly what an unbroken run asks, and
  once more only what was asked by steps whose result was not stored yet.
- No process of a box is left.
"""

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from ..fakes import Answer, Asked, said
from .conftest import (
    FORMULA,
    LESSON,
    SHM,
    TASK,
    TOOL,
    TOOL_LESSON,
    Cast,
    call,
    fenced,
    making,
    plan_of,
)
from .killed import Launcher, Scenario, World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and bubblewrap")

AT_ONCE = 2
RANDOM_KILLS = int(os.environ.get("RANDOM_KILLS", "12"))
"""Beside those at each step."""
MAX_LATE_S = 0.4
CHOSEN = os.environ.get("KILL_AT", "")
"""Moments to try instead, as in `50 49:0.02`: numbers of events, and seconds after them."""
MENDED = FORMULA.replace("if n < 0", "if n < 1")


def _acts(asked: Asked) -> Answer:
    called = any(message["role"] == "tool" for message in asked["messages"])
    return "385" if called else call()


def _mends(asked: Asked) -> Answer:
    """The first new version fails a case; the second one, which sees that, does not."""
    seen = "it raised ValueError" in said(asked)
    return fenced(FORMULA.replace("// 6", "// 2 // 3") if seen else MENDED)


def _cast(**parts: object) -> Cast:
    """Return a script that gives the same answer to the same prompt, however often it is asked."""
    same = {
        name: part if callable(part) else lambda _, part=part: part for name, part in parts.items()
    }
    return Cast(**same)  # type: ignore[arg-type]


def makes() -> Cast:
    """Return the script of a run that makes a tool and an expert and learns from it."""
    parts = {"plan": plan_of(), **making(), "act": _acts, "second_answer": "385"}
    return _cast(**parts, generalise=LESSON, tool_lesson=TOOL_LESSON)


def mends() -> Cast:
    """Return the script of a correction after which the tool is mended."""
    diagnosed = {**LESSON, "title": "Mind the bounds"}
    return _cast(
        tool=_mends, diagnose_run=diagnosed, tool_lesson={**TOOL_LESSON, "title": "Divide in turn"}
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder for homes, in memory where it can be."""
    where = SHM if os.access(SHM, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="mem2evolve-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """What starts processes quickly."""
    made = Launcher()
    yield made
    made.close()


@pytest.fixture(scope="module")
def creation(folder: Path, launcher: Launcher) -> Scenario:
    """A run that makes a tool and an expert, tests it, acts, judges, promotes and learns."""
    world = World(folder / "empty", launcher, makes())
    assert world.live("tools", "list").code == 0
    args = ("run", TASK, "--no-web", "--json")
    scenario = Scenario("creation", args, makes, world.home, launcher)
    scenario.unbroken(folder / "whole")
    return scenario


@pytest.fixture(scope="module")
def correction(folder: Path, launcher: Launcher, creation: Scenario) -> Scenario:
    """A person faults the tool of that run, and it is mended."""
    run = json.loads(creation.whole.out)["run_id"]
    args = ("runs", "verdict", run, "wrong", "--because", f"{TOOL} is too slow")
    scenario = Scenario("correction", args, mends, creation.end, launcher)
    scenario.unbroken(folder / "corrected")
    return scenario


def _sweep(scenario: Scenario, folder: Path, moments: list[tuple[int, float]]) -> list[str]:
    """Try moments of death, some at once; return what was found wrong."""
    free: Queue[Launcher] = Queue()
    for _ in range(AT_ONCE):
        free.put(Launcher())

    def attempt(moment: tuple[int, float]) -> list[str]:
        at, late = moment
        launcher, home = free.get(), folder / f"{scenario.name}-{at}-{late}"
        try:
            found = scenario.broken(home, launcher, at, late)
        except Exception as exc:  # noqa: BLE001 - one moment must not hide the others
            found = [f"{at} +{late:.3f} s: {exc!r}"]
        finally:
            free.put(launcher)
            shutil.rmtree(home, ignore_errors=True)
        print(f"{scenario.name} {at} +{late:.3f} s: {found or 'ok'}", flush=True)  # noqa: T201 - what `make test-kill` shows
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [line for lines in pool.map(attempt, moments) for line in lines]
    for _ in range(AT_ONCE):
        free.get().close()
    return found


@pytest.mark.parametrize(
    ("event", "step"),
    [("start", "check_drafts"), ("end", "tools"), ("end", "evolve_assets"), ("end", "distill")],
)
def test_killed_at_some_steps(creation: Scenario, folder: Path, event: str, step: str) -> None:
    """While a tool is made, while an expert acts, when assets were promoted, and when lessons were written."""
    steps = [(one["event"], one["step"]) for one in creation.whole.steps]
    at = steps.index((event, step)) + 1
    assert not creation.broken(folder / f"some-{at}", creation.launcher, at)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["creation", "correction"])
def test_killed_at_every_step(request: pytest.FixtureRequest, folder: Path, name: str) -> None:
    """At the start of each step, before it did anything, and at its end, before its result was stored."""
    scenario: Scenario = request.getfixturevalue(name)
    moments = [(at, 0.0) for at in range(1, len(scenario.whole.steps) + 1)]
    if CHOSEN:
        pairs = [f"{one}:0".split(":") for one in CHOSEN.split()]
        moments = [(int(pair[0]), float(pair[1])) for pair in pairs]
    assert not _sweep(scenario, folder, moments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["creation", "correction"])
def test_killed_at_any_moment(request: pytest.FixtureRequest, folder: Path, name: str) -> None:
    """Somewhere in the middle of a step."""
    scenario: Scenario = request.getfixturevalue(name)
    dice = random.Random(11)  # noqa: S311 - to repeat a run
    moments = [
        (dice.randint(1, len(scenario.whole.steps)), dice.uniform(0.001, MAX_LATE_S))
        for _ in range(RANDOM_KILLS)
    ]
    assert not _sweep(scenario, folder, moments)
