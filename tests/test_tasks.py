"""Lists of tasks."""

import json
from pathlib import Path

import pytest

from mem2evolve.errors import InputError
from mem2evolve.tasks import Task, read_tasks


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "holds 0 tasks"),
        ('{"task": "x"}', "Line 1"),
        ('{"task": "x", "answer": "1"}\nnot json', "Line 2"),
        ('{"task": "", "answer": "1"}', "empty"),
        ('{"task": "x", "answer": "1", "files": ["absent.csv"]}', "absent.csv"),
        ('{"task": 5, "answer": "1"}', "no task"),
        ('{"task": "x", "answer": "1", "files": [5]}', "no list of names"),
        ("[" * 100_000, "Line 1"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(tmp_path: Path, lines: str, words: str) -> None:
    """File, line and what to write instead."""
    file = tmp_path / "tasks.jsonl"
    file.write_text(lines)

    with pytest.raises(InputError, match=words):
        read_tasks(file, answers=True)


def test_tasks_are_read(tmp_path: Path) -> None:
    """Files lie beside the list; numbers may be answers."""
    (tmp_path / "a.csv").write_text("x")
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"task": " t ", "answer": 42, "files": ["a.csv"]}) + "\n\n")

    assert read_tasks(file, answers=True) == [
        Task(task="t", answer="42", files=(str(tmp_path / "a.csv"),))
    ]


def test_an_answer_need_not_be_known(tmp_path: Path) -> None:
    """For a batch; a replay asks for it."""
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task": "t"}')

    assert read_tasks(file) == [Task(task="t")]
    with pytest.raises(InputError, match=r"Line 1.* has no answer"):
        read_tasks(file, answers=True)
