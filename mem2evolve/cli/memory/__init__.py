"""`mem2evolve memory`: what it wrote down, and the care of it."""

from typing import Final

import click

from .._lazy import LazyGroup

COMMANDS: Final = {
    "stats": ("stats", "Count what it holds; say what made it and where it is."),
    "list": ("lessons", "List lessons, newest first."),
    "show": ("lessons", "Show a lesson: its text and the runs behind it."),
    "verify": ("verify", "Read every record and say what is wrong with it."),
    "why": (".why", "Where an answer, a tool, an expert or a lesson comes from."),
    "calibrate": (
        "calibrate",
        "Measure when an asset is recruited, for the embedding model in use.",
    ),
    "reembed": ("reembed", "Make all vectors anew, for another embedding model."),
    "replay": ("replay", "Run tasks with an asset or a lesson and without; say what it gains."),
    "edit": ("edit", "Say a lesson in other words."),
    "delete": ("delete", "Delete a run, an asset or a lesson, with what came of it."),
    "prune": ("prune", "Set aside losers, twins and what is not used."),
    "doctor": ("doctor", "Look for what a person should settle."),
    "export": ("export", "Write records into a bundle: one file to keep or to hand on."),
    "import": ("import_", "Check a bundle, show what is new of it, and take that in."),
    "migrate": ("migrate", "Copy the home's memory to a Qdrant server."),
}
"""Name → the module of this folder that holds it, and its line of help."""


@click.group(cls=LazyGroup, package=__name__, table=COMMANDS)
def memory() -> None:
    """What it wrote down: lessons, and the care of the whole memory."""
