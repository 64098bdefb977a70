"""The tool `solve_task`: the whole graph behind one call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from mcp.server.context import ServerRequestContext
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from ...errors import InputError
from .attend import Progress, attend
from .catalogue import SOLVE_TASK, failed, faults_of

RUNS_AT_ONCE: Final = 2
"""More wait for their turn."""

Tell = Callable[[dict[str, Any]], None]


class Ended(Protocol):
    """How far a run got."""

    @property
    def run_id(self) -> str:
        """Its id."""

    @property
    def state(self) -> dict[str, Any]:
        """The graph's state."""

    @property
    def waiting(self) -> tuple[dict[str, Any], ...]:
        """What a person is asked; empty when the run is done."""


Solve = Callable[[str, Sequence[str], Tell], Awaitable[Ended]]
"""Runs the graph on a task with its files, tells its events, and keeps what cannot go on now."""

OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {
            "enum": ["answered", "waiting"],
            "description": "`waiting`: a person must say something first; see `how_to_resume`.",
        },
        "answer": {"type": "string"},
        "verdict": {"type": "string", "description": "success, failure, abstained, or empty."},
        "reason": {"type": "string", "description": "Why that verdict."},
        "run_id": {"type": "string"},
        "tools_made": {"type": "array", "items": {"type": "string"}},
        "waiting_for": {"type": "array", "items": {"type": "string"}},
        "how_to_resume": {"type": "string"},
    },
    "required": ["status", "answer", "verdict", "run_id"],
    "additionalProperties": False,
}


class Solver:
    """Offers `solve_task`, and runs it.

    Args:
        solve: Runs the graph.
        folders: Files below these may be given with a task; none when empty.
    """

    def __init__(self, solve: Solve, folders: Sequence[Path] = ()) -> None:
        self._solve = solve
        self._folders = [folder.resolve() for folder in folders]
        self._turn = asyncio.Semaphore(RUNS_AT_ONCE)
        self.tool = _tool(self._folders)

    async def call(
        self, ctx: ServerRequestContext[Any, Any], args: dict[str, Any]
    ) -> CallToolResult:
        """Run the graph on a task, and say what came of it.

        Raises:
            Mem2EvolveError: If the run could not be made.
        """
        if faults := faults_of(self.tool.input_schema, args):
            return failed(f"The arguments do not fit: {'; '.join(faults)}")
        files = [self._file(name) for name in args.get("files", [])]
        progress = Progress()
        end = await attend(ctx, self._run(args["task"], files, progress), progress)
        return _result(end)

    async def _run(self, task: str, files: list[str], progress: Progress) -> Ended:
        if self._turn.locked():
            progress.tell("waits for another run to end")

        def tell(event: dict[str, Any]) -> None:
            if text := stage_of(event):
                progress.tell(text)

        async with self._turn:
            return await self._solve(task, files, tell)

    def _file(self, name: str) -> str:
        path = Path(name).expanduser().resolve()
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise InputError(
                f"{name!r} is not in a folder whose files may be read.",
                hint="Name one in `files` that lies below a folder given to `mem2evolve mcp serve --files`.",
            )
        return str(path)


def _tool(folders: Sequence[Path]) -> Tool:
    properties: dict[str, Any] = {
        "task": {"type": "string", "minLength": 1, "description": "What is to be done, in words."}
    }
    if folders:
        below = ", ".join(map(str, folders))
        properties["files"] = {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Absolute paths of the task's files, below {below}.",
        }
    return Tool(
        name=SOLVE_TASK,
        title="Solve a task",
        description=(
            "Solves a task with experts and tools that it makes, tests and keeps. Takes minutes; tells its progress. "
            "Tools that it keeps are listed here afterwards."
        ),
        input_schema={
            "type": "object",
            "properties": properties,
            "required": ["task"],
            "additionalProperties": False,
        },
        output_schema=OUTPUT,
        annotations=ToolAnnotations(
            title="Solve a task",
            read_only_hint=False,  # it keeps tools and lessons
            destructive_hint=False,
            idempotent_hint=False,
            open_world_hint=True,
        ),
    )


def stage_of(event: dict[str, Any]) -> str:  # noqa: C901, PLR0911 - a table
    """Return an event of the graph as one line of progress; empty for what is no stage."""
    match event:
        case {"event": "started", "lessons": lessons}:
            return f"started; {len(lessons)} lessons recalled"
        case {"event": "planned", "plan": plan, "needs": needs}:
            return f"planned: {len(plan)} steps, {len(needs)} needs"
        case {"event": "creating"}:
            return "a tool is being made"
        case {"event": "checked", "confirmed": confirmed, "passed": passed}:
            return f"tests: {confirmed} cases confirmed, {'all pass' if passed else 'not all pass'}"
        case {"event": "decided", "outcome": outcome, "need": need, "asset_name": name}:
            return f"{outcome}: {need['kind']} {name or need['name']}"
        case {"event": "acting", "subtask": subtask, "tools": tools}:
            return f"step {subtask}: working with {', '.join(tools) or 'no tools'}"
        case {"event": "acted", "subtask": subtask}:
            return f"step {subtask}: done"
        case {"event": "answered"}:
            return "answered; the answer is being judged"
        case {"event": "judged", "verdict": verdict}:
            return f"verdict: {verdict}"
        case {"event": "learned", "lessons": lessons}:
            return f"lessons written: {len(lessons)}"
    return ""


def _result(end: Ended) -> CallToolResult:
    state = end.state
    judgement = state.get("judgement") or {}
    made = [
        one["asset_name"]
        for one in state.get("decisions") or []
        if one["outcome"] == "created" and one["need"]["kind"] == "tool"
    ]
    found: dict[str, Any] = {
        "status": "waiting" if end.waiting else "answered",
        "answer": "" if end.waiting else str(state.get("answer") or ""),
        "verdict": str(state.get("verdict") or ""),
        "reason": str(judgement.get("reason") or ""),
        "run_id": end.run_id,
        "tools_made": made,
    }
    text = found["answer"]
    if end.waiting:
        found["waiting_for"] = [_asked(one) for one in end.waiting]
        command = f"mem2evolve runs resume {end.run_id[:8]}"
        found["how_to_resume"] = (
            f"{command} on the server's machine asks; --approve or --reject WHY answers"
        )
        text = (
            f"The run waits for a person's word on {', '.join(found['waiting_for'])}. "
            f"{found['how_to_resume']}."
        )
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=found)


def _asked(question: dict[str, Any]) -> str:
    name = str(question.get("tool", "a tool"))
    if question.get("kind") == "tool_permission":
        return f"what {name} may do"
    return f"whether {name} may be kept"
