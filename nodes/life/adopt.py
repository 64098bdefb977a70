"""A person's edit of a tool's files becomes a new version, after the checks that any tool has to pass."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...errors import InputError
from ...graph.context import Context
from ...memory.projection import (
    CASES,
    CODE,
    edited_by_hand,
    folder_of,
    read_edited,
    restore_projection,
    write_projection,
)
from ...memory.records import RECRUITABLE, StatusChange, ToolRecord
from ...sandbox import (
    docstring_summary,
    normalise,
    output_schema,
    signature_schema,
)
from ...sandbox.header import asked
from ..creation.check import screened
from ..creation.verify import environment, failing
from ..desk import Desk, Resources
from ..permitted import box_for, dependencies_of, given, listed
from .cases_file import read_cases
from .versions import supersede_others

SHOWN: Final = 5
"""Faults that a message names."""


async def adopt(
    resources: Resources, versions: Sequence[ToolRecord], because: str = ""
) -> tuple[ToolRecord, ToolRecord]:
    """Make a new version of a tool from its files. Nothing has changed when this raises.

    Code is screened, the schema read from the signature, and all cases are run, each in a fresh box.
    `tool.json` is not read: it is written from the record.

    Args:
        resources: Where the tools are.
        versions: Those whose folders are looked at, newest first.
        because: A person's reason.

    Returns:
        The version that was edited, and the new one.

    Raises:
        InputError: If nothing was edited, or it does not hold; says which line, field or case is wrong.
        SandboxUnavailable: If the cases cannot be run now.
    """
    tools_dir = resources.settings.tools_dir
    old = await asyncio.to_thread(_edited, tools_dir, versions)
    every = await resources.memory.find_by_name("tool", old.name, old.namespace)
    why = " ".join(because.split()) or "edited by hand"
    made = await _read(resources, old, version=every[0].version + 1, why=why)
    twin = next((one for one in every if one.digest == made.digest), None)
    if twin is not None and twin.status not in RECRUITABLE:
        raise InputError(
            f"{twin.name} v{twin.version} is the same, and was {twin.status}.",
            hint=f"Bring it back with `mem2evolve tools activate {twin.name}@v{twin.version} --because …`.",
        )
    await _check(resources, made)
    if twin is None:
        await resources.memory.put(made)
    else:  # adopted before, and stopped on the way
        made = twin
    if resources.write_files:
        await asyncio.to_thread(write_projection, tools_dir, made)
    await supersede_others(resources, made, f"a person adopted v{made.version}: {why}")
    await asyncio.to_thread(restore_projection, tools_dir, old)
    return old, made


def _edited(tools_dir: Path, versions: Sequence[ToolRecord]) -> ToolRecord:
    """Return the one version whose files were edited. Blocks."""
    generated = [one for one in versions if one.origin == "generated"]
    found = [one for one in generated if edited_by_hand(tools_dir, one)]
    name = versions[0].name
    if len(found) > 1:
        named = [f"v{one.version}" for one in found]
        raise InputError(
            f"The files of {' and '.join(named)} of {name!r} were edited.",
            hint=f"Adopt one at a time, as in `mem2evolve tools adopt {name}@{named[0]}`.",
        )
    if found:
        return found[0]
    if not generated:
        raise InputError(
            f"{name!r} is a {versions[0].origin} tool: it has no files.",
            hint="Only tools that were made here have; see `mem2evolve tools list`.",
        )
    folder = folder_of(tools_dir, generated[0])
    raise InputError(
        f"No file of {name!r} differs from its record.",
        hint=f"Edit {folder / CODE} or {CASES} beside it, then adopt."
        if folder.exists()
        else "Its folder is missing: `mem2evolve tools sync` writes it.",
    )


async def _read(resources: Resources, old: ToolRecord, *, version: int, why: str) -> ToolRecord:
    """Return the new version that the files hold, screened but not run."""
    tools_dir = resources.settings.tools_dir
    said = await asyncio.to_thread(read_edited, tools_dir, old)
    folder = folder_of(tools_dir, old)
    code = normalise(said.code)
    await _screen(resources, old, code, folder / CODE)
    granted = given(code, old.permissions, resources.settings)
    schema = signature_schema(code, old.function)
    cases = read_cases(said.cases, str(folder / CASES), old.cases, schema)
    if code == old.code and cases == old.cases:
        raise InputError(
            f"Neither code nor cases of {old.name} v{old.version} differ from its record.",
            hint=f"tool.json is written from the record; remove {folder}, and `mem2evolve tools sync` restores it.",
        )
    reason = f"a person adopted the edited files of v{old.version}: {why}"
    changed = {
        "version": version,
        "code": code,
        "cases": cases,
        "input_schema": schema,
        "output_schema": output_schema(code, old.function),
        "documentation": docstring_summary(code, old.function),
        "permissions": granted,
        "dependencies": dependencies_of(code, granted, resources.settings),
        "environment": await environment(box_for(resources, code, granted), code),
        "mutation_score": None,
        "supersedes": old.id,
        "run_id": "",
        "status": "active",
        "history": (StatusChange(status="active", reason=reason),),
    }
    kept = old.model_dump(exclude={*changed, "created_at"})
    return ToolRecord.model_validate(kept | changed)


async def _screen(resources: Resources, old: ToolRecord, code: str, file: Path) -> None:
    """Refuse what is no tool, and what asks for more than the edited version was given: an edit grants nothing."""
    may = {*old.permissions, *listed(code, resources.settings)}
    more = [(line, one) for one, line in asked(code).items() if one not in may]
    if more:
        lines = " ".join(f"Line {line}: it asks for {one!r}." for line, one in sorted(more)[:SHOWN])
        raise InputError(
            f"{file} asks for more than {old.name} v{old.version} was allowed. {lines}",
            hint="An edit brings no permissions: take them out, or list what every tool may use in "
            "MEM2EVOLVE_PACKAGES or MEM2EVOLVE_FETCH_HOSTS.",
        )
    problems = await screened(resources, code, old.function, old.permissions)
    if problems:
        lines = " ".join(f"Line {one.line}: {one.reason}" for one in problems[:SHOWN])
        raise InputError(f"{file} is no tool. {lines}", hint="Mend it there, then adopt again.")


async def _check(resources: Resources, made: ToolRecord) -> None:
    faults = await failing(Desk(resources, Context(), "adopt"), made)
    if faults:
        told = " ".join(f"({n}) {fault}." for n, fault in enumerate(faults[:SHOWN], 1))
        raise InputError(
            f"{len(faults)} of {len(made.cases)} cases fail: {told}",
            hint=f"Mend {CODE}, or the case in {CASES} where that is wrong, then adopt again.",
        )
