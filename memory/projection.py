"""The generated tools as files, for people and git: `tools_generated/<name>/v<n>/`.

The truth is the record; nothing is ever run from these files. A tool of another namespace than
`default` is below `@<namespace>/`. All functions block: call them with `asyncio.to_thread`.
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import InputError
from .records import ToolRecord

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a tool or a namespace must be called to have a folder; also what providers allow."""
CODE: Final = "tool.py"
CASES: Final = "cases.json"
DESCRIPTION: Final = "tool.json"
_NOT_DESCRIBED: Final = {"code", "cases", "status", "history"}
"""In files of their own; or they change while the version stays."""


@dataclass(frozen=True, kw_only=True)
class Synced:
    """What `sync` did."""

    written: tuple[Path, ...]
    edited: tuple[Path, ...]
    """Folders that hold something else than their record; left as they are."""


def folder_of(tools_dir: Path, record: ToolRecord) -> Path:
    """Return where the files of this version belong.

    Raises:
        InputError: If name, namespace or version cannot name a folder, or a link leads outside.
    """
    for label in (record.name, record.namespace):
        if not NAME.fullmatch(label):
            raise InputError(
                f"{label!r} cannot be the name of a tool's folder.",
                hint="Use 1 to 64 letters, digits, `_` and `-`.",
            )
    if record.version < 1:
        raise InputError(
            f"{record.name!r} has version {record.version}.", hint="Versions start at 1."
        )
    base = tools_dir if record.namespace == "default" else tools_dir / f"@{record.namespace}"
    folder = base / record.name / f"v{record.version}"
    if not folder.resolve().is_relative_to(tools_dir.resolve()):
        raise InputError(
            f"{folder} leads outside {tools_dir}.", hint="Remove the symbolic link in its path."
        )
    return folder


def write_projection(tools_dir: Path, record: ToolRecord) -> Path:
    """Write the files of this version, whole or not at all; return their folder.

    A folder that is there already stays as it is, also when it was edited by hand.

    Raises:
        InputError: See `folder_of`.
        OSError: If it cannot be written.
    """
    folder = folder_of(tools_dir, record)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = tools_dir / f".new-{uuid.uuid4().hex}"
    try:
        aside.mkdir()
        for name, text in _files(record).items():
            with (aside / name).open(
                "w", encoding="utf-8", errors="surrogatepass", newline=""
            ) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process wrote the same
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def remove_projection(tools_dir: Path, record: ToolRecord) -> bool:
    """Remove the files of this version; one edited by hand stays. Return whether it is gone.

    Raises:
        InputError: See `folder_of`.
        OSError: If it cannot be removed.
    """
    folder = folder_of(tools_dir, record)
    if edited_by_hand(tools_dir, record):
        return False
    if folder.exists():
        gone = tools_dir / f".old-{uuid.uuid4().hex}"
        folder.rename(gone)  # so that half a folder is never seen
        shutil.rmtree(gone)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()
    return True


def edited_by_hand(tools_dir: Path, record: ToolRecord) -> bool:
    """Return whether the files say something else than the record. Absent ones do not.

    Layout does not count in JSON; in code everything counts.

    Raises:
        InputError: See `folder_of`.
        OSError: If a file is there and cannot be read.
    """
    folder = folder_of(tools_dir, record)
    for name, text in _files(record).items():
        try:
            found = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        if not _same(name, found, text.encode("utf-8", "surrogatepass")):
            return True
    return False


def sync(tools_dir: Path, records: Iterable[ToolRecord]) -> Synced:
    """Write what is missing and report what was edited. Built-in, host and MCP tools have no files.

    Raises:
        OSError: If a folder cannot be written.
    """
    written, edited = [], []
    for record in records:
        if record.origin != "generated" or not NAME.fullmatch(record.name):
            continue
        folder = folder_of(tools_dir, record)
        if not folder.exists():
            written.append(write_projection(tools_dir, record))
        elif edited_by_hand(tools_dir, record):
            edited.append(folder)
    return Synced(written=tuple(written), edited=tuple(edited))


def _files(record: ToolRecord) -> dict[str, str]:
    described: dict[str, Any] = record.model_dump(mode="json", exclude=_NOT_DESCRIBED)
    described |= {"id": record.id, "digest": record.digest}
    return {
        CODE: record.code,
        CASES: _json([case.model_dump(mode="json") for case in record.cases]),
        DESCRIPTION: _json(described),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _same(name: str, found: bytes, expected: bytes) -> bool:
    if found == expected:
        return True
    if name == CODE:
        return False
    try:
        return _json(json.loads(found)) == _json(json.loads(expected))
    except ValueError:
        return False
