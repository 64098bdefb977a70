"""Asking before much is changed, and telling how far it is."""

import sys
from collections.abc import Callable
from typing import Final

import click

from ...errors import InputError

STEPS: Final = 10
"""Reports of one piece of work, at most."""


def allowed(question: str, *, yes: bool) -> bool:
    """Return whether to go on: `--yes`, else what the person at the terminal says.

    Raises:
        InputError: If nobody is there to ask.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            f"{question} There is no terminal to ask on.", hint="Add --yes to do it without asking."
        )
    return click.confirm(question, default=False, err=True)


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
