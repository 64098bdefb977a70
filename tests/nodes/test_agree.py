"""Agreement of implementations: what counts as the same value, the same outcome, the same code.

The second half runs implementations of `tests/data` (a reference, a second right one and three wrong ones
for each need) in the real sandbox.
"""

import ast
import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mem2evolve.nodes.creation.agree import equal, holds, normal_form, refuses, same, vote
from mem2evolve.nodes.creation.cases import TEST_LIMITS, case_of
from mem2evolve.nodes.creation.check import MIN_CASES
from mem2evolve.nodes.creation.spec import make_spec
from mem2evolve.sandbox import BubblewrapSandbox, Outcome

PROPERTY: Final = settings(deadline=None, max_examples=80)
DATA: Final = Path(__file__).parents[1] / "data"
TRIED: Final = ("s01_count_weekdays", "s04_polygon_area", "s20_merge_intervals")
"""All implementations of these needs are run; `make bench-creation-gate` runs those of all."""


def rows(file: str) -> list[dict[str, Any]]:
    """Read a file of one JSON object a line."""
    return [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]


SECONDS: Final = {row["id"]: row["source"] for row in rows("second_opinions.jsonl")}
EVERY: Final = [{**row, "second": SECONDS[row["id"]]} for row in rows("tool_specs.jsonl")]
SPECS: Final = [spec for spec in EVERY if spec["id"] in TRIED]

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def ok(value: Any) -> Outcome:
    """A call that returned."""
    return Outcome(status="ok", value=value)


REFUSED: Final = Outcome(status="raised", error_type="ValueError", error="no")
CRASHED: Final = Outcome(status="raised", error_type="TypeError", error="no")
SLOW: Final = Outcome(status="timeout")


@PROPERTY
@given(JSON, JSON)
@example(10**400, 1.5)
@example(10**400, 10**400 + 1)
@example(1, True)
@example([], {})
@example(0.1, 10**400)
def test_equal_is_symmetric(one: Any, other: Any) -> None:
    """And total: no pair of JSON values is too large or too odd to compare."""
    assert equal(one, other) is equal(other, one)


@PROPERTY
@given(JSON)
def test_equal_is_reflexive(value: Any) -> None:
    """A value equals itself, and its trip through JSON."""
    assert equal(value, value)
    assert equal(value, json.loads(json.dumps(value)))


@PROPERTY
@given(st.booleans(), st.integers() | FLOATS)
def test_a_bool_is_no_number(flag: bool, number: float) -> None:  # noqa: FBT001 - drawn
    """At any depth: `True` for 1 is a tool that answers another question."""
    assert not equal(flag, number)
    assert not equal([{"a": flag}], [{"a": number}])


@PROPERTY
@given(st.integers(min_value=-(10**30), max_value=10**30), st.integers(1, 5))
def test_ints_are_exact(number: int, off: int) -> None:
    """Off by one is wrong, however large; a whole float is the same number."""
    assert not equal(number, number + off)
    assert equal(float(number), number) or number != int(float(number))


@PROPERTY
@given(st.floats(min_value=1e-6, max_value=1e12))
def test_floats_are_equal_up_to_rounding(number: float) -> None:
    """The order of summation is no disagreement; a millionth of the value is one."""
    assert equal(number, number * (1 + 1e-12))
    assert equal([number], [number + 1e-13])
    assert not equal(number + 1, (number + 1) * (1 + 1e-6))


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "expected"),
    [
        (3, 3.0, 0.0, True),
        (0.1 + 0.2, 0.3, 0.0, True),
        (1.0, 1.05, 0.1, True),
        (1.0, 1.2, 0.1, False),
        ("1", 1, 0.0, False),
        (None, 0, 0.0, False),
        (None, False, 0.0, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, 0.0, True),
        ({"a": 1}, {"a": 1, "b": None}, 0.0, False),
        ([1, 2], [2, 1], 0.0, False),
        ([1], [1, 1], 0.0, False),
        ("é", "e\u0301", 0.0, False),
    ],
)
def test_equal_by_example(one: Any, other: Any, tolerance: float, expected: bool) -> None:  # noqa: FBT001
    """Numbers by value, keys in any order, everything else exactly."""
    assert equal(one, other, tolerance) is expected


def test_two_refusals_are_the_same() -> None:
    """Whatever their words; a refusal is no value, and a crash is nothing to agree on."""
    other = Outcome(status="raised", error_type="ValueError", error="other words")
    assert same(REFUSED, other)
    assert not same(REFUSED, ok(None))
    assert not same(CRASHED, CRASHED)
    assert not same(SLOW, SLOW)
    assert refuses(REFUSED)
    assert not refuses(CRASHED)


