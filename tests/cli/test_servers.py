"""Model servers that are down, slow, strange or refuse: two lines, and nothing is recorded."""

import pytest

from ..openai_server import OpenAIServer, Reply, reply_error, reply_raw, reply_reset, reply_text
from .brain import Brain
from .conftest import TASK, Cli, Say

HTML = b"<html>Welcome</html>"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (reply_error(401, "Incorrect API key"), ("refused the key (401)", "OPENAI_API_KEY")),
        (reply_error(404, "no such model"), ("not found (404)", "MEM2EVOLVE_MODEL")),
        (reply_raw(HTML, status=404), ("not found (404)", "OPENAI_BASE_URL")),
        (reply_error(429, "slow down", retry_after=0), ("rate-limited", "Wait")),
        (reply_error(500, "oops", retry_after=0), ("failed (500): oops", "later")),
        (reply_raw(HTML), ("does not speak the OpenAI chat protocol", "/v1")),
        (reply_raw(b'{"hello": 1}', content_type="application/json"), ("no chat completion",)),
        (reply_raw(b'{"choices": []}', content_type="application/json"), ("no chat completion",)),
        (reply_raw(b"null", content_type="application/json"), ("no chat completion",)),
        (reply_raw(b'{"choi', content_type="application/json"), ("does not speak",)),
        (reply_reset(), ("cannot be reached", "mem2evolve doctor")),
        (reply_text("I like trains"), ("'I like trains'", "more capable model")),
        (reply_text(""), ("cannot be used", "more capable model")),
    ],
)
def test_strange_servers(
    say: Say, monkeypatch: pytest.MonkeyPatch, reply: Reply, said: tuple[str, ...]
) -> None:
    """What came back is named, and what to change."""
    with OpenAIServer(lambda _: reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        say("run", TASK, "--no-web").refused(*said, story=True)


def test_slow_server(cli: Cli) -> None:
    """Patience is a setting."""
    cli.env["MEM2EVOLVE_MODEL_TIMEOUT"] = "0.2"
    with OpenAIServer(Brain(delays={"plan": 20})) as server:
        cli.model(server)
        done = cli("run", TASK, "--no-web")

    done.refused("did not answer in time", "MEM2EVOLVE_MODEL_TIMEOUT", story=True)


def test_server_with_several_models(cli: Cli) -> None:
    """Which one is meant must be said; they are named."""
    with OpenAIServer(models=("small", "large")) as server:
        cli.model(server)
        cli("run", TASK).refused("2 models", "small, large")


def test_proxies_are_not_for_this_machine(cli: Cli) -> None:
    """A dead proxy in the environment does not come between us and a server on loopback."""
    cli.env |= {"ALL_PROXY": "socks5://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        done = cli("run", TASK, "--mode", "direct", "--no-evolve", ok=True)

    assert done.out == "42\n"
    assert "proxy" not in done.err.lower()
