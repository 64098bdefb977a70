"""Names that every provider and every file system accepts."""

import keyword
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.naming import MAX_NAME, tool_name

PROPERTY = settings(deadline=None, max_examples=150)


@PROPERTY
@given(st.text(max_size=200) | st.sampled_from(keyword.kwlist + keyword.softkwlist))
@example("")
@example("9" * 100)
@example("class")
@example("Ⅷ ½ ß İ \ud800 \x00 ../../etc/passwd")
@example("a" * 63 + "_b")
@example("1" + "_" * 70 + "x")
def test_every_text_gives_a_name(wanted: str) -> None:
    """That OpenAI, MCP, Python and a folder all take, and that stays as it is when named again."""
    name = tool_name(wanted)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert len(name) <= MAX_NAME
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert tool_name(name) == name


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("count_weekdays", "count_weekdays"),
        ("Count Weekdays!", "count_weekdays"),
        ("countWeekdays", "count_weekdays"),
        ("HTTPFetch2Pages", "httpfetch2_pages"),
        ("Größe berechnen", "groe_berechnen"),
        ("2d_area", "tool_2d_area"),
        ("lambda", "tool_lambda"),
        ("日本", "tool"),
        ("__init__", "init"),
    ],
)
def test_names_by_example(wanted: str, name: str) -> None:
    """Words are kept and joined by underscores."""
    assert tool_name(wanted) == name
