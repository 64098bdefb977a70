"""`nodes/toolbox/webpage.py` and `addresses.py`: public pages, and nothing behind the fence."""

import gzip
from typing import Any

import pytest

from mem2evolve.errors import ToolFailure
from mem2evolve.nodes.toolbox import webpage
from mem2evolve.nodes.toolbox._shared import PAGE_CHARS
from mem2evolve.nodes.toolbox.addresses import is_public, public_addresses
from mem2evolve.nodes.toolbox.web import WebUnavailable
from mem2evolve.nodes.toolbox.webpage import read_webpage

STORY = "The price of one apple is three euros and has been so for years. "
HTML = (
    "<html><head><title>Prices</title><script>evil()</script></head><body>"
    f"<nav>menu</nav><article><h1>Prices</h1><p>{STORY * 5}</p></article></body></html>"
)


async def pretend(host: str, port: int) -> list[str]:
    """Takes names below .test for public hosts that live on loopback; else the real check."""
    return ["127.0.0.1"] if host.endswith(".test") else await public_addresses(host, port)


async def read(site: Any, path: str, **options: Any) -> Any:
    """Read a page of the site under a name that counts as public."""
    return await read_webpage(f"http://a.test:{site.port}{path}", check=pretend, **options)


async def test_html_becomes_readable_text(site: Any) -> None:
    """Title and story, no script; the site sees its own name."""
    site.add("/p", HTML)

    found = await read(site, "/p")

    assert found["title"] == "Prices"
    assert STORY.strip() in found["text"]
    assert "evil" not in found["text"]
    assert found["next_start"] is None
    assert site.asked[0].headers["host"] == f"a.test:{site.port}"


@pytest.mark.parametrize("kind", ["text/plain; charset=hex", "application/json", "text/plain"])
async def test_plain_text_and_json_come_as_they_are(site: Any, kind: str) -> None:
    """Also where the charset is nonsense."""
    site.add("/p", '{"é": 1}\r\n\x1b', kind)

    assert (await read(site, "/p"))["text"] == '{"é": 1}\n'


async def test_the_pages_own_charset_counts(site: Any) -> None:
    """From the header, or else from the page."""
    story = HTML.replace("apple", "café")
    site.add("/header", story.encode("latin-1"), "text/html; charset=iso-8859-1")
    site.add("/meta", story.replace("<title>", '<meta charset="utf-8"><title>').encode())

    assert "café" in (await read(site, "/header"))["text"]
    assert "café" in (await read(site, "/meta"))["text"]


async def test_a_long_page_is_read_in_parts(site: Any) -> None:
    """The parts together are the text, and each says where the next begins."""
    text = "".join(f"line {i}\n" for i in range(3_000))
    site.add("/p", text, "text/plain")

    parts = [await read(site, "/p")]
    while parts[-1]["next_start"] is not None:
        assert f"start={parts[-1]['next_start']}" in parts[-1]["note"]
        parts.append(await read(site, "/p", start=parts[-1]["next_start"]))

    assert "".join(part["text"] for part in parts) == text
    assert max(len(part["text"]) for part in parts) <= PAGE_CHARS


async def test_reading_past_the_end_says_so(site: Any) -> None:
    """An empty text has its reason beside it."""
    site.add("/p", "abc", "text/plain")

    assert (await read(site, "/p", start=9))["note"] == "The text has only 3 characters."


@pytest.mark.parametrize("packed", [False, True])
async def test_a_huge_page_is_cut(site: Any, *, packed: bool) -> None:
    """Also one that is small until it is unpacked."""
    body = b"a" * (64 << 20 if packed else 3 << 20)
    headers = {"content_encoding": "gzip"} if packed else {}
    site.add("/p", gzip.compress(body) if packed else body, "text/plain", **headers)

    found = await read(site, "/p")

    assert "larger than 2 MB" in found["note"]
    assert f"of {2 << 20}." in found["note"]


@pytest.mark.parametrize("coding", ["br", "gzip"])
async def test_what_cannot_be_unpacked_fails(site: Any, coding: str) -> None:
    """An unknown packing, or a damaged one."""
    site.add("/p", "abc", "text/plain", content_encoding=coding)

    with pytest.raises(ToolFailure, match=r"encoding 'br'|damaged"):
        await read(site, "/p")


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", ""])
async def test_other_kinds_are_refused(site: Any, kind: str) -> None:
    """By what the site says it is."""
    site.add("/p", "x", kind)

    with pytest.raises(ToolFailure, match="only HTML, text and JSON"):
        await read(site, "/p")


@pytest.mark.parametrize("body", ["", "<html><body><script>x</script></body></html>", "\0<"])
async def test_a_page_without_text_says_so(site: Any, body: str) -> None:
    """Scripts are not run."""
    site.add("/p", body)

    with pytest.raises(ToolFailure, match=r"no readable text|cannot be parsed"):
        await read(site, "/p")


