"""The graph as LangGraph runs it in process: both ways, to the same end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mem2evolve import Context, Settings, build_graph, open_resources

from ..openai_server import OpenAIServer
from .kelvin import TASK, TOOL, answer


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A home of its own, and a model that is scripted."""
    with OpenAIServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield Settings(home=tmp_path, model="openai:scripted")


def check(first: dict[str, Any], second: dict[str, Any], settings: Settings) -> None:
    """The first run makes the tool, the second one recruits it."""
    assert (first["answer"], first["verdict"]) == ("293.15", "success")
    assert {one["outcome"] for one in first["decisions"]} == {"created"}
    assert {one["outcome"] for one in second["decisions"]} == {"recruited"}
    assert (settings.tools_dir / TOOL / "v1" / "tool.py").is_file()


async def test_ainvoke(settings: Settings) -> None:
    """On the caller's event loop."""
    resources = open_resources(settings)
    graph, context = build_graph(resources), Context(web=False)
    try:
        first = await graph.ainvoke({"task": TASK}, context=context)
        second = await graph.ainvoke({"task": TASK}, context=context)
    finally:
        await resources.close()

    check(first, second, settings)


def test_invoke(settings: Settings) -> None:
    """Without an event loop, as in a script or a notebook cell."""
    resources = open_resources(settings)
    graph, context = build_graph(resources), Context(web=False)
    try:
        first = graph.invoke({"task": TASK}, context=context)
        second = graph.invoke({"task": TASK}, context=context)
    finally:
        asyncio.run(resources.close())

    check(first, second, settings)


def test_stream_shows_what_happens_inside(settings: Settings) -> None:
    """Custom events reach a caller that has no event loop, those of sub-graphs too."""
    resources = open_resources(settings)
    graph, context = build_graph(resources), Context(web=False)
    try:
        stream = graph.stream({"task": TASK}, context=context, stream_mode="custom", subgraphs=True)
        events = [event["event"] for _, event in stream]
    finally:
        asyncio.run(resources.close())

    assert events[0] == "started"
    assert events[-1] == "finished"
    assert {"creating", "registered", "acted", "answered"} <= set(events)
