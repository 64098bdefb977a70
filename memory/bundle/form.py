"""What a bundle is: its entries, its head, and how much of everything there may be."""

import re
from typing import Final, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import InputError
from ..manifest import SCHEMA_VERSION
from ..projection import CASES, CODE, DESCRIPTION, NAME
from ..rows import RecordKind
from .strict import Unfit, read_object

FORMAT_VERSION: Final = 1
HEAD: Final = "bundle.json"
SUMS: Final = "SHA256SUMS"
KINDS: Final[tuple[RecordKind, ...]] = ("tool", "agent", "experience", "run")
"""In the order in which they are read and written: a record comes after those that it points to."""
RECORDS: Final[dict[RecordKind, str]] = {
    "tool": "records/tools.jsonl",
    "agent": "records/agents.jsonl",
    "experience": "records/experiences.jsonl",
    "run": "records/runs.jsonl",
}
NEEDED: Final = frozenset({HEAD, SUMS, *RECORDS.values()})
FOLDER_ENTRY: Final = re.compile(
    rf"tools/(?:@{NAME.pattern}/)?{NAME.pattern}/v[0-9]{{1,6}}/"
    rf"(?:{re.escape(CODE)}|{re.escape(CASES)}|{re.escape(DESCRIPTION)})"
)
"""The tools as files, for people. Nothing reads them when a bundle comes in."""

MAX_FOLDERS: Final = 10_000
"""Tool versions that are written as files too."""
MAX_ENTRIES: Final = 3 * MAX_FOLDERS + len(NEEDED)
MAX_BUNDLE_BYTES: Final = 2 << 30
MAX_TOTAL_BYTES: Final = 4 << 30
"""Of all entries, unpacked."""
MAX_ENTRY_BYTES: Final = (2 << 30) - 1
MAX_SMALL_BYTES: Final = 8 << 20
"""Of an entry that is no list of records."""
MAX_HEAD_BYTES: Final = 64 << 10
MAX_LINE_BYTES: Final = 8 << 20
"""Of one record."""
MAX_RECORDS: Final = 500_000
"""Of one kind: their ids are held in memory."""
LICENCE: Final = re.compile(r"[A-Za-z0-9.+()\- ]{0,200}")
"""An SPDX expression, such as `CC-BY-4.0` or `MIT OR Apache-2.0`. Its words are not looked up."""


class Head(BaseModel):
    """`bundle.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: Literal[1] = FORMAT_VERSION
    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    embedding: str = Field(max_length=200)
    """Fingerprint of the model that the memory was made with. No vector is in a bundle."""
    dim: int = Field(ge=0)
    created_at: str = Field(max_length=40)
    licence: str = Field(default="", pattern=rf"^{LICENCE.pattern}$")
    """As whoever exported it stated; empty when nothing was stated."""
    namespace: str = Field(default="", max_length=64)
    """What it was limited to; empty when it was not."""
    counts: dict[RecordKind, int]


def refuse(where: str, why: str, hint: str = "") -> NoReturn:
    """Refuse a bundle.

    Raises:
        InputError: Always.
    """
    raise InputError(
        f"{where}: {why}.",
        hint=hint or "Nothing was changed. Get the bundle again from where it was made.",
    )


def read_head(text: bytes, where: str) -> Head:
    """Read `bundle.json`.

    Raises:
        InputError: If it is none, or of a later version.
    """
    try:
        data = read_object(text)
    except Unfit as exc:
        refuse(where, str(exc))
    for field, ours in (("format_version", FORMAT_VERSION), ("schema_version", SCHEMA_VERSION)):
        said = data.get(field)
        if isinstance(said, int) and said > ours:
            refuse(
                where,
                f"{field} is {said}, this program reads up to {ours}",
                "Nothing was changed. Update mem2evolve, then import it again.",
            )
    try:
        return Head.model_validate(data)
    except ValidationError as exc:
        refuse(where, first_fault(exc))


def first_fault(exc: ValidationError) -> str:
    """Return in a few words what is wrong."""
    first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part)[:60] for part in first["loc"])
    return f"{place}: {first['msg'][:160]}" if place else first["msg"][:160]
