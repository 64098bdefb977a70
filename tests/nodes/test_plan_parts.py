"""The pure parts of planning: the schema, dependencies, and what a plan needs."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mem2evolve.nodes.plan import (
    MAX_SUBTASKS,
    PlannedSubTask,
    PlanReply,
    _cycle,
    _settle,
    plan_schema,
)

PROPERTY: Final = settings(deadline=None, max_examples=80)
IDS: Final = st.sampled_from(["a", "b", "c", "s1", "s2", "one"])
TOOLS: Final = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["add", "Add!", "area of circle", "9x"]),
        "description": st.sampled_from(["Adds two numbers", "Adds  two\nnumbers", "Other"]),
        "input": st.just("a: int"),
        "output": st.just("int"),
    }
)
PARTS: Final = st.builds(
    PlannedSubTask,
    id=IDS,
    goal=st.just("g"),
    depends_on=st.lists(IDS, max_size=3),
    expert=st.fixed_dictionaries({"name": st.sampled_from(["x", "y"]), "expertise": st.just("e")}),
    tools=st.lists(TOOLS, max_size=2),
)
PLANS: Final = st.lists(PARTS, min_size=1, max_size=MAX_SUBTASKS)


def part(name: str, *depends_on: str, tools: Any = ()) -> PlannedSubTask:
    """One sub-task."""
    expert = {"name": "x", "expertise": "e"}
    return PlannedSubTask(
        id=name, goal="g", depends_on=list(depends_on), expert=expert, tools=list(tools)
    )


def can_finish(depends: dict[str, list[str]]) -> bool:
    """Whether each sub-task can start once those before it are done."""
    done: set[str] = set()
    while ready := {name for name in depends.keys() - done if set(depends[name]) <= done}:
        done |= ready
    return done == depends.keys()


@PROPERTY
@given(PLANS)
def test_a_plan_without_cycles_can_be_carried_out(parts: list[PlannedSubTask]) -> None:
    """`_cycle` says exactly whether the settled plan could ever end, also with ids given twice."""
    planned, _ = _settle(parts)
    assert can_finish({one["id"]: one["depends_on"] for one in planned}) is not bool(_cycle(parts))


@PROPERTY
@given(PLANS)
def test_a_settled_plan_is_consistent(parts: list[PlannedSubTask]) -> None:
    """Ids are s1, s2, …; dependencies exist; each card that a sub-task names is a need that names it back."""
    planned, needs = _settle(parts)
    ids = [one["id"] for one in planned]
    assert ids == [f"s{n}" for n in range(1, len(parts) + 1)]
    cards = {f"{need['name']}: {need['description']}": need for need in needs}
    assert len(cards) == len(needs)
    for one in planned:
        assert set(one["depends_on"]) <= set(ids) - {one["id"]}
        for card in (one["expert"], *one["tools"]):
            assert one["id"] in cards[card]["subtasks"]
    json.dumps([planned, needs])


@pytest.mark.parametrize(
    ("parts", "stuck"),
    [
        ([part("a"), part("b", "a")], []),
        ([part("a", "b"), part("b", "a"), part("c")], ["a", "b"]),
        ([part("a", "a")], []),
        ([part("a", "nobody")], []),
        ([part("a", "c"), part("b", "a"), part("c", "b"), part("d", "c")], ["a", "b", "c", "d"]),
    ],
)
def test_cycles_by_example(parts: list[PlannedSubTask], stuck: list[str]) -> None:
    """Waiting for oneself or for nobody is passed over; what waits for a cycle is stuck too."""
    assert _cycle(parts) == stuck


def test_equal_needs_are_one() -> None:
    """One tool wanted by two sub-tasks, in another spelling of its name and other spacing."""
    tool = {
        "name": "add",
        "description": "Adds two numbers",
        "input": "a: int, b: int",
        "output": "int",
    }
    other = {**tool, "name": "Add", "description": "Adds  two\nnumbers"}
    _, needs = _settle([part("a", tools=[tool]), part("b", tools=[other])])
    assert [(need["kind"], need["name"], need["subtasks"]) for need in needs] == [
        ("agent", "x", ["s1", "s2"]),
        ("tool", "add", ["s1", "s2"]),
    ]


@pytest.mark.parametrize("tools", [1, 3])
def test_the_schema_is_closed(tools: int) -> None:
    """Strict JSON-schema modes want every property required and no others; the caps are ours."""

    def objects(schema: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [
            *schema.get("properties", {}).values(),
            *([schema["items"]] if "items" in schema else []),
        ]
        return [schema] * (schema["type"] == "object") + [
            one for each in inner for one in objects(each)
        ]

    schema = plan_schema(tools)
    for one in objects(schema):
        assert one["required"] == list(one["properties"])
        assert one["additionalProperties"] is False
    many = schema["properties"]["subtasks"]
    assert (many["minItems"], many["maxItems"]) == (1, MAX_SUBTASKS)
    assert many["items"]["properties"]["tools"]["maxItems"] == tools


def test_the_schema_and_the_shape_agree() -> None:
    """What the schema asks for is what the reply is read as."""
    asked = plan_schema(1)["properties"]["subtasks"]["items"]["properties"]
    assert asked.keys() == PlannedSubTask.model_fields.keys()


@pytest.mark.parametrize(
    "broken",
    [
        {"subtasks": []},
        {"subtasks": [{"id": "a", "goal": "", "expert": {"name": "x", "expertise": "e"}}]},
        {"subtasks": [{"id": "a", "goal": "g", "expert": {"name": "", "expertise": "e"}}]},
        {"subtasks": [{"id": "a", "goal": "g"}]},
        {"subtasks": [part(f"s{n}").model_dump() for n in range(MAX_SUBTASKS + 1)]},
    ],
    ids=["nothing", "no goal", "no name", "no expert", "too many"],
)
def test_a_plan_that_cannot_be(broken: dict[str, Any]) -> None:
    """It is refused when it is read, so that the repair can say why."""
    with pytest.raises(ValidationError):
        PlanReply.model_validate(broken)
