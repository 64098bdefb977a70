"""What a tool's cases were run under, and running them again where that is another today.

Content is immutable and the status is the one thing that changes. So a tool that passed under another
environment too gets a line in its history, with the status that it had, and that line is looked for.
"""

import asyncio
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ...memory.recall import Candidate
from ...memory.records import Case, ToolRecord
from ...sandbox import Sandbox
from ..desk import Desk
from ..permitted import box_of, reaches_out
from .cases import passes

MAX_REASON_CHARS: Final = 500

Choose = Callable[[list[Candidate]], Awaitable[tuple[Candidate | None, str]]]
"""Says which of the candidates is recruited, if any, and why."""


async def environment(box: Sandbox, source: str) -> dict[str, str]:
    """Return what a tool's cases are run under today.

    Args:
        box: Of that tool, with what it may do.
        source: Its code.

    Raises:
        SandboxUnavailable: If the packages that it declares could not be fetched now.
    """
    packages = await box.provide(source)
    found = {
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": f"{platform.system().lower()}-{platform.machine()}",
        "isolation": box.isolation,
    }
    return found | ({"packages": ", ".join(packages.versions)} if packages.versions else {})


async def choose_verified(
    desk: Desk, run_id: str, found: Sequence[Candidate], choose: Choose
) -> tuple[Candidate | None, str]:
    """Choose an asset; a tool that fails its cases in today's environment is passed over for the next.

    Raises:
        SandboxUnavailable: If its cases cannot be run now. Nothing has changed then.
    """
    left = list(found)
    passed_over: list[str] = []
    while True:
        chosen, why = await choose(left)
        tool = (
            await desk.memory.get("tool", chosen.id) if chosen and chosen.kind == "tool" else None
        )
        wrong = await wrong_today(desk, run_id, tool) if tool else ""
        if chosen is None or not wrong:
            return chosen, "; ".join([*passed_over, why])
        left.remove(chosen)
        passed_over.append(f"{chosen.name} v{chosen.version} is passed over: {wrong}")


async def wrong_today(desk: Desk, run_id: str, tool: ToolRecord) -> str:
    """Say why a tool cannot be used in today's environment; empty when it can.

    One that fails its cases is quarantined. A frozen run writes nothing. What a tool returns that fetches or
    reads files hangs on more than the environment: its cases are not run again.
    """
    if tool.origin != "generated" or not tool.cases:
        return ""
    box = box_of(desk.resources, tool)
    packages = await box.provide(tool.code)
    if packages.problems:  # a matter of the settings, not of the tool
        return packages.problems[0].reason
    today = await environment(box, tool.code)
    if verified(tool, today) or reaches_out(tool):
        return ""
    failures = await failing(desk, tool)
    reason = _failed(today, failures) if failures else passed_reason(today)
    desk.tell("verified", name=tool.name, version=tool.version, passed=not failures, why=reason)
    if desk.context.evolve:
        status = "quarantined" if failures else tool.status
        await desk.memory.set_status("tool", tool.id, status, reason, run_id=run_id)
    return reason if failures else ""


def verified(tool: ToolRecord, today: Mapping[str, str]) -> bool:
    """Whether the tool's cases have passed under this environment."""
    reason = passed_reason(today)
    return tool.environment == today or any(change.reason == reason for change in tool.history)


def passed_reason(under: Mapping[str, str]) -> str:
    """Return the line of history which says that the cases passed under an environment."""
    return f"its cases pass under {in_words(under)}"


def in_words(under: Mapping[str, str]) -> str:
    """Return an environment as one phrase."""
    known = [
        f"{key} {under[key]}"
        for key in ("python", "platform", "isolation", "packages")
        if key in under
    ]
    return ", ".join(known) or "an environment that was not recorded"


async def failing(desk: Desk, tool: ToolRecord) -> list[str]:
    """Run a tool on its cases; say of each that fails what it did and what is expected.

    Those that fail are run once more, one after the other, until one fails again: a busy machine must not
    fault a tool.

    Raises:
        SandboxUnavailable: If the box cannot be started.
    """
    box = box_of(desk.resources, tool)

    async def fault(case: Case) -> list[str]:
        return await passes(box, tool.code, tool.function, [case.model_dump(mode="json")])

    first = await asyncio.gather(*map(fault, tool.cases))
    suspects = [(case, faults[0]) for case, faults in zip(tool.cases, first, strict=True) if faults]
    for n, (suspect, _) in enumerate(suspects):
        if await fault(suspect):
            return [line for _, line in suspects[n:]]
    return []


def _failed(under: Mapping[str, str], failures: Sequence[str]) -> str:
    text = f"its cases fail under {in_words(under)}: {'; '.join(failures)}"
    return text if len(text) <= MAX_REASON_CHARS else f"{text[: MAX_REASON_CHARS - 1]}…"
