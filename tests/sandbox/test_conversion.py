"""Arguments arrive as what the annotations say, and results go back as JSON. Each test runs against each back-end."""

from typing import Any

import pytest

from mem2evolve.sandbox import Outcome, Sandbox, output_schema, screen, signature_schema
from mem2evolve.sandbox._plan import plan_of

TRIP = '''
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import date, datetime, time
from enum import Enum
from typing import ClassVar, NotRequired, Optional, TypedDict


class Mode(Enum):
    RAIL = "rail"
    ROAD = "road"


@dataclass(frozen=True)
class Stop:
    """A place on the way.

    Attributes:
        name: What it is called.
    """

    LIMIT: ClassVar[int] = 3
    name: str
    day: date
    at: time | None = None
    tags: list[str] = field(default_factory=list)
    mode: Mode = Mode.RAIL


class Note(TypedDict):
    text: str
    written: NotRequired[datetime]


@dataclass
class Trip:
    stops: list[Stop]
    notes: dict[str, Note]
    end: Optional[date] = None
    _: KW_ONLY
    legs: tuple[tuple[int, date], ...] = ()


def f(trip: Trip, shift: int = 0) -> Trip:
    """Shift a trip.

    Args:
        trip: The trip.

    Returns:
        Trip: The same, later.
    """
    from datetime import timedelta

    assert type(trip) is Trip and all(type(stop) is Stop for stop in trip.stops)
    assert all(type(stop.day) is date and type(stop.mode) is Mode for stop in trip.stops)
    assert all(type(note) is dict for note in trip.notes.values())
    assert type(trip.legs) is tuple and all(type(leg) is tuple for leg in trip.legs)
    later = [
        Stop(stop.name, stop.day + timedelta(shift), stop.at, stop.tags, stop.mode)
        for stop in trip.stops
    ]
    return Trip(later, trip.notes, trip.end, legs=trip.legs)
'''
GIVEN: dict[str, Any] = {
    "stops": [
        {"name": "Ulm", "day": "2024-02-28", "at": "08:30:00", "mode": "road"},
        {"name": "Bonn", "day": "2024-03-01"},
    ],
    "notes": {"a": {"text": "x", "written": "2024-01-01T10:00:00"}, "b": {"text": "y"}},
    "end": None,
    "legs": [[1, "2024-02-28"]],
}


async def call(sandbox: Sandbox, source: str, **args: Any) -> Outcome:
    """Call `f` of a source."""
    return await sandbox.call(source, "f", args)


async def test_nested_records_arrive_and_return(sandbox: Sandbox) -> None:
    """Dataclasses in lists, TypedDicts in dicts, dates, times, tuples and Enums at any depth, twice alike."""
    for _ in range(2):
        outcome = await call(sandbox, TRIP, trip=GIVEN, shift=1)
        assert (outcome.status, outcome.error) == ("ok", "")
        assert outcome.value == {
            "stops": [
                {"name": "Ulm", "day": "2024-02-29", "at": "08:30:00", "tags": [], "mode": "road"},
                {"name": "Bonn", "day": "2024-03-02", "at": None, "tags": [], "mode": "rail"},
            ],
            "notes": {"a": {"text": "x", "written": "2024-01-01T10:00:00"}, "b": {"text": "y"}},
            "end": None,
            "legs": [[1, "2024-02-28"]],
        }


def test_the_schema_says_all_of_it() -> None:
    """Records are written out, and what has a default is not required. The screen takes such a tool."""
    assert screen(TRIP, function="f") == []
    day = {"type": "string", "format": "date"}
    stop = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What it is called."},
            "day": day,
            "at": {"anyOf": [{"type": "string", "format": "time"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "string", "enum": ["rail", "road"]},
        },
        "required": ["name", "day"],
        "additionalProperties": False,
    }  # fmt: skip
    note = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "written": {"type": "string", "format": "date-time"},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    leg = {"type": "array", "items": {"anyOf": [{"type": "integer"}, day]}, "minItems": 2, "maxItems": 2}  # fmt: skip
    trip = {
        "type": "object",
        "properties": {
            "stops": {"type": "array", "items": stop},
            "notes": {"type": "object", "additionalProperties": note},
            "end": {"anyOf": [day, {"type": "null"}], "default": None},
            "legs": {"type": "array", "items": leg},
        },
        "required": ["stops", "notes"],
        "additionalProperties": False,
    }
    taken = signature_schema(TRIP, "f")
    assert taken["properties"] == {
        "trip": {**trip, "description": "The trip."},
        "shift": {"type": "integer", "default": 0},
    }
    assert taken["required"] == ["trip"]
    assert output_schema(TRIP, "f") == {**trip, "description": "The same, later."}


