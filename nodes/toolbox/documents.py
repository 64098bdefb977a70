"""Workbooks, PDF documents and images for `read_file`. They are parsed in a box, never here.

A parser of hostile files is code that others steer. So the readers of `readers/` are shown in a
fresh box beside the file, and what they answer is treated as text from outside.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from ...errors import ToolFailure
from ...sandbox.base import Limits, Outcome, Sandbox
from ._shared import PAGE_CHARS, clean, shorten
from .library import zipped

TOOL: Final = "read_file"
READERS: Final = Path(__file__).with_name("readers")
MAX_BYTES: Final = 256 << 20
LIMITS: Final = Limits(wall_s=60.0, cpu_s=20, result_bytes=512 << 10)
SHOWN: Final = "document"
"""The file's name in the box: its own is data of someone else."""
PDF_LIBRARY: Final = "pypdf"
REASON_CHARS: Final = 600
ONLY_NOTED: Final = frozenset(
    {"columns_left_out", "formulas_without_value", "pages_without_text", "pages_not_read"}
)
"""Left out of an answer where there is nothing to say."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of document, and what reads it."""

    called: str
    """What its first bytes say."""
    read_as: str
    modules: tuple[str, ...]
    """Files of `readers/`; the first has `read`."""
    options: tuple[str, ...] = ()
    """Which arguments of the call it takes."""
    library: str = ""
    """A package of ours that it needs."""


WORKBOOK: Final = Kind(
    called="a ZIP archive or an Office document",
    read_as="an XLSX workbook",
    modules=("xlsx", "workbook", "cells"),
    options=("start", "limit", "page_chars", "sheet"),
)
PDF: Final = Kind(
    called="a PDF document",
    read_as="a PDF document",
    modules=("pdf",),
    options=("start", "limit", "page_chars", "page"),
    library=PDF_LIBRARY,
)
IMAGE: Final = Kind(called="an image", read_as="an image", modules=("image",))


def document_kind(head: bytes) -> Kind | None:
    """Tell by its first bytes, whatever the file's name is, which reader takes a file."""
    if head.startswith(b"PK\x03\x04"):
        return WORKBOOK
    if head.startswith(b"%PDF-"):
        return PDF
    marks = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
    bitmap = head.startswith(b"BM") and head[6:10] == bytes(4)
    webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    return IMAGE if head.startswith(marks) or bitmap or webp else None


async def read_document(
    name: str, path: Path, kind: Kind, *, sandbox: Sandbox | None, wanted: Mapping[str, Any]
) -> dict[str, JsonValue] | None:
    """Read a document in a box of its own.

    Args:
        name: As the task gives it.
        path: Where it is.
        kind: What `document_kind` said.
        sandbox: Where the reader runs; it must have a `/data`.
        wanted: `start`, `limit`, `sheet` and `page` of the call.

    Returns:
        The answer, without `name` and size; None if the archive is no workbook.

    Raises:
        ToolFailure: If it cannot be read; the message says why.
        SandboxUnavailable: If no box can be started.
    """
    if sandbox is None or sandbox.isolation == "none":
        raise ToolFailure(
            TOOL,
            f"{name!r} is {kind.called}. Such files are only read in a sandbox that contains their "
            "parser, and this run has none.",
        )
    if (size := (await asyncio.to_thread(path.stat)).st_size) > MAX_BYTES:
        raise ToolFailure(
            TOOL, f"{name!r} has {size:,} bytes; {kind.read_as} is read up to {MAX_BYTES:,}."
        )
    files = {SHOWN: path} | {f"{one}.py": READERS / f"{one}.py" for one in kind.modules}
    if kind.library:
        files[f"{kind.library}.zip"] = await asyncio.to_thread(_library, kind.library)
    everything = {**wanted, "page_chars": PAGE_CHARS}
    outcome = await sandbox.call(
        _source(kind),
        "read_shown",
        {option: everything[option] for option in kind.options},
        limits=LIMITS,
        files=files,
        fresh=True,  # what one file did to its parser never reaches the next
    )
    if outcome.status != "ok" or not isinstance(outcome.value, dict):
        raise ToolFailure(TOOL, f"{name!r} cannot be read as {kind.read_as}: {_reason(outcome)}")
    if outcome.value.get("kind") == "other":
        return None
    shown = {key: one for key, one in outcome.value.items() if one or key not in ONLY_NOTED}
    return _capped(shown) | _note(outcome.value)


def _library(package: str) -> Path:
    try:
        return zipped(package)
    except (OSError, ImportError) as exc:
        raise ToolFailure(
            TOOL,
            f"The package {package!r} could not be made ready for the sandbox ({exc}). Whoever runs "
            "this can install it, or name a folder that can be written with MEM2EVOLVE_CACHE.",
        ) from exc


def _source(kind: Kind) -> str:
    shown = f"sys.path.append('/data/{kind.library}.zip')\n" if kind.library else ""
    return (
        f"import sys\nsys.path.append('/data')\n{shown}from {kind.modules[0]} import read\n\n"
        f"def read_shown(**options):\n    return read('/data/{SHOWN}', **options)\n"
    )


def _reason(outcome: Outcome) -> str:
    if outcome.status == "raised":
        if outcome.error_type == "Refused":
            reason = outcome.error
        elif outcome.error_type == "MemoryError":
            reason = "reading it takes too much memory"
        else:
            reason = (
                f"it is damaged, or of a kind not known ({outcome.error_type}: {outcome.error})"
            )
    elif outcome.status == "timeout":
        reason = "reading it takes too long"
    else:
        reason = outcome.error or outcome.status
    return clean(reason)[:REASON_CHARS].rstrip(".") + "."


def _capped(value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Clean all texts and cut what is longer than a reader makes it."""
    return {clean(key): _cleaned(one) for key, one in value.items()}


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return shorten(clean(value), 2 * PAGE_CHARS)
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return _capped(value) if isinstance(value, dict) else value


def _note(found: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Say how to read on, and what is missing."""
    notes: list[str] = []
    if found.get("kind") == "image":
        notes.append("Only what the image says of itself is read, not what it shows.")
    if found.get("columns_left_out"):
        notes.append("Columns beyond the first 200 are left out.")
    if found.get("formulas_without_value"):
        notes.append("Formulas whose value the file does not hold are shown as null.")
    if found.get("pages_without_text"):
        notes.append("Pages without text may be scans, which cannot be read.")
    following, page = found.get("next_start"), found.get("next_page")
    if page is not None:
        more = f", start={following}" if following else ""
        notes.append(f"To read on, call read_file again with page={page}{more}.")
    elif following is not None:
        sheet = found.get("sheet")
        notes.append(
            f"Cut before row {following}. To read on, call read_file again with "
            f"start={following}, sheet={clean(str(sheet))!r}."
        )
    return {"note": " ".join(notes)} if notes else {}
