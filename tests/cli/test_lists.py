"""Lists through the command line: pages, filters, and what a terminal is told about the rest."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.cli._lists import STATUSES, Page
from mem2evolve.cli.runs import VERDICTS
from mem2evolve.graph.context import Context
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import (
    AgentRecord,
    ExperienceRecord,
    RunRecord,
    Status,
    ToolRecord,
    Verdict,
)
from mem2evolve.settings import Settings

from .conftest import Say

RUN = str(uuid.UUID(int=7))


def keep(tmp_path: Path, *records: Any) -> None:
    """Put records into the home."""

    async def put() -> None:
        async with Memory.open(Settings(home=tmp_path / "home")) as memory:
            await memory.put(*records)

    asyncio.run(put())


def lesson(n: int, **changed: Any) -> ExperienceRecord:
    """Return the n-th lesson; each is a second younger than the one before."""
    parts: dict[str, Any] = {
        "scope": "agent",
        "title": f"Lesson {n}",
        "description": "About dates.",
        "applies_when": "Days are counted.",
        "knowledge": f"Count both ends, rule {n}.",
        "outcome": "success",
        "run_id": RUN,
        "created_at": f"2026-01-01T00:00:{n:02}+00:00",
    }
    return ExperienceRecord(**{**parts, **changed})


def titles(say: Say, *words: str) -> list[str]:
    """Return the titles that `memory list` gives."""
    return [
        one["title"] for one in json.loads(say("memory", "list", "--json", *words, ok=True).out)
    ]


def test_lessons_come_in_pages(say: Say, tmp_path: Path) -> None:
    """Newest first; what is left is said on standard error, with where to go on."""
    keep(tmp_path, *(lesson(n) for n in range(7)))

    first = say("memory", "list", "--limit", "3", ok=True)
    last = say("memory", "list", "--limit", "3", "--skip", "6", ok=True)

    assert [line.split("Lesson ")[1][0] for line in first.out.splitlines()] == ["6", "5", "4"]
    assert first.err == "3 of 7; the next ones: --skip 3\n"
    assert "Lesson 0" in last.out
    assert last.err == ""
    assert len(titles(say)) == 7


def test_lessons_are_filtered(say: Say, tmp_path: Path) -> None:
    """By scope, outcome, status, namespace and text, and by all of them at once."""
    keep(
        tmp_path,
        lesson(1),
        lesson(2, scope="tool"),
        lesson(3, outcome="failure"),
        lesson(4, namespace="other"),
        lesson(5, status="quarantined"),
        lesson(6, knowledge="Straße zuerst"),
    )

    assert titles(say, "--scope", "tool") == ["Lesson 2"]
    assert titles(say, "--outcome", "failure") == ["Lesson 3"]
    assert titles(say, "--namespace", "other") == ["Lesson 4"]
    assert titles(say, "--status", "quarantined") == ["Lesson 5"]
    assert titles(say, "--find", "STRASSE") == ["Lesson 6"]
    assert titles(say, "--find", "rule", "--scope", "agent", "--limit", "1") == ["Lesson 4"]
    assert "Lesson 5" in titles(say, "--all")
    assert "quarantined  agent" in say("memory", "list", "--all", ok=True).out


def test_what_a_task_would_recall(say: Say, tmp_path: Path) -> None:
    """`--for` shows what a run would be told: active, close enough, of its namespace, closest first."""
    days = "How many days lie between two dates?"
    keep(
        tmp_path,
        lesson(1, learned_from=days),
        lesson(2, learned_from="Translate a poem about the sea into French"),
        lesson(3, learned_from=days, status="quarantined"),
        lesson(4, learned_from=days, namespace="other"),
    )

    assert titles(say, "--for", "Count the days between these two dates") == ["Lesson 1"]
    others = [f"How many days lie between two dates of {year}?" for year in range(2000, 2009)]
    keep(tmp_path, *(lesson(n, learned_from=text) for n, text in enumerate(others, 10)))
    assert len(titles(say, "--for", days, "--scope", "agent")) == Context().lessons_for_planning
    assert len(titles(say, "--for", days, "--scope", "agent", "--limit", "8")) == 8
    assert say("memory", "list", "--for", "x", "--outcome", "failure").code == 2


def test_tools_agents_and_runs_alike(say: Say, tmp_path: Path) -> None:
    """Every list pages and filters."""
    made = {"input_schema": {}, "code": "x", "status": "active"}
    keep(
        tmp_path,
        *(ToolRecord(name=f"tool_{n}", description="Adds days", **made) for n in range(3)),
        ToolRecord(name="old_one", description="Adds days", **{**made, "status": "retired"}),
        *(
            AgentRecord(name=f"expert_{n}", expertise="Knows days", strategy="s", status="active")
            for n in range(3)
        ),
        *(
            RunRecord(
                id=str(uuid.UUID(int=n)), task=f"task {n}", mode="full", model="m", verdict=verdict
            )
            for n, verdict in enumerate(("success", "failure", "success"))
        ),
    )

    for what in ("tools", "agents", "runs"):
        page = say(what, "list", "--limit", "2", ok=True)
        assert (len(page.out.splitlines()), page.err) == (2, "2 of 3; the next ones: --skip 2\n")
    assert "old_one" in say("tools", "list", "--status", "retired", ok=True).out
    assert "tool_1" in say("tools", "list", "--find", "TOOL_1", ok=True).out
    assert "task 1" in say("runs", "list", "--verdict", "failure", ok=True).out
    assert say("agents", "list", "--namespace", "none", ok=True).out == ""


@pytest.mark.parametrize("words", [("--limit", "0"), ("--skip", "-1"), ("--status", "lost")])
def test_what_is_no_page_is_refused(say: Say, words: tuple[str, str]) -> None:
    """The value and what is allowed are named."""
    say("memory", "list", *words).refused(words[0], words[1])


def test_the_words_of_filters_are_those_of_records() -> None:
    """The command line names them without loading the records."""
    assert set(STATUSES) == set(get_args(Status))
    assert set(VERDICTS) == {*get_args(Verdict), "none"}


@given(st.lists(st.text(max_size=5)), st.integers(1, 6), st.text(max_size=2))
def test_pages_one_after_the_other_are_the_whole(rows: list[str], size: int, find: str) -> None:
    """Nothing is left out and nothing comes twice."""
    pages = [Page(size, skip, find).cut(rows, str) for skip in range(0, len(rows) + 1, size)]

    assert [row for page in pages for row in page] == Page(None, 0, find).cut(rows, str)
