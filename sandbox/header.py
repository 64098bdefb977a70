"""The packages that a tool declares, as PEP 723 writes them at its head; read without running it."""

import re
import tomllib
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from .base import Problem

OPENING: Final = "# /// script"
CLOSING: Final = "# ///"
MAX_PACKAGES: Final = 20
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_BOUND: Final = r"(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9](?:[A-Za-z0-9.!+_-]*[A-Za-z0-9])?(?:\.\*)?"
_DEPENDENCY: Final = re.compile(rf"({_NAME})\s*({_BOUND}(?:\s*,\s*{_BOUND})*)?", re.ASCII)
"""Names and versions. Addresses, paths, options, extras and markers are not among them."""
_TOML_LINE: Final = re.compile(r"at line (\d+)")


class Header(NamedTuple):
    """What a tool declares."""

    dependencies: tuple[str, ...] = ()
    """Each as `name` or `name<2,>=1`: normalised, sorted, without repetitions."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with it; then there are no dependencies."""


class _MalformedError(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.problem = Problem(line, reason)


def read_header(source: str, allowed: Collection[str]) -> Header:
    """Read which packages a module declares.

    Args:
        source: A Python module, as `normalise` returns it.
        allowed: Names of the packages that may be used, as `package_name` returns them.
    """
    if OPENING not in source:
        return Header()
    try:
        found = dict(_dependencies(source))
    except _MalformedError as exc:
        return Header(problems=(exc.problem,))
    refused = tuple(
        Problem(line, _not_allowed(name, allowed))
        for dependency, line in found.items()
        if (name := name_of(dependency)) not in allowed
    )
    return Header((), refused) if refused else Header(tuple(sorted(found)))


def package_name(text: str) -> str:
    """Return a package's name in the one spelling that indexes compare.

    Raises:
        ValueError: If it is no name of a package.
    """
    if not re.fullmatch(_NAME, text, re.ASCII):
        raise ValueError(f"{text!r:.100} is not the name of a package")
    return re.sub(r"[-_.]+", "-", text).lower()


def name_of(dependency: str) -> str:
    """Return the name in a dependency as `Header` holds it."""
    return re.split("[~=!<>]", dependency, maxsplit=1)[0]


def _not_allowed(name: str, allowed: Collection[str]) -> str:
    have = f"allowed are {', '.join(sorted(allowed))}" if allowed else "none is allowed"
    return (
        f"The package {name!r} may not be used: {have} (the setting MEM2EVOLVE_PACKAGES). "
        "Do without it."
    )


def _dependencies(source: str) -> Iterator[tuple[str, int]]:
    """Yield each dependency with its line."""
    first, text = _block(source)
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        at = _TOML_LINE.search(str(exc))
        line = first + (int(at[1]) - 1 if at else text.count("\n"))  # or at the end
        raise _MalformedError(line, f"The script header is not TOML: {exc}.") from exc
    listed: Any = declared.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise _MalformedError(first - 1, "dependencies in the script header is no list of texts.")
    if len(listed) > MAX_PACKAGES:
        raise _MalformedError(first - 1, f"At most {MAX_PACKAGES} packages can be declared.")
    lines = text.split("\n")
    for one in listed:
        at_line = next((n for n, line in enumerate(lines) if one and one in line), -1)
        yield _normal(one, first + at_line), first + at_line


def _block(source: str) -> tuple[int, str]:
    """Return the number of the first line inside the header, and its TOML."""
    lines = source.split("\n")
    openings = [n for n, line in enumerate(lines, 1) if line.rstrip() == OPENING]
    if not openings:
        return 1, ""
    if len(openings) > 1:
        raise _MalformedError(openings[1], "There is a second script header; write one.")
    inside: list[str] = []
    for number, line in enumerate(lines[openings[0] :], openings[0] + 1):
        if line.rstrip() == CLOSING:
            return openings[0] + 1, "\n".join(inside)
        if not line.strip():
            break
        if line.rstrip() != "#" and not line.startswith("# "):
            reason = f'In the script header each line begins with "# "; "{CLOSING}" ends it.'
            raise _MalformedError(number, reason)
        inside.append(line[2:])
    raise _MalformedError(openings[0], f'The script header has no end: add a line "{CLOSING}".')


def _normal(text: str, line: int) -> str:
    found = _DEPENDENCY.fullmatch(text.strip())
    if found is None:
        reason = f"{text!r:.100} is no package: write a name and versions, as in 'numpy>=2,<3'."
        raise _MalformedError(line, reason)
    bounds = sorted("".join(bound.split()) for bound in (found[2] or "").split(",") if bound)
    return package_name(found[1]) + ",".join(bounds)
