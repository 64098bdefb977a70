"""`nodes/toolbox/web.py`: each search engine, and what happens when there is none."""

import json
import pickle
import sys
import time
import types
from typing import Any

import pytest

from mem2evolve.errors import ToolFailure
from mem2evolve.nodes.toolbox.web import (
    Brave,
    Ddgs,
    SearchResult,
    Tavily,
    WebUnavailable,
    choose_searcher,
    search_web,
)

HIT = {"title": "T\x1b", "url": "https://a.test/1", "content": "C\u202e", "description": "D"}
BAD = [{"url": "javascript:alert(1)"}, "text", {"title": 3}, None]


async def test_tavily_gets_key_and_query(site: Any) -> None:
    """The key is in the header; hits are cleaned and those without an address dropped."""
    site.add("/search", json.dumps({"results": [*BAD, HIT]}), "application/json")

    found = await search_web("q\0", limit=3, searcher=Tavily(key="k", base_url=site.url))

    assert found == [{"title": "T", "url": "https://a.test/1", "snippet": "C"}]
    (asked,) = site.asked
    assert (asked.method, asked.headers["authorization"]) == ("POST", "Bearer k")
    assert json.loads(asked.body) == {"query": "q", "max_results": 3}


async def test_brave_gets_key_and_query(site: Any) -> None:
    """As Tavily, by GET."""
    site.add("/res/v1/web/search", json.dumps({"web": {"results": [HIT] * 9}}), "application/json")

    found = await search_web("a b", limit=2, searcher=Brave(key="k", base_url=site.url))

    assert found == [{"title": "T", "url": "https://a.test/1", "snippet": "D"}] * 2
    (asked,) = site.asked
    assert asked.headers["x-subscription-token"] == "k"
    assert "q=a+b&count=2" in asked.path


@pytest.mark.parametrize("body", ["[]", "{}", '{"web": 3, "results": 3}', '{"web": null}'])
async def test_an_odd_answer_is_no_hit(site: Any, body: str) -> None:
    """The services' answers are not trusted to have their shape."""
    for path in ("/search", "/res/v1/web/search"):
        site.add(path, body)

    assert await search_web("q", limit=1, searcher=Tavily(key="k", base_url=site.url)) == []
    assert await search_web("q", limit=1, searcher=Brave(key="k", base_url=site.url)) == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, "", WebUnavailable),
        (429, "", WebUnavailable),
        (503, "", WebUnavailable),
        (302, "", WebUnavailable),
        (200, "<html>", WebUnavailable),
        (200, "[" * 100_000, WebUnavailable),
        (200, " " * (3 << 20), WebUnavailable),
        (422, "", ToolFailure),
    ],
)
async def test_a_refusal_is_told_apart(site: Any, status: int, body: str, kind: type) -> None:
    """Only a bad query is for the model to mend; the key is in no message."""
    site.add("/search", body, status=status, location="/search")

    with pytest.raises(ToolFailure) as caught:
        await search_web("q", limit=1, searcher=Tavily(key="sesame", base_url=site.url))

    assert type(caught.value) is kind
    assert "sesame" not in str(caught.value)


async def test_a_silent_service_does_not_hang(site: Any) -> None:
    """The total timeout ends the wait."""
    site.silent.add("/search")
    began = time.monotonic()

    with pytest.raises(WebUnavailable, match=r"no answer within 0\.2 s"):
        await search_web("q", limit=1, searcher=Tavily(key="k", base_url=site.url), timeout_s=0.2)

    assert time.monotonic() - began < 3


async def test_no_connection_says_to_go_on() -> None:
    """A closed port of loopback stands for a machine that is offline."""
    with pytest.raises(WebUnavailable) as caught:
        await search_web("q", limit=1, searcher=Tavily(key="k", base_url="http://127.0.0.1:1"))

    assert "cannot be reached from here" in caught.value.reason
    assert "go on without it" in caught.value.reason
    assert caught.value.transient
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason


def fake_ddgs(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Put a library of that name in place of the real one, which leaves Python for the network."""

    class DDGSException(Exception):
        pass

    class DDGS:
        def __init__(self, timeout: int) -> None:
            assert timeout <= 5

        def text(self, query: str, max_results: int) -> Any:
            if isinstance(answer, str):
                raise DDGSException(answer)
            if isinstance(answer, Exception):
                raise answer
            return answer

    library, errors = types.ModuleType("ddgs"), types.ModuleType("ddgs.exceptions")
    library.DDGS = DDGS  # type: ignore[attr-defined]
    errors.DDGSException = DDGSException  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ddgs", library)
    monkeypatch.setitem(sys.modules, "ddgs.exceptions", errors)


async def test_ddgs_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its field names become ours."""
    fake_ddgs(monkeypatch, [{"title": "T", "href": "http://a.test", "body": "B"}])

    assert await search_web("q", limit=1) == [
        SearchResult(title="T", url="http://a.test", snippet="B")
    ]


async def test_ddgs_without_hits_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises for that; we do not."""
    fake_ddgs(monkeypatch, "No results found.")

    assert await search_web("q", limit=1) == []


@pytest.mark.parametrize("answer", ["ConnectError", RuntimeError("blocked")])
async def test_ddgs_offline_is_unavailable(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Whatever the library raises."""
    fake_ddgs(monkeypatch, answer)

    with pytest.raises(WebUnavailable):
        await search_web("q", limit=1)


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({"TAVILY_API_KEY": "t", "BRAVE_API_KEY": "b"}, Tavily),
        ({"TAVILY_API_KEY": " ", "BRAVE_API_KEY": "b"}, Brave),
        ({}, Ddgs),
    ],
)
def test_a_key_chooses_the_engine(environ: dict[str, str], kind: type) -> None:
    """Tavily before Brave before none."""
    assert isinstance(choose_searcher(environ), kind)


@pytest.mark.online
async def test_the_open_web_answers() -> None:
    """The real library still works as we use it."""
    assert await search_web("Python programming language", limit=3)
