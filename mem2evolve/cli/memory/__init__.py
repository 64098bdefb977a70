"""`mem2evolve memory`: what it wrote down, and the care of it."""

from typing import Final

import click

from .._lazy import LazyGroup

COMMANDS: Final = {
    "list": ("lessons", "List lessons, newest first."),
    "show": ("lessons", "Show a lesson: its text and the runs behind it."),
    "export": ("export", "Write records into a bundle: one file to keep or to hand on."),
    "import": ("import_", "Check a bundle, show what is new of it, and take that in."),
    "migrate": ("migrate", "Copy the home's memory to a Qdrant server."),
}
"""Name → the module of this folder that holds it, and its line of help."""


@click.group(cls=LazyGroup, package=__name__, table=COMMANDS)
def memory() -> None:
    """What it wrote down: lessons, and the care of the whole memory."""
