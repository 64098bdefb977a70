"""Lists of tasks in files, for batches and replays."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .errors import InputError
from .nodes.retrieve_experience import check_files, check_task

MAX_TASKS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, and its answer where that is known."""

    task: str
    answer: str | None = None
    files: tuple[str, ...] = ()


def read_tasks(path: Path, *, answers: bool = False) -> list[Task]:
    """Read tasks: a JSON object a line, with `task`, and perhaps `answer` and `files` (relative to the file's folder).

    Args:
        path: Of the file.
        answers: Whether each needs an answer.

    Raises:
        InputError: Names the line and what is wrong with it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(
            f"The tasks in {str(path)!r} cannot be read: {exc}.", hint="Give a JSON Lines file."
        ) from exc
    tasks = [
        _task(path, n, line, answers=answers) for n, line in enumerate(lines, 1) if line.strip()
    ]
    if not 1 <= len(tasks) <= MAX_TASKS:
        raise InputError(
            f"{str(path)!r} holds {len(tasks)} tasks.", hint=f"Give 1 to {MAX_TASKS:,}."
        )
    return tasks


def _task(path: Path, number: int, line: str, *, answers: bool) -> Task:
    where = f"Line {number} of {str(path)!r}"
    hint = 'Write {"task": "…", "answer": "…"} on each line.'
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{where} is no JSON: {exc}.", hint=hint) from exc
    if not isinstance(said, dict) or not isinstance(said.get("task"), str):
        raise InputError(f"{where} has no task.", hint=hint)
    answer, files = said.get("answer"), said.get("files", [])
    if answers and answer is None:
        raise InputError(f"{where} has no answer.", hint=hint)
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise InputError(f"{where} has files that are no list of names.", hint=hint)
    named = [str((path.parent / file).absolute()) for file in files]
    try:
        check_files(named)
        task = check_task(said["task"])
    except InputError as exc:
        raise InputError(f"{where}: {exc}", hint=exc.hint) from exc
    return Task(task=task, answer=None if answer is None else str(answer), files=tuple(named))
