"""`mem2evolve memory reembed`: all vectors anew, for another embedding model."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .._common import ask_first, print_json, say, wait

if TYPE_CHECKING:
    from ...memory.manifest import Manifest
    from ...memory.reembed import Generations
    from ...settings import Settings


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def reembed(*, yes: bool, as_json: bool) -> None:
    """Make all vectors anew, for the model that MEM2EVOLVE_EMBEDDING names.

    They are made beside the old ones, which are in use until the last one is done. Broken off, it goes on when it
    is called again. No other program may use the memory meanwhile.
    """
    wait(_reembed(yes=yes, as_json=as_json))


async def _reembed(*, yes: bool, as_json: bool) -> None:
    from ...memory.manifest import Manifest  # noqa: PLC0415 - `--help` stays quick
    from ...memory.reembed import reembed as make  # noqa: PLC0415
    from ...models.embeddings import open_embedder  # noqa: PLC0415
    from ...settings import Settings  # noqa: PLC0415

    settings = Settings.from_env()
    embedder = open_embedder(settings.embedding)
    store = _store(settings)
    try:
        stored = await store.read_manifest()
        if stored is not None and (before := Manifest.from_json(stored)).embedding != embedder.name:
            _ask(before, embedder.name, yes=yes)
        done = await make(store, embedder, _progress)
    finally:
        await store.close()
    if as_json:
        print_json(asdict(done))
    elif done.changed:
        say(f"{done.records} records, {done.embedded} of them embedded now, by {done.after}")
        click.echo(
            "Thresholds differ from model to model: run `mem2evolve memory calibrate`.", err=True
        )
    else:
        click.echo(f"Nothing to do: the vectors are those of {done.after}.", err=True)


def _store(settings: "Settings") -> "Generations":
    from ...memory.edge import EdgeStore  # noqa: PLC0415
    from ...memory.server import ServerStore  # noqa: PLC0415

    if settings.qdrant_url:
        return ServerStore(url=settings.qdrant_url, api_key=settings.qdrant_api_key)
    return EdgeStore(settings.state_dir / "memory", alone="which makes its vectors anew")


def _ask(before: "Manifest", after: str, *, yes: bool) -> None:
    ask_first(f"Replace all vectors of {before.embedding} by those of {after}?", yes=yes)


def _progress(done: int, total: int) -> None:
    """Say how far it is: on a terminal in one line, elsewhere when a pass is done."""
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {total} records", nl=done == total, err=True)
    elif done == total:
        click.echo(f"{done} of {total} records", err=True)
