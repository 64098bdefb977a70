"""A group whose commands are loaded when used, so that `--help` stays quick."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Lists its commands from a table, and imports the module of the one that is used.

    Args:
        package: In which the modules are.
        table: Name of the command → its module in the package, and its line of help.
    """

    def __init__(
        self, *args: Any, package: str, table: Mapping[str, tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._package = package
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module, and return its command of that name."""
        if name not in self._table:
            return None
        module = importlib.import_module(f".{self._table[name][0]}", self._package)
        return next(
            value
            for value in vars(module).values()
            if isinstance(value, click.Command) and value.name == name
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Help from the table, not from the commands' own modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self._table.items()])
