"""The embedded model: fetched once, checked by its hash, served by this program on loopback.

`start` is all a run needs. Everything here blocks: an event loop calls it in a thread.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ...errors import ModelFileError
from . import files, gguf
from .catalogue import CatalogueModel, default_model
from .client import Endpoint, ensure_running, run_in_foreground, status, stop
from .files import Progress, Report
from .launch import require_runtime
from .pull import file_status, find_file, model_path, partial_path, pull
from .state import ServerState

__all__ = [
    "CatalogueModel",
    "Confirm",
    "Endpoint",
    "Progress",
    "Report",
    "ServerState",
    "consent_text",
    "default_model",
    "ensure_model_file",
    "ensure_running",
    "fetch_model_file",
    "file_status",
    "find_file",
    "model_path",
    "partial_path",
    "pull",
    "require_runtime",
    "run_in_foreground",
    "start",
    "status",
    "stop",
]

Confirm = Callable[[str], bool]
"""Shows a person a text and asks for yes or no."""


def start(confirm: Confirm | None = None, progress: Report | None = None) -> Endpoint:
    """Return a running server for the embedded model, fetching and starting what is not there.

    Arguments and errors are those of `ensure_model_file` and `ensure_running`.
    """
    return ensure_running(ensure_model_file(confirm, progress))


def ensure_model_file(
    confirm: Confirm | None = None,
    progress: Report | None = None,
    model_file: Path | None = None,
) -> Path:
    """Return the file to serve, downloading the catalogue's model if it is not here and may be.

    Args:
        confirm: Asked before the download; None if there is nobody to ask. MEM2EVOLVE_YES=1
            answers for it.
        progress: Told about the download and about hashing, often.
        model_file: Any GGUF file to use instead; MEM2EVOLVE_MODEL_FILE names one too. It is not
            compared with the catalogue.

    Raises:
        ModelFileError: If the file named is no GGUF file, the download was not agreed to, or it
            failed.
        ConfigError: If the server's library is not installed, before anything is downloaded.
    """
    named = model_file or _named_file()
    if named is not None:
        named = named.expanduser().absolute()
        gguf.check_header(named)
        return named
    if found := find_file(default_model(), progress):
        return found
    require_runtime()
    return fetch_model_file(confirm, progress)


def fetch_model_file(confirm: Confirm | None = None, progress: Report | None = None) -> Path:
    """Return the catalogue's model file, whether or not this computer can serve it.

    Arguments as for `ensure_model_file`.

    Raises:
        ModelFileError: If the download was not agreed to, or failed.
    """
    model = default_model()
    if found := find_file(model, progress):
        return found
    if os.environ.get("MEM2EVOLVE_YES") != "1":
        _ask(confirm, model)
    return pull(model, report=progress)


def consent_text(model: CatalogueModel) -> str:
    """Say what would be downloaded, whose it is, and where it goes."""
    here = partial_path(model)
    have = here.stat().st_size if here.exists() else 0
    rest = f" ({have / 1e9:.2f} GB of it are here)" if have else ""
    return (
        f"The embedded model {model.name} ({model.licence}) is downloaded once: "
        f"{model.bytes / 1e9:.2f} GB{rest} to {files.models_dir()}."
    )


def _ask(confirm: Confirm | None, model: CatalogueModel) -> None:
    hint = "Run `mem2evolve model pull --yes`, or name another model with MEM2EVOLVE_MODEL."
    if confirm is None:
        raise ModelFileError(f"{consent_text(model)} Nobody agreed to that.", hint=hint)
    if not confirm(consent_text(model)):
        raise ModelFileError("The embedded model was not downloaded, as answered.", hint=hint)


def _named_file() -> Path | None:
    named = os.environ.get("MEM2EVOLVE_MODEL_FILE")
    return Path(named) if named else None
