"""Drives the graph through a run: streams it, has a person answer, and keeps what cannot go on now."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from ..errors import Mem2EvolveError
from ._approval import Answers
from ._checkpoints import Checkpoints, Unfinished, hold, open_checkpoints

if TYPE_CHECKING:
    from ..graph.context import Context
    from ..nodes.desk import Resources

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class End:
    """How far a run got."""

    run_id: str
    state: dict[str, Any]
    waiting: tuple[dict[str, Any], ...] = ()
    """What a person is asked; empty when the run is done."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Runs one after the other on a graph whose state is kept in the home."""

    graph: Any
    checkpoints: Checkpoints
    answers: Answers
    tell: Tell
    watch: Tell
    """Told of each step that begins or ends."""

    async def start(self, run: Unfinished, context: "Context") -> End:
        """Begin a run."""
        with hold(self.checkpoints.settings, run.run_id):
            await self.checkpoints.begin(run)
            return await self._guarded(run, context, run.given)

    async def resume(self, run: Unfinished, context: "Context") -> End | None:
        """Go on with a run where it stopped; `None` if it ended meanwhile."""
        with hold(self.checkpoints.settings, run.run_id):
            snapshot = await self.graph.aget_state(_config(run.run_id))
            fresh = (
                snapshot.created_at is None
            )  # it was stopped before its first step, or has ended
            if fresh and not await self._known(run):
                return None
            return await self._guarded(run, context, run.given if fresh else None)

    async def _known(self, run: Unfinished) -> bool:
        found = await self.checkpoints.conn.execute_fetchall(
            "SELECT 1 FROM unfinished_runs WHERE run_id = ?", [run.run_id]
        )
        return bool(list(found))

    async def _guarded(self, run: Unfinished, context: "Context", given: Any) -> End:
        try:
            end = await self._drive(run.run_id, context, given)
        except BaseException as exc:
            if isinstance(exc, Mem2EvolveError) and not await self._begun(run):
                await self.checkpoints.forget(run.run_id)
            else:
                text = f"run {run.run_id[:8]} was broken off; {how_to_resume(run.run_id)} goes on"
                click.echo(text, err=True)
            raise
        if end.waiting:
            await self.checkpoints.mark(run.run_id, waiting=True)
        else:
            await self.checkpoints.forget(run.run_id)
        return end

    async def _begun(self, run: Unfinished) -> bool:
        """Whether its first step was done: what stopped it before then would stop it again."""
        snapshot = await self.graph.aget_state(_config(run.run_id))
        return bool(snapshot.values.get("run_id"))

    async def _drive(self, run_id: str, context: "Context", given: Any) -> End:
        """Stream until the run is done, or a question stays open."""
        from langgraph.types import Command  # noqa: PLC0415 - `--help` stays quick

        config = _config(run_id)
        while True:
            snapshot = await self.graph.aget_state(config)
            if given is None and snapshot.interrupts:
                # One at a time: what was answered is kept, whatever becomes of the rest.
                first = snapshot.interrupts[0]
                answer = await self.answers.answer(first.value)
                if answer is None:
                    questions = tuple(one.value for one in snapshot.interrupts)
                    return End(run_id=run_id, state=snapshot.values, waiting=questions)
                given = Command(resume={first.id: answer})
            elif given is None and not snapshot.next:
                return End(run_id=run_id, state=snapshot.values)
            await self.checkpoints.mark(run_id, waiting=False)
            async for _, mode, event in self.graph.astream(
                given,
                config,
                context=context,
                stream_mode=["custom", "tasks"],
                subgraphs=True,
                durability="sync",
            ):
                (self.tell if mode == "custom" else self.watch)(event)
            given = None


@asynccontextmanager
async def open_driver(
    resources: "Resources", answers: Answers, tell: Tell, watch: Tell = lambda _: None
) -> AsyncIterator[Driver]:
    """Compile the graph with the home's checkpoints.

    Raises:
        StoreDamaged: If they cannot be opened.
    """
    from ..api import build_graph  # noqa: PLC0415 - `--help` stays quick

    async with open_checkpoints(resources.settings) as checkpoints:
        graph = build_graph(resources, checkpointer=checkpoints.saver)
        yield Driver(graph=graph, checkpoints=checkpoints, answers=answers, tell=tell, watch=watch)


def how_to_resume(run_id: str) -> str:
    """Return the command that goes on with a run."""
    return f"mem2evolve runs resume {run_id[:8]}"


def _config(run_id: str) -> Any:
    return {"configurable": {"thread_id": run_id}, "run_id": UUID(run_id)}