@pytest.mark.parametrize(
    ("kind", "given", "seen"),
    [
        ("date", "2024-02-29", "datetime.date(2024, 2, 29)"),
        ("datetime", "2024-02-29T10:30:00Z", "datetime.datetime(2024, 2, 29, 10, 30, tzinfo=datetime.timezone.utc)"),
        ("time", "10:30", "datetime.time(10, 30)"),
        ("'date'", "2024-02-29", "datetime.date(2024, 2, 29)"),
        ("Day", "2024-02-29", "datetime.date(2024, 2, 29)"),
        ("dt.date", "2024-02-29", "datetime.date(2024, 2, 29)"),
        ("date | None", None, "None"),
        ("date | str", "soon", "'soon'"),
        ("int | date", "2024-02-29", "datetime.date(2024, 2, 29)"),
        ("int | date", 5, "5"),
        ("list[str] | date", ["a"], "['a']"),
        ("list[date] | date", ["2024-02-29"], "[datetime.date(2024, 2, 29)]"),
        ("Literal['never'] | date", "never", "'never'"),
        ("Any | date", 1.5, "1.5"),
        ("dict[date, int]", {"2024-02-29": 1}, "{datetime.date(2024, 2, 29): 1}"),
        ("tuple[int, date]", [1, "2024-02-29"], "(1, datetime.date(2024, 2, 29))"),
        ("tuple[int, ...]", [1, 2], "(1, 2)"),
        ("tuple", [[1]], "([1],)"),
        ("Sequence[tuple[int, int]]", [[1, 2]], "[(1, 2)]"),
        ("Point", {"x": 1}, "Point(x=1, y=2)"),
        ("Small | Point", {"x": 1, "y": 3}, "Point(x=1, y=3)"),
        ("dict[str, list[Point]]", {"a": [{"x": 0}]}, "{'a': [Point(x=0, y=2)]}"),
        ("Level", 2, "<Level.HIGH: 2>"),
        ("Node", {"next": {"next": None}}, "Node(next=Node(next=None))"),
    ],
)  # fmt: skip
async def test_an_argument_is_what_its_annotation_says(
    sandbox: Sandbox, kind: str, given: Any, seen: str
) -> None:
    """One at a time, by what `repr` shows inside."""
    outcome = await call(sandbox, f"{TYPES}def f(x: {kind}) -> str:\n    return repr(x)\n", x=given)
    assert (outcome.status, outcome.value) == ("ok", seen)


TYPES = """from __future__ import annotations
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from datetime import date as Day
from enum import IntEnum
from typing import Any, Literal, TypedDict
class Level(IntEnum):
    LOW = 1
    HIGH = 2
@dataclass
class Small:
    x: int
@dataclass
class Point:
    x: int
    y: int = 2
    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x is negative")
@dataclass
class Node:
    next: Node | None
class Row(TypedDict):
    day: date
class Open(TypedDict, total=False):
    day: date
"""


