"""Telling how far a piece of work is."""

from collections.abc import Callable
from typing import Final

import click

STEPS: Final = 10
"""Reports of one piece of work, at most."""


def progress() -> Callable[[str, int, int], None]:
    """Return what tells on standard error how far a piece of work is, every tenth of it."""
    last: dict[str, int] = {}

    def tell(what: str, done: int, total: int) -> None:
        step = STEPS * done // max(total, 1)
        if done < last.get(what, 0) * total // STEPS:
            last[what] = 0
        if step > last.get(what, 0):
            last[what] = step
            if total > STEPS:
                click.echo(f"{what}: {done:,} of {total:,}", err=True)

    return tell