def test_a_derived_error_refuses_too() -> None:
    """`JSONDecodeError` is a `ValueError`; a class of another family that has its name for a part is not."""
    derived = Outcome(
        status="raised", error_type="JSONDecodeError", error_bases=("ValueError", "Exception")
    )
    assert refuses(derived)
    assert same(REFUSED, derived)
    assert holds(case_of({}, derived, "agreement"), REFUSED)
    assert holds(case_of({}, REFUSED, "agreement"), derived)
    assert not refuses(
        Outcome(status="raised", error_type="KeyError", error_bases=("LookupError",))
    )


@pytest.mark.parametrize(
    ("outcomes", "agreed", "voters"),
    [
        ([], None, 0),
        ([ok(1)], None, 0),
        ([ok(1), ok(1.0)], ok(1), 2),
        ([ok(1), ok(2)], None, 0),
        ([ok(1), ok(2), ok(2)], ok(2), 2),
        ([ok(1), ok(1), ok(2), ok(2)], None, 0),
        ([ok(1), ok(1), ok(1), ok(2), ok(2)], ok(1), 3),
        ([REFUSED, REFUSED], REFUSED, 2),
        ([REFUSED, ok(1)], None, 0),
        ([CRASHED, CRASHED], None, 0),
        ([CRASHED, SLOW, ok(5), ok(5)], ok(5), 2),
        ([ok(True), ok(1)], None, 0),
    ],
)
def test_a_vote_by_example(outcomes: list[Outcome], agreed: Outcome | None, voters: int) -> None:
    """Two make an agreement, a tie makes none, and crashes have no say."""
    got = vote({"a": 1}, outcomes)
    assert (got.agreed, got.voters) == (agreed, voters)
    assert got.args == {"a": 1}


@PROPERTY
@given(
    st.lists(st.sampled_from([ok(1), ok(2), ok([1]), REFUSED, CRASHED, SLOW]), max_size=7),
    st.randoms(),
)
def test_a_vote_has_no_favourites(outcomes: list[Outcome], mix: random.Random) -> None:
    """The order of the implementations does not matter, and what is agreed is shared by the most."""
    got = vote({}, outcomes)
    mixed = list(outcomes)
    mix.shuffle(mixed)
    assert vote({}, mixed) == got
    if got.agreed is not None:
        counts = [sum(same(one, other) for other in outcomes) for one in outcomes]
        assert got.voters == max(counts) >= 2
        assert sum(same(got.agreed, other) for other in outcomes) == got.voters


FORM: Final = """{head}
import math

def {f}({a}{note}, {b}: int = 1){returns}:
    {doc}
    {c} = []  # {comment}
    {g}{declared} = 0
    for {d} in range({a}):
        try:
            {c}.append(math.sqrt({d}) {op} {b})
        except ValueError as {e}:
            raise ValueError("{comment}") from {e}
    return [{h} for {h} in {c} if {h} > {g}]
"""
OPERATORS: Final = ["+", "-", "*", "/", "//", "%", "**"]
OWN: Final = st.lists(
    st.sampled_from(["area", "total", "n", "x", "values", "item", "err", "low", "out", "size"]),
    min_size=8, max_size=8, unique=True,
)  # fmt: skip
WORDS: Final = st.text(alphabet="abc ,.", max_size=12)


@st.composite
def programs(draw: st.DrawFn, op: str) -> str:
    """One program in other words: own names, docstrings, annotations, comments and messages differ."""
    words = draw(WORDS)
    return FORM.format(
        **dict(zip("fabcdegh", draw(OWN), strict=True)),
        op=op,
        comment=draw(WORDS),
        head=draw(st.sampled_from(["", f'"""{words}"""', "# note", "\n"])),
        doc=draw(st.sampled_from(["", f'"""{words}"""', "# note"])),
        note=draw(st.sampled_from(["", ": int", ": 'int'"])),
        returns=draw(st.sampled_from(["", " -> list", " -> list[float]"])),
        declared=draw(st.sampled_from(["", ": int"])),
    )


@PROPERTY
@given(programs("+"), programs("+"))
def test_other_words_are_the_same_opinion(one: str, other: str) -> None:
    """Names, docstrings, annotations, comments and layout do not make a second implementation."""
    assert normal_form(one) == normal_form(other)


