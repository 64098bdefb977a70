"""What the bank offers now: read from the memory, checked against today's environment, watched for changes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ...errors import Mem2EvolveError
from ...graph.context import Context
from ...memory.records import ToolRecord
from ...memory.rows import parse
from ...nodes.creation.verify import wrong_today
from ...nodes.desk import Desk, Resources
from .catalogue import Entry, entries_of

POLL_S: Final = 2.0
"""Between two looks at the bank. Other processes write to it too."""
WHOLE_EVERY: Final = 15
"""Each so many looks all is read: a roll-back leaves every count as it was."""
CHECK_S: Final = 20.0
"""A list waits so long for tools whose cases run again here; the rest follows with a change of the list."""
CHECKS: Final = 2
"""Tools whose cases run at once."""

_log = logging.getLogger(__name__)

Print = tuple[tuple[tuple[str, int], ...], ...]


class _Desk(Desk):
    """A desk where nobody watches."""

    def tell(self, event: str, **facts: Any) -> None:
        """Stream nothing: there is no run."""


class Bank:
    """The active generated tools of one namespace that may be called today."""

    def __init__(self, resources: Resources, namespace: str) -> None:
        self._resources = resources
        self._where = {"namespace": namespace, "origin": "generated", "status": "active"}
        self._desk = _Desk(resources, Context(namespace=namespace), "mcp")
        self._checks: dict[str, asyncio.Task[str]] = {}
        self._running = asyncio.Semaphore(CHECKS)
        self._entries: dict[str, Entry] = {}
        self._print: Print | None = None
        self._told: frozenset[str] = frozenset()

    async def entries(self) -> dict[str, Entry]:
        """Read what is offered now, by the name that clients use.

        Raises:
            StoreError: If the memory cannot be read.
        """
        print_ = await self._fingerprint()
        records = await self._fit(await self._records())
        self._entries = entries_of(records, self._resources.settings)
        self._print = print_
        return self._entries

    async def find(self, name: str) -> Entry | None:
        """Return a tool as it stands in the bank at this moment, `None` if it is not offered.

        Raises:
            StoreError: If the memory cannot be read.
        """
        known = self._entries.get(name)
        if known is not None and self._print == await self._fingerprint():
            now = await self._resources.memory.get("tool", known.record.id)
            if now is not None and now.status == "active" and now.id == known.record.id:
                return known
        return (await self.entries()).get(name)

    async def watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Say whenever another set of tools is offered than at the last time. Never returns."""
        looks = 0
        while True:
            await asyncio.sleep(POLL_S)
            looks += 1
            try:
                await self._look(changed, whole=looks % WHOLE_EVERY == 0)
            except Mem2EvolveError as exc:
                _log.warning("The bank could not be read: %s %s", exc, exc.hint)

    async def mark(self) -> None:
        """Take what is offered now as told: `watch` says what changes from here on."""
        self._told = _ids(await self.entries())

    async def close(self) -> None:
        """End the checks that still run."""
        checks = [task for task in self._checks.values() if not task.done()]
        for task in checks:
            task.cancel()
        if checks:
            await asyncio.wait(checks)

    async def _look(self, changed: Callable[[], Awaitable[None]], *, whole: bool) -> None:
        late = self._print is None
        if not whole and not late and self._print == await self._fingerprint():
            return
        now = _ids(await self.entries())
        if now != self._told:
            self._told = now
            await changed()

    async def _fingerprint(self) -> Print:
        """Return a few counts that change with the bank, without reading a record."""
        memory, mine = self._resources.memory, {"namespace": self._where["namespace"]}
        tallies = (
            await memory.tally("tool", "name", self._where),
            await memory.tally("tool", "run_id", self._where),
            await memory.tally("tool", "name", mine),
            await memory.tally("tool", "status", mine),
        )
        return tuple(tuple(sorted(one.items())) for one in tallies)

    async def _records(self) -> list[ToolRecord]:
        """Read the tools whose content is what was checked: their id is made of it."""
        found = []
        async for row in self._resources.memory.rows("tool", self._where):
            record = parse("tool", row.id, row.payload)
            if isinstance(record, ToolRecord) and record.id == row.id:
                found.append(record)
            else:
                _log.warning("Tool %s is not what was checked; it is not offered.", row.id)
        return found

    async def _fit(self, records: Sequence[ToolRecord]) -> list[ToolRecord]:
        """Return those that pass their cases in today's environment."""
        checks = [self._check(record) for record in records]
        if pending := [task for task in checks if not task.done()]:
            await asyncio.wait(pending, timeout=CHECK_S)
        return [
            record
            for record, task in zip(records, checks, strict=True)
            if task.done() and not task.cancelled() and task.exception() is None
            if not task.result()
        ]

    def _check(self, record: ToolRecord) -> "asyncio.Task[str]":
        """Return the check of a tool, begun if need be; one that could not be made is made again."""
        task = self._checks.get(record.id)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = asyncio.create_task(self._wrong(record))
            task.add_done_callback(self._checked)
            self._checks[record.id] = task
        return task

    async def _wrong(self, record: ToolRecord) -> str:
        async with self._running:
            why = await wrong_today(self._desk, "", record)
        if why:
            _log.warning("%s v%d is not offered: %s", record.name, record.version, why)
        return why

    def _checked(self, task: "asyncio.Task[str]") -> None:
        if task.cancelled():
            return
        if exc := task.exception():
            _log.warning("A tool could not be checked and is not offered: %s", exc)
            return
        self._print = None  # the next look reads all: a list may have been told without this one


def _ids(entries: dict[str, Entry]) -> frozenset[str]:
    return frozenset(one.record.id for one in entries.values())
