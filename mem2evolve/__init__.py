"""mem2evolve: an agent that makes, tests and keeps its own tools, and learns from what it did."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Mem2Evolve
    from .api import build_graph, open_resources
    from .graph.context import Context
    from .remote import remote_node
    from .result import Result
    from .settings import Settings

__all__ = [
    "Context",
    "Mem2Evolve",
    "Result",
    "Settings",
    "build_graph",
    "open_resources",
    "remote_node",
]

_HOME = {
    "Context": ".graph.context",
    "Mem2Evolve": ".agent",
    "Result": ".result",
    "Settings": ".settings",
    "build_graph": ".api",
    "open_resources": ".api",
    "remote_node": ".remote",
}


def __getattr__(name: str) -> object:
    """Import the public names when they are used: the command line must start quickly."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)
