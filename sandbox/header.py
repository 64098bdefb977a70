"""What a tool declares at its head as PEP 723 writes it, packages and permissions; read without running it."""

import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from .base import Problem

OPENING: Final = "# /// script"
CLOSING: Final = "# ///"
MAX_PACKAGES: Final = 20
MAX_PERMISSIONS: Final = 10
MAX_WHY_CHARS: Final = 300
FILES: Final = "files"
"""The permission to see the task's files, read-only, as `/data/NAME`."""
NETWORK: Final = "network:"
"""Begins the permission to fetch from a host."""
PACKAGE: Final = "package:"
"""Begins the permission to use a package that is not on the operator's list."""
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_BOUND: Final = r"(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9](?:[A-Za-z0-9.!+_-]*[A-Za-z0-9])?(?:\.\*)?"
_DEPENDENCY: Final = re.compile(rf"({_NAME})\s*({_BOUND}(?:\s*,\s*{_BOUND})*)?", re.ASCII)
"""Names and versions. Addresses, paths, options, extras and markers are not among them."""
_HOST: Final = re.compile(
    r"(?=[^:]{1,253}(?::|$))[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::[1-9][0-9]{0,4})?",
    re.ASCII,
)
"""`HOST` or `HOST:PORT`: no address of a page, no path, no pattern."""
_TOML_LINE: Final = re.compile(r"at line (\d+)")


class Header(NamedTuple):
    """What a tool declares."""

    dependencies: tuple[str, ...] = ()
    """Each as `name` or `name<2,>=1`: normalised, sorted, without repetitions."""
    permissions: tuple[str, ...] = ()
    """`files` and `network:HOST`, sorted, without repetitions."""
    why: str = ""
    """The writer's reason for them."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with it; then it declares nothing."""


class _MalformedError(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.problem = Problem(line, reason)


def read_header(
    source: str, allowed: Collection[str], permitted: Collection[str] | None = None
) -> Header:
    """Read which packages a module declares, and what it asks to do besides computing.

    Args:
        source: A Python module, as `normalise` returns it.
        allowed: Names of the packages that may be used, as `package_name` returns them.
        permitted: What it may do: `files`, `network:HOST`; not looked at, if None.
    """
    declared, lines, problem = _declared(source)
    if problem:
        return Header(problems=(problem,))
    refused = [
        Problem(lines[dependency], _not_allowed(name, allowed))
        for dependency in declared.dependencies
        if (name := name_of(dependency)) not in allowed
    ]
    refused += [
        Problem(lines[one], f"The permission {one!r} was not given. Do without it.")
        for one in declared.permissions
        if permitted is not None and one not in permitted
    ]
    return Header(problems=tuple(sorted(refused))) if refused else declared


def asked(source: str) -> dict[str, int]:
    """Return all that a module asks for, as a record's permissions are written, each with its line.

    Nothing where its header is malformed: the screen says so.
    """
    declared, lines, _ = _declared(source)
    packages = {f"{PACKAGE}{name_of(one)}": lines[one] for one in declared.dependencies}
    return packages | {one: lines[one] for one in declared.permissions}


def why_asked(source: str) -> str:
    """Return the reason that a module's writer gives for what it asks; empty without one."""
    return _declared(source)[0].why


def packages_in(permissions: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the packages among permissions."""
    return tuple(one.removeprefix(PACKAGE) for one in permissions if one.startswith(PACKAGE))


def header_text(source: str) -> str:
    """Return the lines of a module's header, for code that is made from it; empty without one."""
    lines = [line.rstrip() for line in source.split("\n")]
    if OPENING not in lines or CLOSING not in lines[lines.index(OPENING) :]:
        return ""
    first = lines.index(OPENING)
    return "\n".join([*lines[first : lines.index(CLOSING, first) + 1], ""])


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


def _declared(source: str) -> tuple[Header, dict[str, int], Problem | None]:
    """Return what is declared, the line of each part, and what is malformed, if anything is."""
    if OPENING not in source:
        return Header(), {}, None
    try:
        first, text = _block(source)
        body = _parsed(first, text)
        dependencies = _listed(body.get("dependencies", []), "dependencies", MAX_PACKAGES, first)
        own = _own_table(body, first)
        wanted = _listed(own.get("permissions", []), "permissions", MAX_PERMISSIONS, first)
        lines = text.split("\n")
        packages = {
            _normal(one, at): at for one in dependencies for at in [_line(one, lines, first)]
        }
        rights = {_right(one, at): at for one in wanted for at in [_line(one, lines, first)]}
    except _MalformedError as exc:
        return Header(), {}, exc.problem
    why = " ".join(str(own.get("why", "")).split())[:MAX_WHY_CHARS]
    return Header(tuple(sorted(packages)), tuple(sorted(rights)), why), packages | rights, None


def _parsed(first: int, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        at = _TOML_LINE.search(str(exc))
        line = first + (int(at[1]) - 1 if at else text.count("\n"))  # or at the end
        raise _MalformedError(line, f"The script header is not TOML: {exc}.") from exc
    except RecursionError:
        raise _MalformedError(first, "The script header is nested too deeply.") from None


def _own_table(body: dict[str, Any], first: int) -> dict[str, Any]:
    tools: Any = body.get("tool", {})
    own: Any = tools.get("mem2evolve", {}) if isinstance(tools, dict) else {}
    if not isinstance(own, dict):
        raise _MalformedError(first - 1, "tool.mem2evolve in the script header is no table.")
    if unknown := sorted({*own} - {"permissions", "why"}):
        reason = f"[tool.mem2evolve] has {unknown[0]!r:.100}; it may have permissions and why."
        raise _MalformedError(first - 1, reason)
    return own


def _listed(listed: Any, what: str, most: int, first: int) -> list[str]:
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise _MalformedError(first - 1, f"{what} in the script header is no list of texts.")
    if len(listed) > most:
        noun = "packages" if what == "dependencies" else what
        raise _MalformedError(first - 1, f"At most {most} {noun} can be declared.")
    return listed


def _line(text: str, lines: Sequence[str], first: int) -> int:
    """Return the line that shows a text; the one of the opening, where it is written with escapes."""
    return first + next((n for n, line in enumerate(lines) if text and text in line), -1)


def _right(text: str, line: int) -> str:
    """Return a permission in its one spelling."""
    one = text.strip().lower()
    if one == FILES or (one.startswith(NETWORK) and _HOST.fullmatch(one.removeprefix(NETWORK))):
        return one
    if one.startswith(NETWORK):
        reason = (
            f"{text!r:.100} names no host: write a name without http:// and without a path, as in "
            "'network:api.example.org'."
        )
    elif one.startswith(PACKAGE):
        reason = f"{text!r:.100} belongs into dependencies, by its bare name."
    else:
        reason = f"{text!r:.100} is no permission: there are 'files' and 'network:HOST'."
    raise _MalformedError(line, reason)


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
