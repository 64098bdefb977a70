"""The models this program can fetch and serve itself: `catalogue.yaml`, read and checked."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...errors import ConfigError

CATALOGUE: Final = Path(__file__).parent / "catalogue.yaml"

Positive = Annotated[int, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HubSource(_Strict):
    """The whole file at one address."""

    kind: Literal["hub"]
    url: str


class PackageSource(_Strict):
    """The file in pieces, each the one `.bin` of a wheel on the user's package index."""

    kind: Literal["packages"]
    prefix: str
    """Part `n` is the package `{prefix}{n}`, counted from 1."""
    parts: Positive
    version: str
    part_bytes: Positive
    """Size of every part but the last, so that a partial file says which parts it holds."""


Source = Annotated[HubSource | PackageSource, Field(discriminator="kind")]


class CatalogueModel(_Strict):
    """One model file, how to know it, and where to get it."""

    name: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+\.gguf$")]
    bytes: Positive
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    licence: str
    licence_file: str
    """Beside the catalogue."""
    ram_bytes: Positive
    context: Positive
    """Tokens, shared by the slots."""
    slots: Positive
    """Requests answered side by side."""
    sources: tuple[Source, ...]
    """Tried in this order."""

    @model_validator(mode="after")
    def _parts_add_up(self) -> "CatalogueModel":
        for source in self.sources:
            if isinstance(source, PackageSource):
                last = self.bytes - (source.parts - 1) * source.part_bytes
                if not 0 < last <= source.part_bytes:
                    raise ValueError(f"{source.parts} parts do not make {self.bytes} bytes")
        return self


def load_catalogue(path: Path = CATALOGUE) -> tuple[CatalogueModel, ...]:
    """Read a catalogue file.

    Raises:
        ConfigError: If it is not a list of at least one complete entry.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        models = tuple(CatalogueModel.model_validate(entry) for entry in entries or ())
    except (OSError, yaml.YAMLError, ValidationError, TypeError) as exc:
        raise ConfigError(
            f"Model catalogue {str(path)!r} cannot be used: {exc}",
            hint="Reinstall mem2evolve, or undo the edit of this file.",
        ) from exc
    if not models:
        raise ConfigError(
            f"Model catalogue {str(path)!r} lists no model.", hint="Reinstall mem2evolve."
        )
    return models


@cache
def default_model() -> CatalogueModel:
    """Return the model used when no other is named."""
    return load_catalogue()[0]
