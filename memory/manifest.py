"""What a memory was made with, checked before the first query.

Two embedding models of one dimension give no error anywhere, only bad recall. So every store keeps
a manifest: a file beside the shards, a point of its own on a server.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from ..errors import StoreDamaged, StoreMismatch

SCHEMA_VERSION: Final = 1
"""Raised when records change so that an older program could not read them."""
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

    def to_json(self) -> dict[str, Any]:
        """Return it as a store keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Manifest":
        """Read what a store kept. Fields of a later version are passed over: `check` refuses those.

        Raises:
            StoreDamaged: If a field is missing or of the wrong type.
        """
        values: dict[str, Any] = {}
        for field in fields(cls):
            value = data.get(field.name)
            if not isinstance(value, str if field.name == "embedding" else int):
                raise StoreDamaged(
                    f"The memory's manifest has {field.name} = {value!r}.", hint=_DAMAGED_HINT
                )
            values[field.name] = value
        return cls(**values)

    def check(self, *, embedding: str, dim: int) -> None:
        """Refuse to use the store with another model or version than it was made with.

        Args:
            embedding: Fingerprint of the model in use.
            dim: Length of its vectors; 0 when not known yet.

        Raises:
            StoreMismatch: If anything differs.
        """
        if self.schema_version != SCHEMA_VERSION:
            raise StoreMismatch(
                f"The memory has schema version {self.schema_version}, this program"
                f" {SCHEMA_VERSION}.",
                hint="Use the version of mem2evolve that made it, or another MEM2EVOLVE_HOME.",
            )
        if self.embedding != embedding or (dim and dim != self.dim):
            raise StoreMismatch(
                f"The memory was made with the embedding model {self.embedding} ({self.dim}"
                f" numbers); {embedding} ({dim or 'unknown'}) is in use.",
                hint=f"Set MEM2EVOLVE_EMBEDDING={setting_of(self.embedding)}, or use another"
                " MEM2EVOLVE_HOME.",
            )
        if self.card_version != CARD_VERSION:
            raise StoreMismatch(
                f"The memory's card text has version {self.card_version}, this program's"
                f" {CARD_VERSION}: their vectors do not compare.",
                hint="Use the version of mem2evolve that made it, or another MEM2EVOLVE_HOME.",
            )


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
    fd, aside = tempfile.mkstemp(dir=folder, prefix=f"{MANIFEST_FILE}.")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(dict(manifest), file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(folder / MANIFEST_FILE)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(aside).unlink()
        raise
