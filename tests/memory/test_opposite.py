"""Opposite advice, found by its words: precise rather than eager."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.memory.care.opposite import opposite

WORDS = ["round", "total", "price", "tax", "table", "header", "row", "file", "page", "name"]
sentences = st.lists(st.sampled_from(WORDS), min_size=3, max_size=6, unique=True).map(" ".join)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Call the tool with the last number.", "Never call the tool with the last number."),
        ("Always include the header row in the count.", "Exclude the header row from the count."),
        ("Round the total before adding the tax.", "Round the total after adding the tax."),
        ("Avoid rounding the total of the table.", "Round the total of the table."),
        ("Don't sort the rows by name.", "Sort the rows by name."),
        ("Read the page first. Sort the rows by name.", "Look at it. Do not sort rows by name."),
        ("Use the mean of the monthly shop prices.", "Use the median of the monthly shop prices."),
    ],
)
def test_opposites_are_found(one: str, other: str) -> None:
    """By a negation, or by one pair of opposites; in whatever sentence."""
    assert opposite(one, other)
    assert opposite(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Call the tool with the last number.", "Call the tool with the last number!"),
        ("Never include the header row.", "Exclude the header row."),
        ("Never round the total.", "Always check the name of the page."),
        ("Sort the rows by name.", "Do not read pages by their number."),
        ("Sort ascending, never by page.", "Count the header row."),
        ("Call the tool instead of adding numbers up by hand.", "Call the tool."),
        ("Round the total before the tax.", "Round the total."),
        ("Never do it.", "Do it."),
        ("", "Never call the tool with the number."),
    ],
)
def test_what_is_not_opposite_is_left_alone(one: str, other: str) -> None:
    """The same, something else, two reversals at once, or too little to say."""
    assert not opposite(one, other)
    assert not opposite(other, one)


@given(sentences, sentences)
def test_it_is_symmetric_and_nothing_contradicts_itself(one: str, other: str) -> None:
    """Whatever is compared."""
    assert opposite(one, other) == opposite(other, one)
    assert not opposite(one, one)
    assert opposite(one, f"Never {one}")
    assert not opposite(f"Never {one}", f"Do not {one}")


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    """Also what is no language."""
    assert opposite(one, other) == opposite(other, one)
