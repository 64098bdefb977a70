"""What other programs use: `build_graph` for the graph, `Mem2Evolve` for an agent to call."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from .graph.build import build_compiled
from .graph.context import Context
from .graph.state import Input, State
from .memory.memory import Memory
from .models.pool import Models, Start
from .nodes.desk import Checker, Resources
from .nodes.toolbox.foreign import Foreign
from .sandbox import open_sandbox
from .settings import Settings


def open_resources(
    settings: Settings | None = None,
    *,
    model: BaseChatModel | None = None,
    tools: Sequence[BaseTool] = (),
    checker: Checker | None = None,
    write_files: bool = True,
    start_embedded: Start | None = None,
) -> Resources:
    """Return resources that open at first use.

    Args:
        settings: Where things are kept; from the environment when left out.
        model: A chat model to use instead of the one that the settings name.
        tools: The host's own tools; recruited like the agent's.
        checker: Says of (task, answer) whether it is right; `None` abstains. May be async.
        write_files: Whether kept tools are written to `tools_generated/` at once.
        start_embedded: How to start the embedded model; by default without asking for its download.

    Raises:
        ConfigError: If a setting is malformed.
    """
    settings = settings or Settings.from_env()
    return Resources(
        settings=settings,
        memory=Memory.open(settings),
        sandbox=open_sandbox(settings.sandbox, settings.packages),
        models=Models(settings, given=model, start_embedded=start_embedded),
        tools=tuple(tools),
        checker=checker,
        foreign=Foreign(settings.mcp_servers) if settings.mcp_servers else None,
        write_files=write_files,
    )


def build_graph(
    resources: Resources | None = None, **options: Any
) -> "CompiledStateGraph[State, Context, Input, State]":
    """Return the compiled graph.

    Args:
        resources: From `open_resources`; opened from the environment when left out.
        options: Passed to `StateGraph.compile`, as in `checkpointer=…`.
    """
    return build_compiled(resources or open_resources(), **options)