@PROPERTY
@given(st.data())
def test_another_operator_is_another_opinion(data: st.DataObject) -> None:
    """What is computed does matter."""
    first, second = data.draw(
        st.lists(st.sampled_from(OPERATORS), min_size=2, max_size=2, unique=True)
    )
    assert normal_form(data.draw(programs(first))) != normal_form(data.draw(programs(second)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(a):\n return a < 1", "def f(a):\n return a <= 1"),
        ("def f(a):\n return a + 1", "def f(a):\n return a + 2"),
        ("def f(a, b):\n return a - b", "def f(a, b):\n return b - a"),
        ("def f(a):\n return sum(a)", "def f(a):\n return max(a)"),
        ("def f(a):\n return a", "def f(a):\n return -a"),
        ("def f(a):\n return 1", "def f(a):\n return True"),
        (
            "import math\ndef f(a):\n return math.sin(a)",
            "from math import cos\ndef f(a):\n return cos(a)",
        ),
        (
            "from math import sin as g\ndef f(a):\n return g(a)",
            "from math import cos as g\ndef f(a):\n return g(a)",
        ),
        (
            "import math as m\ndef f(a):\n return m.exp(a)",
            "import cmath as m\ndef f(a):\n return m.exp(a)",
        ),
        (
            "import math as m\ndef f(m):\n return m.exp(1)",
            "import math\ndef f(m):\n return math.exp(1)",
        ),
    ],
)
def test_small_differences_count(one: str, other: str) -> None:
    """A bound, a constant, the order of operands, a built-in."""
    assert normal_form(one) != normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("import math as m\ndef f(a):\n return m.sqrt(a)", "import math\ndef f(a):\n return math.sqrt(a)"),
        ("from math import sqrt\ndef f(a):\n return sqrt(a)", "import math\ndef f(a):\n return math.sqrt(a)"),
        ("from math import sqrt as r\ndef f(a):\n return r(a)", "import math as m\ndef f(b):\n return m.sqrt(b)"),
        ("import math, re\ndef f(a):\n return math.e", "import re\nimport math\ndef f(a):\n return math.e"),
        ("import datetime\ndef f(a):\n return datetime.datetime.fromisoformat(a)",
         "from datetime import datetime as dt, date\ndef f(a):\n return dt.fromisoformat(a)"),
        ("import xml.etree.ElementTree as ET\ndef f(a):\n return ET.fromstring(a)",
         "from xml.etree import ElementTree\ndef f(a):\n return ElementTree.fromstring(a)"),
        ("def f(a):\n import math\n return math.e", "import math\ndef f(a):\n pass\n return math.e"),
        ("class A:\n 'x'\n b = 1\ndef f(a):\n return A.b", "class _C:\n b = 1\ndef f(a):\n return _C.b"),
    ],
)  # fmt: skip
def test_ways_to_import_are_the_same_opinion(one: str, other: str) -> None:
    """An alias, a name taken from a module, an import that is not used, and where it stands."""
    assert normal_form(one) == normal_form(other)


TOKENS: Final = st.lists(
    st.sampled_from(
        ["def ", "f", "(", ")", ":", "\n", "    ", "return ", "x", "=", "1", "'", '"""', "class ", "lambda ",
         "try", "except ", " as e", "async ", "\\d", "1is", "\x00", "[", "]", "for ", "in ", "match ", "case _"]
    ), max_size=25,
).map("".join)  # fmt: skip


@PROPERTY
@given(st.text() | TOKENS)
@example("\x00")
@example("-" * 5000 + "1")
@example("(" * 500)
@example("x" + ".a" * 900)
@example("class A:\n    'doc'\n    x: int\n    def m(self): ...")
@example("async def f(*a, b=1, **c):\n    'doc'")
@example("try:\n    1\nexcept* ValueError as e:\n    2")
@example(
    "from . import a\nfrom b import *\nimport c as a\nimport d as e, f\ne = a\nclass A: import g"
)
def test_any_text_has_a_normal_form_or_is_no_python(text: str) -> None:
    """Whatever a model writes, one kind of error is enough to catch; and a normal form is repeatable."""
    with contextlib.suppress(SyntaxError):
        assert normal_form(text) == normal_form(text)


by_need = pytest.mark.parametrize("spec", EVERY, ids=[spec["id"] for spec in EVERY])


@by_need
def test_second_opinions_are_others(spec: dict[str, Any]) -> None:
    """None is the reference, or a wrong one, in other words."""
    forms = [normal_form(source) for source in implementations(spec).values()]
    assert len(set(forms)) == len(forms)


# What follows runs in the sandbox.


@by_need
async def test_second_opinions_are_right(spec: dict[str, Any]) -> None:
    """Each passes all checks of its need."""
    box, name = BubblewrapSandbox(), spec["card"].partition(":")[0]
    try:
        for check in spec["checks"]:
            outcome = await box.call(spec["second"], name, check["args"], limits=TEST_LIMITS)
            assert right(check, outcome), (check, outcome)
    finally:
        await box.close()


