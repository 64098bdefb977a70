"""Reading what models write: JSON among prose, fences, thoughts and echoes; code in fences."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from mem2evolve.models.replies import Unusable, extract_code, parse_json, without_thoughts

PROPERTY = settings(deadline=None, max_examples=80)


class Pet(BaseModel):
    """What the replies are read as."""

    model_config = ConfigDict(extra="forbid")

    name: str
    legs: int = 4
    traits: dict[str, Any] = {}


PIECES = [
    "{", "}", "[", "]", '"', ":", ",", "\\", "```", "```json\n", "\n```", "<think>", "</think>",
    '"name"', "null", "NaN", "\n", " ", "1e999", "\\ud800", "\ud800", "\x00", "9" * 40, '{"a":',
]  # fmt: skip
SCRAPS = st.lists(st.sampled_from(PIECES)).map("".join)
TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<"))
"""Without `<`: a value that holds `</think>` is taken for the end of a thought."""
WORDS = st.text(alphabet="abc .,:;!\n'")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
PETS = st.builds(
    Pet, name=TEXT, legs=st.integers(), traits=st.dictionaries(TEXT, VALUES, max_size=3)
)


@PROPERTY
@given(st.text() | SCRAPS, st.booleans())
@example('{"a":' * 2000, False)
@example("[" * 100_000, False)
@example('{"name": ' + "9" * 5000 + "}", False)
@example('{"name": {"name": NaN}}', True)
def test_any_text_is_read_or_unusable(text: str, cut: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever a model writes, the caller sees a value or one kind of error."""
    with contextlib.suppress(Unusable):
        parse_json(text, Pet, cut=cut)


@PROPERTY
@given(PETS, WORDS, WORDS)
@example(Pet(name="a } b { ```"), "", "")
def test_json_among_prose_is_found(pet: Pet, before: str, after: str) -> None:
    """Chatty words before and after do not matter."""
    assert parse_json(f"{before}{pet.model_dump_json()}{after}", Pet) == pet


@PROPERTY
@given(
    PETS, WORDS, st.sampled_from(["json", "", "JSON", "python"]), st.sampled_from(["\n", "\r\n"])
)
def test_json_in_a_fence_is_found(pet: Pet, before: str, tag: str, end: str) -> None:
    """A code fence does not matter, whatever it is tagged with."""
    fenced = f"{before}\n```{tag}{end}{pet.model_dump_json(indent=1)}{end}```{end}Done."
    assert parse_json(fenced, Pet) == pet


@PROPERTY
@given(PETS, PETS)
def test_thoughts_are_passed_over(draft: Pet, pet: Pet) -> None:
    """A draft inside a think block is not the reply, also when a template opened the block."""
    assert (
        parse_json(f"<think>{draft.model_dump_json()}</think>\n{pet.model_dump_json()}", Pet) == pet
    )
    assert parse_json(f"hmm {draft.model_dump_json()}</think>{pet.model_dump_json()}", Pet) == pet


def test_the_first_object_that_fits_is_taken() -> None:
    """Other objects before it, such as an example, are passed over."""
    text = 'Given {"colour": "red"} I say {"name": "Rex"}.'
    assert parse_json(text, Pet) == Pet(name="Rex")


def test_a_schema_echo_is_named() -> None:
    """The schema instead of data is told apart from data that does not fit."""
    with pytest.raises(Unusable, match="repeats the schema"):
        parse_json(json.dumps(Pet.model_json_schema()), Pet)


def test_a_shape_may_have_properties() -> None:
    """`properties` is no echo where the shape has that field."""

    class House(BaseModel):
        properties: list[str]

    assert parse_json('{"properties": ["dry"]}', House).properties == ["dry"]


@pytest.mark.parametrize(
    ("text", "cut", "reason"),
    [
        ("", False, "holds no JSON object"),
        ("Certainly!", False, "holds no JSON object"),
        ('{"legs": 3}', False, "name: Field required"),
        ('{"name": "Rex", "legs": "many"}', False, "legs: Input should be a valid integer"),
        ('{"name": "Rex", "tail": 1}', False, "tail: Extra inputs"),
        ("[1]", False, "the value: Input should be"),
        ('{"name": "Re', True, "cut off at the token limit"),
        ('{"name": "Rex", "traits": {"mass": NaN}}', False, "holds no JSON object"),
    ],
)
def test_the_reason_says_what_to_mend(text: str, cut: bool, reason: str) -> None:  # noqa: FBT001
    """It goes back to the model, so it names the field and what is wrong there."""
    with pytest.raises(Unusable, match=reason):
        parse_json(text, Pet, cut=cut)


def test_a_whole_reply_at_the_limit_counts() -> None:
    """Cut off after the object closed, it can be used."""
    assert parse_json('{"name": "Rex"} and', Pet, cut=True) == Pet(name="Rex")


def test_what_is_read_can_be_written() -> None:
    """Half a surrogate pair, escaped or raw, would break every file and request it reached."""
    pet = parse_json('{"name": "a\\ud800b", "traits": {"k\\udfff": "\ud801"}}', Pet)
    assert pet.name == "a?b"
    pet.model_dump_json().encode()


@PROPERTY
@given(st.text() | SCRAPS)
def test_code_is_always_text(text: str) -> None:
    """Extraction never fails, and ends in one line end."""
    code = extract_code(text)
    assert code.endswith("\n")
    code.encode()


CODE = st.lists(
    st.sampled_from(["x = 1", "def f(a):", "    return a", "", "'''text'''", "# note", "print(`1`)"]),
    min_size=1,
    max_size=6,
).map("\n".join)  # fmt: skip


@PROPERTY
@given(CODE.filter(str.strip), WORDS, st.sampled_from(["python", "py", "Python", ""]))
def test_the_fenced_block_is_the_code(code: str, prose: str, tag: str) -> None:
    """Prose around it is dropped, and indentation inside is kept."""
    assert extract_code(f"{prose}\n```{tag}\n{code}\n```\n{prose}") == code.strip() + "\n"


def test_the_longest_python_block_is_taken() -> None:
    """A shell line to install something, or a one-line usage example, is not the program."""
    install = "```bash\npip install something-with-a-long-name\n```"
    text = f"{install}\n```python\ndef f(a):\n    return a\n```\n```python\nf(1)\n```"
    assert extract_code(text) == "def f(a):\n    return a\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f():\n    return 1", "def f():\n    return 1\n"),
        ("```python\ndef f():\n    return 1", "def f():\n    return 1\n"),
        ("```python\r\nx = 1\r\n```", "x = 1\n"),
        ("<think>```python\ny = 2\nz = 3\n```</think>```python\nx = 1\n```", "x = 1\n"),
    ],
    ids=["bare", "never closed", "windows", "thoughts"],
)
def test_code_in_odd_wrappings(text: str, code: str) -> None:
    """No fence, an open fence, other line ends, and a draft among the thoughts."""
    assert extract_code(text) == code


@PROPERTY
@given(WORDS, WORDS)
def test_thoughts_leave_the_reply(thought: str, reply: str) -> None:
    """What stands outside think blocks is kept, trimmed."""
    assert without_thoughts(f"<thinking>{thought}</thinking>{reply}") == reply.strip()
