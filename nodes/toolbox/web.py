"""The tool `web_search`, and what tool creation searches with. What comes back is untrusted."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import TypedDict

from ...errors import ToolFailure
from ._shared import clean, shorten

if TYPE_CHECKING:
    import httpx

TOOL: Final = "web_search"
MAX_RESULTS: Final = 10
TIMEOUT_S: Final = 10.0
"""For a whole search, whatever the back-end does."""
ENGINE_TIMEOUT_S: Final = 5
MAX_QUERY_CHARS: Final = 400
TITLE_CHARS: Final = 200
URL_CHARS: Final = 2_000
SNIPPET_CHARS: Final = 600
ANSWER_BYTES: Final = 2 << 20
OK: Final = 200
BAD_QUERY: Final = frozenset({400, 422})
TAVILY_URL: Final = "https://api.tavily.com"
BRAVE_URL: Final = "https://api.search.brave.com"


class WebUnavailable(ToolFailure):
    """The web, or a part of it, does not answer. It says nothing about the task or a tool.

    Attributes:
        transient: As in `Mem2EvolveError`: no lesson is drawn from it.
    """

    transient: ClassVar[bool] = True


def unreachable(tool: str, why: str) -> WebUnavailable:
    """Return the error that says that the web cannot be reached, and to go on without it."""
    return WebUnavailable(
        tool, f"The web cannot be reached from here ({why}). Do not try again: go on without it."
    )


class SearchResult(TypedDict):
    """One hit. All of it was written by strangers."""

    title: str
    url: str
    snippet: str


class Searcher(Protocol):
    """A search engine."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """Return at most `limit` hits, best first.

        Raises:
            WebUnavailable: If it does not answer.
            ToolFailure: If it refuses the query.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Tavily:
    """api.tavily.com, with a key."""

    key: str
    base_url: str = TAVILY_URL

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """See `Searcher`."""
        body = await _ask(
            "POST",
            f"{self.base_url}/search",
            headers={"Authorization": f"Bearer {self.key}"},
            json={"query": query, "max_results": limit},
        )
        return _results(_listed(body, "results"), url="url", snippet="content", limit=limit)


@dataclass(frozen=True, kw_only=True)
class Brave:
    """api.search.brave.com, with a key."""

    key: str
    base_url: str = BRAVE_URL

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """See `Searcher`."""
        body = await _ask(
            "GET",
            f"{self.base_url}/res/v1/web/search",
            headers={"X-Subscription-Token": self.key, "Accept": "application/json"},
            params={"q": query, "count": str(limit), "text_decorations": "false"},
        )
        web = body.get("web") if isinstance(body, dict) else None
        return _results(_listed(web, "results"), url="url", snippet="description", limit=limit)


class Ddgs:
    """Several public engines through the `ddgs` library; needs no key."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """See `Searcher`."""
        found = await asyncio.to_thread(_ddgs, query, limit)
        return _results(found, url="href", snippet="body", limit=limit)


def choose_searcher(environ: Mapping[str, str] = os.environ) -> Searcher:
    """Return the engine that a key was given for, else the one that needs none."""
    if key := environ.get("TAVILY_API_KEY", "").strip():
        return Tavily(key=key)
    if key := environ.get("BRAVE_API_KEY", "").strip():
        return Brave(key=key)
    return Ddgs()


async def search_web(
    query: str, *, limit: int, searcher: Searcher | None = None, timeout_s: float = TIMEOUT_S
) -> list[SearchResult]:
    """Search the web.

    Args:
        query: What to look for; cut to `MAX_QUERY_CHARS`.
        limit: At most so many hits; at most `MAX_RESULTS`.
        searcher: The engine; chosen from the environment if None.
        timeout_s: Seconds for all of it.

    Raises:
        WebUnavailable: If no answer came in time.
        ToolFailure: If the engine refused the query.
    """
    engine = searcher or choose_searcher()
    wanted = max(1, min(limit, MAX_RESULTS))
    try:
        # A thread that is still waiting for the network is left to its own, shorter timeouts.
        async with asyncio.timeout(timeout_s):
            return await engine.search(clean(query)[:MAX_QUERY_CHARS], limit=wanted)
    except TimeoutError as exc:
        raise unreachable(TOOL, f"no answer within {timeout_s:g} s") from exc


def new_client(timeout_s: float) -> "httpx.AsyncClient":
    """Return a client that follows no redirects. Blocks: it reads the certificates."""
    # httpx costs as much to load as the rest of the agent's start.
    import httpx  # noqa: PLC0415

    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False)


async def read_capped(response: "httpx.Response", limit: int) -> tuple[bytes, bool]:
    """Return the first `limit` bytes of the body as sent, and whether that is all of it."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True


async def _ask(method: str, url: str, *, headers: dict[str, str], **request: Any) -> Any:
    """Return the JSON that a search service answers.

    Raises:
        WebUnavailable: If it does not answer, or not with a result.
        ToolFailure: If it refuses the query.
    """
    import httpx  # noqa: PLC0415 - as in `new_client`

    client = await asyncio.to_thread(new_client, TIMEOUT_S)
    headers = headers | {"Accept-Encoding": "identity"}
    try:
        async with client, client.stream(method, url, headers=headers, **request) as response:
            status = response.status_code
            body, whole = await read_capped(response, ANSWER_BYTES)
    except httpx.HTTPError as exc:  # its text may hold the address, but never the headers
        raise unreachable(TOOL, f"{type(exc).__name__} while asking the search service") from exc
    if status in BAD_QUERY:
        raise ToolFailure(TOOL, f"The search service refused the query (HTTP {status}). Reword it.")
    if status != OK:
        raise unreachable(TOOL, f"the search service answered HTTP {status}")
    try:
        if not whole:
            raise ValueError("too long")  # noqa: TRY301 - one place says what was wrong
        return json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise unreachable(TOOL, "the search service's answer cannot be read") from exc


def _ddgs(query: str, limit: int) -> list[Any]:
    import ddgs  # noqa: PLC0415 - loads a large native library
    from ddgs.exceptions import DDGSException  # noqa: PLC0415 - as above

    try:
        return ddgs.DDGS(timeout=ENGINE_TIMEOUT_S).text(query, max_results=limit)
    except DDGSException as exc:
        if str(exc) == "No results found.":
            return []
        raise unreachable(TOOL, "no search engine answered") from exc
    except Exception as exc:
        # It reads pages of a dozen engines, whose changes surface as any error at all.
        raise unreachable(TOOL, f"{type(exc).__name__} while asking search engines") from exc


def _listed(body: Any, key: str) -> list[Any]:
    found = body.get(key) if isinstance(body, dict) else None
    return found if isinstance(found, list) else []


def _results(found: list[Any], *, url: str, snippet: str, limit: int) -> list[SearchResult]:
    hits = [
        SearchResult(
            title=_text(item, "title", TITLE_CHARS),
            url=_text(item, url, URL_CHARS),
            snippet=_text(item, snippet, SNIPPET_CHARS),
        )
        for item in found
        if isinstance(item, dict)
    ]
    return [hit for hit in hits if hit["url"].startswith(("http://", "https://"))][:limit]


def _text(item: dict[str, Any], key: str, limit: int) -> str:
    value = item.get(key)
    return shorten(clean(value).strip(), limit) if isinstance(value, str) else ""
