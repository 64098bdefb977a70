"""Asking before much is changed."""

import sys
from collections.abc import Sequence

import click

from ...errors import InputError
from .._common import say
from .._text import plain

YES = click.option("--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
SHOWN = 30
"""Lines of one sort that are printed."""


def can_ask(*, yes: bool, dry_run: bool) -> None:
    """Refuse at once what could not be confirmed.

    Raises:
        InputError: If there is nobody to ask.
    """
    if not (yes or dry_run or on_terminal()):
        raise InputError(
            "This has to be confirmed, and there is no terminal to ask on.",
            hint="Look at it with --dry-run, then add --yes.",
        )


def agreed(question: str, *, yes: bool) -> bool:
    """Return whether a person agrees.

    Raises:
        InputError: If there is nobody to ask.
    """
    if not (yes or on_terminal()):
        raise InputError(
            f"{question} There is no terminal to ask on.", hint="Add --yes to do it without asking."
        )
    if yes or click.confirm(plain(question), err=True):
        return True
    click.echo("nothing was changed", err=True)
    return False


def on_terminal() -> bool:
    """Say whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def say_lines(lines: Sequence[str]) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:SHOWN]:
        say(line)
    if len(lines) > SHOWN:
        say(f"… and {len(lines) - SHOWN:,} more (--json shows all)")
