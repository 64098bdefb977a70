"""The MCP servers whose tools may be recruited, as `mem2evolve.toml` in the home names them."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .errors import ConfigError

FILE: Final = "mem2evolve.toml"
SECTION: Final = "mcp_servers"
MAX_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,23}")
_KEYS: Final = frozenset(
    {"command", "args", "env", "env_from", "url", "headers_from_env", "timeout"}
)


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """How to reach one MCP server: a program to start, or an address."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the program. Of our own environment it gets the usual few variables, and no keys."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 30.0
    """Seconds that a start, a list or a call may take."""

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        where = f"[{SECTION}.{self.name}]"
        if not _NAME.fullmatch(self.name):
            raise _malformed(
                f"{where} is no name for a server.",
                "Use up to 24 small letters and digits, a letter first.",
            )
        if bool(self.command) == bool(self.url):
            raise _malformed(f"{where} needs either command or url.", "Give one of them, not both.")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise _malformed(f"{where} url={self.url!r} is no web address.", "Use http(s)://….")
        if not 0 < self.timeout <= 3600:  # noqa: PLR2004 - an hour
            raise _malformed(
                f"{where} timeout={self.timeout!r} is out of range.", "Use seconds, up to 3600."
            )


def load_servers(home: Path, env: Mapping[str, str], *, trusted: bool) -> tuple[McpServer, ...]:
    """Read the servers of a home; none when it has no such file.

    Args:
        home: Where the file may be.
        env: Where `env_from` and `headers_from_env` are looked up.
        trusted: Whether somebody named this home. One that was only found may be a stranger's checkout, and
            its file could start any program.

    Raises:
        ConfigError: If the file cannot be read, is malformed, or is not trusted.
    """
    path = home / FILE
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES)
        tables = tomllib.loads(data.decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as exc:
        raise _malformed(f"{path} cannot be read: {exc.strerror}.", "Mend or remove it.") from exc
    except ValueError as exc:
        raise _malformed(f"{path} is no TOML: {exc}.", "Mend or remove it.") from exc
    if unknown := sorted({*tables} - {SECTION}):
        raise _malformed(
            f"{path} has an unknown part {unknown[0]!r}.", f"It holds [{SECTION}.NAME]."
        )
    found = _table(tables.get(SECTION, {}), f"[{SECTION}]")
    if found and not trusted:
        raise _malformed(
            f"{path} names MCP servers, and this home was only found, by the folder you are in.",
            f"If you trust the file: export MEM2EVOLVE_HOME={home}",
        )
    return tuple(
        _server(name, _table(one, f"[{SECTION}.{name}]"), env) for name, one in found.items()
    )


def _server(name: str, given: Mapping[str, Any], env: Mapping[str, str]) -> McpServer:
    where = f"[{SECTION}.{name}]"
    if unknown := sorted({*given} - _KEYS):
        raise _malformed(
            f"{where} has an unknown key {unknown[0]!r}.", f"Known: {', '.join(sorted(_KEYS))}."
        )
    own = _texts(given.get("env", {}), f"{where} env")
    for variable in _list(given.get("env_from", []), f"{where} env_from"):
        own[variable] = _looked_up(variable, env, where)
    headers = _texts(given.get("headers_from_env", {}), f"{where} headers_from_env")
    timeout = given.get("timeout", 30.0)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise _malformed(f"{where} timeout={timeout!r} is no number.", "Use seconds.")
    return McpServer(
        name=name,
        command=_text(given.get("command", ""), f"{where} command"),
        args=_list(given.get("args", []), f"{where} args"),
        env=own,
        url=_text(given.get("url", ""), f"{where} url"),
        headers={key: _looked_up(variable, env, where) for key, variable in headers.items()},
        timeout=float(timeout),
    )


def _looked_up(variable: str, env: Mapping[str, str], where: str) -> str:
    if value := env.get(variable):
        return value
    raise _malformed(f"{where} needs the variable {variable}, which is not set.", "Set it.")


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{what} is no table.", f"Write [{SECTION}.NAME] and its keys below.")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise _malformed(f"{what}={value!r} is no text.", "Put it in quotes.")
    return value


def _texts(value: Any, what: str) -> dict[str, str]:
    return {key: _text(one, f"{what}.{key}") for key, one in _table(value, what).items()}


def _list(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _malformed(f"{what}={value!r} is no list.", 'Write ["…", "…"].')
    return tuple(_text(one, what) for one in value)


def _malformed(message: str, hint: str) -> ConfigError:
    return ConfigError(message, hint=hint)