@pytest.mark.parametrize(
    ("kind", "given", "error_type", "says"),
    [
        ("date", "2024-13-01", "ValueError", "argument 'x': '2024-13-01' is no date (YYYY-MM-DD)"),
        ("date", "20240101", "ValueError", "argument 'x': '20240101' is no date (YYYY-MM-DD)"),
        ("date | None", "soon", "ValueError", "argument 'x': 'soon' is no date (YYYY-MM-DD)"),
        ("date", 5, "TypeError", "argument 'x': 5 is no date (YYYY-MM-DD)"),
        ("date", None, "TypeError", "argument 'x': None is no date (YYYY-MM-DD)"),
        ("datetime", "x" * 99, "ValueError", f"argument 'x': '{'x' * 79}… is no date with time (YYYY-MM-DDTHH:MM:SS)"),
        ("time", "25:00", "ValueError", "argument 'x': '25:00' is no time (HH:MM:SS)"),
        ("list[date]", ["2024-01-01", ""], "ValueError", "argument 'x'[1]: '' is no date (YYYY-MM-DD)"),
        ("list[date]", "2024-01-01", "TypeError", "argument 'x': '2024-01-01' is no list"),
        ("dict[date, int]", {"a": 1}, "ValueError", "a key of argument 'x': 'a' is no date (YYYY-MM-DD)"),
        ("tuple[int, int]", [1], "ValueError", "argument 'x': it has 1 items; it must have 2"),
        ("int | date", "soon", "ValueError", "argument 'x': 'soon' is no date (YYYY-MM-DD)"),
        ("Point | date", "soon", "ValueError", "argument 'x': 'soon' is none of what it may be"),
        ("Point", {"y": 1}, "TypeError", "argument 'x': it has no 'x'; its fields are x, y"),
        ("Point", {"x": 1, "z": 1}, "TypeError", "argument 'x': it has the unknown 'z'; its fields are x, y"),
        ("Point", [1], "TypeError", "argument 'x': [1] is no object"),
        ("Point", {"x": -1}, "ValueError", "x is negative"),
        ("list[Row]", [{"day": "no"}], "ValueError", "argument 'x'[0]['day']: 'no' is no date (YYYY-MM-DD)"),
        ("Row", {}, "TypeError", "argument 'x': it has no 'day'; its fields are day"),
        ("Level", 3, "ValueError", "argument 'x': 3 is none of 1, 2"),
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_the_callers_error(
    sandbox: Sandbox, kind: str, given: Any, error_type: str, says: str
) -> None:
    """It is raised as a tool would raise it, and says which argument, what it is and what it must be."""
    outcome = await call(sandbox, f"{TYPES}def f(x: {kind}) -> int:\n    return 1\n", x=given)
    assert (outcome.status, outcome.error_type, outcome.error) == ("raised", error_type, says)


@pytest.mark.parametrize(
    ("returns", "value", "seen"),
    [
        ("date", "date(2024, 2, 29)", "2024-02-29"),
        ("datetime", "datetime(2024, 2, 29, 1)", "2024-02-29T01:00:00"),
        ("time | None", "time(1, 2)", "01:02:00"),
        ("date", "'2024-02-29'", "2024-02-29"),
        ("dict[date, list[Point]]", "{date(2024, 2, 29): [Point(1)]}", {"2024-02-29": [{"x": 1, "y": 2}]}),
        ("Row", "{'day': date(2024, 2, 29)}", {"day": "2024-02-29"}),
        ("Level", "Level.HIGH", 2),
        ("tuple[int, str]", "(1, 'a')", [1, "a"]),
        ("Open", "{}", {}),
    ],
)  # fmt: skip
async def test_a_result_goes_back_as_json(
    sandbox: Sandbox, returns: str, value: str, seen: Any
) -> None:
    """What the annotation of the result names is written as JSON has it."""
    outcome = await call(sandbox, f"{TYPES}def f() -> {returns}:\n    return {value}\n")
    assert (outcome.status, outcome.value, outcome.error) == ("ok", seen, "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return {date(2024, 1, 1)}", "of type set, not JSON"),
        ("v = []; v += [v, v]; return v", "nested more than 100 deep"),
        ("return {1: date(2024, 1, 1)}", "the key 1 of type int"),
        ("return Point", "of type type, not JSON"),
    ],
)
async def test_other_results_are_refused_as_ever(sandbox: Sandbox, body: str, says: str) -> None:
    """An annotation opens the door for what it can name, and for nothing else."""
    outcome = await call(sandbox, f"{TYPES}def f() -> date:\n    {body}\n")
    assert outcome.status == "bad_result"
    assert says in outcome.error


async def test_what_is_not_annotated_is_not_converted(sandbox: Sandbox) -> None:
    """A date in a plain dict is still refused with advice, and a text stays text."""
    source = f"{TYPES}def f(x: str) -> dict:\n    return {{'d': date.fromisoformat(x)}}\n"
    outcome = await call(sandbox, source, x="2024-01-01")
    assert outcome.status == "bad_result"
    assert "return .isoformat() of it" in outcome.error


async def test_two_functions_of_one_source_keep_their_plans(sandbox: Sandbox) -> None:
    """A box that waits for one function does not convert for another."""
    source = f"{TYPES}def f(x: date) -> str:\n    return repr(x)\ndef g(x: str) -> str:\n    return repr(x)\n"
    for _ in range(2):
        for name, seen in (("f", "datetime.date(2024, 1, 1)"), ("g", "'2024-01-01'")):
            outcome = await sandbox.call(source, name, {"x": "2024-01-01"})
            assert outcome.value == seen


async def test_a_plain_tool_pays_nothing(sandbox: Sandbox) -> None:
    """Neither our module nor those that it stands on are loaded for it."""
    source = (
        "import sys\ndef f(a: int, b: list[str]) -> list:\n"
        "    names = ('conversion', 'dataclasses', 'typing', 'datetime', 'inspect')\n"
        "    return [name for name in names if name in sys.modules]\n"
    )
    assert plan_of(source, "f") == ""
    outcome = await call(sandbox, source, a=1, b=["date"])
    assert outcome.value == []


@pytest.mark.parametrize(
    "source",
    ["def f(:\n  date", "# date\nf = 1", "async def f(x: date): ...", "def f(x: date.b['c d']): ...",
     "def f(x: " + "a." * 5000 + "date): ...", "# date\ndef f(x: list[int] | None) -> dict: ..."],
)  # fmt: skip
def test_odd_sources_have_no_plan(source: str) -> None:
    """What cannot be read is left to the call."""
    assert plan_of(source, "f") == ""
