"""`mem2evolve memory`: what it wrote down, and the care of it."""

from typing import Final

import click

from .._lazy import LazyGroup

COMMANDS: Final = {
    "list": ("lessons", "List lessons, newest first."),
    "show": ("lessons", "Show a lesson: its text and the runs behind it."),
    "edit": ("edit", "Say a lesson in other words."),
    "delete": ("delete", "Delete a run, an asset or a lesson, with what came of it."),
    "prune": ("prune", "Set aside losers, twins and what is not used."),
    "doctor": ("doctor", "Look for what a person should settle."),
}
"""Name → the module of this folder that holds it, and its line of help."""


@click.group(cls=LazyGroup, package=__name__, table=COMMANDS)
def memory() -> None:
    """What it wrote down: lessons, and the care of the whole memory."""
