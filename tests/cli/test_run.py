"""`mem2evolve run` and what it leaves to look at, with a scripted model."""

import json
import time

import pytest

from ..openai_server import OpenAIServer
from .brain import ANSWER, Brain
from .conftest import TASK, Cli, Say


def test_answer_alone_on_stdout_before_learning(cli: Cli) -> None:
    """The answer is there while the judge still thinks; the story goes to standard error."""
    with OpenAIServer(Brain(delays={"second_answer": 1.5})) as server:
        cli.model(server)
        started = cli.start("run", TASK, "--no-web")
        started.wait_until(lambda: started.out != "")
        assert "verdict" not in started.err
        answered = time.monotonic()
        done = started.end()

    assert time.monotonic() - answered > 1
    assert (done.code, done.out) == (0, f"{ANSWER}\n")
    assert "\x1b" not in done.err
    for line in (
        f"task      {TASK}",
        "created   tool triple_number",
        "call      triple_number(n=14) → 42",
        "verdict   success by judge",
        "kept      tool triple_number: candidate → active",
        "lesson    new, tool experience: Check the type first",
    ):
        assert line in done.err


def test_json_is_one_line(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--json` prints one JSON line and no story."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("run", TASK, "--no-web", "--json", ok=True)
    said = json.loads(done.out)

    assert done.out.count("\n") == 1
    assert done.err == ""
    assert (said["answer"], said["verdict"]) == (ANSWER, "success")
    assert [one["outcome"] for one in said["decisions"]] == ["created", "created"]


def test_what_a_run_leaves_can_be_looked_at(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools, agents, lessons and the run itself are listed and shown; a verdict is taken."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run = json.loads(say("run", TASK, "--no-web", "--json", ok=True).out)["run_id"]
        said = say(
            "runs", "verdict", run[:8], "wrong", "--because", "triple_number is off", ok=True
        )
    assert "verdict   failure by person: triple_number is off" in said.err
    assert said.out == ""

    assert "triple_number" in say("tools", "list", "--all", ok=True).out
    shown = say("tools", "show", "triple_number", ok=True).out
    assert "def triple_number(n: int) -> int:" in shown
    assert "triple_number(n=14) = 42" in shown
    assert "arithmetician v2" in say("agents", "list", ok=True).out
    assert "Call the tool; check the sign." in say("agents", "show", "arithmetician", ok=True).out
    lessons = json.loads(say("memory", "list", "--all", "--json", ok=True).out)
    assert {one["title"] for one in lessons} == {"Call the tool", "Check the type first"}
    assert run[:8] in say("memory", "show", lessons[0]["id"][:8], ok=True).out
    assert run[:8] in say("runs", "list", ok=True).out
    shown = say("runs", "show", run[:8], ok=True).out
    assert "call      triple_number(n=14) → 42" in shown
    assert "verdict   failure by person" in shown


def test_empty_lists_say_so(say: Say) -> None:
    """Nothing to list is no error, and standard output stays empty."""
    for name in ("tools", "agents", "memory", "runs"):
        done = say(name, "list", ok=True)
        assert done.out == ""
        assert done.err.startswith("No ")
        assert say(name, "list", "--json", ok=True).out == "[]\n"


def test_doctor_finds_all_well(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has its line; the model was really asked."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = say("doctor", ok=True)

    for part in ("home", "sandbox", "embedding", "memory", "model", "web"):
        assert f"ok   {part}" in done.out
    assert "FAIL" not in done.out


def test_doctor_says_what_to_do(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is exit code 2, and what to do stands below it."""
    monkeypatch.setenv("MEM2EVOLVE_EMBEDDING", "nosuch")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    done = say("doctor", "--json")
    lines = json.loads(done.out)

    assert done.code == 2
    assert {line["part"] for line in lines if not line["ok"]} == {"embedding", "memory", "model"}
    assert all(line["todo"] for line in lines if not line["ok"])
