"""`mem2evolve batch`, and what `run` prints for programs."""

import json
import os
import signal
from pathlib import Path

import pytest

from ..openai_server import OpenAIServer, reply_json, reply_text
from .brain import Brain
from .conftest import TASK, Cli, Say


def listed(folder: Path, *rows: dict[str, object]) -> str:
    """Write a list of tasks."""
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_results_and_summary(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line a task, right or wrong where that is known; what one makes the other may use; nothing is run twice."""
    tasks = listed(
        tmp_path, {"task": TASK, "answer": "42"}, {"task": f"{TASK} Really?", "answer": "7"}
    )
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("batch", tasks, "--no-web", "--jobs", "1")
        asked = len(server.requests)
        again = say("batch", tasks, "--no-web", "--jobs", "1")
        assert len(server.requests) == asked
    rows = [json.loads(line) for line in done.out.splitlines()]

    assert (done.code, again.code, again.out) == (1, 1, "")
    assert [(row["line"], row["answer"], row["right"]) for row in rows] == [
        (1, "42", True),
        (2, "42", False),
    ]
    assert [row["decisions"] for row in rows] == [
        ["created", "created"],
        ["recruited", "recruited"],
    ]
    assert "2 tasks: 1 solved, 1 of 2 answers right" in done.err
    assert again.err == done.err
    kept = (tmp_path / "tasks.jsonl.results.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == rows


def test_one_that_cannot_run_does_not_stop_the_rest(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and tried again the next time."""
    tasks = listed(tmp_path, {"task": TASK}, {"task": "fail"})

    def brain(asked: dict[str, object]) -> object:
        if "fail" in json.dumps(asked):
            return reply_text("no", status=401)
        return Brain()(asked)  # type: ignore[arg-type]

    with OpenAIServer(brain) as server:  # type: ignore[arg-type]
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("batch", tasks, "--no-web", "--mode", "direct", "--no-evolve")
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        again = say("batch", tasks, "--no-web", "--mode", "direct", "--no-evolve")

    assert done.code == 2
    assert "1 could not run" in done.err
    assert (again.code, len(again.out.splitlines())) == (0, 1)


def test_what_was_killed_goes_on(cli: Cli) -> None:
    """The run that was at work is resumed, not begun anew."""
    tasks = listed(cli.folder, {"task": TASK, "answer": "42"})
    with OpenAIServer(Brain(delays={"second_answer": 30.0})) as server:
        cli.model(server)
        started = cli.start("batch", tasks, "--no-web")
        started.wait_until(
            lambda: any("What is the answer to the task?" in str(one) for one in server.requests)
        )
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait(20)
        planned = len(server.requests)
    brain = Brain()
    with OpenAIServer(brain) as server:
        cli.model(server)
        done = cli("batch", tasks, "--no-web", ok=True)

    assert planned > 5
    assert "plan" not in brain.said
    assert json.loads(done.out)["right"]


@pytest.mark.parametrize("lines", ["", "not json\n", '{"task": ""}\n'])
def test_what_is_no_list_is_refused(say: Say, tmp_path: Path, lines: str) -> None:
    """Nothing is run."""
    file = tmp_path / "tasks.jsonl"
    file.write_text(lines)

    say("batch", str(file)).refused("tasks.jsonl")


def test_results_are_not_written_over_something_else(say: Say, tmp_path: Path) -> None:
    """A file of another kind stays as it is."""
    tasks, other = listed(tmp_path, {"task": TASK}), tmp_path / "notes.txt"
    other.write_text("mine")

    say("batch", tasks, "--out", str(other)).refused("notes.txt", "--out")
    assert other.read_text() == "mine"


def test_events_for_programs(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--stream-json` prints each event on a line of its own, and how it ended last."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("run", TASK, "--no-web", "--stream-json", ok=True)
    events = [json.loads(line) for line in done.out.splitlines()]

    names = [one["event"] for one in events]
    assert {"started", "planned", "decided", "acted", "answered", "judged", "learned"} <= set(names)
    assert (names[-1], events[-1]["answer"], done.err) == ("ended", "42", "")


def test_a_task_that_was_not_solved(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is there, and exit code 1 says that the judge did not take it."""
    verdict = {"evidence": "42", "verdict": "failure", "reason": "Three times 14 is more."}
    told = {"second_answer": reply_text("41"), "judge": reply_json(verdict)}
    with OpenAIServer(Brain(answers=told)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("run", TASK, "--no-web")

    assert (done.code, done.out) == (1, "42\n")


def test_run_resume_is_runs_resume(say: Say) -> None:
    """And either a task or a run is named."""
    say("run", "--resume", "12345678").refused("no run '12345678'")
    say("run").refused("TASK", "--resume")
    say("run", "x", "--resume", "y").refused("TASK", "--resume")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(say: Say, shell: str) -> None:
    """A script of the shell that calls back."""
    assert f"_MEM2EVOLVE_COMPLETE={shell}_complete" in say("completion", shell, ok=True).out
