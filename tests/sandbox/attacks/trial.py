"""Running an attack or a forgery once, and looking at the host. Imports no more than the sandbox does."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mem2evolve.errors import SandboxUnavailable
from mem2evolve.sandbox import Outcome, Sandbox

from .attack import AGAIN, Attack, Forgery
from .forgeries import CASES
from .host import Host

AT_ONCE: Final = 4
LATE_S: Final = 1.2
"""After a call whose effect would come later."""
SLACK_S: Final = 6.0
"""Above its wall-clock limit, for the end of a call on a busy machine."""
PLAIN: Final = "def plain(value):\n    return {'value': value}\n"
FILTERED: Final = (
    "def look():\n"
    "    lines = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
    "    return lines['Seccomp'].strip() == '2'\n"
)


@dataclass(frozen=True)
class Result:
    """What one attack came to."""

    name: str
    through: tuple[str, ...]
    """What got through; empty when it was contained."""
    end: str = ""
    """How its call ended, for a person."""


async def is_filtered(sandbox: Sandbox) -> bool:
    """Whether tools run under a filter of system calls."""
    return (await sandbox.call(FILTERED, "look", {})).value is True


async def attack_all(sandbox: Sandbox, attacks: Iterable[Attack]) -> list[Result]:
    """Try them, a few at a time, in a sandbox that has shown that it holds.

    Raises:
        SandboxUnavailable: If the probe finds a hole: then nothing is tried.
    """
    report = await sandbox.probe()
    if not report.ok:
        found = [one.detail for one in report.findings if not one.ok]
        raise SandboxUnavailable(f"No attack is tried: {found}", hint="Run `mem2evolve doctor`.")
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(attack: Attack) -> Result:
        async with turn:
            return await try_attack(sandbox, attack)

    return await asyncio.gather(*map(one, attacks))


async def try_attack(sandbox: Sandbox, attack: Attack) -> Result:
    """Run one attack, look at the host, and ask the next calls.

    Raises:
        ValueError: If it would harm this machine, there being no box.
    """
    if sandbox.isolation == "none" and not attack.safe_unboxed:
        raise ValueError(f"The attack {attack.name!r} must not run without a box.")
    with Host() as host:
        source = attack.source(host.tag)
        through: list[str] = []
        end = ""
        try:
            for _ in range(attack.times):
                outcome = await sandbox.call(
                    source,
                    "attack",
                    {"host": host.facts},
                    limits=attack.limits,
                    files={"in": host.secret} if attack.files else None,
                )
                end = _end(outcome)
                through += _judge(attack, outcome, host)
            if attack.late:
                await asyncio.sleep(LATE_S)
            through += await asyncio.to_thread(host.damage)
            through += await _next_calls(sandbox, attack, source)
        except SandboxUnavailable as exc:
            through.append(f"the sandbox is out of order: {exc}")
    return Result(attack.name, tuple(dict.fromkeys(through)), end)


async def run_forgery(sandbox: Sandbox, forgery: Forgery) -> list[Outcome]:
    """Call a wrong tool with the arguments of every case, while a file on the host holds what it should return."""
    with _cases_in_a_file():
        calls = (sandbox.call(forgery.source, "add", case["args"]) for case in CASES)
        return await asyncio.gather(*calls)


@contextlib.contextmanager
def _cases_in_a_file() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="cases-") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "cases.json").write_text(json.dumps(CASES))
        yield


def _end(outcome: Outcome) -> str:
    return outcome.error_type if outcome.status == "raised" else outcome.status


def _judge(attack: Attack, outcome: Outcome, host: Host) -> list[str]:
    """Say what an outcome shows: a boast, a secret, an end that proves nothing, or a broken limit."""
    wrong = [
        said.partition("\n")[0][:200]
        for said in (outcome.value, outcome.stdout)
        if isinstance(said, str) and said.startswith("BAD")
    ]
    text = json.dumps(outcome.value, allow_nan=False, ensure_ascii=False)
    text.encode()  # strict JSON and real text, whatever the tool did
    if any(host.token in part for part in (text, outcome.stdout, outcome.stderr, outcome.error)):
        if not attack.files:
            wrong.append("the secret came back")
    elif not wrong and _end(outcome) not in attack.ends:
        wrong.append(f"it ended with {_end(outcome)}: {outcome.error[:200]} {outcome.traceback}")
    limits = attack.limits
    if max(len(outcome.stdout), len(outcome.stderr)) > limits.output_bytes:
        wrong.append("more output than allowed came through")
    if len(text) > limits.result_bytes * 2:
        wrong.append("a larger result than allowed came through")
    if outcome.seconds > limits.wall_s + SLACK_S:
        wrong.append(f"it ran for {outcome.seconds:.1f} s")
    return wrong


async def _next_calls(sandbox: Sandbox, attack: Attack, source: str) -> list[str]:
    """Ask the same source again, and another one."""
    wrong = []
    if attack.answers_again:
        outcome = await sandbox.call(source, "again", {"left": 2, "right": 3})
        if outcome.value != AGAIN:
            wrong.append(f"the next call of the same tool gave {outcome.value!r} {outcome.error}")
    outcome = await sandbox.call(PLAIN, "plain", {"value": attack.name})
    if outcome.value != {"value": attack.name}:
        wrong.append(f"the next call of another tool gave {outcome.value!r} {outcome.error}")
    return wrong
