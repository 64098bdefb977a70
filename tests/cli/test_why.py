"""`mem2evolve why` over a run that really made a tool, and over the tool and the lesson that it left."""

import asyncio
import json
from typing import Any

from mem2evolve.memory.memory import Memory
from mem2evolve.settings import Settings

from ..openai_server import OpenAIServer
from .brain import Brain
from .conftest import TASK, Cli
from .test_lists import keep, lesson


def lines(cli: Cli, what: str) -> str:
    """Return the tree, as printed."""
    return cli("why", what, ok=True).out


def words(step: dict[str, Any]) -> list[str]:
    """Return the words of a tree, in order."""
    return [step["word"], *(word for one in step["because"] for word in words(one))]


def test_an_answer_is_walked_back_to_what_taught_it(cli: Cli) -> None:
    """Answer → tool → its tests → how it was made → the lesson shown then → the run that taught that."""
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        first = json.loads(cli("run", TASK, "--no-web", "--json", ok=True).out)
    made = json.loads(cli("tools", "list", "--json", ok=True).out)[0]
    learned = json.loads(cli("memory", "list", "--json", ok=True).out)

    run, tool = lines(cli, first["run_id"][:8]), lines(cli, made["name"])
    taught = lines(cli, learned[0]["id"][:8])
    tree = json.loads(cli("memory", "why", first["run_id"], "--json", ok=True).out)

    assert run.startswith(f"run {first['run_id'][:8]} of ")
    for expected in (
        "├─ answer: 42",
        "created: for tool triple_number",
        "by agreement",
        "round 1: passed",
    ):
        assert expected in run
    assert "making: created after 1 round\n" in run
    assert f"made by: run {first['run_id'][:8]}" in tool
    assert "fared: won in 1 of 1 judged runs that used it" in tool
    assert f"taught by: run {first['run_id'][:8]}" in taught
    assert {"answer", "verdict", "created", "used", "tests", "making"} <= set(words(tree))


def test_what_is_not_there_is_refused(cli: Cli) -> None:
    """The lists where one may look are named."""
    cli("why", "nothing").refused("nothing", "runs list")


def test_a_lesson_names_what_it_is_linked_to(say: Any, tmp_path: Any) -> None:
    """Supported and superseded lessons are told below it; one that was deleted is named as such."""
    old = lesson(1, title="Old")
    new = lesson(
        2, title="New", supports=(old.id,), supersedes="00000000-0000-0000-0000-000000000001"
    )
    keep(tmp_path, old, new)

    told = say("why", new.id[:8], ok=True).out

    assert f"supports: lesson {old.id[:8]} (active, from a success): Old" in told
    assert "took the place of: 00000000, which was deleted" in told


def test_a_record_is_told_once(say: Any, tmp_path: Any) -> None:
    """Lessons that support each other in a ring end where the ring closes."""
    first = lesson(1, title="First")
    second = lesson(2, title="Second", supports=(first.id,))
    keep(tmp_path, second, first.model_copy(update={"supports": (second.id,)}))

    told = say("why", first.id[:8], ok=True).out

    assert told.count("Second") == 1
    assert "First (told above)" in told


def test_ambiguous_ids_are_refused(say: Any, tmp_path: Any) -> None:
    """No guess is made; short starts name nothing."""
    keep(tmp_path, lesson(1))

    async def start() -> str:
        async with Memory.open(Settings(home=tmp_path / "home")) as memory:
            return (await memory.list("experience"))[0].id

    say("why", asyncio.run(start())[:2]).refused("no record")
