"""Names that every provider and every file system accepts."""

import builtins
import keyword
import re
import unicodedata
from typing import Final

MAX_NAME: Final = 64
"""Characters; the limit of OpenAI and MCP."""
_BUILT_IN: Final = frozenset(dir(builtins))
"""A tool called `sum` whose body calls `sum` would call itself."""


def tool_name(wanted: str) -> str:
    """Return `wanted` as a Python identifier of at most 64 characters; `tool` when nothing is left."""
    plain = unicodedata.normalize("NFKD", wanted).encode("ascii", "ignore").decode()
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    name = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")[:MAX_NAME].strip("_")
    if not name:
        return "tool"
    if name[0].isdigit() or keyword.iskeyword(name) or name in _BUILT_IN:
        name = f"tool_{name}"[:MAX_NAME].rstrip("_")
    return name
