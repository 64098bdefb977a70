"""Boxes that are kept between calls: what they keep, and what they must not."""

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.sandbox import BubblewrapSandbox, Limits, Outcome
from mem2evolve.sandbox._shelf import Shelf, key_of

PIDS = "import os\ndef f(a=0):\n    return [os.getpid(), a]\n"
USUAL = Limits()


def shelf(box: BubblewrapSandbox) -> Shelf:
    """The boxes that wait."""
    era = box._era
    return Shelf() if era is None else era.shelf


def open_files() -> list[Path]:
    """This process's descriptors."""
    return sorted(Path("/proc/self/fd").iterdir())


async def run(box: BubblewrapSandbox, body: str, **options: Any) -> Outcome:
    """Call a function of that body, with `os` and `sys` imported."""
    source = f"import os, sys\ndef f():\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    return await box.call(source, "f", {}, **options)


async def again(box: BubblewrapSandbox, body: str) -> tuple[Outcome, Outcome]:
    """Call it twice, with time between for the next child to be forked."""
    first = await run(box, body)
    await asyncio.sleep(0.1)
    return first, await run(box, body)


async def test_a_box_serves_its_tool_again(box: BubblewrapSandbox) -> None:
    """The second call is another process of the same box: its number goes on."""
    pids = []
    for value in range(4):
        outcome = await box.call(PIDS, "f", {"a": value})
        assert isinstance(outcome.value, list)
        pids.append(outcome.value[0])
        assert outcome.value[1] == value
    assert len(set(pids)) == 4
    assert pids == sorted(pids)
    assert len(shelf(box)) == 1


async def test_a_fresh_call_has_a_box_of_its_own(box: BubblewrapSandbox) -> None:
    """Every time the same first process, and no box is kept."""
    values = [(await box.call(PIDS, "f", {}, fresh=True)).value for _ in range(2)]
    assert values[0] == values[1]
    assert len(shelf(box)) == 0


async def test_what_runs_is_what_was_given(box: BubblewrapSandbox) -> None:
    """The source is the key: an edit between two calls is another tool, in another box."""
    checked, swapped = "def f():\n    return 1\n", "def f():\n    return 2\n"
    values = [(await box.call(source, "f", {})).value for source in (checked, swapped) * 2]
    assert values == [1, 2, 1, 2]
    assert len(shelf(box)) == 2


def test_the_key_is_all_that_a_box_is_made_for(tmp_path: Path) -> None:
    """Source, limits, and the files as they are at the moment of the call."""
    path = tmp_path / "a"
    path.write_text("one")
    files = {"a": path}
    keys = [key_of("s", USUAL, files), key_of("t", USUAL, files), key_of("s", USUAL, {})]
    keys += [key_of("s", Limits(cpu_s=1), files), key_of("s", USUAL, {"b": path})]
    path.write_text("another")
    keys.append(key_of("s", USUAL, files))
    assert len(set(keys)) == len(keys)
    assert key_of("s", USUAL, files) == keys[-1]


async def test_a_file_that_was_replaced_is_seen_anew(
    box: BubblewrapSandbox, tmp_path: Path
) -> None:
    """A box shows the file that was there when it started, so it serves that file only."""
    path, source = tmp_path / "a", "def f():\n    return open('/data/a').read()\n"
    for text in ("one", "two"):
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(path)
        assert (await box.call(source, "f", {}, files={"a": path})).value == text


