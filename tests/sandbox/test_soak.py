"""Ten thousand calls, with kills at random: nothing is left over. `make soak-sandbox`."""

import asyncio
import json
import math
import os
import random
import resource
import signal
from pathlib import Path

import pytest

from mem2evolve.errors import SandboxUnavailable
from mem2evolve.sandbox import BubblewrapSandbox, Limits, Outcome

CALLS = int(os.environ.get("SOAK_CALLS", "10000"))
TOOLS = 20
WORKERS = 4
KILL_EVERY = 150
"""Calls, on average."""
LIMITS = Limits(wall_s=20.0)
SOURCES = [
    f"import math\nN = {n}\ndef f(a):\n    if a % 97 == 13:\n        raise ValueError(a)\n"
    f"    return [N, math.sqrt(a) if {n} % 2 else a]\n"
    for n in range(TOOLS)
]


@pytest.mark.slow
async def test_nothing_is_left_after_many_calls() -> None:
    """No orphan, no descriptor, flat memory, and no wrong answer, whatever was killed when."""
    box, dice = BubblewrapSandbox(), random.Random(7)  # noqa: S311 - to repeat a run
    await box.call(SOURCES[0], "f", {"a": 1})
    await box.close()
    fds, children = _fds(), _below(os.getpid())
    seen: dict[str, int] = {}
    sizes: list[int] = []
    todo = iter(range(CALLS))

    async def work() -> None:
        for number in todo:
            tool = dice.randrange(TOOLS)
            try:
                outcome = await box.call(SOURCES[tool], "f", {"a": number}, limits=LIMITS)
                _check(outcome, tool, number)
                end: str = outcome.status
            except SandboxUnavailable:  # killed while it started: said as what it is
                end = "not started"
            seen[end] = seen.get(end, 0) + 1
            if number % (CALLS // 20 or 1) == 0:
                sizes.append(_resident())
            if dice.randrange(KILL_EVERY) == 0:
                _kill_one(dice, children)
            if dice.randrange(KILL_EVERY) == 0:
                await _cancel_one(box)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    await box.close()
    await asyncio.sleep(1.0)
    growth = max(sizes[-5:]) - max(sizes[:5]) if len(sizes) >= 10 else 0
    leaked = sorted(_below(os.getpid()) - children)
    print(  # noqa: T201 - what `make soak-sandbox` reports
        json.dumps(
            {
                "calls": CALLS,
                **seen,
                "fds": _fds() - fds,
                "orphans": len(leaked),
                "growth_mb": round(growth / 1e6, 1),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )
    assert _fds() == fds
    assert not leaked
    assert growth < 8 << 20
    assert seen["ok"] > 0.9 * CALLS


def _check(outcome: Outcome, tool: int, number: int) -> None:
    """A call that was not killed has its own answer."""
    assert outcome.status in {"ok", "raised", "killed"}, outcome
    if outcome.status == "ok":
        assert isinstance(outcome.value, list)
        assert outcome.value == [tool, math.sqrt(number) if tool % 2 else number]
    if outcome.status == "raised":
        assert (outcome.error_type, outcome.error) == ("ValueError", str(number))


async def _cancel_one(box: BubblewrapSandbox) -> None:
    call = asyncio.create_task(
        box.call("import time\ndef f():\n    time.sleep(60)\n", "f", {}, limits=LIMITS)
    )
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def _kill_one(dice: random.Random, spared: set[int]) -> None:
    """End any process of any box: bwrap's own, the zygote, or a child."""
    if victims := sorted(_below(os.getpid()) - spared):
        try:
            os.kill(dice.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found |= {int(child), *_below(int(child))}
    except OSError:  # it ended meanwhile
        return found
    return found


def _fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
