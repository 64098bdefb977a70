"""`Mem2Evolve` by itself: run, stream, ask, verdict; awaited and blocking."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from mem2evolve import Context, Mem2Evolve, Settings
from mem2evolve.errors import ConfigError, InputError, NotFoundError

from .conftest import ANSWER, ASKING, TASK, TOOL, Brain, Open


async def test_a_run_and_its_correction(open_agent: Open, brain: Brain) -> None:
    """The result says what matters; a verdict by its run id changes what was learned from it."""
    agent = open_agent()
    result = await agent.run(TASK)

    assert (str(result), result.verdict, result.notes) == (ANSWER, "success", ())
    assert {one["outcome"] for one in result.state["decisions"]} == {"created"}
    corrected = await agent.verdict(result.run_id, right=False, because="I counted again")
    assert (corrected.run_id, corrected.verdict) == (result.run_id, "failure")
    record = await agent.resources.memory.get("run", result.run_id)
    assert record is not None
    assert (record.verdict, record.verdict_by) == ("failure", "person")
    with pytest.raises(NotFoundError):
        await agent.verdict("no-such-run", right=True, because="")


async def test_a_run_reads_files(open_agent: Open, tmp_path: Path) -> None:
    """Paths are given as text or as `Path`; one that is none is refused before anything runs."""
    table = tmp_path / "a.csv"
    table.write_text("n\n14\n")
    agent = open_agent()
    result = await agent.run(TASK, files=[table])
    assert result.state["files"] == [str(table)]
    with pytest.raises(InputError, match="does not exist"):
        await agent.run(TASK, files=[tmp_path / "none.csv"])


async def test_events(open_agent: Open) -> None:
    """They come in order; a stream that is left early ends the run."""
    agent = open_agent()
    events = [event["event"] async for event in agent.stream(TASK)]
    assert (events[0], events[-1]) == ("started", "finished")
    assert {"planned", "creating", "decided", "answered", "judged"} <= set(events)
    async for event in agent.stream(TASK):
        assert event["event"] == "started"
        break


@pytest.mark.parametrize("slow", [False, True])
async def test_asking(open_agent: Open, slow: bool) -> None:  # noqa: FBT001 - a parameter
    """A function answers, async or not; what it does not say clearly is asked again."""
    seen: list[dict[str, Any]] = []

    def ask(question: dict[str, Any]) -> str:
        seen.append(question)
        return "yes" if question["note"] else "perhaps"

    async def ask_slowly(question: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return ask(question)

    agent = open_agent(ask=ask_slowly if slow else ask, context=ASKING)
    if slow:
        assert "approval" in [event["event"] async for event in agent.stream(TASK)]
    else:
        assert (await agent.run(TASK)).answer == ANSWER
    assert [question["tool"] for question in seen] == [TOOL, TOOL]
    assert "neither yes nor no" in seen[1]["note"]
    assert agent._saver.storage == {}, "the state of a finished run is dropped"
    assert len(await agent.resources.memory.find_by_name("tool", TOOL)) == 1


async def test_nobody_to_ask(open_agent: Open, caplog: pytest.LogCaptureFixture) -> None:
    """The tool is not kept, the run goes on, and the way out is named in the result and in the log."""
    agent = open_agent(context=ASKING)
    result = await agent.run(TASK)

    assert result.answer == ANSWER
    [note] = result.notes
    for text in (note, caplog.text):
        assert TOOL in text
        assert "no checkpointer" in text
        assert "a function `ask`" in text
    assert await agent.resources.memory.find_by_name("tool", TOOL) == []


def test_blocking(home: Path, brain: Brain) -> None:
    """The same without an event loop; a stream that is left early waits for the run's end."""
    with Mem2Evolve(Settings(home=home, model="openai:scripted")) as agent:
        context = Context(web=False)
        result = agent.run_sync(TASK, context=context)
        assert result.verdict == "success"
        assert agent.verdict_sync(result.run_id, right=True, because="checked").answer == ANSWER
        events = agent.stream_sync(TASK, context=context)
        assert next(events)["event"] == "started"
        events.close()
        assert [one["event"] for one in agent.stream_sync(TASK, context=context)][-1] == "finished"
        with pytest.raises(InputError, match="empty"):
            list(agent.stream_sync(" "))
    assert "mem2evolve-sync" in [thread.name for thread in threading.enumerate()]


async def test_blocking_in_a_tool_of_the_hosts(open_agent: Open) -> None:
    """A call that would wait for itself is refused with what to do; in a thread it is not in the way."""
    outer: list[Mem2Evolve] = []

    async def triple_number(n: int) -> int:
        """Multiply a whole number by three."""
        with pytest.raises(ConfigError, match="blocks"):
            outer[0].run_sync(TASK)
        return 3 * n

    outer.append(open_agent(tools=[triple_number]))
    end = await asyncio.to_thread(outer[0].run_sync, TASK)
    assert end.answer == ANSWER
    assert "recruited" in {one["outcome"] for one in end.state["decisions"]}


async def test_a_model_of_the_hosts(home: Path) -> None:
    """A chat model object is asked for everything; a name stands for the one of the settings."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Paris"), AIMessage("Paris")]))
    direct = Context(mode="direct", evolve=False, web=False)
    async with Mem2Evolve(Settings(home=home), model=model, context=direct) as agent:
        assert (await agent.run("Capital of France?")).answer == "Paris"
    named = Mem2Evolve(Settings(home=home), model="openai:other")
    assert named.resources.settings.model == "openai:other"
