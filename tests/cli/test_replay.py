"""`mem2evolve memory replay` on a memory that a run has filled."""

import json
from pathlib import Path

import pytest

from ..openai_server import OpenAIServer
from .brain import Brain
from .conftest import TASK, Say


def tasks(folder: Path, *answers: str) -> str:
    """Write a list of tasks."""
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps({"task": TASK, "answer": one}) + "\n" for one in answers))
    return str(file)


def test_a_tool_saves_what_making_it_costs(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it, it is called; without it, another is made. The memory is as before."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        say("run", TASK, "--no-web", ok=True)
        before = say("tools", "list", "--all", "--json", ok=True).out
        done = say(
            *("memory", "replay", "--asset", "triple_number", "--json"),
            *("--tasks", tasks(tmp_path, "42", "41")),
            ok=True,
        )
    found = json.loads(done.out)

    assert (found["tasks"], found["trials"], found["used"]) == (2, 4, 2)
    assert found["accuracy"] == {"with": 0.5, "without": 0.5, "gain": 0.0, "interval": [0.0, 0.0]}
    assert found["tokens"]["gain"] < 0
    assert "task 2 of 2, with: wrong: 42, used" in done.err
    assert "without: right, used" not in done.err  # though the one that is made there is the same
    assert say("tools", "list", "--all", "--json", ok=True).out == before
    assert len(json.loads(say("runs", "list", "--json", ok=True).out)) == 1


def test_a_lesson_is_left_out_of_one_arm(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown in the other; the table says so."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        say("run", TASK, "--no-web", ok=True)
        [key] = [
            one["id"]
            for one in json.loads(say("memory", "list", "--json", ok=True).out)
            if one["scope"] == "agent"
        ]
        done = say(
            "memory", "replay", "--lesson", key[:8], "--tasks", tasks(tmp_path, "42"), ok=True
        )

    assert done.out.startswith("1 task, 2 runs; it was used in 1\n")
    assert "One task gives no interval." in done.err


def test_what_cannot_be_replayed_is_refused(say: Say, tmp_path: Path) -> None:
    """Nothing named, two things named, nothing there."""
    listed = tasks(tmp_path, "42")

    say("memory", "replay", "--tasks", listed).refused("--asset")
    say("memory", "replay", "--asset", "a", "--lesson", "b", "--tasks", listed).refused("--asset")
    say("memory", "replay", "--asset", "absent", "--tasks", listed).refused("absent")
