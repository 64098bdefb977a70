"""Where generated code runs. It never runs in this process."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import JsonValue

from .fetching import Fetcher

Status = Literal["ok", "raised", "timeout", "killed", "bad_result", "no_function", "no_packages"]
"""How a call ended.

- `ok`: it returned a JSON value.
- `raised`: the module or the function raised; `error_type` and `error` say what.
- `timeout`: it ran past `Limits.wall_s` and was killed.
- `killed`: it exited, crashed, or ran into another limit; `error` says which.
- `bad_result`: what it returned is not strict JSON, or is larger than `Limits.result_bytes`.
- `no_function`: the module has no function of that name.
- `no_packages`: the packages it declares are not allowed or cannot be had; nothing was run.
"""

Isolation = Literal["bubblewrap", "none"]
"""`none` only for the explicit `unsafe-subprocess`; recorded wherever a result is."""


class Problem(NamedTuple):
    """One thing to change in a source, and where."""

    line: int
    """From 1."""
    reason: str
    """A sentence for whoever wrote the code."""


class Packages(NamedTuple):
    """What a source gets of the packages that it declares."""

    modules: tuple[str, ...] = ()
    """Names that it may import."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot have them."""
    versions: tuple[str, ...] = ()
    """What they were resolved to, as `numpy==2.1.0`, with what those need; sorted."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one call may use."""

    wall_s: float = 10.0
    """Seconds of wall time, then SIGKILL for everything in the box."""
    cpu_s: int = 5
    """Seconds of CPU time."""
    memory_bytes: int = 1 << 30
    """Address space."""
    file_bytes: int = 16 << 20
    """Largest file it may write."""
    open_files: int = 64
    processes: int = 64
    result_bytes: int = 1 << 20
    """The JSON result; a larger one is `bad_result`."""
    output_bytes: int = 64 << 10
    """Each of stdout and stderr; the rest is dropped."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a call did. A tool that raises is a result, not an exception of ours."""

    status: Status
    value: JsonValue = None
    error_type: str = ""
    """Name of the exception's class, with `raised`."""
    error_bases: tuple[str, ...] = ()
    """Names of the built-in exceptions that this class derives from, the nearest first."""
    error: str = ""
    """The exception's text, or what went wrong; at most 2,000 characters."""
    traceback: str = ""
    """Only frames of the tool's own module; at most 4,000 characters."""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    """Wall time from request to result."""
    isolation: Isolation = "bubblewrap"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the probe's report."""

    name: str
    ok: bool
    detail: str
    """What was seen; when not ok also what to do."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a probe found by starting a real box and looking out from inside."""

    isolation: Isolation
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether generated code may be run."""
        return all(finding.ok for finding in self.findings)


class Sandbox(Protocol):
    """Runs one function of one module. `tests/sandbox/sandbox_contract.py` defines it."""

    isolation: Isolation

    async def call(  # noqa: PLR0913 - the last four by name, each with a default
        self,
        source: str,
        function: str,
        args: Mapping[str, Any],
        *,
        limits: Limits = ...,
        files: Mapping[str, Path] | None = None,
        fresh: bool = False,
        fetcher: Fetcher | None = None,
        allowed: Collection[str] = (),
    ) -> Outcome:
        """Load `source` as a module and call `function(**args)` once, in a process of its own.

        Args:
            source: A Python module. Compiled and run inside the box only. Packages that its PEP 723 header
                declares are fetched, outside the box, and can be imported.
            function: Name of the function in it.
            args: JSON values, passed by keyword.
            limits: What the call may use.
            files: Host files shown read-only in the box as `/data/NAME`.
            fresh: Start a box for this call alone and end it afterwards, as for a test.
            fetcher: Answers the function `fetch(url)` that the module then has; without it there is none.
            allowed: Names of packages that this source may declare besides those on the operator's list.

        Returns:
            How the call ended. Never raises for what the code did.

        Raises:
            SandboxUnavailable: If the box could not be started.
        """
        ...

    async def provide(self, source: str, allowed: Collection[str] = ()) -> Packages:
        """Have the packages ready that a source declares in its PEP 723 header, fetching them if need be.

        Args:
            source: A Python module.
            allowed: Names of packages that this source may declare besides those on the operator's list.

        Raises:
            SandboxUnavailable: If they could not be fetched now.
        """
        ...

    async def probe(self) -> Report:
        """Start a real box, look out from inside, and say what was found."""
        ...

    async def close(self) -> None:
        """End what is still running. Idempotent."""
        ...
