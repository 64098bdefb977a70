"""The generated tools as files, for people and git: `tools_generated/<name>/v<n>/`.

The truth is the record; nothing is ever run from these files. A tool of another namespace than
`default` is below `@<namespace>/`. All functions block: call them with `asyncio.to_thread`.
"""

import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import InputError
from .records import Status, ToolRecord

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a tool or a namespace must be called to have a folder; also what providers allow."""
CODE: Final = "tool.py"
CASES: Final = "cases.json"
DESCRIPTION: Final = "tool.json"
SHOWN: Final[tuple[Status, ...]] = ("candidate", "active", "superseded", "quarantined")
"""Tools of these statuses have files."""
MAX_FILE_BYTES: Final = 1 << 20
"""Of code or cases that a person has edited."""
_ASIDE: Final = (".new-", ".old-")
"""Begin the names of folders on their way in or out."""
_ASIDE_AGE_S: Final = 3600.0
"""Those older than this were left by a process that was killed."""
_PASSING: Final = ("__pycache__", ".pytest_cache")
_NOT_DESCRIBED: Final = {"code", "cases", "status", "history"}
"""In files of their own; or they change while the version stays."""


@dataclass(frozen=True, kw_only=True)
class Synced:
    """What `sync` did."""

    written: tuple[Path, ...]
    edited: tuple[Path, ...]
    """Folders that hold something else than their record; left as they are."""


@dataclass(frozen=True, kw_only=True)
class Edited:
    """What the files of a version say now, as text."""

    code: str
    cases: str


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
    aside = _aside(tools_dir, ".new-")
    try:
        aside.mkdir()
        _fill(aside, record)
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
        gone = _aside(tools_dir, ".old-")
        folder.rename(gone)  # so that half a folder is never seen
        shutil.rmtree(gone)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()
    return True


def restore_projection(tools_dir: Path, record: ToolRecord) -> Path:
    """Put the files of this version back as its record has them; other files in its folder stay.

    Killed in between, it leaves the folder as it was, restored, or missing, which `sync` mends.

    Raises:
        InputError: See `folder_of`.
        OSError: If it cannot be written.
    """
    folder = folder_of(tools_dir, record)
    if not folder.exists():
        return write_projection(tools_dir, record)
    if not edited_by_hand(tools_dir, record):
        return folder
    aside, gone = _aside(tools_dir, ".new-"), _aside(tools_dir, ".old-")
    try:
        ignored = shutil.ignore_patterns(CODE, CASES, DESCRIPTION, *_PASSING)
        shutil.copytree(folder, aside, symlinks=True, ignore=ignored)
        _fill(aside, record)
        folder.rename(gone)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(gone, ignore_errors=True)
    return folder


def read_edited(tools_dir: Path, record: ToolRecord) -> Edited:
    """Return what code and cases of this version say in its folder now.

    Raises:
        InputError: If one of them is missing, no regular file, too large or no UTF-8.
        OSError: If it cannot be read.
    """
    folder = folder_of(tools_dir, record)
    return Edited(code=_text_of(folder / CODE), cases=_text_of(folder / CASES))


def _text_of(path: Path) -> str:
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist.",
            hint="`mem2evolve tools sync` writes a missing folder; a lost file comes back once its folder is removed.",
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is no regular file.", hint="Put the file itself there.")
    if found.st_size > MAX_FILE_BYTES:
        raise InputError(
            f"{path} has {found.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are read.",
            hint="A tool is one small module, and its cases are small values.",
        )
    body = path.read_bytes()
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = body.count(b"\n", 0, exc.start) + 1
        raise InputError(
            f"{path} is no UTF-8: byte {exc.start + 1}, in line {line}, is {body[exc.start]:#04x}.",
            hint="Save it as UTF-8.",
        ) from exc


def edited_by_hand(tools_dir: Path, record: ToolRecord) -> bool:
    """Return whether the files say something else than the record. Absent ones do not.

    Layout does not count in JSON; in code everything counts.

    Raises:
        InputError: See `folder_of`.
        OSError: If a file is there and cannot be read.
    """
    folder = folder_of(tools_dir, record)
    for name, text in files_of(record).items():
        try:
            found = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        except IsADirectoryError:
            return True
        if not _same(name, found, text.encode("utf-8", "surrogatepass")):
            return True
    return False


def sync(tools_dir: Path, records: Iterable[ToolRecord]) -> Synced:
    """Write what is missing and report what was edited. Built-in, host and MCP tools have no files.

    What a process that was killed has left half done is removed.

    Raises:
        OSError: If a folder cannot be written.
    """
    _sweep(tools_dir)
    written, edited = [], []
    for record in records:
        if not has_folder(record):
            continue
        folder = folder_of(tools_dir, record)
        if not folder.exists():
            written.append(write_projection(tools_dir, record))
        elif edited_by_hand(tools_dir, record):
            edited.append(folder)
    return Synced(written=tuple(written), edited=tuple(edited))


def has_folder(record: ToolRecord) -> bool:
    """Whether a tool has files: built-in, host and MCP tools have none, nor have names that no folder can have."""
    named = NAME.fullmatch(record.name) and NAME.fullmatch(record.namespace)
    return record.origin == "generated" and bool(named) and record.version > 0


def files_of(record: ToolRecord) -> dict[str, str]:
    """Return the files of a version, by their names."""
    described: dict[str, Any] = record.model_dump(mode="json", exclude=_NOT_DESCRIBED)
    described |= {"id": record.id, "digest": record.digest}
    return {
        CODE: record.code,
        CASES: _json([case.model_dump(mode="json") for case in record.cases]),
        DESCRIPTION: _json(described),
    }


def _plain(case: Any) -> Any:
    """Return a case without the property that most do not have: older files do not know the field."""
    if isinstance(case, dict) and case.get("property") == "":
        return {key: value for key, value in case.items() if key != "property"}
    return case


def _aside(tools_dir: Path, start: str) -> Path:
    return tools_dir / f"{start}{uuid.uuid4().hex}"


def _fill(folder: Path, record: ToolRecord) -> None:
    for name, text in files_of(record).items():
        with (folder / name).open(
            "w", encoding="utf-8", errors="surrogatepass", newline=""
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _sweep(tools_dir: Path) -> None:
    if not tools_dir.is_dir():
        return
    for path in tools_dir.iterdir():
        if path.name.startswith(_ASIDE) and path.lstat().st_mtime < time.time() - _ASIDE_AGE_S:
            shutil.rmtree(path, ignore_errors=True)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _same(name: str, found: bytes, expected: bytes) -> bool:
    if found == expected:
        return True
    if name == CODE:
        return False
    try:
        said, meant = json.loads(found), json.loads(expected)
        if name == CASES and isinstance(said, list):
            said, meant = [*map(_plain, said)], [*map(_plain, meant)]
        return _json(said) == _json(meant)
    except (ValueError, RecursionError):
        return False
