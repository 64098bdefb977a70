"""Runs that are not finished: their state, in one SQLite file of the home, so that they can be resumed."""

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import NotFoundError, StoreBusy, StoreDamaged

if TYPE_CHECKING:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from ..settings import Settings

FILE: Final = "checkpoints.sqlite"
LOCKS: Final = "running"
"""Folder of a lock a run: the kernel keeps it, so a killed process leaves none behind."""
PATIENCE_S: Final = 0.5
MAX_AGE_DAYS: Final = 30
"""A run left alone for so long is forgotten."""
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS unfinished_runs (
    run_id TEXT PRIMARY KEY, given TEXT NOT NULL, context TEXT NOT NULL, model TEXT NOT NULL,
    started TEXT NOT NULL, touched TEXT NOT NULL, waiting INTEGER NOT NULL)
"""
_COLUMNS: Final = "run_id, given, context, model, started, waiting"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A run that was begun and has not ended."""

    run_id: str
    """Also the id of its thread."""
    given: dict[str, Any]
    """What the graph was given: a task with its files, or a correction."""
    context: dict[str, Any]
    """Its settings."""
    model: str
    started: str = field(default_factory=_now)
    waiting: bool = False
    """Whether it waits for a person; else it was broken off, or is at work."""

    @property
    def about(self) -> str:
        """The task, or what is being corrected."""
        correction = self.given.get("correction")
        return f"correction: {correction['because']}" if correction else str(self.given["task"])


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """The open file. One connection, used by one event loop."""

    saver: "AsyncSqliteSaver"
    conn: "aiosqlite.Connection"
    settings: "Settings"

    async def begin(self, run: Unfinished) -> None:
        """Note a run before its first step, or that it goes on; what was left under its id is dropped."""
        await self._drop(run.run_id)
        facts = [json.dumps(run.given), json.dumps(run.context), run.model, run.started, _now()]
        await self._write(
            f"INSERT INTO unfinished_runs ({_COLUMNS.replace('waiting', 'touched, waiting')}) "  # noqa: S608 - our own names
            "VALUES (?, ?, ?, ?, ?, ?, 0)",
            run.run_id,
            *facts,
        )

    async def mark(self, run_id: str, *, waiting: bool) -> None:
        """Note whether a run waits for a person."""
        await self._write(
            "UPDATE unfinished_runs SET waiting = ?, touched = ? WHERE run_id = ?",
            int(waiting),
            _now(),
            run_id,
        )

    async def forget(self, run_id: str) -> None:
        """Drop a run and its state: it has ended, or nobody wants it. Call it with the run held."""
        await self._drop(run_id)
        # Whoever opened the lock before gets it, and finds no such run.
        (self.settings.state_dir / LOCKS / run_id).unlink(missing_ok=True)

    async def _drop(self, run_id: str) -> None:
        await self.saver.adelete_thread(run_id)
        await self._write("DELETE FROM unfinished_runs WHERE run_id = ?", run_id)
        await self.conn.execute_fetchall("PRAGMA incremental_vacuum")

    async def prune(self) -> None:
        """Forget runs that were left alone for long."""
        oldest = (datetime.now(UTC) - timedelta(days=MAX_AGE_DAYS)).isoformat(timespec="seconds")
        found = await self.conn.execute_fetchall(
            "SELECT run_id FROM unfinished_runs WHERE touched < ?", [oldest]
        )
        for (run_id,) in found:
            with contextlib.suppress(StoreBusy), hold(self.settings, run_id, patience=0):
                await self.forget(run_id)

    async def _write(self, statement: str, *values: object) -> None:
        await self.conn.execute(statement, values)
        await self.conn.commit()


@asynccontextmanager
async def open_checkpoints(settings: "Settings") -> AsyncIterator[Checkpoints]:
    """Open the file of the home, made if need be, and close it.

    Raises:
        StoreDamaged: If it cannot be read or written.
    """
    import aiosqlite  # noqa: PLC0415 - `--help` stays quick
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    path = settings.state_dir / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # tasks are private
    with _told(path):
        async with aiosqlite.connect(path) as conn:
            await conn.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded before the first table
            saver = AsyncSqliteSaver(conn)
            await saver.setup()
            await conn.execute(_TABLE)
            await conn.commit()
            opened = Checkpoints(saver=saver, conn=conn, settings=settings)
            await opened.prune()
            yield opened


def list_unfinished(settings: "Settings") -> list[Unfinished]:
    """Return the runs that are not finished, newest first. Loads nothing heavy.

    Raises:
        StoreDamaged: If the file cannot be read.
    """
    path = settings.state_dir / FILE
    if not path.exists():
        return []
    with _told(path), closing(sqlite3.connect(path)) as conn:
        known = conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'unfinished_runs'")
        if not known.fetchone():
            return []
        rows = conn.execute(
            f"SELECT {_COLUMNS} FROM unfinished_runs ORDER BY started DESC, rowid DESC"  # noqa: S608 - our own names
        ).fetchall()
    return [
        Unfinished(
            run_id=run_id,
            given=json.loads(given),
            context=json.loads(context),
            model=model,
            started=started,
            waiting=bool(waiting),
        )
        for run_id, given, context, model, started, waiting in rows
    ]


@contextmanager
def hold(settings: "Settings", run_id: str, *, patience: float = PATIENCE_S) -> Iterator[None]:
    """Hold a run for this process, once another one that is just ending has let go.

    Raises:
        StoreBusy: If another process works on it; names it.
    """
    path = settings.state_dir / LOCKS / run_id
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(fd, run_id, patience)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, run_id: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            who = os.pread(fd, 20, 0).decode() or "?"
            raise StoreBusy(
                f"Run {run_id[:8]} is being worked on by process {who}.",
                hint=f"Wait for it, or stop process {who} and resume the run then.",
            ) from None


def state_of(settings: "Settings", run: Unfinished) -> str:
    """Return `waiting`, `running`, or `broken off`."""
    try:
        with hold(settings, run.run_id, patience=0):
            return "waiting" if run.waiting else "broken off"
    except StoreBusy:
        return "running"


def done(run_id: str) -> NotFoundError:
    """Return the error for a run that has ended."""
    return NotFoundError(
        f"Run {run_id[:8]} is done: there is nothing to resume.",
        hint=f"See `mem2evolve runs show {run_id[:8]}`.",
    )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise StoreDamaged(
            f"The unfinished runs in {path} cannot be read or written: {exc}.",
            hint="Make room, or move the file away: kept tools, lessons and finished runs are not in it.",
        ) from exc
