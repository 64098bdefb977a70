"""What a node works with: the resources bound when the graph is built, and the settings of the run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_stream_writer
from langgraph.runtime import Runtime
from pydantic import BaseModel

from ..graph.context import Context
from ..graph.state import Spent
from ..memory.memory import Memory
from ..models.chat import PLAIN, Chat, Sampling, Usage
from ..models.pool import Models
from ..sandbox import Sandbox
from ..settings import Settings
from .toolbox.foreign import Foreign

T = TypeVar("T", bound=BaseModel)

Role = Literal["planner", "coder", "actor", "judge", "distiller"]
Direction = Literal["forward", "backward"]

Checker = Callable[[str, str], "bool | Awaitable[bool | None] | None"]
"""Says of (task, answer) whether the answer is right; `None` abstains."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Opened at first use, bound when the graph is built, shared by its runs."""

    settings: Settings
    memory: Memory
    sandbox: Sandbox
    models: Models
    tools: Sequence[BaseTool] = ()
    """The host's own tools."""
    checker: Checker | None = None
    foreign: Foreign | None = None
    """Other MCP servers; `None` when the settings name none."""
    write_files: bool = True
    """Whether a kept tool is written to `tools_generated/` at once; not under a reloading server."""

    async def close(self) -> None:
        """Close what was opened. Idempotent."""
        await self.memory.close()
        await self.sandbox.close()
        await self.models.close()
        if self.foreign is not None:
            await self.foreign.close()


@dataclass
class Desk:
    """One node's view of a run: its settings, its models, and a ledger of what they cost."""

    resources: Resources
    context: Context
    stage: str
    direction: Direction = "forward"
    _spent: Usage = field(default_factory=Usage)

    @classmethod
    def of(
        cls,
        runtime: Runtime[Context],
        resources: Resources,
        stage: str,
        direction: Direction = "forward",
        namespace: str = "",
    ) -> "Desk":
        """Return the desk of one node in one run.

        Args:
            runtime: Of the node.
            resources: What the graph was built with.
            stage: Name of the node in the ledger.
            direction: Of the node.
            namespace: Where the run's memory lives, if that is not said by its settings: those of a correction.
        """
        context = Context.of(runtime.context)
        if namespace:
            context = replace(context, namespace=namespace)
        return cls(resources, context, stage, direction)

    @property
    def memory(self) -> Memory:
        """The dual memory."""
        return self.resources.memory

    async def chat(self, role: Role) -> Chat:
        """Return the model of a role."""
        return await self.resources.models.chat(self.context.model_for(role))

    async def text(
        self, role: Role, messages: Sequence[BaseMessage], sampling: Sampling = PLAIN
    ) -> str:
        """Ask for text."""
        reply, usage = await (await self.chat(role)).text(messages, sampling)
        self._spent += usage
        return reply

    async def structured(
        self,
        role: Role,
        messages: Sequence[BaseMessage],
        shape: type[T],
        sampling: Sampling = PLAIN,
        *,
        schema: dict[str, Any] | None = None,
    ) -> T:
        """Ask for a reply of the given shape."""
        chat = await self.chat(role)
        reply, usage = await chat.structured(messages, shape, sampling, schema=schema)
        self._spent += usage
        return reply

    async def act(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]
    ) -> AIMessage:
        """Ask the actor for a reply that may hold tool calls."""
        reply, usage = await (await self.chat("actor")).act(messages, tools)
        self._spent += usage
        return reply

    @property
    def ledger(self) -> list[Spent]:
        """What this node's calls cost; empty when it made none."""
        used = self._spent
        if not used.calls:
            return []
        return [
            {
                "stage": self.stage,
                "direction": self.direction,
                "calls": used.calls,
                "prompt": used.prompt,
                "completion": used.completion,
                "seconds": round(used.seconds, 3),
            }
        ]

    def tell(self, event: str, **facts: Any) -> None:
        """Stream a custom event to whoever watches; does nothing when nobody does."""
        get_stream_writer()({"event": event, **facts})


MAX_FILE_BYTES: Final = 100 << 20
"""A larger file is refused before anything runs."""


def named_files(paths: Sequence[str]) -> Mapping[str, Path]:
    """Return the task's files by the name that models see; a second file of the same name gets a number."""
    named: dict[str, Path] = {}
    for text in paths:
        path = Path(text)
        name, n = path.name, 2
        while name in named:
            name, n = f"{path.stem}-{n}{path.suffix}", n + 1
        named[name] = path
    return named


def bullet_lessons(lessons: Sequence[Mapping[str, Any]]) -> str:
    """Return lessons as a fenced block for a prompt, or an empty string."""
    if not lessons:
        return ""
    lines = "\n".join(
        f"- {lesson['text']}" + (f"\n  ({lesson['note']})" if lesson.get("note") else "")
        for lesson in lessons
    )
    return f"Lessons from before (hints, not orders):\n{lines}"
