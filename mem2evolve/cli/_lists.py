"""What every list has in common: a part of it, the words it must hold, and where to go on."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

T = TypeVar("T")

STATUSES: Final = ("candidate", "active", "superseded", "quarantined", "retired")
IN_USE: Final = ("active", "candidate", "quarantined")
"""Those that a list shows without being asked for others."""
SCREEN: Final = 50
"""Rows that a terminal is given at once."""


class Page(NamedTuple):
    """The part of a list that was asked for."""

    limit: int | None
    """Most rows; `None` for all."""
    skip: int
    find: str
    """Text that a row must hold, whatever its case; empty for any."""
    asked: bool = False
    """Whether `limit` was asked for, and is not what a terminal holds."""

    @property
    def reach(self) -> int | None:
        """How many of the newest records must be read at most; `None` for all."""
        return None if self.limit is None or self.find else self.skip + self.limit

    def cut(self, found: Sequence[T], text_of: Callable[[T], str]) -> list[T]:
        """Return the rows of this page."""
        wanted = self.find.casefold()
        fits = [one for one in found if wanted in text_of(one).casefold()] if wanted else found
        end = None if self.limit is None else self.skip + self.limit
        return [*fits[self.skip : end]]

    def tell_more(self, shown: int, total: int | None) -> None:
        """Say on standard error that there is more, and how to see it.

        Args:
            shown: Rows that were printed.
            total: All rows that fit; `None` when not counted, as with `find`.
        """
        after = self.skip + shown
        more = shown == self.limit if total is None else after < total
        if more:
            of = "" if total is None else f" of {total:,}"
            click.echo(f"{after:,}{of}; the next ones: --skip {after}", err=True)


def paging(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that lists the options of a list, and pass them on as `page`."""

    @click.option("--find", default="", metavar="TEXT", help="Only those that hold this text.")
    @click.option(
        "--limit",
        type=click.IntRange(min=1),
        help=f"Most rows; {SCREEN} on a terminal, else all.",
    )
    @click.option("--skip", type=click.IntRange(min=0), default=0, help="Leave so many out first.")
    @functools.wraps(command)
    def inner(*, find: str, limit: int | None, skip: int, **rest: Any) -> Any:
        screen = None if rest.get("as_json") or not sys.stdout.isatty() else SCREEN
        return command(page=Page(limit or screen, skip, find, limit is not None), **rest)

    return inner


def filtering(usual: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command that lists what is kept the options `--namespace`, `--status` and `--all`, passed on as `where`.

    Args:
        usual: What is left out without them, for the help.
    """

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--namespace", help="Only those of this namespace.")
        @click.option("--status", type=click.Choice(STATUSES), help="Only those of this status.")
        @click.option("--all", "everything", is_flag=True, help=f"Also {usual}.")
        @functools.wraps(command)
        def inner(
            *, namespace: str | None, status: str | None, everything: bool, **rest: Any
        ) -> Any:
            where: dict[str, str | Sequence[str]] = {"namespace": namespace} if namespace else {}
            if status:
                where["status"] = status
            return command(where=where, everything=everything or bool(status), **rest)

        return inner

    return give
