"""Passing trouble teaches nothing and faults nothing, whatever it is and wherever it comes from."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from mem2evolve import errors
from mem2evolve.errors import Mem2EvolveError
from mem2evolve.nodes.desk import Desk

from ..fakes import prompt_of
from .conftest import LESSON, TASK, Agent, Cast, call, first_run, plan_of

PASSING = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Mem2EvolveError) and kind.transient
    ),
    key=lambda kind: kind.__name__,
)
MAKING = ("plan", "agent", "tool", "cases", "oracle", "act")
"""Prompts of a run that makes what it lacks."""
USING = ("act", "second_answer", "judge", "generalise")
"""Prompts of a run that has it, up to the lesson."""

Raise = Callable[[], Mem2EvolveError]


def pairs(places: Sequence[str]) -> list[Any]:
    """Return every error at every place."""
    return [
        pytest.param(kind, place, id=f"{kind.__name__}-{place}")
        for place in places
        for kind in PASSING
    ]


def trouble(kind: type[Mem2EvolveError]) -> Mem2EvolveError:
    """Return the error."""
    return kind("It is down.", hint="Wait.")


def at_prompt(monkeypatch: pytest.MonkeyPatch, name: str, kind: type[Mem2EvolveError]) -> list[str]:
    """Raise it when a prompt is asked; returns a list that grows with each time."""
    hit: list[str] = []

    def broken(method: str) -> Any:
        ask = getattr(Desk, method)

        async def asking(self: Desk, *args: Any, **options: Any) -> Any:
            messages: Sequence[BaseMessage] = args[0] if method == "act" else args[1]
            if prompt_of({"messages": [{"content": one.text} for one in messages]}) == name:
                hit.append(name)
                raise trouble(kind)
            return await ask(self, *args, **options)

        return asking

    for method in ("text", "structured", "act"):
        monkeypatch.setattr(Desk, method, broken(method))
    return hit


async def run_through(agent: Agent, cast: Cast) -> None:
    """Run to the end, or to the error."""
    try:
        await agent.start(cast, {"task": TASK})
    except Mem2EvolveError as exc:
        assert exc.transient  # noqa: PT017 - an end without error is as good


async def nothing_was_learned(agent: Agent) -> None:
    """No lesson, no asset faulted or set aside, no verdict that says so."""
    assert await agent.memory.list("experience") == []
    assert set((await agent.statuses()).values()) <= {"active", "candidate"}
    for run in await agent.memory.list("run"):
        assert run.critique.get("faults", []) == []
        assert run.verdict != "failure"


@pytest.mark.parametrize(("kind", "place"), pairs(MAKING))
async def test_while_things_are_made(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, kind: type[Mem2EvolveError], place: str
) -> None:
    """Planning, describing an expert, writing and testing a tool, and the first act."""
    hit = at_prompt(monkeypatch, place, kind)
    await run_through(agent, first_run())

    assert hit
    await nothing_was_learned(agent)


@pytest.mark.parametrize(("kind", "place"), pairs(USING))
async def test_while_things_are_used_and_judged(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, kind: type[Mem2EvolveError], place: str
) -> None:
    """Acting, judging, drawing the lesson."""
    await agent.seed()
    hit = at_prompt(monkeypatch, place, kind)
    second = "UNKNOWN" if place == "judge" else "385"
    await run_through(
        agent,
        Cast(plan=plan_of(), act=[call(), "385"], second_answer=second, generalise=LESSON),
    )

    assert hit
    await nothing_was_learned(agent)


@pytest.mark.parametrize("kind", PASSING, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("made", [False, True], ids=["creating", "acting"])
async def test_while_the_sandbox_is_down(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, kind: type[Mem2EvolveError], *, made: bool
) -> None:
    """A tool that could not be run is not a tool that failed."""
    hit: list[str] = []

    async def down(*_: Any, **__: Any) -> Any:
        hit.append("call")
        raise trouble(kind)

    if made:
        await agent.seed()
    monkeypatch.setattr(agent.resources.sandbox, "call", down)
    monkeypatch.setattr(type(agent.resources.sandbox), "call", down)
    await run_through(agent, first_run())

    assert hit
    await nothing_was_learned(agent)


@pytest.mark.parametrize("kind", PASSING, ids=lambda kind: kind.__name__)
async def test_while_the_lesson_is_stored(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, kind: type[Mem2EvolveError]
) -> None:
    """The verdict stands; the lesson is drawn again when the run is resumed."""
    await agent.seed()

    async def down(*_: Any, **__: Any) -> Any:
        raise trouble(kind)

    monkeypatch.setattr(agent.memory, "remember", down)
    await run_through(
        agent, Cast(plan=plan_of(), act=[call(), "385"], second_answer="385", generalise=LESSON)
    )
    await nothing_was_learned(agent)
