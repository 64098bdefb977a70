"""Get the catalogue's model file into the user's cache, once, whole, and known by its hash."""

import errno
import hashlib
import shutil
from pathlib import Path
from typing import Final

from ...errors import ModelFileError
from . import files, sources
from .catalogue import CatalogueModel, HubSource, Source, default_model
from .files import Progress, Report

SPARE_BYTES: Final = 150_000_000
"""Disk needed beside the file itself: a wheel, twice, while pip moves it."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def model_path(model: CatalogueModel | None = None) -> Path:
    """Return where the model's file is, or will be."""
    return files.models_dir() / (model or default_model()).file


def partial_path(model: CatalogueModel | None = None) -> Path:
    """Return where an unfinished download is kept."""
    target = model_path(model)
    return target.with_name(f"{target.name}.part")


def find_file(model: CatalogueModel, report: Report | None = None) -> Path | None:
    """Return the cached file if it is the right one.

    It is hashed only if it changed since it was hashed last.
    """
    target = model_path(model)
    try:
        if not target.is_file() or target.stat().st_size != model.bytes:
            return None
        sha256 = files.recorded_sha256(target)
        if sha256 is None:
            sha256 = files.sha256_of(target, report)
            files.record_sha256(target, sha256)
    except OSError as exc:
        raise _disk_error(target, exc) from exc
    return target if sha256 == model.sha256 else None


def file_status(model: CatalogueModel) -> str:
    """Say what is in the cache: `verified`, `not verified`, `partial, …%` or `absent`.

    Nothing is hashed: a file that changed since it was hashed is not verified.
    """
    target, part = model_path(model), partial_path(model)
    if target.exists():
        return "verified" if files.recorded_sha256(target) == model.sha256 else "not verified"
    have = sources.size_of(part)
    return f"partial, {have / model.bytes:.0%}" if have else "absent"


def pull(
    model: CatalogueModel | None = None,
    *,
    report: Report | None = None,
    from_file: Path | None = None,
) -> Path:
    """Make sure the model's file is in the cache; do nothing if it is.

    A second process that pulls at the same time waits, and uses what the first one got. A pull
    that was killed goes on where it stopped.

    Args:
        model: What to get; the catalogue's default if None.
        report: Told about progress, often.
        from_file: A file of the user's, copied instead of downloading.

    Raises:
        ModelFileError: If no source gave a file with the expected hash, or the disk is full.
    """
    model = model or default_model()
    report = report or _say_nothing
    target = model_path(model)
    files.make_folder(target.parent)
    waiting = Progress(0, model.bytes, "waiting")
    try:
        with files.held(target.with_name(f"{target.name}.lock"), waiting=lambda: report(waiting)):
            if found := find_file(model, report):
                return found
            files.forget(target)
            _sweep(target.parent)
            if from_file is None:
                _download(model, report)
            else:
                _copy(from_file, model, report)
            return _finish(model)
    except OSError as exc:
        raise _disk_error(target, exc) from exc


def _download(model: CatalogueModel, report: Report) -> None:
    """Try the sources in order until the partial file is the expected one."""
    part = partial_path(model)
    _require_space(part, model.bytes - sources.size_of(part))
    failures: list[str] = []
    hint = "Give a file with `mem2evolve model pull --from FILE`."
    for source in model.sources:
        try:
            _try_source(source, part, model, report)
        except ModelFileError as exc:
            failures.append(f"{source.kind}: {exc}")
            hint = exc.hint
        else:
            return
    raise ModelFileError(
        f"No source gave {model.file!r}. " + " ".join(failures or ["The catalogue names none."]),
        hint=hint,
    )


def _try_source(source: Source, part: Path, model: CatalogueModel, report: Report) -> None:
    mixed = sources.size_of(part) > 0
    _fetch(source, part, model, report)
    sha256 = files.sha256_of(part, report)
    if sha256 != model.sha256 and mixed:
        # What was there before may be at fault, not this source: once more from nothing.
        part.unlink()
        _fetch(source, part, model, report)
        sha256 = files.sha256_of(part, report)
    if sha256 != model.sha256:
        part.unlink()
        raise _wrong_hash(f"What came from {source.kind}", sha256, model)


def _fetch(source: Source, part: Path, model: CatalogueModel, report: Report) -> None:
    def tick(done: int) -> None:
        report(Progress(min(done, model.bytes), model.bytes, source.kind))

    if sources.size_of(part) > model.bytes:
        part.unlink()
    if isinstance(source, HubSource):
        sources.fetch_hub(source, part, model.bytes, tick)
    else:
        sources.fetch_packages(source, part, model.bytes, tick)


def _copy(origin: Path, model: CatalogueModel, report: Report) -> None:
    """Copy the user's file into the partial one, hashing on the way."""
    part = partial_path(model)
    try:
        size = origin.stat().st_size
        stream = origin.open("rb")
    except OSError as exc:
        raise ModelFileError(
            f"Model file {str(origin)!r} cannot be read: {exc.strerror or exc}.",
            hint="Name a readable file, or leave --from out to download it.",
        ) from exc
    with stream:
        _require_space(part, size)
        copy = part.with_name(f"{part.name}.copy")
        digest, done = hashlib.sha256(), 0
        try:
            with copy.open("wb") as out:
                while chunk := stream.read(files.CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
                    done += len(chunk)
                    report(Progress(done, size, "file"))
            if digest.hexdigest() != model.sha256:
                raise _wrong_hash(f"File {str(origin)!r}", digest.hexdigest(), model)
            copy.replace(part)
        finally:
            copy.unlink(missing_ok=True)


def _finish(model: CatalogueModel) -> Path:
    """Give the checked file its name. The hash is recorded last: without it we would hash again."""
    target = partial_path(model).replace(model_path(model))
    files.record_sha256(target, model.sha256)
    return target


def _sweep(folder: Path) -> None:
    """Remove the folders that a killed pull left behind."""
    for left in folder.glob(f"{sources.WORK_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def _require_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < needed + SPARE_BYTES:
        raise ModelFileError(
            f"The model needs {(needed + SPARE_BYTES) / 1e9:.1f} GB in {str(part.parent)!r}; "
            f"{free / 1e9:.1f} GB are free.",
            hint="Make room, or name a folder on another disk with MEM2EVOLVE_CACHE.",
        )


def _wrong_hash(what: str, sha256: str, model: CatalogueModel) -> ModelFileError:
    return ModelFileError(
        f"{what} has SHA-256 {sha256}, but {model.file!r} has {model.sha256}. It is not used.",
        hint="Serve another model's file with MEM2EVOLVE_MODEL_FILE; for this one, "
        "run `mem2evolve model pull` again.",
    )


def _disk_error(target: Path, exc: OSError) -> ModelFileError:
    if exc.errno in _FULL:
        hint = "Make room and run `mem2evolve model pull` again: it goes on where it stopped."
    else:
        hint = "Name a folder that can be written with MEM2EVOLVE_CACHE."
    return ModelFileError(
        f"Model file {str(target)!r} cannot be written or read: {exc.strerror or exc}.", hint=hint
    )


def _say_nothing(_: Progress) -> None:
    pass
