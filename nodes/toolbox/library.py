"""A package of ours as one file that can be shown in a box, where site-packages is not."""

import hashlib
import importlib.metadata
import importlib.util
import marshal
import os
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from ...settings import cache_dir

FLAGS: Final = (1).to_bytes(4, "little")
"""Of compiled code: known by a hash, which is not compared."""


@cache
def zipped(package: str) -> Path:
    """Return a ZIP of the package's modules, compiled; it goes on `sys.path` as it is.

    It lies in the user's cache under the hash of what it was made from, and is made at most once.
    The package must be pure Python and is not imported here.

    Raises:
        OSError: If the cache folder cannot be written.
        ModuleNotFoundError: If the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"The package {package!r} is not installed.", name=package)
    root = Path(spec.submodule_search_locations[0])
    sources = [(path, path.read_bytes()) for path in sorted(root.rglob("*.py"))]
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for path, source in sources:
        digest.update(f"{path.relative_to(root)} {len(source)}\n".encode())
        digest.update(source)
    version = importlib.metadata.version(package)
    name = f"{package}-{version}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}.zip"
    folder = cache_dir() / "readers"
    made = folder / name
    if not _whole(made):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(made, {f"{package}/{path.relative_to(root)}": text for path, text in sources})
    return made


def _whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _write(path: Path, sources: dict[str, bytes]) -> None:
    """Write beside and rename, so that no other process ever sees half of it."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, source in sources.items():
                code = compile(source, name, "exec", dont_inherit=True)
                body = importlib.util.MAGIC_NUMBER + FLAGS + bytes(8) + marshal.dumps(code)
                archive.writestr(zipfile.ZipInfo(f"{name}c"), body)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
