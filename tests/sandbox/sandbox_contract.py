"""What every sandbox does. Each test runs against each back-end."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.sandbox import (
    BubblewrapSandbox,
    Limits,
    Outcome,
    Sandbox,
    UnsafeSubprocess,
    open_sandbox,
)

IDENTITY = "def f(value):\n    return value\n"
USUAL = Limits()
SHORT = Limits(wall_s=1.0)


async def run(sandbox: Sandbox, source: str, limits: Limits = USUAL, **args: Any) -> Outcome:
    """Call `f` of a source."""
    outcome = await sandbox.call(source, "f", args, limits=limits)
    assert outcome.isolation == sandbox.isolation
    return outcome


async def test_a_value_comes_back(sandbox: Sandbox) -> None:
    """A call returns what the function returned, what it printed, and how long it took."""
    outcome = await run(
        sandbox,
        "import sys\ndef f(a, b):\n    print('out')\n    print('err', file=sys.stderr)\n"
        "    return {'sum': a + b, 'pair': (a, b)}\n",
        a=2,
        b=3,
    )
    assert (outcome.status, outcome.value) == ("ok", {"sum": 5, "pair": [2, 3]})
    assert (outcome.stdout, outcome.stderr) == ("out\n", "err\n")
    assert 0 < outcome.seconds < 10


async def test_an_exception_is_a_result(sandbox: Sandbox) -> None:
    """Only the tool's own frames are told, with the exception's name and text."""
    outcome = await run(
        sandbox,
        "import json\n\ndef f():\n    return _g()\n\ndef _g():\n    return json.loads('{')\n",
    )
    assert (outcome.status, outcome.error_type) == ("raised", "JSONDecodeError")
    assert outcome.error.startswith("Expecting property name")
    assert outcome.traceback == "line 4, in f: return _g()\nline 7, in _g: return json.loads('{')"


async def test_an_exception_names_its_family(sandbox: Sandbox) -> None:
    """Only built-in classes are named, so that a tool's own class of that name is not taken for one."""
    outcome = await run(
        sandbox,
        "class LookupError(Exception): ...\nclass Odd(LookupError, UnicodeError): ...\n"
        "def f():\n    raise Odd('no')\n",
    )
    assert outcome.error_type == "Odd"
    assert outcome.error_bases == (
        "UnicodeError",
        "ValueError",
        "Exception",
        "BaseException",
        "object",
    )


@pytest.mark.parametrize(
    ("source", "error_type", "error"),
    [
        ("def f(:\n", "SyntaxError", "line 1"),
        ("1 / 0\ndef f(): pass\n", "ZeroDivisionError", "division by zero"),
        ("def f(x): pass\n", "TypeError", "missing 1 required"),
        ("def f(): return f()\n", "RecursionError", "recursion"),
        ("class E(Exception):\n    def __str__(self): 1/0\ndef f(): raise E\n", "E", "could not"),
        ("def f():\n    raise BaseException('\\ud800' * 9999)\n", "BaseException", "\\ud800"),
    ],
)
async def test_whatever_is_raised_is_told(
    sandbox: Sandbox, source: str, error_type: str, error: str
) -> None:
    """Also from the module's top level, by the compiler, and by hostile exceptions."""
    outcome = await run(sandbox, source)
    assert (outcome.status, outcome.error_type) == ("raised", error_type)
    assert error in outcome.error
    assert len(outcome.error) <= 2000
    assert len(outcome.traceback) <= 4000


