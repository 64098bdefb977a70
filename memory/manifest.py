"""What a memory was made with, checked before the first query.

Two embedding models of one dimension give no error anywhere, only bad recall. So every store keeps
a manifest: a file beside the shards, a point of its own on a server.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from ..errors import StoreDamaged, StoreMismatch
from .recall import Calibration

SCHEMA_VERSION: Final = 2
"""Raised when records change so that an older program could not read them; `migrations` leads here."""
CARD_VERSION: Final = 1
"""Raised when `records.card` changes: the same record then has another vector."""
MANIFEST_FILE: Final = "manifest.json"

_DAMAGED_HINT: Final = (
    "Nothing was changed. Restore the manifest from a backup, or use another MEM2EVOLVE_HOME."
)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What the vectors and records of a store were made with."""

    embedding: str
    """Fingerprint of the embedding model: `Embedder.name`."""
    dim: int
    """Length of its vectors."""
    card_version: int = CARD_VERSION
    schema_version: int = SCHEMA_VERSION
    generation: int = 0
    """Which of the sets of vectors beside each other is in use; see `memory.reembed`."""
    calibration: Calibration | None = None
    """What was measured for this embedding model here; `None` where the shipped thresholds hold."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a store keeps it."""
        data = asdict(self)
        return {key: data[key] for key in data if key not in _OPTIONAL or data[key]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Manifest":
        """Read what a store kept. Fields of a later version are passed over: `check` refuses those.

        Raises:
            StoreDamaged: If a field is missing or of the wrong type.
        """
        values: dict[str, Any] = {}
        for field in fields(cls):
            if field.name in _OPTIONAL:
                continue
            value = data.get(field.name)
            if not _is(str if field.name == "embedding" else int, value):
                raise _damaged(field.name, value)
            values[field.name] = value
        measured = data.get("calibration")
        calibration = None if measured is None else _calibration(measured)
        return cls(**values, generation=generation_of(data), calibration=calibration)

    def check(self, *, embedding: str, dim: int) -> None:
        """Refuse to use the store with another model or version than it was made with.

        One of an older schema is not refused: see `memory.migrations`.

        Args:
            embedding: Fingerprint of the model in use.
            dim: Length of its vectors; 0 when not known yet.

        Raises:
            StoreMismatch: If anything differs.
        """
        self.check_schema()
        if self.embedding == embedding and not self.same_model(embedding, dim):
            raise StoreMismatch(
                f"The memory was made with the embedding model {embedding} when it gave {self.dim} numbers; now it"
                f" gives {dim}.",
                hint="It is another model under the same name: make the vectors anew with `mem2evolve memory reembed`.",
            )
        if not self.same_model(embedding, dim):
            raise StoreMismatch(
                f"The memory was made with the embedding model {self.embedding} ({self.dim}"
                f" numbers); {embedding} ({dim or 'unknown'}) is in use.",
                hint=f"Set MEM2EVOLVE_EMBEDDING={setting_of(self.embedding)}, or make its vectors anew"
                " for the model in use with `mem2evolve memory reembed`.",
            )
        if self.card_version != CARD_VERSION:
            raise StoreMismatch(
                f"The memory's card text has version {self.card_version}, this program's"
                f" {CARD_VERSION}: their vectors do not compare.",
                hint="Make its vectors anew with `mem2evolve memory reembed`, or use the version of"
                " mem2evolve that made it.",
            )

    def check_schema(self) -> None:
        """Refuse a store of a later version.

        Raises:
            StoreMismatch: If its records are newer than this program.
        """
        if self.schema_version > SCHEMA_VERSION:
            raise StoreMismatch(
                f"The memory has schema version {self.schema_version}, this program"
                f" {SCHEMA_VERSION}.",
                hint="Use the version of mem2evolve that made it, or another MEM2EVOLVE_HOME.",
            )

    def same_model(self, embedding: str, dim: int) -> bool:
        """Whether the vectors are those of this model; a `dim` of 0 is not known yet."""
        return self.embedding == embedding and (not dim or dim == self.dim)

    def with_calibration(self, calibration: Calibration) -> "Manifest":
        """Return it with what was measured for its model."""
        return replace(self, calibration=calibration)


_OPTIONAL: Final = ("generation", "calibration")
"""Fields that a store may lack."""


def generation_of(data: Mapping[str, Any] | None) -> int:
    """Return which set of vectors a manifest names; the first one where there is no manifest.

    Raises:
        StoreDamaged: If that is no number.
    """
    value = (data or {}).get("generation", 0)
    if not _is(int, value) or value < 0:
        raise _damaged("generation", value)
    return int(value)


def _calibration(data: Any) -> Calibration:
    names = [field.name for field in fields(Calibration)]
    if not isinstance(data, Mapping) or not all(_is(int | float, data.get(name)) for name in names):
        raise _damaged("calibration", data)
    if not all(0 <= data[name] <= 1 for name in names):
        raise _damaged("calibration", data)
    try:
        return Calibration(**{name: float(data[name]) for name in names})
    except ValueError as exc:
        raise _damaged("calibration", data) from exc


def _is(kind: Any, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _damaged(name: str, value: Any) -> StoreDamaged:
    return StoreDamaged(f"The memory's manifest has {name} = {value!r}.", hint=_DAMAGED_HINT)


def setting_of(fingerprint: str) -> str:
    """Return the value of MEM2EVOLVE_EMBEDDING that gives this fingerprint."""
    return fingerprint if ":" in fingerprint else fingerprint.partition("@")[0]


def read_file(folder: Path) -> Mapping[str, Any] | None:
    """Return the manifest in `folder`, `None` if there is none.

    Raises:
        StoreDamaged: If it is not a JSON object.
    """
    path = folder / MANIFEST_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise StoreDamaged(f"{path} is not JSON: {exc}", hint=_DAMAGED_HINT) from exc
    if not isinstance(data, dict):
        raise StoreDamaged(f"{path} holds no JSON object.", hint=_DAMAGED_HINT)
    return data


def write_file(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest in `folder`; at every moment the old or the new one is there, whole.

    Raises:
        OSError: If it cannot be written.
    """
    aside = folder / f"{MANIFEST_FILE}.new"  # one name: only the folder's owner writes here
    try:
        with aside.open("w", encoding="utf-8") as file:
            json.dump(dict(manifest), file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(folder / MANIFEST_FILE)
        _sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def _sync(folder: Path) -> None:
    """Make the renaming outlive a power cut, where the file system can be told to."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
