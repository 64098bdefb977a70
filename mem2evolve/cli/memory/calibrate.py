"""`mem2evolve memory calibrate`: what a similarity means for the embedding model in use."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._common import open_memory, print_json, print_table, say, wait

if TYPE_CHECKING:
    from ...memory.calibrate import Measured


@click.command()
@click.option(
    "--set",
    "file",
    type=click.Path(path_type=Path),
    help="A labelled set of your own (JSONL) instead of the built-in one.",
)
@click.option("--dry-run", is_flag=True, help="Only print what was found.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def calibrate(file: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Measure on a labelled set when an asset is recruited, and keep that in this home.

    It holds for the embedding model in use until another one takes its place.
    """
    wait(_calibrate(file, dry_run=dry_run, as_json=as_json))


async def _calibrate(file: Path | None, *, dry_run: bool, as_json: bool) -> None:
    from ...memory.calibrate import measure  # noqa: PLC0415 - `--help` stays quick
    from ...memory.labelled_set import load  # noqa: PLC0415
    from ...models.embeddings import open_embedder  # noqa: PLC0415
    from ...settings import Settings  # noqa: PLC0415

    labelled = load(file)
    embedder = open_embedder(Settings.from_env().embedding)
    if dry_run:
        measured = await measure(embedder, labelled)
    else:
        async with open_memory() as memory:
            await memory.calibrated()  # refused before anything is spent on the measuring
            measured = await measure(embedder, labelled)
            await memory.keep_calibration(measured.calibration)
    _print(embedder.name, measured, kept=not dry_run, as_json=as_json)


def _print(embedding: str, measured: "Measured", *, kept: bool, as_json: bool) -> None:
    found = measured.calibration
    if as_json:
        rows = [asdict(row) for row in measured.table]
        facts = {"embedding": embedding, **asdict(found), "accuracy": measured.accuracy}
        print_json({**facts, "kept": kept, "table": rows})
        return
    head = ("threshold", "accuracy", "F1", "recruited right", "recruited wrong", "missed")
    rows_of_text = [
        (
            f"{row.threshold:.2f}{' δ' if row.threshold == found.delta else ''}",
            f"{row.accuracy:.3f}",
            f"{row.f1:.3f}",
            *map(str, (row.recruited_right, row.recruited_wrong, row.missed)),
        )
        for row in measured.table
    ]
    print_table([head, *rows_of_text], empty="")
    say(
        f"{embedding}: δ {found.delta:.2f}, fit check from {found.low:.2f}, beyond doubt from {found.high:.2f},"
        f" the same from {found.twin:.2f}",
        bold=True,
    )
    click.echo("Kept in this home." if kept else "Nothing was changed.", err=True)
