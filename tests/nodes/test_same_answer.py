"""When two short answers say the same."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.answers import same_answer

PROPERTY = settings(deadline=None, max_examples=100)
ANSWERS = st.text(max_size=40) | st.lists(
    st.sampled_from(["12", "13", "-", ".", ",", "000", " ", "km", "Paris", "1e5", "½", "٣", "%"]), max_size=6
).map("".join)  # fmt: skip


@PROPERTY
@given(ANSWERS, ANSWERS)
@example("9" * 400, "8" * 400)
@example("12 km", "km 12")
def test_it_is_symmetric(one: str, other: str) -> None:
    """It does not matter which answer came first; and any text can be compared."""
    assert same_answer(one, other) is same_answer(other, one)


@PROPERTY
@given(ANSWERS)
def test_an_answer_is_itself(answer: str) -> None:
    """Also with other spacing and case; unless it is empty, which says nothing."""
    said = bool(" ".join(answer.split()).strip(" .'\""))
    assert same_answer(answer, answer) is said or any(map(str.isdigit, answer))
    assert not same_answer("", answer) or not answer


@PROPERTY
@given(st.integers(), st.integers(1, 9))
def test_other_numbers_are_other_answers(number: int, off: int) -> None:
    """However many digits they have."""
    assert same_answer(f"{number}", f"{number}.0")
    assert same_answer(f"{number:,} km", f"The result is {number} km")
    assert not same_answer(f"{number}", f"{number + off}")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2,312 km", "2312", True),
        ("12", "13", False),
        ("5 km", "5 m", False),
        ("-5", "5", False),
        ("0.50", "0.5", True),
        ("Paris", " paris. ", True),
        ("Paris", "London", False),
        ("2024-05-01", "2024-05-01", True),
        ("2024-05-01", "2024-05-02", False),
        ("1, 2, 3", "1, 2, 3.", True),
        ("1, 2, 3", "3, 2, 1", False),
        ("yes", "yes, 5", False),
        ("", "", False),
        ("9007199254740993", "9007199254740992", False),
    ],
)
def test_answers_by_example(one: str, other: str, *, same: bool) -> None:
    """One number each: by value and by units that do not contradict; else by words."""
    assert same_answer(one, other) is same
