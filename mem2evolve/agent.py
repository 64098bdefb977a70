"""`Mem2Evolve`: the agent as an object, for programs that want an answer and for hosts that want a part."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from pydantic import BaseModel, Field

from .api import build_graph, open_resources
from .errors import Mem2EvolveError
from .graph.context import Context
from .graph.state import Input, State
from .graph.two_ways import in_background, iterate_in_background, two_ways
from .nodes.desk import Checker, Resources
from .result import Result, given_of, result_of, text_of, value_of
from .settings import Settings

Graph = CompiledStateGraph[State, Context, Input, State]
Ask = Callable[[dict[str, Any]], "Any | Awaitable[Any]"]
"""Answers the question whether a tool may be kept: true, false, or "no, because …". May be async."""
TASK_ID: Final = "__pregel_task_id"
"""Where LangGraph shows that a node of a graph is running."""
NAME: Final = "mem2evolve"
ABOUT: Final = (
    "Solves a task that needs computing, data or looking things up, with tools that it makes and tests "
    "itself. Give it the whole task with all values in plain words; it returns the answer."
)


class Asked(BaseModel):
    """What a model says when it calls the agent as a tool."""

    task: str = Field(description="The task in plain words, with everything it takes to solve it.")


class Mem2Evolve:
    """An agent that makes, tests and keeps its own tools. Opens what it needs at first use.

        with Mem2Evolve() as agent:
            print(agent.run_sync("What is the sum of the squares from 1 to 10?"))

    Each method has an async form and one that blocks, `…_sync`; both may be used on one agent.

    Attributes:
        graph: The compiled graph, to be a sub-graph of a host's. It has no checkpointer of its own, so it
            takes the host's, and its settings are those of the host's context.
        context: Settings of the runs that this object starts.
        resources: Memory, sandbox and models behind it.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        model: BaseChatModel | str | None = None,
        tools: Sequence[BaseTool | Callable[..., Any]] = (),
        checker: Checker | None = None,
        context: Context | None = None,
        ask: Ask | None = None,
    ) -> None:
        """Bind the parts; nothing is opened yet.

        Args:
            settings: Where things are kept and which models are used; from the environment when left out.
            model: A chat model of LangChain, or its name, as in `openai:gpt-5`.
            tools: Your own tools or functions; recruited like those that the agent makes.
            checker: Says of (task, answer) whether it is right; `None` abstains. May be async.
            context: Settings of each run; inside a host's graph its context is used when this is left out.
            ask: Asked before a risky tool is kept, in `run` and `stream`. Without it no such tool is kept there.

        Raises:
            ConfigError: If a setting is malformed.
        """
        settings = settings or Settings.from_env()
        given = None if isinstance(model, str) else model
        if isinstance(model, str):
            settings = replace(settings, model=model)
        self.context = context
        self.resources: Resources = open_resources(
            settings, model=given, tools=[_as_tool(one) for one in tools], checker=checker
        )
        self.graph: Graph = build_graph(self.resources)
        self._ask = ask
        self._saver = InMemorySaver()
        self._asking: Graph = build_graph(self.resources, checkpointer=self._saver)

    async def run(
        self, task: str, *, files: Sequence[str | Path] = (), context: Context | None = None
    ) -> Result:
        """Solve a task and learn from it.

        Args:
            task: In plain words.
            files: Paths of files that belong to it.
            context: Settings of this run, instead of the agent's.

        Raises:
            Mem2EvolveError: If it cannot be run; says why and what to do.
        """
        return await self._finish(given_of(task, files), context)

    def run_sync(
        self, task: str, *, files: Sequence[str | Path] = (), context: Context | None = None
    ) -> Result:
        """Do as `run`, and block until it is done."""
        return in_background(self.run(task, files=files, context=context))

    async def stream(
        self, task: str, *, files: Sequence[str | Path] = (), context: Context | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Solve a task; yield what happens as it happens: `event` names it (`decided`, `answered`, `judged`, …)."""
        graph, config = self._begin()
        step: Any = given_of(task, files)
        try:
            while step is not None:
                happening: Any = graph.astream(
                    step,
                    config,
                    context=context or self.context,
                    stream_mode="custom",
                    subgraphs=True,
                )
                async for _, event in happening:
                    yield event
                step = await self._answer(graph, config)
        finally:
            await self._forget(config)

    def stream_sync(
        self, task: str, *, files: Sequence[str | Path] = (), context: Context | None = None
    ) -> Iterator[dict[str, Any]]:
        """Do as `stream`, without an event loop."""
        return iterate_in_background(self.stream(task, files=files, context=context))

    async def verdict(self, run_id: str, right: bool, because: str) -> Result:  # noqa: FBT001 - a verdict is one
        """Say whether the answer of an earlier run was right; what that run taught is redone.

        Args:
            run_id: Of the run, from its result.
            right: Whether it was.
            because: Why; an asset named here is looked at first.

        Raises:
            NotFoundError: If no such run is known.
        """
        said = {"run_id": run_id, "right": right, "because": because}
        return await self._finish({"correction": said}, None)

    def verdict_sync(self, run_id: str, right: bool, because: str) -> Result:  # noqa: FBT001
        """Do as `verdict`, and block until it is done."""
        return in_background(self.verdict(run_id, right, because))

    def as_node(
        self,
        *,
        task: str = "task",
        answer: str = "answer",
        files: str = "",
        keep: Mapping[str, str] | None = None,
    ) -> RunnableLambda[Any, Any]:
        """Return a node for a graph with a state of its own.

        Questions for a person interrupt the host's graph, which is resumed with `Command(resume=…)`.

        Args:
            task: Name of the host's value that holds the task.
            answer: Name of the host's value that gets the answer.
            files: Name of the host's value that lists paths of files; none by default.
            keep: Further values, as `{"verdict": "checked"}`: names of our end state, and of the host's.
        """
        kept = {"answer": answer, **(keep or {})}

        async def solve(state: Any) -> dict[str, Any]:
            given = given_of(text_of(state, task), value_of(state, files) or [] if files else [])
            end = await self.graph.ainvoke(given, context=self.context)
            return {theirs: end[ours] for ours, theirs in kept.items()}

        return two_ways(solve, NAME)

    def as_tool(self, *, name: str = NAME, description: str = ABOUT) -> StructuredTool:
        """Return a tool for another agent. Its content is the answer, its artifact run id, verdict and notes.

        Questions for a person interrupt that agent. What keeps a task from being run is told to its model.
        """

        async def solve(task: str) -> tuple[str, dict[str, Any]]:
            try:
                end = await self.graph.ainvoke(given_of(task, ()), context=self.context)
            except Mem2EvolveError as exc:
                raise ToolException(f"{exc} {exc.hint}") from exc
            result = result_of(end)
            facts = {"run_id": result.run_id, "verdict": result.verdict}
            return result.answer, facts | {"notes": list(result.notes)}

        def solve_sync(task: str) -> tuple[str, dict[str, Any]]:
            return in_background(solve(task))

        return StructuredTool.from_function(
            solve_sync,
            solve,
            name=name,
            description=description,
            args_schema=Asked,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )

    async def close(self) -> None:
        """Close what was opened. Idempotent."""
        await self.resources.close()

    def close_sync(self) -> None:
        """Do as `close`, and block until it is done."""
        in_background(self.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_sync()

    async def _finish(self, given: dict[str, Any], context: Context | None) -> Result:
        graph, config = self._begin()
        end: dict[str, Any] = {}
        step: Any = given
        try:
            while step is not None:
                end = await graph.ainvoke(step, config, context=context or self.context)
                step = await self._answer(graph, config)
        finally:
            await self._forget(config)
        return result_of(end)

    def _begin(self) -> tuple[Graph, Any]:
        """Return the graph and the configuration of a new run.

        In a host's node the host's checkpointer, if any, keeps the state, and its interrupts ask.
        """
        run_id = str(uuid4())
        around = (var_child_runnable_config.get() or {}).get("configurable", {})
        if self._ask is None or TASK_ID in around:
            return self.graph, {"run_id": UUID(run_id)}
        return self._asking, {"run_id": UUID(run_id), "configurable": {"thread_id": run_id}}

    async def _answer(self, graph: Graph, config: Any) -> "Command[Any] | None":
        """Have the first open question answered; `None` when there is none."""
        if self._ask is None or graph is not self._asking:
            return None
        snapshot = await graph.aget_state(config)
        if not snapshot.interrupts:
            return None
        first = snapshot.interrupts[0]
        said = self._ask(first.value)
        if inspect.isawaitable(said):
            said = await said
        return Command(resume={first.id: said})

    async def _forget(self, config: Any) -> None:
        if thread := config.get("configurable", {}).get("thread_id"):
            await self._saver.adelete_thread(thread)


def _as_tool(one: BaseTool | Callable[..., Any]) -> BaseTool:
    return one if isinstance(one, BaseTool) else tool(one)
