"""`mem2evolve memory migrate`: the home's memory to a Qdrant server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import ConfigError, InputError
from .._common import print_json, say, wait
from ._ask import JSON, YES, agreed
from ._progress import progress

if TYPE_CHECKING:
    from ...memory.transfer import Difference

KEY = "QDRANT_API_KEY"


@click.command()
@click.option("--to", "url", required=True, metavar="URL", help="The server's address.")
@click.option("--api-key-env", default=KEY, metavar="NAME", help=f"Variable with its key ({KEY}).")
@click.option("--overwrite", is_flag=True, help="Replace records there that differ.")
@YES
@JSON
def migrate(url: str, *, api_key_env: str, overwrite: bool, yes: bool, as_json: bool) -> None:
    """Copy the memory in the home's folder to a Qdrant server.

    Records go with their vectors; the folder stays as it is. Broken off, the same command goes on. At
    the end every record is compared, and you are told what to set so that the server is used.
    """
    wait(_migrate(url, api_key_env, overwrite=overwrite, yes=yes, as_json=as_json))


async def _migrate(
    url: str, api_key_env: str, *, overwrite: bool, yes: bool, as_json: bool
) -> None:
    from ...memory.backends.edge import EdgeStore  # noqa: PLC0415 - `--help` stays quick
    from ...memory.backends.server import ServerStore  # noqa: PLC0415
    from ...memory.transfer import check_differing, compare, transfer  # noqa: PLC0415
    from ...settings import Settings  # noqa: PLC0415

    key = _key(url, api_key_env)
    folder = Settings.from_env().state_dir / "memory"
    if not folder.is_dir():
        raise InputError(
            f"There is no memory in {folder}.", hint="Choose another home with --home."
        )
    source, target = EdgeStore(folder), ServerStore(url=url, api_key=key)
    try:
        found = await compare(source, target)
        if not as_json:
            _show(found, folder, url)
        check_differing(found, overwrite=overwrite)
        copied = found.left > 0 and agreed(f"Copy {found.left:,} records to {url}?", yes=yes)
        if copied or not found.left:
            await transfer(source, target, overwrite=overwrite, tell=progress())
    finally:
        await target.close()
        await source.close()
    if as_json:
        done = bool(copied or not found.left)
        print_json(
            {
                "to": url,
                "records": found.total,
                "copied": found.left if done else 0,
                "verified": done,
            }
        )
    elif copied or not found.left:
        say(f"{sum(found.total.values()):,} records are on the server, each compared", bold=True)
        say(f"to use it, set QDRANT_URL={url}" + (f" and {KEY}" if key else ""))
        say(f"{folder} was left as it is")


def _show(found: "Difference", folder: Path, url: str) -> None:
    say(f"from {folder}\nto   {url}")
    for collection, total in found.total.items():
        missing, differing = found.missing[collection], found.differing[collection]
        say(
            f"  {collection}: {total:,} records, {missing:,} missing there, {differing:,} different"
        )


def _key(url: str, variable: str) -> str | None:
    """Return the key, after a look at the address.

    Raises:
        ConfigError: If one of them cannot be used.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise ConfigError(
            f"{url!r} is no address of a server.", hint="Such as http://localhost:6333."
        )
    if "@" in rest.partition("/")[0]:
        raise ConfigError(
            "The address holds a user or a password.", hint=f"Put the key into {KEY} instead."
        )
    key = os.environ.get(variable) or None
    if key is None and variable != KEY:
        raise ConfigError(f"{variable} is not set.", hint="Put the server's key into it.")
    return key