@pytest.mark.parametrize(
    ("status", "kind"), [(404, ToolFailure), (503, WebUnavailable), (429, WebUnavailable)]
)
async def test_an_error_status_is_told(site: Any, status: int, kind: type) -> None:
    """Transient where a later try may work."""
    site.add("/p", "", status=status)

    with pytest.raises(ToolFailure, match=f"HTTP {status}") as caught:
        await read(site, "/p")

    assert type(caught.value) is kind


async def test_redirects_are_followed(site: Any) -> None:
    """Relative ones too; the address that was reached is in the answer."""
    site.add("/a", status=302, location="/b")
    site.add("/b", status=301, location=f"//b.test:{site.port}/c")
    site.add("/c", HTML)

    assert (await read(site, "/a"))["url"] == f"http://b.test:{site.port}/c"


async def test_a_redirect_inwards_is_refused(site: Any) -> None:
    """Each hop is checked before anything is sent there."""
    site.add("/a", status=302, location=f"{site.url}/secret")

    with pytest.raises(ToolFailure, match="private network"):
        await read(site, "/a")

    assert [asked.path for asked in site.asked] == ["/a"]


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a.test/", "http://[", "//"])
async def test_a_redirect_elsewhere_is_refused(site: Any, location: str) -> None:
    """Only http and https, also after a redirect."""
    site.add("/a", status=302, location=location)

    with pytest.raises(ToolFailure):
        await read(site, "/a")


async def test_a_circle_ends(site: Any) -> None:
    """Five redirects and no more."""
    site.add("/a", status=302, location="/a")

    with pytest.raises(ToolFailure, match="more than 5 times"):
        await read(site, "/a")

    assert len(site.asked) == 6


async def test_a_silent_site_does_not_hang(site: Any) -> None:
    """The total timeout ends the wait."""
    site.silent.add("/p")

    with pytest.raises(WebUnavailable, match=r"within 0\.2 s"):
        await read(site, "/p", timeout_s=0.2)


async def test_no_connection_is_unavailable() -> None:
    """A closed port."""
    with pytest.raises(WebUnavailable, match=r"no connection to 'a\.test'"):
        await read_webpage("http://a.test:1/", check=pretend)


async def test_an_unknown_host_may_mean_no_network() -> None:
    """`.invalid` never exists; a machine that is offline says the same of every name."""
    with pytest.raises(WebUnavailable, match="either it does not exist, or the web cannot be"):
        await read_webpage("http://nowhere.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://127.0.0.1:8000/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
    ],
)
async def test_private_addresses_are_refused(url: str) -> None:
    """However they are written."""
    with pytest.raises(ToolFailure, match="private network"):
        await read_webpage(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.test",
        "file:///etc/passwd",
        "javascript:1",
        "http://",
        "http://u:p@a.test/",
        "http://a.test:99999/",
        "http://a\0b.test/",
        "http://[::1/",
        "http://é\ud800.test/",
        "http://" + "a" * 300 + ".example/",
        "http://a.test/" + "x" * 3_000,
    ],
)
async def test_what_is_no_page_address_is_refused(url: str) -> None:
    """As a tool failure, whatever is wrong with it."""
    with pytest.raises(ToolFailure):
        await read_webpage(url, check=pretend)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_pass(address: str) -> None:
    """Of both families."""
    assert is_public(address)


@pytest.mark.parametrize(
    "address", ["64:ff9b::a00:1", "2002:a00:1::", "::", "fe80::1%eth0", "fd00::1", "no", ""]
)
def test_tunnels_and_nonsense_do_not(address: str) -> None:
    """An IPv4 address inside an IPv6 one could be private."""
    assert not is_public(address)


async def test_behind_a_proxy_private_hosts_are_still_refused(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy resolves names that we cannot; what we know to be private never reaches it."""

    async def unknown(host: str, port: int) -> list[str]:
        if host == "far.test":
            raise WebUnavailable("read_webpage", "no name server")
        return await public_addresses(host, port)

    monkeypatch.setenv("http_proxy", site.url)
    site.add("http://far.test/p", HTML)

    found: Any = await read_webpage("http://far.test/p", check=unknown)
    with pytest.raises(ToolFailure, match="private network"):
        await read_webpage("http://10.0.0.1/p", check=unknown)

    assert found["title"] == "Prices"
    assert len(site.asked) == 1


def test_the_limits_are_those_of_the_design() -> None:
    """2 MB, 15 s, five redirects."""
    assert (webpage.MAX_BYTES, webpage.TIMEOUT_S, webpage.MAX_REDIRECTS) == (2 << 20, 15, 5)