LEAKS = {
    "a variable of the module": "global seen\n    was = globals().get('seen'); seen = 1; return was",
    "a patched builtin": "import builtins\n    was = hasattr(builtins, 'x'); builtins.x = 1\n    return was or None",
    "a patched module": "import json\n    was = hasattr(json, 'x'); json.x = 1\n    return was or None",
    "the environment": "was = os.environ.get('X'); os.environ['X'] = '1'; return was",
    "a file in /tmp": "was = os.listdir('/tmp'); open('/tmp/a', 'w'); return was or None",
    "a file in /dev/shm": "was = os.path.exists('/dev/shm/a'); open('/dev/shm/a', 'w'); return was or None",
    "the mode of /tmp": "was = os.stat('/tmp').st_mode & 0o777\n    try: os.chmod('/tmp', 0o700)\n"
    "    except OSError: pass\n    return None if was == 0o777 else was",
    "the time of /tmp": "was = os.stat('/tmp').st_mtime_ns == 5\n    try: os.utime('/tmp', ns=(5, 5))\n"
    "    except OSError: pass\n    return was or None",
    "flags of standard input": "import fcntl\n    was = fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK\n"
    "    fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)\n    return was or None",
    "the working directory": "was = os.getcwd(); os.chdir('/'); return None if was == '/tmp' else was",
    "the mask of modes": "was = os.umask(0o123); return was if was == 0o123 else None",
    "a limit": "import resource\n    was = resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
    "    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)); return None if was == 64 else was",
    "an abstract socket": "import socket\n    s = socket.socket(socket.AF_UNIX)\n    s.bind('\\0x')",
    "a thread": "import threading, time\n    was = threading.active_count() > 1\n"
    "    threading.Thread(target=time.sleep, args=(9,)).start(); return was or None",
    "the seed of random": "import random\n    return None if random.random() != 0.5 else 1",
}  # fmt: skip


@pytest.mark.parametrize("body", LEAKS.values(), ids=LEAKS)
async def test_nothing_of_a_call_reaches_the_next(box: BubblewrapSandbox, body: str) -> None:
    """Whatever a call changes, the next of the same tool finds it as the first did."""
    source = f"import os, sys\ndef f():\n    {body}\n"
    for _ in range(3):
        outcome = await box.call(source, "f", {})
        assert (outcome.status, outcome.value) == ("ok", None)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
async def test_arguments_of_any_size_arrive(box: BubblewrapSandbox, size: int) -> None:
    """Into a new box and into one that waits."""
    for _ in range(2):
        outcome = await box.call("def f(a):\n    return len(a)\n", "f", {"a": "é" * size})
        assert outcome.value == size
        await asyncio.sleep(0.1)


async def test_random_numbers_differ(box: BubblewrapSandbox) -> None:
    """Children of one zygote do not draw the same numbers."""
    body = "import random, uuid, secrets\nreturn [random.random(), str(uuid.uuid4())]"
    first, second = await again(box, body)
    assert len({str(v) for o in (first, second) for v in o.value or []}) == 4  # type: ignore[union-attr]


async def test_arguments_of_earlier_calls_are_not_in_memory(box: BubblewrapSandbox) -> None:
    """They went to the child past the zygote, so that what the next child inherits is free of them."""
    source = (
        "import ctypes\ndef f(secret, look):\n    if not look:\n        return 0\n    found = 0\n"
        "    for line in open('/proc/self/maps'):\n        if ' rw' in line and '[v' not in line:\n"
        "            a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "            text = ctypes.string_at(a, b - a)\n"
        "            found += text.count(bytes(reversed(b'yranac-terces')) * 2)\n"
        "    return found\n"
    )
    secret = "secret-canary" * 50
    await box.call(source, "f", {"secret": secret, "look": False})
    await asyncio.sleep(0.1)
    outcome = await box.call(source, "f", {"secret": "", "look": True})
    assert (outcome.status, outcome.value) == ("ok", 0)
    outcome = await box.call(source, "f", {"secret": secret, "look": True})
    assert isinstance(outcome.value, int)
    assert outcome.value > 0  # so the search does find what is there


