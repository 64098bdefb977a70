"""The stores under test, and a stand-in for the embedding model."""

import hashlib
import math
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.backends.server import ServerStore
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.store import MemoryStore
from mem2evolve.models.embeddings import MiniLM

from .processes import KEEPER, Child, start


class WordsEmbedder:
    """Embeds a text as its bag of words: shared words make texts similar. Counts its calls."""

    dim = 64

    def __init__(self, name: str = "words") -> None:
        self.name = name
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return unit vectors."""
        self.calls.append(list(texts))
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.001] * self.dim
        for word in text.lower().replace(":", " ").replace(".", " ").split():
            vector[hashlib.sha256(word.encode()).digest()[0] % self.dim] += 1.0
        norm = math.sqrt(sum(x * x for x in vector))
        return [x / norm for x in vector]


@pytest.fixture
def words() -> WordsEmbedder:
    """A fast embedding model."""
    return WordsEmbedder()


@pytest.fixture(scope="session")
def minilm() -> MiniLM:
    """The real embedding model, loaded once."""
    return MiniLM()


@pytest.fixture(scope="session")
def keeper() -> Iterator[Child]:
    """Another process that owns folders on demand."""
    child = start(KEEPER)
    yield child
    child.process.communicate(timeout=30)


@pytest.fixture(
    params=["edge", "remote", "memory", pytest.param("server", marks=pytest.mark.qdrant)],
)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    """Every back-end, empty. "remote" is a folder that another process owns."""
    made: MemoryStore
    if request.param == "edge":
        made = EdgeStore(tmp_path / "memory")
    elif request.param == "remote":
        owner: Child = request.getfixturevalue("keeper")
        assert owner.ask(f"open {tmp_path / 'memory'}") == "done"
        made = EdgeStore(tmp_path / "memory")
    elif request.param == "memory":
        made = ServerStore(location=":memory:")
    else:
        made = ServerStore(
            url=os.environ["QDRANT_URL"],
            api_key=os.environ.get("QDRANT_API_KEY"),
            prefix=f"test_{uuid.uuid4().hex}_",
        )
    yield made
    await made.close()
    if request.param == "remote":
        owner = request.getfixturevalue("keeper")
        assert owner.ask(f"close {tmp_path / 'memory'}") == "done"


@pytest.fixture
async def memory(store: MemoryStore, words: WordsEmbedder) -> AsyncIterator[Memory]:
    """An empty memory on every back-end."""
    async with Memory(store, words) as made:
        yield made
