"""`mem2evolve memory calibrate` and `reembed`."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.memory.backends.edge import EdgeStore
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import ToolRecord
from mem2evolve.models import embeddings
from mem2evolve.models.embeddings import MiniLM, open_embedder

from .conftest import Say

OTHER = "test:other"
TOOL = ToolRecord(name="add", description="Adds.", input_schema={})


class Reversed:
    """The built-in model with its numbers the other way round: another model, as good."""

    dim = MiniLM.dim
    name = OTHER

    def __init__(self) -> None:
        self._inner = MiniLM()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed."""
        return [vector[::-1] for vector in await self._inner.embed(texts)]


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names another model."""

    def opened(name: str) -> Any:
        return Reversed() if name == OTHER else open_embedder(name)

    monkeypatch.setattr(embeddings, "open_embedder", opened)
    monkeypatch.setattr("mem2evolve.memory.memory.open_embedder", opened)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with one tool, in the home."""
    folder = tmp_path / "home" / ".mem2evolve" / "memory"

    async def fill() -> None:
        async with Memory(EdgeStore(folder), MiniLM()) as made:
            await made.put(TOOL)

    asyncio.run(fill())
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    """Return what the memory says of itself."""
    return json.loads((folder / "manifest.json").read_text())  # type: ignore[no-any-return]


def test_calibrate_prints_the_trade_off_and_keeps_it(say: Say, memory: Path) -> None:
    """A table, the thresholds, and the same in the manifest."""
    done = say("memory", "calibrate", ok=True)
    assert done.out.splitlines()[0].split() == [
        "threshold", "accuracy", "F1", "recruited", "right", "recruited", "wrong", "missed"
    ]  # fmt: skip
    assert "δ 0.51" in done.out
    assert "Kept in this home." in done.err
    assert manifest(memory)["calibration"] == {
        "delta": 0.51, "low": 0.35, "high": 0.8, "twin": 0.9
    }  # fmt: skip


def test_calibrate_dry_changes_nothing(say: Say, tmp_path: Path) -> None:
    """Not even a home is made; JSON is one line."""
    done = say("memory", "calibrate", "--dry-run", "--json", ok=True)
    [line] = done.out.splitlines()
    found = json.loads(line)
    assert (found["delta"], found["kept"]) == (0.51, False)
    assert found["table"][0]["threshold"] == 0.2
    assert not (tmp_path / "home").exists()


def test_calibrate_refuses_a_bad_set(say: Say, memory: Path, tmp_path: Path) -> None:
    """Two lines, and nothing is kept."""
    (tmp_path / "bad.jsonl").write_text("[]\n")
    say("memory", "calibrate", "--set", str(tmp_path / "bad.jsonl")).refused("Line 1")
    assert "calibration" not in manifest(memory)


@pytest.mark.usefixtures("other")
def test_reembed_changes_the_model(say: Say, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mismatch names the command; it asks first; afterwards the other model's memory is in use."""
    say("memory", "calibrate", ok=True)
    monkeypatch.setenv("MEM2EVOLVE_EMBEDDING", OTHER)
    say("tools", "list").refused(OTHER, "mem2evolve memory reembed")
    say("memory", "calibrate").refused(OTHER)
    say("memory", "reembed").refused("Replace all vectors of minilm@", "--yes")
    assert manifest(memory)["embedding"] == MiniLM.name

    done = say("memory", "reembed", "--yes", "--json", ok=True)
    report = json.loads(done.out)
    assert (report["records"], report["embedded"], report["changed"]) == (1, 1, True)
    assert manifest(memory)["embedding"] == OTHER
    assert "calibration" not in manifest(memory)
    assert "add" in say("tools", "list", "--all", ok=True).out


def test_reembed_has_nothing_to_do(say: Say, memory: Path) -> None:
    """It asks nothing then, in a memory of this model and where there is none."""
    before = manifest(memory)
    assert "Nothing to do" in say("memory", "reembed", ok=True).err
    assert manifest(memory) == before
