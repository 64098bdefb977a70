"""What `memory.care.integrity` finds, on every back-end."""

import uuid
from typing import Any

import pytest

from mem2evolve.memory.care.integrity import faults
from mem2evolve.memory.memory import Memory
from mem2evolve.memory.records import AgentRecord, ExperienceRecord, RunRecord, ToolRecord
from mem2evolve.memory.rows import COLLECTION, RecordKind, payload_of
from mem2evolve.memory.store import MemoryStore, Record

from .conftest import WordsEmbedder

ABSENT = str(uuid.UUID(int=99))
TOOL = ToolRecord(name="add", description="Adds.", input_schema={}, code="x", status="active")
AGENT = AgentRecord(name="clerk", expertise="Counts.", strategy="Slowly.")
LESSON = ExperienceRecord(
    scope="agent",
    title="Dates",
    description="d",
    applies_when="w",
    knowledge="k",
    outcome="success",
    run_id="r",
)
RUN = RunRecord(
    id=str(uuid.UUID(int=1)),
    task="Add two numbers",
    mode="full",
    model="m",
    assets=(TOOL.id, AGENT.id),
    won=(TOOL.id,),
    learned=(LESSON.id,),
)


async def said(memory: Memory, **options: Any) -> list[tuple[str, str]]:
    """Return name and finding of each fault."""
    return [(one.name, one.what) async for one in faults(memory, **options)]


async def spoil(
    store: MemoryStore, kind: RecordKind, record: Any, vector: Any = None, **payload: Any
) -> None:
    """Change what is stored of a record behind the memory's back."""
    [row] = await store.get(COLLECTION[kind], [record.id])
    changed = {**payload_of(record), **payload}
    await store.put(
        COLLECTION[kind], [Record(id=row.id, vector=vector or row.vector, payload=changed)]
    )


async def test_a_whole_memory_has_no_faults(memory: Memory) -> None:
    """Also when its vectors are compared."""
    await memory.put(TOOL, AGENT, LESSON, RUN)

    assert await said(memory, vectors=True) == []


@pytest.mark.parametrize(
    ("kind", "record", "payload", "finding"),
    [
        ("tool", TOOL, {"code": "import os"}, "its content was changed"),
        ("tool", TOOL, {"version": "one"}, "cannot be read"),
        ("agent", AGENT, {"supersedes": ABSENT}, "supersedes names 00000000"),
        ("experience", LESSON, {"knowledge": "the opposite"}, "its content was changed"),
        ("experience", LESSON, {"supports": [ABSENT]}, "supports names 00000000"),
        ("run", RUN, {"won": [ABSENT]}, "won names 00000000"),
        ("run", RUN, {"learned": [ABSENT]}, "learned names 00000000"),
    ],
)
async def test_a_changed_record_is_found(
    memory: Memory, store: MemoryStore, kind: RecordKind, record: Any, payload: Any, finding: str
) -> None:
    """One line for it, and none for the others."""
    await memory.put(TOOL, AGENT, LESSON, RUN)
    await spoil(store, kind, record, **payload)

    [(_, what)] = await said(memory)

    assert finding in what


async def test_a_vector_of_another_text_is_found(
    memory: Memory, store: MemoryStore, words: WordsEmbedder
) -> None:
    """It gives no error anywhere, only bad recall; found when cards are embedded again."""
    await memory.put(TOOL, AGENT, LESSON, RUN)
    [stranger] = await words.embed(["A poem about the sea"])
    await spoil(store, "tool", TOOL, stranger)

    assert await said(memory) == []
    [(name, what)] = await said(memory, vectors=True)
    assert (name, "not that of its card" in what) == ("add v1", True)