async def test_a_missing_function_is_named(sandbox: Sandbox) -> None:
    """The message names the functions that there are."""
    outcome = await run(sandbox, "def g(): pass\nf = 3\n")
    assert outcome.status == "no_function"
    assert outcome.error == "The module has no function 'f'; it has g."


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{1: 2}", "the key 1 of type int"),
        ("{'a': [float('nan')]}", "the result['a'][0] is nan"),
        ("float('-inf')", "is -inf"),
        ("object()", "of type object, not JSON"),
        ("{1, 2}", "return sorted(...) of it"),
        ("b'x'", "return text"),
        ("__import__('datetime').date(2020, 1, 1)", "return .isoformat() of it"),
        ("'\\ud800'", "lone surrogate"),
        ("{'\\ud800': 1}", "lone surrogate"),
        ("(i for i in [1])", "return list(...) of it"),
        ("'x' * 2_000_000", "at most 1,048,576"),
        ("'x' * 50_000_000", "at most 1,048,576"),
        ("_deep()", "nested more than 100 deep"),
        ("_loop()", "nested more than 100 deep"),
    ],
)
async def test_what_json_cannot_hold_is_refused(sandbox: Sandbox, value: str, says: str) -> None:
    """The message says where it is and what to return instead; nothing is converted in silence."""
    helpers = (
        "def _deep():\n    v = []\n    for _ in range(200): v = [v]\n    return v\n"
        "def _loop():\n    v = []\n    v.append(v)\n    return v\n"
    )
    outcome = await run(sandbox, f"{helpers}def f():\n    return {value}\n")
    assert (outcome.status, outcome.value) == ("bad_result", None)
    assert says in outcome.error


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("os._exit(0)", "exited with status 0"),
        ("os._exit(7)", "exited with status 7"),
        ("sys.exit()", "exited with status 0"),
        ("sys.exit('no')", "exited with status 1"),
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.abort()", "crashed with SIG"),
    ],
)
async def test_leaving_is_not_returning(sandbox: Sandbox, body: str, says: str) -> None:
    """A function that ends its process has not succeeded, whatever its exit status."""
    outcome = await run(sandbox, f"import ctypes, os, sys\ndef f():\n    {body}\n")
    assert outcome.status == "killed"
    assert says in outcome.error


async def test_a_result_cannot_be_forged(sandbox: Sandbox) -> None:
    """Neither prints, nor writes to every descriptor, nor a patched encoder pass for a result."""
    forged = '{"status": "ok", "value": 5, "exit": 0}'
    scribble = (
        "import os\ndef f():\n    for fd in range(1, 40):\n        try:\n"
        f"            os.write(fd, b'{forged}\\n')\n        except OSError:\n            pass\n"
    )
    for tail in ("    os._exit(0)\n", "    return 0\n", ""):
        outcome = await run(sandbox, scribble + tail)
        assert outcome.status in {"killed", "bad_result"}
    printed = await run(sandbox, f"def f():\n    print('{forged}')\n    return 0\n")
    assert (printed.status, printed.value, printed.stdout) == ("ok", 0, forged + "\n")
    patched = await run(
        sandbox, f"import json\njson.dumps = lambda *a, **k: '{forged}'\ndef f():\n    return 0\n"
    )
    assert (patched.status, patched.value) == ("ok", 0)


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(60)"])
async def test_time_is_up(sandbox: Sandbox, body: str) -> None:
    """A call that runs on is killed at its wall-clock limit."""
    started = time.monotonic()
    outcome = await run(sandbox, f"def f():\n    {body}\n", SHORT)
    assert outcome.status == "timeout"
    assert outcome.error == "It ran longer than 1 s."
    assert time.monotonic() - started < 5


async def test_cpu_time_is_limited(sandbox: Sandbox) -> None:
    """CPU time has a limit of its own, also for code that ignores the signal."""
    for setup in ("", "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)"):
        source = f"def f():\n    {setup or 'pass'}\n    while True: pass\n"
        outcome = await run(sandbox, source, Limits(cpu_s=1))
        assert outcome.status == "killed"
        assert "CPU time" in outcome.error


async def test_memory_is_limited(sandbox: Sandbox) -> None:
    """More than the address space allows is a MemoryError in the tool."""
    outcome = await run(sandbox, "def f():\n    return len(bytearray(3 << 30))\n")
    assert (outcome.status, outcome.error_type) == ("raised", "MemoryError")


async def test_output_is_cut_not_fatal(sandbox: Sandbox) -> None:
    """A flood of output is drained and dropped; the result still arrives."""
    outcome = await run(
        sandbox, "def f():\n    for _ in range(200): print('x' * 10_000)\n    return 1\n"
    )
    assert (outcome.status, outcome.value) == ("ok", 1)
    assert len(outcome.stdout) == Limits().output_bytes


