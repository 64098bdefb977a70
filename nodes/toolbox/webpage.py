"""The tool `read_webpage`: the readable text of one public page, a part at a time."""

import asyncio
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from pydantic import JsonValue

from ...errors import ToolFailure
from ._shared import PAGE_CHARS, clean, cut_page
from .addresses import AddressCheck, public_addresses
from .web import WebUnavailable, new_client, read_capped

if TYPE_CHECKING:
    import httpx

TOOL: Final = "read_webpage"
TIMEOUT_S: Final = 15.0
"""For the whole page: all redirects, and reading the text out of it."""
MAX_BYTES: Final = 2 << 20
MAX_REDIRECTS: Final = 5
MAX_URL_CHARS: Final = 2_000
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
OK: Final = range(200, 300)
SERVER_ERROR: Final = 500
TOO_MANY_REQUESTS: Final = 429
HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
PLAIN: Final = frozenset({"text/plain", "text/markdown", "text/csv", "application/json"})
HEADERS: Final = {
    "Accept": "text/html, text/plain, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "mem2evolve (reads single pages for a person's task)",
}


@dataclass(frozen=True, kw_only=True)
class _Fetched:
    """A page as it came."""

    url: str
    media_type: str
    charset: str
    body: bytes
    whole: bool


class _Readable(NamedTuple):
    """What a person would read on the page."""

    title: str
    text: str


async def read_webpage(
    url: str,
    *,
    start: int = 0,
    check: AddressCheck = public_addresses,
    timeout_s: float = TIMEOUT_S,
) -> JsonValue:
    """Fetch a page and return a part of its readable text.

    Args:
        url: An http or https address.
        start: First character to return, from 0.
        check: Decides, before each request, which addresses may be connected to.
        timeout_s: Seconds for all of it.

    Returns:
        `{"url", "title", "text", "start", "next_start"}`, `next_start` null at the end, and a
        `note` where something is missing.

    Raises:
        WebUnavailable: If the site does not answer.
        ToolFailure: If the address is refused or the page has no text to read.
    """
    try:
        async with asyncio.timeout(timeout_s):
            page = await _fetch(url.strip(), check)
            # A page can keep the extractor busy for seconds.
            title, text = await asyncio.to_thread(_readable, page)
    except TimeoutError as exc:
        reason = f"{url!r:.200} did not answer within {timeout_s:g} s. Go on without it."
        raise WebUnavailable(TOOL, reason) from exc
    if not text.strip():
        raise ToolFailure(TOOL, f"{page.url!r:.200} has no readable text; scripts may fill it in.")
    piece = cut_page(text[start : start + PAGE_CHARS + 1], start=start, limit=PAGE_CHARS)
    notes = _missing(start, piece.next_start, len(text), whole=page.whole)
    found: dict[str, JsonValue] = {
        "url": page.url,
        "title": title,
        "text": piece.text,
        "start": start,
        "next_start": piece.next_start,
    }
    return found | {"note": " ".join(notes)} if notes else found


def _missing(start: int, next_start: int | None, length: int, *, whole: bool) -> list[str]:
    """Say what of a page is not in the part that is returned."""
    notes = []
    if start >= length:
        notes.append(f"The text has only {length} characters.")
    if next_start is not None:
        notes.append(
            f"Cut: characters {start} to {next_start} of {length}. To read on, call "
            f"read_webpage again with start={next_start}."
        )
    if not whole:
        notes.append(f"The page is larger than {MAX_BYTES >> 20} MB; the rest was not read.")
    return notes


async def _fetch(url: str, check: AddressCheck) -> _Fetched:
    """Get a page, checking where each redirect leads before going there.

    Raises:
        WebUnavailable: If the site does not answer.
        ToolFailure: If it, or where it leads, is refused.
    """
    import httpx  # noqa: PLC0415 - as in `new_client`

    client = await asyncio.to_thread(new_client, TIMEOUT_S)
    async with client:
        for _ in range(MAX_REDIRECTS + 1):
            try:
                request = await _request(client, url, check)
                response = await client.send(request, stream=True)
                try:
                    if response.status_code not in REDIRECTS:
                        return await _take(url, response)
                    url = _target(url, response.headers.get("location", ""))
                finally:
                    await response.aclose()
                client.cookies.clear()  # they are kept by address, and that is not the site
            except httpx.InvalidURL as exc:
                raise ToolFailure(TOOL, f"{url!r:.200} is not a web address: {exc}.") from exc
            except httpx.ConnectError as exc:
                raise _no_connection(url) from exc
            except httpx.HTTPError as exc:
                reason = f"{url!r:.200} gave no answer ({type(exc).__name__}). Go on without it."
                raise WebUnavailable(TOOL, reason) from exc
    raise ToolFailure(TOOL, f"The page redirects more than {MAX_REDIRECTS} times.")


async def _request(client: "httpx.AsyncClient", url: str, check: AddressCheck) -> "httpx.Request":
    """Build the request to an address that was checked, so that no second look-up can differ.

    Raises:
        ToolFailure: If the address is not one of a public page.
    """
    parts, port = _parse(url)
    host = str(parts.hostname)
    if await asyncio.to_thread(_proxied, parts.scheme, host):
        await _check_behind_proxy(host, port, check)
        return client.build_request("GET", url, headers=HEADERS)
    address = (await check(host, port))[0]
    target = client.build_request("GET", url).url
    return client.build_request(
        "GET",
        target.copy_with(host=address),
        headers=HEADERS | {"Host": target.netloc.decode("ascii")},
        extensions={"sni_hostname": target.raw_host.decode("ascii")},
    )


def _parse(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as exc:
        raise ToolFailure(TOOL, f"{url!r:.200} is not a web address: {exc}.") from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname or len(url) > MAX_URL_CHARS:
        raise ToolFailure(TOOL, f"{url!r:.200} is not an http or https address of a page.")
    if parts.username is not None or parts.password is not None:
        raise ToolFailure(TOOL, "Addresses with a user name or password are not read.")
    return parts, port


def _target(url: str, location: str) -> str:
    try:
        return urljoin(url, clean(location))
    except ValueError as exc:
        raise ToolFailure(TOOL, f"{url!r:.200} redirects to {location!r:.200}.") from exc


def _no_connection(url: str) -> WebUnavailable:
    host = urlsplit(url).hostname
    return WebUnavailable(
        TOOL,
        f"There is no connection to {host!r:.200}: either the site is down, or the web cannot be "
        "reached from here. Go on without it.",
    )


def _proxied(scheme: str, host: str) -> bool:
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - pulls in all of http

    proxies = getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(host)


async def _check_behind_proxy(host: str, port: int, check: AddressCheck) -> None:
    """Refuse what is known to be private; a name that only the proxy can resolve is its matter."""
    try:
        await check(host, port)
    except WebUnavailable:
        return


async def _take(url: str, response: "httpx.Response") -> _Fetched:
    status = response.status_code
    if status >= SERVER_ERROR or status == TOO_MANY_REQUESTS:
        raise WebUnavailable(TOOL, f"{url!r:.200} answered HTTP {status}. Go on without it.")
    if status not in OK:
        raise ToolFailure(TOOL, f"{url!r:.200} answered HTTP {status}.")
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in HTML | PLAIN:
        shown = repr(media_type[:100]) if media_type else "of an unknown kind"
        raise ToolFailure(TOOL, f"{url!r:.200} is {shown}; only HTML, text and JSON can be read.")
    body, whole = await read_capped(response, MAX_BYTES)
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding in {"gzip", "x-gzip"}:
        body, whole = _inflate(body, whole=whole)
    elif coding != "identity":
        raise ToolFailure(TOOL, f"{url!r:.200} came in the unknown encoding {coding!r:.100}.")
    return _Fetched(
        url=url,
        media_type=media_type,
        charset=response.charset_encoding or "",
        body=body,
        whole=whole,
    )


def _inflate(body: bytes, *, whole: bool) -> tuple[bytes, bool]:
    """Unpack at most `MAX_BYTES`: a few kilobytes can unpack to gigabytes."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(body, MAX_BYTES)
    except zlib.error as exc:
        raise ToolFailure(TOOL, "The page is damaged: it cannot be unpacked.") from exc
    return text, whole and unpacker.eof


def _readable(page: _Fetched) -> _Readable:
    if page.media_type not in HTML:
        return _Readable("", clean(_decoded(page).replace("\r\n", "\n")))
    # Slow to load, and most runs never read a page.
    import trafilatura  # noqa: PLC0415
    from trafilatura.settings import Document  # noqa: PLC0415

    # Without a charset in the header, the page's own declaration counts: bytes are passed on.
    content = _decoded(page) if page.charset else page.body
    try:
        found = trafilatura.bare_extraction(
            content, url=page.url, with_metadata=True, include_comments=False, favor_recall=True
        )
        title, text = (found.title, found.text) if isinstance(found, Document) else ("", "")
        text = text or trafilatura.html2txt(content)
    except Exception as exc:
        # Broken markup makes the parsers below it raise whatever they like.
        raise ToolFailure(TOOL, f"The page cannot be parsed ({type(exc).__name__}).") from exc
    return _Readable(clean(title or "")[:300], clean(text or ""))


def _decoded(page: _Fetched) -> str:
    try:
        return page.body.decode(page.charset or "utf-8", "replace")
    except (LookupError, UnicodeError):  # a charset that does not exist, or is none
        return page.body.decode("utf-8", "replace")
