"""`mem2evolve memory stats | verify`, through the command line."""

import json
import uuid
from pathlib import Path

from mem2evolve.memory.records import Case, RunRecord, ToolRecord

from .conftest import Say
from .test_lists import keep, lesson
from .test_tools import record


def test_stats_count_what_is_there(say: Say, tmp_path: Path) -> None:
    """By status, scope, verdict and namespace; built-in tools are not counted."""
    builtin = ToolRecord(name="python", description="Runs.", input_schema={}, origin="builtin")
    run = RunRecord(id=str(uuid.UUID(int=1)), task="t", mode="full", model="m", verdict="success")
    keep(tmp_path, record(), builtin, lesson(1), lesson(2, scope="tool", namespace="lab"), run)

    found = json.loads(say("memory", "stats", "--json", ok=True).out)
    lab = json.loads(say("memory", "stats", "--namespace", "lab", "--json", ok=True).out)
    shown = say("memory", "stats", ok=True).out

    assert found["tools"] == {"active": 1}
    assert (found["by_scope"], found["by_outcome"]) == ({"agent": 1, "tool": 1}, {"success": 2})
    assert found["runs"] == {"success": 1}
    assert found["namespaces"] == {"default": 3, "lab": 1}
    assert (lab["tools"], lab["lessons"]) == ({}, {"active": 1})
    assert "recall      delta 0.5, low 0.35, high 0.8, twin 0.9\n" in shown


def test_stats_of_an_empty_home(say: Say) -> None:
    """Nothing is there, and nothing is wrong."""
    assert "tools       none\n" in say("memory", "stats", ok=True).out


def test_a_tool_that_fails_its_cases_today_is_named(say: Say, tmp_path: Path) -> None:
    """Only when asked for: it takes a box for each case. Its record stays as it is."""
    wrong = record(cases=(Case(args={"n": 2}, expected=7, origin="person"),))
    keep(tmp_path, wrong)

    plain = say("memory", "verify")
    ran = say("memory", "verify", "--tools")
    as_json = json.loads(say("memory", "verify", "--tools", "--json").out)

    assert (plain.code, plain.out, plain.err) == (0, "", "1 records read, 0 faults\n")
    assert ran.code == 1
    assert "triple_number v1" in ran.out
    assert as_json["checked"]["tool"] == 1
    assert [one["id"] for one in as_json["faults"]] == [wrong.id]
    assert "active" in say("tools", "show", "triple_number", ok=True).out