ROLES: Final = ("reference", "second", "wrong 1", "wrong 2", "wrong 3")
Table = dict[str, list[Outcome]]


def implementations(spec: dict[str, Any]) -> dict[str, str]:
    """The five sources for one need."""
    return dict(zip(ROLES, [spec["reference"], spec["second"], *spec["wrong"]], strict=True))


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    """For each need and implementation, the outcome on each of the need's checks; run once."""

    async def run() -> dict[str, Table]:
        box = BubblewrapSandbox()
        try:
            found: dict[str, Table] = {}
            for spec in SPECS:
                name = spec["card"].partition(":")[0]
                calls = {
                    role: asyncio.gather(
                        *(
                            box.call(source, name, check["args"], limits=TEST_LIMITS)
                            for check in spec["checks"]
                        )
                    )
                    for role, source in implementations(spec).items()
                }
                found[spec["id"]] = {role: await call for role, call in calls.items()}
            return found
        finally:
            await box.close()

    return asyncio.run(run())


def right(check: dict[str, Any], outcome: Outcome) -> bool:
    """Whether the outcome is what the corpus says, worked out by hand."""
    if "raises" in check:
        return refuses(outcome)
    return outcome.status == "ok" and equal(
        outcome.value, check["expected"], check.get("tolerance", 0.0)
    )


by_spec = pytest.mark.parametrize("spec", SPECS, ids=[spec["id"] for spec in SPECS])


@by_spec
def test_five_implementations_are_five_opinions(spec: dict[str, Any]) -> None:
    """And each of them twice is still one."""
    sources = list(implementations(spec).values())
    assert len({normal_form(source) for source in sources}) == 5
    for source in sources:
        assert normal_form(ast.unparse(ast.parse(source))) == normal_form(source)


@by_spec
def test_two_right_ones_confirm_the_truth(spec: dict[str, Any], tables: dict[str, Table]) -> None:
    """What two independent right implementations agree on is every check, with its hand-made value."""
    table = tables[spec["id"]]
    votes = [
        vote(check["args"], pair)
        for check, *pair in zip(spec["checks"], table["reference"], table["second"], strict=True)
    ]
    assert len(votes) >= MIN_CASES
    for check, made in zip(spec["checks"], votes, strict=True):
        assert made.agreed is not None, check
        assert made.voters == 2
        assert right(check, made.agreed), check


@by_spec
@pytest.mark.parametrize("role", ROLES[2:])
def test_a_wrong_tool_fails_confirmed_cases(
    spec: dict[str, Any], role: str, tables: dict[str, Table]
) -> None:
    """The cases that two right ones confirm reject each wrong one, and pass both right ones."""
    table = tables[spec["id"]]
    failed = 0
    for n, check in enumerate(spec["checks"]):
        agreed = vote(check["args"], [table["reference"][n], table["second"][n]]).agreed
        assert agreed is not None
        case = json.loads(json.dumps(case_of(check["args"], agreed, "agreement")))
        assert holds(case, table["reference"][n])
        assert holds(case, table["second"][n])
        failed += not holds(case, table[role][n])
    assert failed > 0


@by_spec
@pytest.mark.parametrize("role", ROLES[2:])
def test_a_wrong_oracle_confirms_nothing_wrong(
    spec: dict[str, Any], role: str, tables: dict[str, Table]
) -> None:
    """A right tool and a wrong oracle agree only where both are right; elsewhere it stays contested."""
    table = tables[spec["id"]]
    contested = 0
    for n, check in enumerate(spec["checks"]):
        agreed = vote(check["args"], [table["reference"][n], table[role][n]]).agreed
        contested += agreed is None
        assert agreed is None or right(check, agreed)
    assert contested > 0


@by_spec
def test_only_what_two_share_is_confirmed(spec: dict[str, Any], tables: dict[str, Table]) -> None:
    """One implementation alone confirms nothing; among five, at least two stand behind each case."""
    table = tables[spec["id"]]
    for n, check in enumerate(spec["checks"]):
        assert vote(check["args"], [table["reference"][n]]).agreed is None
        outcomes = [table[role][n] for role in ROLES]
        made = vote(check["args"], outcomes)
        if made.agreed is not None:
            assert sum(same(made.agreed, outcome) for outcome in outcomes) == made.voters >= 2


@by_spec
def test_the_signature_takes_the_checks(spec: dict[str, Any]) -> None:
    """The corpus' signatures are ours: names and order of the parameters."""
    name, _, sentence = spec["card"].partition(": ")
    made = make_spec(name, sentence, spec["signature"].removeprefix("def "))
    assert made is not None
    assert all(list(check["args"]) == made.parameters for check in spec["checks"])
