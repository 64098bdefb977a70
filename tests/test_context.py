"""Settings of one run, normalised from whatever carries them; and the reducer of the state."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from mem2evolve.errors import ConfigError
from mem2evolve.graph.context import MODES, Arm, Context
from mem2evolve.graph.state import gather

PROPERTY = settings(deadline=None, max_examples=60)
FIELDS = [entry.name for entry in dataclasses.fields(Context)]
LISTS = st.lists(st.integers(), max_size=4)


def test_nothing_given_means_the_defaults() -> None:
    """LangGraph passes `None` when the caller gave no context."""
    assert Context.of(None) == Context.of({}) == Context()


def test_a_context_passes_through() -> None:
    """The same object, not a copy."""
    own = Context(mode="react")
    assert Context.of(own) is own


@PROPERTY
@given(st.dictionaries(st.text() | st.integers(), st.integers()))
def test_unknown_keys_are_passed_over(foreign: dict[Any, int]) -> None:
    """A parent graph's own settings may travel along."""
    known = {key: value for key, value in foreign.items() if key not in FIELDS}
    assert Context.of({**known, "max_steps": 3}) == Context(max_steps=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "fulll"),
        ("mode", None),
        ("mode", ["full"]),
        ("planner", "dream"),
        ("actions", "smoke"),
        ("lessons_for_planning", -1),
        ("lessons_for_creating", 21),
        ("lessons_for_planning", True),
        ("debug_rounds", 0),
        ("max_steps", 101),
        ("max_steps", "8"),
        ("max_steps", 2.5),
        ("max_steps", None),
        ("delta", 1.5),
        ("delta", float("nan")),
        ("delta", "0.5"),
        ("namespace", ""),
        ("namespace", 7),
        ("evolve", "false"),
        ("create_tools", "no"),
        ("web", None),
        ("model", None),
        ("judge_model", 5),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: object) -> None:
    """At once, with the value and what would do: the text "false" would count as true."""
    with pytest.raises(ConfigError, match=name) as caught:
        Context.of({name: value})
    if value != "":
        assert f"{name}={value!r}" in str(caught.value)
    assert caught.value.hint


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@PROPERTY
@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_taken_or_refused(given_values: dict[str, Any]) -> None:
    """Whatever Studio or a parent sends ends in a context or one kind of error."""
    try:
        context = Context.of(given_values)
    except ConfigError:
        return
    assert {name: getattr(context, name) for name in given_values} == given_values
    assert isinstance(context.arm, Arm)


@pytest.mark.parametrize("mode", list(MODES))
def test_a_mode_is_a_preset(mode: Any) -> None:
    """Every switch of it can be put in its place."""
    assert Context(mode=mode).arm == MODES[mode]
    turned = Context(mode=mode, create_tools=not MODES[mode].create_tools, planner="cot").arm
    assert turned.create_tools is not MODES[mode].create_tools
    assert turned.planner == "cot"
    assert turned.use_tool_experience is MODES[mode].use_tool_experience


def test_a_role_has_its_model_or_the_runs() -> None:
    """Empty stands for the program's default."""
    context = Context(model="openai:big", judge_model="openai:other")
    roles = ("planner", "coder", "actor", "judge", "distiller")
    assert [context.model_for(role) for role in roles] == [
        *["openai:big"] * 3,
        "openai:other",
        "openai:big",
    ]
    assert Context().model_for("judge") == ""


def test_every_setting_says_what_it_does() -> None:
    """Studio shows the descriptions."""
    assert all(entry.metadata["description"] for entry in dataclasses.fields(Context))


class _Small(TypedDict):
    seen: Any


@dataclass
class _Foreign:
    """A host's own context."""

    max_steps: int = 5
    colour: str = "red"


@pytest.mark.parametrize("schema", [None, Context, _Foreign], ids=["none", "ours", "foreign"])
async def test_inside_a_parent_graph(schema: Any) -> None:
    """As a sub-graph we get `None`, a mapping, or the parent's own object: all three are read."""

    async def look(state: _Small, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"seen": dataclasses.asdict(Context.of(runtime.context))}

    child = StateGraph(_Small, context_schema=Context)
    child.add_node("look", look)
    child.add_edge(START, "look")
    child.add_edge("look", END)
    parent = StateGraph(_Small, context_schema=schema)
    parent.add_node("child", child.compile())
    parent.add_edge(START, "child")
    parent.add_edge("child", END)
    graph = parent.compile()

    assert Context(**(await graph.ainvoke({"seen": None}))["seen"]) == Context()
    given_values: Any = {"max_steps": 5}
    got = await graph.ainvoke({"seen": None}, context=given_values)
    assert Context(**got["seen"]) == Context(max_steps=5)


@PROPERTY
@given(LISTS, LISTS, LISTS)
def test_gather_appends(old: list[int], one: list[int], two: list[int]) -> None:
    """In order, without touching what it was given; parallel branches may come in any grouping."""
    kept = list(old)
    assert gather(gather(old, one), two) == gather(old, [*one, *two]) == old + one + two
    assert old == kept


@PROPERTY
@given(LISTS, LISTS)
def test_gather_can_start_afresh(old: list[int], new: list[int]) -> None:
    """`None` empties it for a thread's next task; `all` replaces, with a copy."""
    assert gather(old, None) == []
    got = gather(old, {"all": new})
    assert got == new
    assert got is not new
