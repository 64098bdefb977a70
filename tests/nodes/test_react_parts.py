"""The pure parts of the ReAct loop: what was called, what came of it, and how a call is asked for."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from mem2evolve.nodes.react import (
    NO_TOOL,
    ActionReply,
    ReactState,
    _action_schema,
    _called_before,
    _goal,
    _transcript,
    calls_of,
    evidence_line,
    observations,
    steps_taken,
)

PROPERTY: Final = settings(deadline=None, max_examples=60)
PARAMETERS: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OFFERS: Any = [
    {"name": "add", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}},
    {
        "name": "sub",
        "function": {"name": "sub", "description": "Subtracts.", "parameters": PARAMETERS},
    },
]
BRIEF: Final = {
    "expert": "a clerk",
    "strategy": "Count.",
    "lessons": "",
    "goal": "Add.",
    "context": "",
}


def call(name: str, number: int, **args: Any) -> AIMessage:
    """A message with one call."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"c{number}"}])


def result(text: str, number: int, *, failed: bool = False, name: str = "add") -> ToolMessage:
    """What came of it."""
    return ToolMessage(
        text, tool_call_id=f"c{number}", name=name, status="error" if failed else "success"
    )


TALK: Final[list[BaseMessage]] = [
    call("add", 1, a=1),
    result("2", 1),
    call("add", 2, a="é"),
    result("a is no number", 2, failed=True),
    AIMessage("The answer is 2."),
]


def test_calls_come_with_what_came_of_them() -> None:
    """In order, and a failure is told from a value."""
    assert calls_of(TALK) == [
        {"tool": "add", "args": {"a": 1}, "ok": True, "result": "2"},
        {"tool": "add", "args": {"a": "é"}, "ok": False, "result": "a is no number"},
    ]
    assert observations(TALK) == 'add(a=1) = 2\nadd(a="é") failed: a is no number'
    assert steps_taken(TALK) == 2


def test_a_call_without_a_result_failed() -> None:
    """The run was stopped in between."""
    assert calls_of([call("add", 1, a=1)]) == [
        {"tool": "add", "args": {"a": 1}, "ok": False, "result": "no result"}
    ]


@PROPERTY
@given(st.lists(st.tuples(st.integers(), st.text(max_size=5), st.booleans()), max_size=5))
def test_every_call_is_reported_once(turns: list[tuple[int, str, bool]]) -> None:
    """As many lines of evidence as calls, whatever the tools said."""
    messages: list[BaseMessage] = []
    for n, (number, text, failed) in enumerate(turns):
        messages += [call("add", n, a=number), result(text, n, failed=failed)]
    found = calls_of(messages)
    assert [(one["args"]["a"], one["result"], not one["ok"]) for one in found] == turns
    assert steps_taken(messages) == len(turns)
    assert observations(messages) == "\n".join(evidence_line(one) for one in found)


def test_several_calls_in_one_message() -> None:
    """Count as one step, and each has its result."""
    both = AIMessage(
        "", tool_calls=[*call("add", 1, a=1).tool_calls, *call("sub", 2, a=2).tool_calls]
    )
    messages = [both, result("2", 1), result("1", 2, name="sub")]
    assert steps_taken(messages) == 1
    assert [one["result"] for one in calls_of(messages)] == ["2", "1"]


def test_an_action_is_one_call_or_none() -> None:
    """The schema has an arm for each offered tool, with its own arguments, and one for no tool."""
    *arms, nothing = _action_schema(OFFERS)["anyOf"]
    assert [arm["properties"]["tool"]["const"] for arm in arms] == ["add", "sub"]
    assert all(arm["properties"]["args"] == PARAMETERS for arm in arms)
    assert nothing["properties"] == {"tool": {"const": NO_TOOL}}
    assert all(arm["additionalProperties"] is False for arm in (*arms, nothing))


@pytest.mark.parametrize(
    ("tool", "args", "before"),
    [("add", {"a": 1}, True), ("add", {"a": 2}, False), ("sub", {"a": 1}, False), ("add", {}, False)],
)  # fmt: skip
def test_a_repeated_call_is_noticed(tool: str, args: dict[str, Any], *, before: bool) -> None:
    """The same tool with the same arguments; small models repeat themselves."""
    assert _called_before(TALK, ActionReply(tool=tool, args=args)) is before


def test_json_actions_see_plain_turns() -> None:
    """A model without native calls sees its own JSON and what the tool returned."""
    state: Any = ReactState(brief=BRIEF, offers=OFFERS, messages=TALK[:4], ledger=[])
    turns = _transcript("act_json", state, tools="- add(a: integer): Adds.")[2:]
    assert [(type(turn), turn.content) for turn in turns] == [
        (AIMessage, '{"tool": "add", "args": {"a": 1}}'),
        (HumanMessage, "add returned: 2"),
        (AIMessage, '{"tool": "add", "args": {"a": "é"}}'),
        (HumanMessage, "add failed: a is no number"),
    ]


def test_native_calls_see_the_messages() -> None:
    """As they are, behind the prompt."""
    state: Any = ReactState(brief=BRIEF, offers=OFFERS, messages=TALK[:2], ledger=[])
    assert _transcript("act", state)[2:] == TALK[:2]


def test_what_is_known_stands_before_the_goal() -> None:
    """And leaves no gap when there is nothing."""
    assert _goal({**BRIEF, "context": "s1 gave 2."}) == "s1 gave 2.\n\nAdd."
    assert _goal(BRIEF) == "Add."