async def test_files_have_a_largest_size(sandbox: Sandbox, tmp_path: Path) -> None:
    """Writing more than allowed fails in the tool."""
    source = (
        "def f():\n    import tempfile\n    with tempfile.TemporaryFile() as t:\n"
        "        t.write(b'x' * (20 << 20))\n"
    )
    outcome = await run(sandbox, source)
    assert (outcome.status, outcome.error_type) == ("raised", "OSError")


async def test_nothing_is_left_from_the_call_before(sandbox: Sandbox) -> None:
    """Each call has a fresh interpreter."""
    await run(sandbox, "import builtins\nbuiltins.sum = lambda *a: 666\ndef f(): return 1\n")
    outcome = await run(sandbox, "def f(): return sum([1, 2])\n")
    assert outcome.value == 3


async def test_the_environment_is_empty(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of our environment is in the tool's."""
    monkeypatch.setenv("MEM2EVOLVE_TEST_SECRET", "canary")
    outcome = await run(sandbox, "import os\ndef f(): return dict(os.environ)\n")
    assert outcome.value == {}


async def test_calls_run_side_by_side(sandbox: Sandbox) -> None:
    """More calls than boxes all end, each with its own answer."""
    outcomes = await asyncio.gather(*(run(sandbox, IDENTITY, value=n) for n in range(12)))
    assert [outcome.value for outcome in outcomes] == list(range(12))


async def test_cancelling_kills(sandbox: Sandbox) -> None:
    """When the cancelled task has ended, so has the process; those who wait do not start."""
    before = _descendants()
    calls = [
        asyncio.create_task(run(sandbox, "import time\ndef f(): time.sleep(60)\n"))
        for _ in range((os.cpu_count() or 2) + 4)
    ]
    await asyncio.sleep(0.7)
    assert _descendants() > before
    started = time.monotonic()
    for call in calls:
        call.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    assert time.monotonic() - started < 5
    assert _descendants() <= before


async def test_closing_ends_what_runs(sandbox: Sandbox) -> None:
    """Close twice, and use it again."""
    call = asyncio.create_task(run(sandbox, "import time\ndef f(): time.sleep(60)\n"))
    await asyncio.sleep(0.5)
    await sandbox.close()
    await sandbox.close()
    assert (await call).status == "killed"
    assert (await run(sandbox, IDENTITY, value=1)).value == 1


@pytest.mark.parametrize("kind", [BubblewrapSandbox, UnsafeSubprocess])
def test_it_outlives_an_event_loop(kind: type[BubblewrapSandbox | UnsafeSubprocess]) -> None:
    """One object serves several loops, as `asyncio.run` makes them."""
    made = kind()
    for value in (1, 2):
        assert asyncio.run(run(made, IDENTITY, value=value)).value == value
    asyncio.run(made.close())


async def test_arguments_must_be_json(sandbox: Sandbox) -> None:
    """What is not is the caller's mistake, and never reaches the tool."""
    for value in (float("nan"), object(), {"a": {1, 2}}, "\ud800"):
        with pytest.raises(ValueError, match="The arguments are not strict JSON"):
            await run(sandbox, IDENTITY, value=value)


async def test_the_probe_says_what_it_saw(sandbox: Sandbox) -> None:
    """Every finding has a detail, and the isolation is the sandbox's."""
    report = await sandbox.probe()
    assert report.ok
    assert report.isolation == sandbox.isolation
    assert all(finding.detail for finding in report.findings)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(JSON, max_size=30))
def test_json_values_round_trip(value: list[Any]) -> None:
    """What goes in as JSON comes out the same, type for type."""

    async def there_and_back() -> Outcome:
        made = open_sandbox("bubblewrap")
        try:
            return await run(made, IDENTITY, value=value)
        finally:
            await made.close()

    outcome = asyncio.run(there_and_back())
    assert repr(outcome.value) == repr(value)


def _descendants() -> int:
    """How many processes descend from this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, level = 0, {os.getpid()}
    while level := {pid for pid, parent in parents.items() if parent in level}:
        found += len(level)
    return found
