"""`fetch` for tools with permission: the host fetches, from a list of hosts, and nothing private."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from mem2evolve.sandbox import BubblewrapSandbox, Fetcher, Outcome, screen
from mem2evolve.sandbox.fetching import MAX_BYTES, MAX_FETCHES, public_addresses

FETCH: Final = "def f(url):\n    return fetch(url)\n"


class Site(BaseHTTPRequestHandler):
    """A small site; what it was asked is kept with its server."""

    def do_GET(self) -> None:
        """Answer by the path."""
        self.server.asked.append((self.headers["Host"], self.path))  # type: ignore[attr-defined]
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "to":
            self.send_response(302)
            self.send_header("Location", rest)
            self.end_headers()
            return
        self.send_response(404 if kind == "lost" else 200)
        if kind == "packed":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", "text/plain; charset=latin-1")
        self.end_headers()
        try:
            for _ in range(50 if kind == "slow" else 1):
                self.wfile.write(b"x" * int(rest) if kind == "size" else b"caf\xe9")
                self.wfile.flush()
                time.sleep(0.1 if kind == "slow" else 0)
        except OSError:
            return

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[ThreadingHTTPServer]:
    """A site on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.asked = []  # type: ignore[attr-defined]
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetcher(site: ThreadingHTTPServer) -> Fetcher:
    """May fetch from that site by the name `here.test`, which stands for loopback."""
    return Fetcher(hosts=(f"here.test:{site.server_port}",), check=lambda *_: ["127.0.0.1"])


def at(site: ThreadingHTTPServer, path: str, host: str = "here.test") -> str:
    """An address of it."""
    return f"http://{host}:{site.server_port}/{path}"


async def fetch(box: BubblewrapSandbox, url: str, fetcher: Fetcher | None) -> Outcome:
    """Let a tool fetch."""
    return await box.call(FETCH, "f", {"url": url}, fetcher=fetcher)


async def test_a_tool_fetches_from_its_host(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher
) -> None:
    """In a new box and in one that waits; the site sees its own name."""
    for _ in range(3):
        outcome = await fetch(box, at(site, "plain"), fetcher)
        assert (outcome.status, outcome.value) == ("ok", "café")
    assert site.asked[0] == (f"here.test:{site.server_port}", "/plain")  # type: ignore[attr-defined]


async def test_without_permission_there_is_no_fetch(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher
) -> None:
    """Also in a box whose last call had it, and nothing of its channel is left."""
    await fetch(box, at(site, "plain"), fetcher)
    assert (await fetch(box, at(site, "plain"), None)).error_type == "NameError"
    look = "import os\ndef f():\n    return sorted(os.listdir('/proc/self/fd'))[:-1]\n"
    assert (await box.call(look, "f", {})).value == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("to/http://elsewhere.test/", "'elsewhere.test' is not among what may be fetched from"),
        ("to/file:///etc/passwd", "not a plain http or https address"),
        ("to/https://here.test/", "'here.test' is not among"),  # another port
        ("lost", "answered HTTP 404"),
        ("packed", "came packed"),
        (f"size/{MAX_BYTES + 1}", "larger than 1 MiB"),
    ],
)
async def test_what_is_refused_is_told(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher, path: str, said: str
) -> None:
    """As an error that the tool can handle."""
    outcome = await fetch(box, at(site, path), fetcher)
    assert outcome.error_type == "OSError"
    assert said in outcome.error


def test_redirects_on_the_list_are_followed(site: ThreadingHTTPServer, fetcher: Fetcher) -> None:
    """A few; each is checked like the first."""
    assert fetcher.answer(at(site, "to//plain"))["text"] == "café"
    assert "more than 5 times" in fetcher.answer(at(site, "to/" * 9))["error"]


def test_a_redirect_to_a_private_address_is_refused(site: ThreadingHTTPServer) -> None:
    """A host on the list may change what its name stands for between two requests."""
    answers = iter([["127.0.0.1"], []])
    fetcher = Fetcher(hosts=(f"here.test:{site.server_port}",), check=lambda *_: next(answers))
    assert "private network" in fetcher.answer(at(site, "to//plain"))["error"]
    assert len(site.asked) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "169.254.169.254", "10.0.0.1"])
def test_private_addresses_are_refused(host: str) -> None:
    """Also where the list names them."""
    fetcher = Fetcher(hosts=(host.strip("[]"),))
    assert "private network" in fetcher.answer(f"http://{host}/")["error"]
    assert public_addresses(host.strip("[]"), 80) == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://here.test/", "//here.test/", "", "http://", "http://u:p@here.test/",
        "http://here.test.evil/", "http://evil/here.test", "http://here.test:99999/", "http://[::1", "http://h\n/",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(url: str) -> None:
    """Nobody is asked for an address."""

    def never(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    answer = Fetcher(hosts=("here.test",), check=never).answer(url)
    assert (answer["text"], bool(answer["error"])) == ("", True)


def test_time_is_limited(site: ThreadingHTTPServer, fetcher: Fetcher) -> None:
    """For the whole answer, not for each piece of it."""
    quick = Fetcher(hosts=fetcher.hosts, check=fetcher.check, timeout_s=0.3)
    started = time.monotonic()
    assert "took too long" in quick.answer(at(site, "slow"))["error"]
    assert time.monotonic() - started < 2


async def test_fetches_are_counted(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher
) -> None:
    """Each call starts anew."""
    source = (
        "def f(url, n):\n    got = []\n    for _ in range(n):\n        try:\n"
        "            got.append(fetch(url))\n        except OSError as exc:\n"
        "            got.append(str(exc))\n    return got\n"
    )
    args = {"url": at(site, "plain"), "n": MAX_FETCHES + 2}
    for _ in range(2):
        outcome = await box.call(source, "f", args, fetcher=fetcher)
        assert outcome.value == ["café"] * 8 + ["A call may fetch 8 times."] * 2


async def test_the_channel_takes_nothing_but_questions(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher
) -> None:
    """Rubbish ends it; the call goes on, and so does the box."""
    source = (
        "import os\ndef f(url):\n    os.write(4, b'\\xff' * 100)\n    try:\n        return fetch(url)\n"
        "    except OSError as exc:\n        return 'no more'\n"
    )
    outcome = await box.call(source, "f", {"url": at(site, "plain")}, fetcher=fetcher)
    assert outcome.value == "no more"
    assert (await fetch(box, at(site, "plain"), fetcher)).value == "café"


async def test_nobody_waits_for_a_call_that_is_over(
    box: BubblewrapSandbox, site: ThreadingHTTPServer, fetcher: Fetcher
) -> None:
    """The thread that attends to it ends."""
    await fetch(box, at(site, "plain"), fetcher)
    await box.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left = [one for one in threading.enumerate() if one.name == "mem2evolve-fetch"]
        if not left:
            break
        time.sleep(0.01)  # noqa: ASYNC251 - nothing else runs
    assert left == []


def test_the_screen_wants_permission() -> None:
    """For the function that the host gives; a function of that name of its own is none of it."""
    source = 'def f(url: str) -> str:\n    """Fetch.\n\n    Args:\n        url: It.\n    """\n    return fetch(url)\n'
    assert "'network:HOST'" in screen(source)[0].reason
    assert screen(source, permissions=["network:h.org"]) == []
    assert (
        screen(source.replace("fetch(", "_fetch(") + "def _fetch(u: str) -> str:\n    return u\n")
        == []
    )
