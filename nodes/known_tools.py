"""The tools that an expert knows by name, as far as they exist and may be recruited."""

from collections.abc import Iterable

from ..memory.records import RECRUITABLE, ToolRecord
from .desk import Desk


async def known_tools(desk: Desk, names: Iterable[str]) -> list[ToolRecord]:
    """Return the best version of each named tool, in the order of the names.

    An active version comes before a candidate, then the newest. Built-in tools are left out: a
    sub-task is offered them by rules of their own. A host's tool counts while the host gives it.
    """
    given = {tool.name for tool in desk.resources.tools}
    found = []
    for name in names:
        versions = [
            one
            for one in await desk.memory.find_by_name(
                "tool", name, namespace=desk.context.namespace
            )
            if one.status in RECRUITABLE
            and (one.origin == "generated" or (one.origin == "host" and one.name in given))
        ]
        versions.sort(key=lambda one: one.status != "active")
        found += versions[:1]
    return found
