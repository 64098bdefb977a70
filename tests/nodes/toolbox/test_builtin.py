"""`nodes/toolbox/builtin.py`: the table of tools, called as the graph calls them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ToolFailure
from mem2evolve.nodes.toolbox.builtin import BUILTINS, Bench
from mem2evolve.nodes.toolbox.web import SearchResult, WebUnavailable

TOOLS = {tool.name: tool for tool in BUILTINS}


def test_the_names_are_these() -> None:
    """Each once."""
    assert [tool.name for tool in BUILTINS] == ["python", "read_file", "web_search", "read_webpage"]


@pytest.mark.parametrize("tool", BUILTINS, ids=lambda tool: tool.name)
def test_a_card_is_one_sentence_and_a_closed_schema(tool: Any) -> None:
    """What the model sees is short, and no argument is unknown."""
    assert re.fullmatch(r"[A-Z][^.]+\.", tool.description.replace("one-off", ""))
    assert tool.input_schema["additionalProperties"] is False
    assert set(tool.input_schema["required"]) <= set(tool.input_schema["properties"])
    assert all(p["description"] for p in tool.input_schema["properties"].values())


async def test_a_file_is_read_with_loose_numbers(looking: Any, tmp_path: Path) -> None:
    """Small models write "1" and 2.0 for whole numbers."""
    path = tmp_path / "a"
    path.write_text("abcdef")
    bench = Bench(sandbox=looking(), files={"a": path})

    found: Any = await TOOLS["read_file"].run({"name": "a", "start": "1", "limit": 2.0}, bench)

    assert (found["text"], found["next_start"]) == ("bc", 3)


async def test_python_runs_in_the_benchs_sandbox(looking: Any) -> None:
    """The host only hands the script over."""
    bench = Bench(sandbox=looking(), files={})

    await TOOLS["python"].run({"code": "raise SystemExit"}, bench)

    assert "raise SystemExit" in bench.sandbox.asked[0]["source"]  # type: ignore[attr-defined]


async def test_search_uses_the_benchs_engine(looking: Any) -> None:
    """And never asks for more than ten."""

    class Counting:
        async def search(self, query: str, *, limit: int) -> list[SearchResult]:
            return [SearchResult(title=query, url="http://a.test", snippet=str(limit))]

    bench = Bench(sandbox=looking(), files={}, searcher=Counting())

    found = await TOOLS["web_search"].run({"query": "q", "max_results": 99}, bench)

    assert found == [{"title": "q", "url": "http://a.test", "snippet": "10"}]


async def test_webpages_go_through_the_benchs_check(looking: Any, site: Any) -> None:
    """So that a host may allow less, or a test more."""

    async def anything(host: str, port: int) -> list[str]:
        return [host]

    site.add("/p", "hello", "text/plain")
    bench = Bench(sandbox=looking(), files={}, address_check=anything)

    found: Any = await TOOLS["read_webpage"].run({"url": f"{site.url}/p"}, bench)

    assert found["text"] == "hello"


@pytest.mark.parametrize(
    ("name", "args"), [("web_search", {"query": "q"}), ("read_webpage", {"url": "http://a.test"})]
)
async def test_web_off_is_unavailable(looking: Any, name: str, args: dict[str, Any]) -> None:
    """Nothing goes out, and the model is told to go on."""
    with pytest.raises(WebUnavailable, match="switched off for this run"):
        await TOOLS[name].run(args, Bench(sandbox=looking(), files={}, web=False))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("python", {}),
        ("python", {"code": " "}),
        ("read_file", {"name": ["a"]}),
        ("read_file", {"name": "a", "start": -1}),
        ("read_file", {"name": "a", "start": True}),
        ("read_file", {"name": "a", "start": float("inf")}),
        ("read_file", {"name": "a", "limit": "many"}),
        ("web_search", {"query": "q", "max_results": 0}),
        ("read_webpage", {"url": None}),
    ],
)
async def test_bad_arguments_are_tool_failures(
    looking: Any, name: str, args: dict[str, Any]
) -> None:
    """They name the argument and what was given."""
    with pytest.raises(ToolFailure, match="must be a"):
        await TOOLS[name].run(args, Bench(sandbox=looking(), files={}))


def test_the_table_loads_without_the_heavy_libraries() -> None:
    """They are loaded at first use: the agent's start is not their business."""
    code = (
        "import sys, mem2evolve.nodes.toolbox.builtin\n"
        "print({'httpx', 'ddgs', 'trafilatura', 'primp', 'lxml'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout == "set()\n"
