"""How tools look to MCP clients."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.serve.mcp_server.catalogue import (
    SOLVE_TASK,
    entries_of,
    faults_of,
    output_of,
    result_of,
)
from mem2evolve.settings import Settings

from .conftest import DOUBLE, made

FETCHES = (
    '# /// script\n# dependencies = []\n# [tool.mem2evolve]\n# permissions = ["network:example.org"]\n'
    f'# why = "the rates are there"\n# ///\n{DOUBLE}'
)


def entry(settings: Settings | None = None, **changed: Any) -> Any:
    """Return how one tool is offered."""
    tool = made("double", changed.pop("code", DOUBLE), **changed)
    [found] = entries_of([tool], settings or Settings()).values()
    return found


@given(st.lists(st.text(min_size=1, max_size=80) | st.sampled_from(["solve_task", "a b", "a_b"])))
def test_names_fit_and_are_nobody_elses(given_names: list[str]) -> None:
    """Whatever a tool is called, clients get a name they can use, and each tool its own."""
    records = [made("double", DOUBLE).model_copy(update={"name": one}) for one in given_names]

    found = entries_of(records, Settings())

    assert sorted(one.record.name for one in found.values()) == sorted(set(given_names))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found)
    assert SOLVE_TASK not in found
    assert found == entries_of(reversed(records), Settings())


def test_a_name_that_fits_is_kept() -> None:
    """A tool whose name has to be changed does not take that of another."""
    odd = made("double", DOUBLE).model_copy(update={"name": "dou ble"})
    plain = made("double", DOUBLE).model_copy(update={"name": "dou_ble"})

    found = entries_of([odd, plain], Settings())

    assert found["dou_ble"].record.name == "dou_ble"
    assert len(found) == 2


@pytest.mark.parametrize(
    "schema", [{}, {"type": "integer"}, {"anyOf": [{"type": "object"}, {"type": "null"}]}]
)
def test_a_result_that_is_no_object_is_wrapped(schema: dict[str, Any]) -> None:
    """MCP wants an object at the root of structured content; the schema says where the value stands."""
    output, wrapped = output_of(schema)

    assert wrapped
    assert (output["type"], output["properties"]) == ("object", {"result": schema})


def test_an_object_is_given_as_it_is() -> None:
    """A tool that returns an object needs no wrapping."""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    one = entry(output_schema=schema)

    assert one.tool.output_schema == schema
    assert result_of(one, {"a": 1}).structured_content == {"a": 1}


def test_a_value_of_another_type_is_an_error() -> None:
    """Clients check structured content against the schema: it must not be what it says it is not."""
    result = result_of(entry(), "seven")

    assert result.is_error
    assert result.structured_content is None
    assert "seven" in result.content[0].text  # type: ignore[union-attr]


def test_a_tool_that_only_computes_changes_nothing() -> None:
    """Its hints say so."""
    hints = entry().tool.annotations

    assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
    assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)


@pytest.mark.parametrize("listed", [False, True])
def test_a_tool_that_fetches_reaches_out(listed: bool) -> None:  # noqa: FBT001
    """By a person's word or by the operator's list."""
    own = {} if listed else {"permissions": ("network:example.org",)}
    settings = Settings(fetch_hosts=("example.org",) if listed else ())
    hints = entry(settings, code=FETCHES, **own).tool.annotations

    assert (hints.idempotent_hint, hints.open_world_hint) == (False, True)


def test_without_a_box_nothing_is_promised() -> None:
    """`unsafe-subprocess`: the code may do what we may."""
    hints = entry(Settings(sandbox="unsafe-subprocess")).tool.annotations

    assert (hints.read_only_hint, hints.open_world_hint) == (False, True)


def test_what_a_tool_cannot_do_here_is_said() -> None:
    """One that reads a task's files gets none over MCP."""
    assert "files" in entry(permissions=("files",)).tool.description


def test_what_nobody_sees_is_left_out() -> None:
    """A model wrote the description."""
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")

    assert entry(documentation=f"Doubles.\x1b[2J{hidden}").tool.description == "Doubles.[2J"


def test_a_schema_fetches_nothing() -> None:
    """A reference to another place is not followed: it says nothing."""
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}

    assert faults_of(schema, {"a": 1}) == []