@pytest.mark.parametrize(
    ("body", "limits", "kept"),
    [
        ("return 1", USUAL, 1),
        ("raise ValueError", USUAL, 1),
        ("return {1}", USUAL, 0),
        ("os._exit(0)", USUAL, 0),
        ("import ctypes; ctypes.string_at(0)", USUAL, 0),
        ("while True: pass", Limits(wall_s=0.5), 0),
        ("open('/tmp/x', 'w')", USUAL, 0),
        ("open('/tmp/x', 'w'); os.unlink('/tmp/x')", USUAL, 0),
        ("return 'x' * 3_000_000", USUAL, 0),
        ("os.write(3, b'more'); return 1", USUAL, 0),
    ],
)
async def test_a_box_that_saw_something_odd_is_thrown_away(
    box: BubblewrapSandbox, body: str, limits: Limits, kept: int
) -> None:
    """First call or a later one: a value or an exception, and clean folders, or it goes."""
    for _ in range(2):
        await run(box, body, limits=limits)
        await asyncio.sleep(0.2)
        assert len(shelf(box)) == kept


async def test_the_shelf_is_small(box: BubblewrapSandbox) -> None:
    """The least recently used goes, and with it its processes."""
    for value in range(10):
        assert (await box.call(f"def f():\n    return {value}\n", "f", {})).value == value
    await asyncio.sleep(0.5)
    assert len(shelf(box)) == 8


async def test_a_box_that_died_waiting_is_replaced(box: BubblewrapSandbox) -> None:
    """Its death is not the next call's: that one gets another box."""
    await box.call(PIDS, "f", {})
    await asyncio.sleep(0.1)
    [waiting] = shelf(box)._boxes
    waiting._process.kill()
    waiting._process.wait()
    await asyncio.sleep(0.1)
    assert (await box.call(PIDS, "f", {"a": 3})).status == "ok"


async def test_a_box_that_has_ended_gets_ready_for_nothing(box: BubblewrapSandbox) -> None:
    """It is put in order on a thread of its own, which may come after its end: no descriptor is opened."""
    await run(box, "return 1")
    waiting = shelf(box)._boxes[-1]
    await asyncio.to_thread(waiting.end)
    before = open_files()
    assert not waiting.get_ready()
    assert open_files() == before


async def test_cancelling_ends_that_box_only(box: BubblewrapSandbox) -> None:
    """Also a box that waited, whose call runs without a thread."""
    nap = "import time\ndef f(s):\n    time.sleep(s)\n    return s\n"
    await asyncio.gather(*(box.call(nap, "f", {"s": 0.05}) for _ in range(2)))
    await asyncio.sleep(0.2)
    assert len(shelf(box)) == 2
    long, short = (asyncio.create_task(box.call(nap, "f", {"s": s})) for s in (60, 0.5))
    await asyncio.sleep(0.2)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    assert (await short).value == 0.5
    await asyncio.sleep(0.2)
    assert len(shelf(box)) == 1


async def test_closing_ends_a_call_in_a_box_that_waited(box: BubblewrapSandbox) -> None:
    """As it does one in a new box."""
    nap = "import time\ndef f(s):\n    time.sleep(s)\n"
    await box.call(nap, "f", {"s": 0})
    await asyncio.sleep(0.2)
    call = asyncio.create_task(box.call(nap, "f", {"s": 60}))
    await asyncio.sleep(0.2)
    await box.close()
    assert (await call).status == "killed"


async def test_several_loops_and_threads(box: BubblewrapSandbox) -> None:
    """Each call gets its own answer, whichever loop asked."""
    wrong: list[Any] = []

    def work(offset: int) -> None:
        async def many() -> None:
            for n in range(15):
                outcome = await box.call(PIDS, "f", {"a": offset + n})
                if outcome.value is None or outcome.value[1] != offset + n:  # type: ignore[call-overload, index]
                    wrong.append(outcome)

        asyncio.run(many())

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert not wrong


