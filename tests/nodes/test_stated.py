"""Examples that a model claims to have found in the task: believed only where the words are there."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.nodes.creation.stated import Stated, accepted, read_sources

TASK: Final = (
    "Write the number of vowels. For example 'banana' has 3, and 'Rhythm' gives 0. "
    "An empty text is an error. 1,250.5 kg are 1.2505 t. Is 'level' a palindrome? yes."
)


def cases(quote: str, args: dict[str, Any], **claim: Any) -> list[dict[str, Any]]:
    """Return what is believed of one claim."""
    return accepted([Stated(quote=quote, args=args, **claim)], {"task": TASK})


@pytest.mark.parametrize(
    ("quote", "args", "claim"),
    [
        ("'banana' has 3", {"text": "banana"}, {"expected": 3}),
        ("'RHYTHM'  gives\n0", {"text": "Rhythm"}, {"expected": 0}),
        ("1,250.5 kg are 1.2505 t", {"kg": 1250.5}, {"expected": 1.2505}),
        ("Is 'level' a palindrome? yes.", {"text": "level"}, {"expected": True}),
        ("An empty text is an error", {"text": ""}, {"refused": True}),
    ],
)
def test_what_the_task_says_is_a_case(quote: str, args: dict[str, Any], claim: Any) -> None:
    """White space and case do not count."""
    [case] = cases(quote, args, **claim)
    assert case["args"] == args
    assert case["origin"] == "task"
    assert case["raises"] == ("ValueError" if claim.get("refused") else "")
    assert case["expected"] == claim.get("expected")


@pytest.mark.parametrize(
    ("quote", "args", "claim"),
    [
        ("'banana' has 4", {"text": "banana"}, {"expected": 4}),  # not the task's words
        ("'banana' has 3", {"text": "banana"}, {"expected": 4}),  # its words, another result
        ("'banana' has 3", {"text": "cherry"}, {"expected": 3}),  # of another input
        ("'banana' has 3", {"text": "banana"}, {"refused": True}),
        ("'banana' has 3", {"count": 3}, {"expected": 3}),  # one number is not both
        ("", {"text": "banana"}, {"expected": 3}),
        ("Write the number of vowels.", {"text": "vowels"}, {"expected": [1, {"a": 2}]}),
    ],
)
def test_what_it_does_not_say_is_none(quote: str, args: dict[str, Any], claim: Any) -> None:
    """A claim without evidence is dropped."""
    assert cases(quote, args, **claim) == []


def test_a_rounded_result_is_right_to_its_last_digit() -> None:
    """The example gives four digits; the tool returns them all."""
    [case] = cases("1,250.5 kg are 1.2505 t", {"kg": 1250.5}, expected=1.2505)
    assert case["tolerance"] == pytest.approx(0.00005)


async def test_files_are_sources_too(tmp_path: Path) -> None:
    """Text files count by their beginning; others are passed over."""
    (tmp_path / "examples.txt").write_text("abc -> cba\n" + "é" * 5000, encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    paths = [str(tmp_path / name) for name in ("examples.txt", "picture.png", "gone.txt")]
    sources = await read_sources("Reverse texts.", paths)
    assert list(sources) == ["task", "file examples.txt"]
    [case] = accepted([Stated(quote="abc -> cba", args={"t": "abc"}, expected="cba")], sources)
    assert case["origin"] == "file"


@given(st.text(), st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3), st.text())
def test_any_claim_is_answered(quote: str, args: dict[str, str], expected: str) -> None:
    """No claim breaks it, and what is believed stands in the task."""
    for case in cases(quote, args, expected=expected):
        assert (
            " ".join(str(case["expected"]).split()).casefold() in " ".join(TASK.split()).casefold()
        )
