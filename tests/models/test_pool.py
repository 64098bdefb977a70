"""Which model a string means, and for how long it is kept."""

import asyncio
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from mem2evolve.errors import ConfigError, ModelUnavailable
from mem2evolve.models import pool
from mem2evolve.models.chat import Chat
from mem2evolve.models.pool import Models
from mem2evolve.models.profiles import CAPABLE, SMALL
from mem2evolve.settings import Settings

from ..openai_server import OpenAIServer, reply_text

HELLO = [HumanMessage("hello")]


@pytest.fixture(autouse=True)
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, server or proxy of the machine reaches a test, and nothing is tried twice."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pool, "RETRIES", 0)


def models(tmp_path: Path, model: str = "openai:") -> Models:
    """Models with that default."""
    return Models(Settings(home=tmp_path, model=model))


async def test_a_server_is_asked_which_model_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base URL is enough: no key, and no model's name."""
    with OpenAIServer([reply_text("hi")], models=["only-one"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        chat = await models(tmp_path).chat()
        assert (await chat.text(HELLO))[0] == "hi"

    assert server.requests[0].json["model"] == "only-one"


@pytest.mark.parametrize(("served", "words"), [(["a", "b"], "one of a, b"), ([], "(none)")])
async def test_a_choice_is_left_to_the_operator(
    served: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several models, or none, the error lists them and says what to set."""
    with OpenAIServer(models=served) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with pytest.raises(ConfigError, match=f"serves {len(served)} models") as caught:
            await models(tmp_path).chat()

    assert words in caught.value.hint


async def test_a_server_that_is_down_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for the model's name fails as any other call does."""
    with OpenAIServer() as server:
        pass
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await models(tmp_path).chat()


async def test_a_named_model_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name goes to the server as it is, with the key."""
    with OpenAIServer([reply_text("hi")], models=[]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        chat = await models(tmp_path).chat("openai:org/model:7b")
        await chat.text(HELLO)

    assert server.requests[0].json["model"] == "org/model:7b"
    assert server.requests[0].headers["authorization"] == "Bearer sk-test"
    assert (chat.name, chat.profile) == ("openai:org/model:7b", CAPABLE)


async def test_without_a_key_it_says_so(tmp_path: Path) -> None:
    """Before any request is made."""
    with pytest.raises(ConfigError, match="'openai:gpt-5' needs a key") as caught:
        await models(tmp_path).chat("openai:gpt-5")

    assert "OPENAI_API_KEY" in caught.value.hint


@pytest.mark.parametrize("name", ["nonsense", "nobody:model", "a b c"])
async def test_what_is_no_model_is_refused(name: str, tmp_path: Path) -> None:
    """The text is quoted, on one line, with an example of a right one."""
    with pytest.raises(ConfigError) as caught:
        await models(tmp_path).chat(name)

    assert repr(name) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint


async def test_a_model_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it learned about the server is kept, until it is closed."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    kept = models(tmp_path, "openai:x")
    first = await kept.chat()
    assert await kept.chat("openai:x") is first
    assert await kept.chat("openai:y") is not first
    await kept.close()
    assert await kept.chat() is not first


async def test_a_given_model_takes_the_default_place(tmp_path: Path) -> None:
    """An embedder's model object is used for the default, and no other name."""
    given = FakeListChatModel(responses=["from the host"])
    own = Models(Settings(home=tmp_path, model="openai:x"), given=given)
    assert (await (await own.chat()).text(HELLO))[0] == "from the host"
    with pytest.raises(ConfigError):
        await own.chat("openai:other")


def test_two_event_loops_share_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client belongs to the loop it ran on; a program may call `asyncio.run` twice."""
    with OpenAIServer([reply_text("one"), reply_text("two")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        kept = models(tmp_path)

        async def ask() -> tuple[str, Chat]:
            chat = await kept.chat()
            return (await chat.text(HELLO))[0], chat

        (first, one), (second, two) = asyncio.run(ask()), asyncio.run(ask())
        assert [first, second] == ["one", "two"]
        assert one is not two
        server.assert_spent()


async def test_the_embedded_model_is_started_off_the_loop(tmp_path: Path) -> None:
    """Starting blocks for seconds, so it runs in a thread; the profile is the measured one."""
    loops: list[bool] = []
    with OpenAIServer([reply_text("hi")]) as server:

        def start() -> tuple[str, str]:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                loops.append(False)
            return server.base_url, "qwen"

        own = Models(Settings(home=tmp_path), start_embedded=start)
        chat = await own.chat()
        await own.chat()
        await chat.text(HELLO)

    assert loops == [False]
    assert server.requests[0].json["model"] == "qwen"
    assert (chat.name, chat.profile) == ("embedded", SMALL)
