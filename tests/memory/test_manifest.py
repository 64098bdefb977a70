"""The manifest: which model and version made a memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import StoreDamaged, StoreMismatch
from mem2evolve.memory import manifest as manifests
from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.manifest import Manifest, setting_of
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.recall import Need
from mem2evolve.memory.records import AgentRecord
from mem2evolve.memory.store import MemoryStore

from .conftest import WordsEmbedder

AGENT = AgentRecord(name="Chess Analyst", expertise="Evaluates positions.", strategy="Look deep.")
NEED = Need(kind="agent", name="Chess expert", description="Judges positions.")


async def test_another_model_is_refused_before_any_query(store: MemoryStore) -> None:
    """A memory made with one model is not read, searched or written with another."""
    await Memory(store, WordsEmbedder("openai:small")).put(AGENT)
    other = WordsEmbedder("minilm@8199be6f699a")
    memory = Memory(store, other)
    for call in (
        lambda: memory.recall_assets([NEED]),
        lambda: memory.put(AGENT),
        lambda: memory.get("agent", AGENT.id),
        lambda: memory.list("run"),
        lambda: memory.usage("tool"),
    ):
        with pytest.raises(StoreMismatch) as mismatch:
            await call()
        assert "openai:small (64 numbers)" in str(mismatch.value)
        assert "minilm@8199be6f699a (64) is in use" in str(mismatch.value)
        assert "MEM2EVOLVE_EMBEDDING=openai:small," in mismatch.value.hint
    assert other.calls == []
    assert await store.count("agents") == 1


async def test_the_same_model_goes_on(store: MemoryStore) -> None:
    """Opened again with the same model, everything is there."""
    await Memory(store, WordsEmbedder()).put(AGENT)
    assert await Memory(store, WordsEmbedder()).get("agent", AGENT.id) == AGENT


async def test_reading_a_new_memory_leaves_no_manifest(store: MemoryStore) -> None:
    """Nothing is fixed before the first write, so the model may still be changed."""
    assert await Memory(store, WordsEmbedder("a")).get("agent", AGENT.id) is None
    await Memory(store, WordsEmbedder("b")).put(AGENT)
    stored = await store.read_manifest()
    assert stored == Manifest(embedding="b", dim=64).to_json()


class Unknown(WordsEmbedder):
    """An embedder that learns its dimension from its first answer."""

    dim = 0

    async def embed(self, texts: Any) -> list[list[float]]:
        """Embed, and know better."""
        vectors = [[1.0, 0.0, 0.0]] * len(texts)
        self.dim = 3
        return vectors


async def test_a_changed_dimension_is_refused(store: MemoryStore) -> None:
    """A model of the same name that now gives longer vectors is another model."""
    await Memory(store, WordsEmbedder("x")).put(AGENT)
    memory = Memory(store, Unknown("x"))
    assert await memory.count("agent") == 1
    with pytest.raises(
        StoreMismatch, match=r"model x when it gave 64 numbers; now it gives 3"
    ) as error:
        await memory.put(AGENT)
    assert "reembed" in error.value.hint


@pytest.mark.parametrize("field", ["schema_version", "card_version"])
def test_another_version_is_refused(field: str) -> None:
    """A later schema or card text is refused with a way out."""
    made = Manifest(embedding="x", dim=3)
    newer = replace(made, **{field: getattr(made, field) + 1})
    made.check(embedding="x", dim=3)
    with pytest.raises(StoreMismatch, match=r"version [23]") as mismatch:
        newer.check(embedding="x", dim=3)
    way = "MEM2EVOLVE_HOME" if field == "schema_version" else "mem2evolve memory reembed"
    assert way in mismatch.value.hint


@pytest.mark.parametrize("change", [{"dim": "3"}, {"embedding": None}, {"schema_version": None}])
def test_a_broken_manifest_is_damage(change: dict[str, Any]) -> None:
    """A field of the wrong type is named."""
    with pytest.raises(StoreDamaged, match=next(iter(change))):
        Manifest.from_json(Manifest(embedding="x", dim=3).to_json() | change)


def test_a_later_manifest_with_more_fields_can_still_be_refused() -> None:
    """Unknown fields do not hide the version."""
    newer = Manifest(embedding="x", dim=3, schema_version=9).to_json() | {"new": 1}
    with pytest.raises(StoreMismatch, match="schema version 9"):
        Manifest.from_json(newer).check(embedding="x", dim=3)


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails half way, the old manifest is whole and nothing else is left."""
    manifests.write_file(tmp_path, {"dim": 1})

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifests.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        manifests.write_file(tmp_path, {"dim": 2})
    assert manifests.read_file(tmp_path) == {"dim": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


async def test_a_damaged_manifest_stops_the_memory(tmp_path: Path) -> None:
    """Without knowing the model nothing is written."""
    (tmp_path / "manifest.json").write_text("{")
    async with Memory(EdgeStore(tmp_path), WordsEmbedder()) as memory:
        with pytest.raises(StoreDamaged, match=r"manifest\.json is not JSON"):
            await memory.put(AGENT)
    assert not (tmp_path / "agents").exists()


def test_the_setting_of_a_fingerprint() -> None:
    """The hint names what to set, also for model names with an @."""
    assert setting_of("minilm@8199be6f699a") == "minilm"
    assert setting_of("google_vertexai:gecko@003") == "google_vertexai:gecko@003"
