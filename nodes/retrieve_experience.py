"""Node: settle what the task is, and recall the lessons that should steer its plan."""

import asyncio
import os
import time
import uuid
from pathlib import Path
from typing import Any, Final

from langgraph.runtime import Runtime

from ..errors import InputError
from ..graph.context import Context
from ..graph.state import State
from ..memory.recall import Usage
from ..memory.records import ExperienceRecord
from .desk import MAX_FILE_BYTES, Desk, Resources
from .foreign_tools import keep_foreign

MAX_TASK_CHARS: Final = 200_000
"""About what the larger context windows hold; longer input belongs in a file."""
MAX_OPPONENTS: Final = 2
"""Lessons that are shown beside one because they give the opposite advice."""


async def retrieve_experience(
    state: State, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Start a run: check its input, clear what an earlier run left on the thread, recall lessons.

    Raises:
        InputError: If there is no task, or a file cannot be used.
        StoreError: If the memory cannot be read.
    """
    desk = Desk.of(runtime, resources, "retrieve_experience")
    task = task_of(state)
    await asyncio.to_thread(check_files, state.get("files") or [])
    lessons = await recall_lessons(desk, task, "agent", desk.context.lessons_for_planning)
    run_id = run_id_of(runtime)
    desk.tell("started", run_id=run_id, task=task, lessons=lessons)
    await keep_foreign(desk)
    fresh = dict.fromkeys(("decisions", "creations", "results", "ledger"))
    return fresh | {
        "run_id": run_id,
        "namespace": desk.context.namespace,
        "started": time.time(),
        "ended": 0.0,
        "task": task,
        "lessons": lessons,
        "plan": [],
        "needs": [],
        "answer": "",
        "verdict": "",
        "judgement": None,
        "kept": [],
        "reopened": None,
        "learned": [],
    }


def run_id_of(runtime: Runtime[Context]) -> str:
    """Return the id that the caller gave the run (`config={"run_id": …}`), or a new one.

    Inside another graph it is always new: one run of that graph may run this one more than once.
    """
    known = runtime.execution_info
    if known is None or not known.run_id or "|" in known.checkpoint_ns:
        return str(uuid.uuid4())
    return str(known.run_id)


def task_of(state: State) -> str:
    """Return the task: the conversation's last message if a person wrote it, else `task`.

    Raises:
        InputError: If it is empty, too long or not text.
    """
    messages = state.get("messages") or []
    spoken = messages[-1].text if messages and messages[-1].type == "human" else ""
    return check_task(spoken or state.get("task") or "")


def check_task(task: str) -> str:
    """Return the task without the white space around it.

    Raises:
        InputError: If it is empty, too long or not text.
    """
    task = task.strip()
    if not task:
        raise InputError("The task is empty.", hint='Say what to do, as in: mem2evolve run "…"')
    if len(task) > MAX_TASK_CHARS:
        raise InputError(
            f"The task has {len(task):,} characters; at most {MAX_TASK_CHARS:,} are taken.",
            hint="Put the long part into a file and give it with --file.",
        )
    strange = [  # control characters, and halves of surrogate pairs
        char
        for char in task
        if (char < " " and char not in "\n\r\t") or "\ud800" <= char <= "\udfff"
    ]
    if strange:
        raise InputError(
            f"The task holds {len(strange)} characters that are no text, the first is {strange[0]!r}.",
            hint="Give binary data as a file with --file.",
        )
    return task


def check_files(paths: list[str]) -> None:
    """Refuse files that cannot be read.

    Raises:
        InputError: Names the first such file and why.
    """
    for text in paths:
        path = Path(text)
        try:
            if not path.is_file():
                what = "does not exist"
                if path.is_dir():
                    what = "is a folder"
                elif path.exists():
                    what = "is no regular file"
                raise InputError(f"File {text!r} {what}.", hint="Check the path given with --file.")
            size = path.stat().st_size
            if size > MAX_FILE_BYTES:
                raise InputError(
                    f"File {text!r} has {size / 1e6:.0f} MB; at most {MAX_FILE_BYTES / 1e6:.0f} MB are taken.",
                    hint="Give a smaller part of it.",
                )
            if not os.access(path, os.R_OK):
                raise InputError(f"File {text!r} cannot be read.", hint="Check its permissions.")
        except (OSError, ValueError) as exc:
            raise InputError(
                f"File {text!r} cannot be read: {exc}.", hint="Check the path."
            ) from exc


async def recall_lessons(desk: Desk, query: str, scope: Any, limit: int) -> list[dict[str, Any]]:
    """Return lessons as JSON, best first; none when the run's settings say so.

    A lesson that another one contradicts is followed by that one, also beyond the limit, with a note on how
    each fared.
    """
    wanted = (
        desk.context.arm.use_agent_experience
        if scope == "agent"
        else desk.context.arm.use_tool_experience
    )
    if not wanted or limit == 0:
        return []
    found = await desk.memory.recall_lessons(
        query, scope=scope, k=limit, namespace=desk.context.namespace
    )
    shown: dict[str, dict[str, Any]] = {}
    for record, score in found:
        if record.id not in shown:
            shown[record.id] = _shown(record, score)
            shown |= await _opponents(desk, query, record, shown)
    return list(shown.values())


async def _opponents(
    desk: Desk, query: str, record: ExperienceRecord, shown: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the lessons that give the opposite advice; marks those shown by now that take part."""
    found = (await desk.memory.opponents(record))[:MAX_OPPONENTS]
    if not found:
        return {}
    scores = await desk.memory.closeness(query, found)
    ids = [record.id, *(one.id for one in found)]
    usage = await desk.memory.usage("experience", namespace=record.namespace, ids=ids)
    for key in shown.keys() & set(ids):
        shown[key]["disputed"] = True
    new: dict[str, dict[str, Any]] = {}
    for one, score in zip(found, scores, strict=True):
        if one.id not in shown:
            fared = f"that one {_fared(usage.get(record.id))}, this one {_fared(usage.get(one.id))}"
            note = f"This contradicts the lesson {len(new) + 1} above: {fared}"
            new[one.id] = _shown(one, score) | {"disputed": True, "note": note}
    return new


def _fared(usage: Usage | None) -> str:
    return f"helped in {usage.wins} of {usage.uses} judged runs" if usage else "has not been used"


def _shown(record: ExperienceRecord, score: float) -> dict[str, Any]:
    text = f"{record.applies_when.rstrip('.')}: {record.knowledge}"
    return {
        "id": record.id,
        "title": record.title,
        "outcome": record.outcome,
        "text": text,
        "score": round(score, 3),
    }
