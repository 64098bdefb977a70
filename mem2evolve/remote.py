"""`remote_node`: the agent on a LangGraph server as a node of a host's graph, its questions included.

A `RemoteGraph` that is added as a node interrupts its host too, but the host's answer does not reach the server:
LangGraph starts the remote run anew. Here the server's own list of runs says how far things are, so a node
that begins again, as nodes do when they are resumed, goes on there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import httpx
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config, get_stream_writer
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command, Interrupt, StateSnapshot, interrupt
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError

from .errors import ConfigError, RemoteError
from .graph.context import Context
from .graph.two_ways import two_ways
from .nodes.creation.question import keeps_state
from .result import text_of

STEP: Final = "mem2evolve_step"
"""In the metadata of a run on the server: 0 for the task, then one for each answer."""
ANSWERED: Final = {"note": "This was answered and goes on; whatever you say here is passed over."}
"""Shown only if the host lost the answer that the server has."""
PAGE: Final = 100
OVER: Final = ("error", "timeout")


def remote_node(
    remote: RemoteGraph,
    *,
    task: str = "task",
    answer: str = "answer",
    keep: Mapping[str, str] | None = None,
    context: Context | None = None,
) -> RunnableLambda[Any, Any]:
    """Return a node that runs this agent on a server.

    The server's questions interrupt the host's graph; resumed with `Command(resume=…)`, the answer goes to the
    server. The task is started there once for each time that the host's graph comes to the node, however often the
    node begins again; events are passed on to the host's stream. The thread on the server is kept.

    Args:
        remote: The agent there: `RemoteGraph("mem2evolve", url=…)`.
        task: Name of the host's value that holds the task.
        answer: Name of the host's value that gets the answer.
        keep: Further values, as `{"verdict": "checked"}`: names of the end state there, and of the host's.
        context: Settings of the run there; those of its assistant when left out.
    """
    kept = {"answer": answer, **(keep or {})}

    async def solve(state: Any) -> dict[str, Any]:
        given = {"task": text_of(state, task)}
        run = _Run(remote, _client(remote), _thread(remote), asdict(context) if context else None)
        try:
            end = await run.finish(given)
        except RemoteException as exc:
            raise run.failed(_words(exc.args[0])) from exc
        except (httpx.HTTPError, LangGraphError) as exc:
            raise run.failed(str(exc) or type(exc).__name__) from exc
        return {theirs: end[ours] for ours, theirs in kept.items()}

    return two_ways(solve, f"{remote.name}_remote")


@dataclass(frozen=True)
class _Run:
    """One task on the server, on a thread of its own."""

    remote: RemoteGraph
    client: LangGraphClient
    thread: str
    context: dict[str, Any] | None

    async def finish(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """Start the task unless it was started, have its questions answered, and return its end state."""
        await self.client.threads.create(thread_id=self.thread, if_exists="do_nothing")
        steps = await self._steps()
        for _ in range(1, len(steps)):
            interrupt(ANSWERED)  # in the order of the questions: these return at once
        await self._reach(steps, given)
        step = max(1, len(steps))
        while asked := (snapshot := await self._snapshot()).interrupts:
            said = self._ask(asked[0])
            await self._send(step, Command(resume={asked[0].id: said}))
            step += 1
        if snapshot.next:
            raise self.failed("the run stopped before its end")
        return dict(snapshot.values)

    async def _reach(self, steps: list[list[Any]], given: dict[str, Any]) -> None:
        """Wait until the last step that was begun is done; begin the first one, or one that failed."""
        if not steps:
            return await self._send(0, given)
        last = steps[-1][-1]
        await self.client.runs.join(self.thread, last["run_id"])
        if (await self.client.runs.get(self.thread, last["run_id"]))["status"] in OVER:
            begun = (await self._snapshot()).next
            await self._send(len(steps) - 1, None if begun else given)
        return None

    async def _steps(self) -> list[list[Any]]:
        """Return the runs of each step, oldest first: several where one failed and was begun again."""
        found: list[Any] = []
        while len(page := await self.client.runs.list(self.thread, limit=PAGE, offset=len(found))):
            found += page
        steps: dict[int, list[Any]] = {}
        for run in sorted(found, key=lambda run: str(run["created_at"])):
            if (number := (run.get("metadata") or {}).get(STEP)) is not None:
                steps.setdefault(number, []).append(run)
        return [steps[number] for number in sorted(steps)]

    async def _snapshot(self) -> StateSnapshot:
        return await self.remote.aget_state(self._config)

    async def _send(self, step: int, given: Any) -> None:
        """Run on the server until it is done or asks; it goes on there if this process ends."""
        tell = get_stream_writer()
        async for _, _, event in self.remote.astream(
            given,
            self._config,
            context=self.context,
            stream_mode=["custom"],
            subgraphs=True,
            metadata={STEP: step},
            on_disconnect="continue",
        ):
            tell(event)

    def _ask(self, asked: Interrupt) -> Any:
        if not keeps_state():
            raise ConfigError(
                f"The run on thread {self.thread} of {self.remote.name!r} waits for a person, and the host's graph "
                "has no checkpointer to wait with.",
                hint='Compile the host\'s graph with a checkpointer, or pass context=Context(approve="never"); '
                "that thread can be resumed on its server.",
            )
        return interrupt(asked.value)

    def failed(self, why: str) -> RemoteError:
        """Return the error that says where the run stands."""
        return RemoteError(
            f"{self.remote.name!r} on thread {self.thread} of its server: {why}.".replace(
                "..", "."
            ),
            hint="Once the server is well, run the host's graph again on the same thread: what was done is kept.",
        )

    @property
    def _config(self) -> Any:
        return {"configurable": {"thread_id": self.thread}}


def _client(remote: RemoteGraph) -> LangGraphClient:
    if remote.client is None:
        raise ConfigError(
            f"The RemoteGraph {remote.name!r} has no async client.",
            hint="Make it with url=… or client=….",
        )
    return remote.client


def _thread(remote: RemoteGraph) -> str:
    """Return the id of the thread there: the same whenever this visit of the host's graph begins again."""
    found = get_config()["configurable"]
    where = found.get("thread_id", ""), found.get("checkpoint_ns", "")
    return str(
        uuid5(NAMESPACE_URL, "|".join(["mem2evolve", remote.assistant_id, *map(str, where)]))
    )


def _words(data: Any) -> str:
    return str(data.get("message") or data) if isinstance(data, Mapping) else str(data)
