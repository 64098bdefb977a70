"""`mem2evolve memory`: what it wrote down, and the care of it."""

from typing import Final

import click

from .._lazy import LazyGroup

COMMANDS: Final = {
    "list": ("lessons", "List lessons, newest first."),
    "show": ("lessons", "Show a lesson: its text and the runs behind it."),
    "calibrate": (
        "calibrate",
        "Measure when an asset is recruited, for the embedding model in use.",
    ),
    "reembed": ("reembed", "Make all vectors anew, for another embedding model."),
}
"""Name → the module of this folder that holds it, and its line of help."""


@click.group(cls=LazyGroup, package=__name__, table=COMMANDS)
def memory() -> None:
    """What it wrote down: lessons, and the care of the whole memory."""