ENDINGS: dict[str, Callable[["subprocess.Popen[str]"], None]] = {
    "killed": lambda process: process.kill(),
    "ends": lambda process: process.communicate("\n"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_waiting_boxes_end_with_us(ending: Callable[[Any], None]) -> None:
    """Killed outright or ending without `close`: no box outlives the program."""
    script = (
        "import asyncio\nfrom mem2evolve.sandbox import BubblewrapSandbox\nbox = BubblewrapSandbox()\n"
        "async def main():\n    for n in range(3):\n"
        "        await box.call(f'def f():\\n    return {n}\\n', 'f', {})\n    await asyncio.sleep(0.2)\n"
        "    print(*(b.pid for b in box._era.shelf._boxes), flush=True)\n    input()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own script
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in (await asyncio.to_thread(process.stdout.readline)).split()]
    assert len(pids) == 3
    everyone = [p for pid in pids for p in [pid, *_below(pid)]]
    assert len(everyone) >= 6
    await asyncio.to_thread(ending, process)
    await asyncio.to_thread(process.wait)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    assert not await asyncio.to_thread(_left_after, everyone, 5.0)


def _left_after(pids: list[int], seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := [p for p in pids if Path(f"/proc/{p}/exe").exists()]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    return left


def _below(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_below(int(child))]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "\0",
        "def f(:",
        "\ud800 = 1",
        "(" * 5_000,
        "-" * 200_000 + "1",
        "x = " + "1+" * 50_000 + "1",
        "\x7fELF" + "\x01\xff" * 500,
        "def f():\n" + " if 1:\n" * 200,
    ],
    ids=["nul", "syntax", "surrogate", "brackets", "signs", "sum", "binary", "indents"],
)
async def test_garbage_is_the_tools_fault(box: BubblewrapSandbox, source: str) -> None:
    """No source, however broken, looks like a sandbox that is down; the next tool works."""
    for _ in range(2):
        assert (await box.call(source, "f", {})).status in {"raised", "killed", "no_function"}
    assert (await box.call(PIDS, "f", {"a": 1})).status == "ok"


async def test_a_full_scratch_folder_is_the_tools_error(box: BubblewrapSandbox) -> None:
    """It is told as what it is, and the next call has an empty one."""
    body = """
    names = 0
    try:
        while True:
            with open(f"/tmp/{names}", "wb") as t:
                t.write(bytes(8 << 20))
            names += 1
    except OSError as exc:
        return [exc.errno, names > 1]
    """
    for outcome in await again(box, body):
        assert outcome.value == [28, True]


async def test_imports_are_loaded_ahead(box: BubblewrapSandbox) -> None:
    """Those of functions too; a module that does something when imported waits for its call."""
    source = (
        "import sys\nbefore = sorted({'decimal', 'this', 'statistics'} & set(sys.modules))\n"
        "def f():\n    import decimal, this\n    from statistics import mean\n    return before\n"
    )
    outcome = await box.call(source, "f", {})
    assert (outcome.value, "Zen" in outcome.stdout) == (["decimal", "statistics"], True)
    assert (await box.call(source, "f", {}, fresh=True)).value == []


async def test_the_modules_body_belongs_to_the_call(box: BubblewrapSandbox) -> None:
    """What it prints is told with each call, and what it reads of the clock is of that moment."""
    source = "import time\nprint('loaded')\nAT = time.time()\ndef f():\n    return AT\n"
    first, second = await box.call(source, "f", {}), await box.call(source, "f", {})
    assert first.stdout == second.stdout == "loaded\n"
    assert isinstance(first.value, float)
    assert isinstance(second.value, float)
    assert second.value > first.value


def test_limits_are_part_of_the_box() -> None:
    """Two calls with other limits each get their own, whatever box came first."""

    async def both() -> list[Any]:
        made = BubblewrapSandbox()
        source = (
            "import resource\ndef f():\n    return resource.getrlimit(resource.RLIMIT_CPU)[0]\n"
        )
        try:
            return [
                (await made.call(source, "f", {}, limits=Limits(cpu_s=n))).value for n in (2, 3, 2)
            ]
        finally:
            await made.close()

    before = len(list(Path("/proc/self/fd").iterdir()))
    assert asyncio.run(both()) == [2, 3, 2]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
