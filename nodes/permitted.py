"""What generated code may do besides computing, and a sandbox that lets it do that: the one place that decides it.

There are two ways to a permission. A person gives it to a tool: then it stands in the record, as a part of its
id. Or the operator's lists allow it to every tool that asks for it at its head: then it stands in no record,
and ends with the list.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..memory.records import ToolRecord
from ..sandbox import Fetcher, Isolation, Limits, Outcome, Packages, Report, Sandbox, read_header
from ..sandbox.header import FILES, NETWORK, PACKAGE, asked, packages_in
from ..settings import Settings
from .desk import Resources, named_files


def listed(source: str, settings: Settings) -> tuple[str, ...]:
    """Return what a source asks for and the operator's lists allow to every tool."""
    allowed = {PACKAGE + name for name in settings.packages}
    allowed |= {NETWORK + host for host in settings.fetch_hosts}
    return tuple(one for one in sorted(asked(source)) if one in allowed)


def given(source: str, granted: Collection[str], settings: Settings) -> tuple[str, ...]:
    """Return what a source asks for and a person granted, as far as no list allows it anyway."""
    known = listed(source, settings)
    return tuple(one for one in sorted(asked(source)) if one in granted and one not in known)


def permissions_of(record: ToolRecord, settings: Settings) -> tuple[str, ...]:
    """Return all that a tool may do today."""
    return tuple(sorted({*record.permissions, *listed(record.code, settings)}))


def reaches_out(record: ToolRecord) -> bool:
    """Whether what a tool returns may hang on what it fetches or on the task's files.

    Its cases then say little: of another run or another day they need not hold.
    """
    wanted = {*record.permissions, *asked(record.code)}
    return any(one == FILES or one.startswith(NETWORK) for one in wanted)


def dependencies_of(source: str, granted: Collection[str], settings: Settings) -> tuple[str, ...]:
    """Return the packages that a source declares and may use."""
    return read_header(source, {*settings.packages, *packages_in(granted)}).dependencies


def box_for(
    resources: Resources, source: str, granted: Collection[str], files: Sequence[str] = ()
) -> Sandbox:
    """Return the sandbox for code that is no record yet.

    Args:
        resources: Where it runs.
        source: The code; it may do what it asks for, as far as that was granted or is on a list.
        granted: What a person granted to the tool that it is to become.
        files: Paths of the task's files.
    """
    may = {*given(source, granted, resources.settings), *listed(source, resources.settings)}
    return _box(resources, may, named_files(files))


def box_of(
    resources: Resources, record: ToolRecord, files: Mapping[str, Path] | None = None
) -> Sandbox:
    """Return the sandbox for a tool: its calls may do what the tool may.

    Args:
        resources: Where it runs.
        record: The tool.
        files: The task's files, by the name that a model sees.
    """
    return _box(resources, {*permissions_of(record, resources.settings)}, files or {})


def fetcher_of(permissions: Collection[str]) -> Fetcher | None:
    """Return what answers the `fetch` of code with these permissions; `None` if it may fetch nothing."""
    hosts = {one.removeprefix(NETWORK) for one in permissions if one.startswith(NETWORK)} - {""}
    return Fetcher(hosts=tuple(sorted(hosts))) if hosts else None


def _box(resources: Resources, permissions: Collection[str], files: Mapping[str, Path]) -> Sandbox:
    box = resources.sandbox
    if not permissions:
        return box
    # Without a box there is no /data to show files in.
    shown = files if FILES in permissions and box.isolation != "none" else {}
    return _Permitted(box, packages_in(permissions), fetcher_of(permissions), shown, box.isolation)


@dataclass
class _Permitted:
    """A sandbox whose every call may do a few things more."""

    inner: Sandbox
    packages: tuple[str, ...]
    own: Fetcher | None
    shown: Mapping[str, Path]
    isolation: Isolation

    async def call(  # noqa: PLR0913 - of the interface
        self,
        source: str,
        function: str,
        args: Mapping[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        files: Mapping[str, Path] | None = None,
        fresh: bool = False,
        fetcher: Fetcher | None = None,
        allowed: Collection[str] = (),
    ) -> Outcome:
        return await self.inner.call(
            source,
            function,
            args,
            limits=limits,
            files={**self.shown, **(files or {})} or None,
            fresh=fresh,
            fetcher=fetcher or self.own,
            allowed=(*self.packages, *allowed),
        )

    async def provide(self, source: str, allowed: Collection[str] = ()) -> Packages:
        return await self.inner.provide(source, (*self.packages, *allowed))

    async def probe(self) -> Report:
        return await self.inner.probe()

    async def close(self) -> None:
        await self.inner.close()
