"""What generated code may import and call without asking. A courtesy, not a boundary."""

from typing import Final

PURE: Final = frozenset(
    {
        "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath",
        "collections", "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime",
        "decimal", "difflib", "enum", "fractions", "functools", "graphlib", "hashlib", "heapq",
        "hmac", "html", "io", "ipaddress", "itertools", "json", "keyword", "locale", "math",
        "numbers", "operator", "pprint", "quopri", "random", "re", "secrets", "statistics",
        "string", "struct", "textwrap", "time", "tomllib", "types", "typing", "unicodedata",
        "uuid", "zlib", "zoneinfo",
    }
)  # fmt: skip
"""Modules of the standard library that compute and do nothing else, as far as a screen can say."""

PURE_SUBMODULES: Final = frozenset({"xml.etree", "xml.etree.ElementTree", "urllib.parse"})
"""Pure parts of packages that are not."""

FILES: Final = frozenset(
    {"pathlib", "os.path", "glob", "fnmatch", "tempfile", "gzip", "zipfile", "sqlite3"}
)
"""Need the permission `files`."""

NEEDS_FILES: Final = frozenset({"open"})
"""Built-in functions that need the permission `files`."""

FORBIDDEN_CALLS: Final[dict[str, str]] = {
    "exec": "write the code out instead",
    "eval": "use ast.literal_eval for literals, or parse the text",
    "compile": "write the code out instead; for patterns use re.compile",
    "__import__": "use an import statement at the top",
    "input": "nobody answers; take an argument",
    "globals": "pass values as arguments",
    "breakpoint": "nobody answers",
}
"""Built-in functions that no permission allows, with what to do instead."""

FORBIDDEN_ATTRIBUTES: Final = frozenset(
    {"__subclasses__", "__globals__", "__builtins__", "__bases__", "__mro__", "__code__"}
)
"""Ways from any object to everything; no pure function needs them."""
