"""What `langgraph dev` and LangGraph's other servers load, as langgraph.json says.

Importing this opens nothing. The server brings its own checkpointer, and reloads when a `.py` below the
working directory changes: so files of kept tools are written when it stops.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from ..api import build_graph, open_resources
from ..errors import Mem2EvolveError
from ..memory.projection import SHOWN, sync
from ..nodes.desk import Resources

_log = logging.getLogger(__name__)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncIterator[None]:
    yield
    try:
        await write_tools(resources)
    except (Mem2EvolveError, OSError) as exc:
        _log.warning("The files of kept tools were not written: %s", exc)
    finally:
        await resources.close()


async def write_tools(opened: Resources) -> None:
    """Write the files of kept tools that are missing in `tools_generated/`.

    Raises:
        StoreError: If the memory cannot be read.
        OSError: If a file cannot be written.
    """
    settings = opened.settings
    if settings.qdrant_url is None and not (settings.state_dir / "memory").exists():
        return  # never used: leave no trace
    kept = await opened.memory.list(
        "tool", where={"origin": "generated", "status": SHOWN}, limit=None
    )
    await asyncio.to_thread(sync, settings.tools_dir, kept)


resources = open_resources(write_files=False)
graph = build_graph(resources)
app = Starlette(lifespan=_lifespan)
"""No pages of its own: it closes what the graph opened when the server stops."""
