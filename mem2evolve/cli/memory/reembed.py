"""`mem2evolve memory reembed`: all vectors anew, for another embedding model."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .._common import print_json, say, wait
from ._ask import JSON, YES, agreed
from ._progress import progress

if TYPE_CHECKING:
    from ...memory.reembed import Generations
    from ...settings import Settings


@click.command()
@YES
@JSON
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
            question = f"Replace all vectors of {before.embedding} by those of {embedder.name}?"
            if not agreed(question, yes=yes):
                return
        tell = progress()
        done = await make(store, embedder, lambda at, total: tell("embedded", at, total))
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
    from ...memory.backends.edge import EdgeStore  # noqa: PLC0415
    from ...memory.backends.server import ServerStore  # noqa: PLC0415

    if settings.qdrant_url:
        return ServerStore(url=settings.qdrant_url, api_key=settings.qdrant_api_key)
    return EdgeStore(settings.state_dir / "memory", alone="which makes its vectors anew")
