"""`mem2evolve model`: fetch the embedded model, serve it, see what runs."""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click

if TYPE_CHECKING:
    from ..models.embedded import Confirm, Progress

LINE_SECONDS: Final = 10.0
"""Between progress lines where standard error is not a terminal."""
REDRAW_SECONDS: Final = 0.1

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def model() -> None:
    """The embedded model: fetch it, serve it, see what runs."""


@model.command()
@click.option("--yes", is_flag=True, help="Download without asking (also: MEM2EVOLVE_YES=1).")
@click.option("--from", "from_file", type=_FILE, help="Copy this file instead of downloading.")
def pull(*, yes: bool, from_file: Path | None) -> None:
    """Fetch the model file once; print where it is. A pull that was stopped goes on."""
    from ..models import embedded  # noqa: PLC0415 - `--help` stays quick

    with ProgressPrinter() as report:
        if from_file is not None:
            path = embedded.pull(report=report, from_file=from_file)
        else:
            path = embedded.fetch_model_file(terminal_confirm(yes=yes), report)
    click.echo(path)


@model.command()
@click.option("--model-file", type=_FILE, help="Any GGUF file (also: MEM2EVOLVE_MODEL_FILE).")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any free one.")
@click.option("--foreground", is_flag=True, help="Stay here until interrupted.")
@click.option("--yes", is_flag=True, help="Download the model without asking, if it is not here.")
def serve(*, model_file: Path | None, port: int, foreground: bool, yes: bool) -> None:
    """Serve a model on loopback, OpenAI-compatible; print its address and name."""
    from ..models import embedded  # noqa: PLC0415

    with ProgressPrinter() as report:
        path = embedded.ensure_model_file(terminal_confirm(yes=yes), report, model_file)
    if foreground:
        embedded.run_in_foreground(path, port=port)
        return
    endpoint = embedded.ensure_running(path, port=port)
    click.echo(f"{endpoint.base_url} {endpoint.model}")


@model.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def status(*, as_json: bool) -> None:
    """Show whether the model file is here and which servers run."""
    from ..models import embedded  # noqa: PLC0415

    entry = embedded.default_model()
    file_state = embedded.file_status(entry)
    servers = embedded.status()
    if as_json:
        data: dict[str, Any] = {
            "model": {
                "name": entry.name,
                "file": str(embedded.model_path(entry)),
                "status": file_state,
                "bytes": entry.bytes,
            },
            "servers": [{**asdict(s), "base_url": s.base_url} for s in servers],
        }
        click.echo(json.dumps(data))
        return
    click.echo(f"model   {entry.name}: {file_state} ({embedded.model_path(entry)})")
    for s in servers:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(s.started))
        log = f", log {s.log}" if s.log else ""
        click.echo(f"server  {s.base_url} {s.model} (process {s.pid}, since {since}{log})")
    if not servers:
        click.echo("server  none runs")


@model.command()
def stop() -> None:
    """End the model servers; a run that needs one starts it again."""
    from ..models import embedded  # noqa: PLC0415

    stopped = embedded.stop()
    for s in stopped:
        click.echo(f"stopped {s.base_url} (process {s.pid})")
    if not stopped:
        click.echo("no server ran")


def terminal_confirm(*, yes: bool) -> "Confirm | None":
    """Return how to ask for the download: not at all, at the terminal, or None: nobody is there."""
    if yes or os.environ.get("MEM2EVOLVE_YES") == "1":
        return _announce
    if sys.stdin.isatty() and sys.stderr.isatty():
        return lambda text: click.confirm(f"{text}\nDownload it now?", default=True, err=True)
    return None


def _announce(text: str) -> bool:
    click.echo(text, err=True)
    return True


class ProgressPrinter:
    """Shows a pull on standard error: one line redrawn on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = 0.0
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            click.echo(err=True)  # whatever comes next begins on a line of its own

    def __call__(self, progress: "Progress") -> None:
        """Show how far the pull is, unless that was just shown."""
        now = time.monotonic()
        if now < self._next and progress.done < progress.total:
            return
        if progress.done >= progress.total and not self._next:
            return  # nothing had to be done
        self._next = now + (REDRAW_SECONDS if self._terminal else LINE_SECONDS)
        text = describe(progress)
        if self._terminal:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._drawn = True
        else:
            click.echo(text, err=True)


def describe(progress: "Progress") -> str:
    """Say in one line how far a pull is."""
    if progress.source == "waiting":
        return "waiting for another pull of the model"
    verb = {"checking": "checking the model", "file": "copying the model"}.get(
        progress.source, f"downloading the model ({progress.source})"
    )
    share = progress.done / progress.total if progress.total else 1.0
    return f"{verb}: {progress.done / 1e9:.2f} of {progress.total / 1e9:.2f} GB, {share:.0%}"
