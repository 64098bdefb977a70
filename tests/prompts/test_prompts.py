"""Every prompt file: its golden copy, its fences, and what is refused in it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import ConfigError
from mem2evolve.prompts.load import PROMPT_DIR, Prompt, load_prompt

SNAPSHOTS: Final = Path(__file__).parents[1] / "snapshots"
NAMES: Final = sorted(path.stem for path in PROMPT_DIR.glob("*.yaml"))
VARIABLES: Final = [(name, key) for name in NAMES for key in sorted(load_prompt(name).variables)]

# Plain `st.text()` never builds a tag: draw from the pieces an attacker would use.
PIECES: Final = ["<", "/", ">", " ", "\t", "\n", "<<", "</", "$", "${task}", "</task", "&lt;"]


def rendered(prompt: Prompt, values: Mapping[str, str]) -> str:
    """What the model sees: each message under its role."""
    return "".join(f"=== {message.type}\n{message.text}\n" for message in prompt.messages(**values))


def fences(prompt: Prompt) -> list[str]:
    """The names of the tags that close something in this prompt."""
    return sorted(set(re.findall(r"</([a-z_]+)>", prompt.system + prompt.text)))


def closings(text: str, name: str) -> int:
    """How often something closes that tag, in any spelling that a model could take for it."""
    return len(re.findall(rf"<[^\S\n]*/[^\S\n]*{name}\b", text, re.IGNORECASE))


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_is_as_reviewed(name: str) -> None:
    """A change of a prompt shows up as a diff of its golden copy. `make snapshots` rewrites it."""
    prompt = load_prompt(name)
    golden = SNAPSHOTS / f"{name}.txt"
    got = rendered(prompt, {key: f"[{key}]" for key in prompt.variables})
    if os.environ.get("SNAPSHOTS") == "write":
        golden.write_text(got, encoding="utf-8")

    assert golden.is_file(), f"No golden copy of prompt {name!r}: run `make snapshots`."
    assert got == golden.read_text(encoding="utf-8")


def test_no_golden_copy_is_left_over() -> None:
    """Each belongs to a prompt that exists."""
    assert sorted(path.stem for path in SNAPSHOTS.glob("*.txt")) == NAMES


@pytest.mark.parametrize(("name", "key"), VARIABLES)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_no_value_can_close_a_fence(name: str, key: str, data: st.DataObject) -> None:
    """Whatever stands in one variable, each tag is closed as often as the prompt closes it."""
    prompt = load_prompt(name)
    words = [*PIECES, *fences(prompt), *(tag.upper() for tag in fences(prompt))]
    words += [f"</{tag}>" for tag in fences(prompt)]
    hostile = data.draw(st.lists(st.sampled_from(words), max_size=8).map("".join))
    others = dict.fromkeys(prompt.variables, "plain")
    plain, attacked = rendered(prompt, others), rendered(prompt, {**others, key: hostile})

    for tag in fences(prompt):
        assert closings(attacked, tag) == closings(plain, tag)


@pytest.mark.parametrize("name", [name for name in NAMES if fences(load_prompt(name))])
@pytest.mark.parametrize(
    "spelling", ["</{0}>", "</ {0} >", "< /{0}>", "</{0}\n>", "</{0} x='1'>", "</</{0}>{0}>"]
)
def test_each_spelling_is_escaped(name: str, spelling: str) -> None:
    """In every variable at once, and nothing is removed: removal can build the tag anew."""
    prompt = load_prompt(name)
    for tag in fences(prompt):
        for form in (tag, tag.upper(), tag.title()):
            attack = spelling.format(form)
            got = rendered(prompt, dict.fromkeys(prompt.variables, f"a {attack} b"))
            assert closings(got, tag) == prompt.text.count(f"</{tag}>")
            assert len(re.findall(rf"&lt;\s*/\s*{form}", got)) >= len(prompt.variables)


@settings(deadline=None, max_examples=40)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<\n\r")))
@example("$goal ${goal} $$ $")
@example("a & b &lt; c")
def test_values_stand_as_they_are(value: str) -> None:
    """Other text is not changed, and `$` in it names no variable."""
    sent = load_prompt("think").messages(goal=f"a{value}z")[0].text
    assert f"a{value}z" in sent


def test_other_tags_stay() -> None:
    """Only the prompt's own fences are escaped: a task may be about HTML."""
    sent = load_prompt("think").messages(goal="<b>1 < 2</b> </tasks>")[0].text
    assert "<b>1 < 2</b> </tasks>" in sent


def test_empty_blocks_leave_no_gap() -> None:
    """A prompt without lessons looks as if it had no place for them."""
    values = dict.fromkeys(load_prompt("act").variables, "")
    assert "\n\n\n" not in rendered(load_prompt("act"), values)


@pytest.mark.parametrize("name", NAMES)
def test_a_version_and_a_reason(name: str) -> None:
    """Each file has a version to compare results by, and says in a comment what it is for."""
    assert load_prompt(name).version >= 1
    assert (PROMPT_DIR / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


def test_values_must_be_the_variables() -> None:
    """A missing or an unknown one is an error that shows both sides."""
    with pytest.raises(ConfigError, match=r"'think' takes \['goal'\], got \[\]"):
        load_prompt("think").messages()
    with pytest.raises(ConfigError, match=r"got \['goal', 'more'\]"):
        load_prompt("think").messages(goal="g", more="m")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"colour": "red"}, r"unknown keys \['colour'\]"),
        ({"variables": []}, r"declares \[\] but uses \['task'\]"),
        ({"variables": ["task", "more"]}, r"declares \['more', 'task'\] but uses \['task'\]"),
    ],
)
def test_a_broken_file_is_refused(more: dict[str, object], words: str, tmp_path: Path) -> None:
    """At load time, saying what does not fit."""
    raw = {"version": 1, "variables": ["task"], "text": "<task>$task</task>", **more}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_prompt("broken", tmp_path)
