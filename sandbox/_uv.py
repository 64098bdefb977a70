"""Fetching packages with uv, from wherever the user has told pip or uv to fetch them."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..errors import SandboxUnavailable
from ._layout import interpreter

TIMEOUT_S: Final = 600.0
"""For all packages of one environment."""
SAID_CHARS: Final = 600
OPTIONS: Final = (
    # A source build would run code of the package here, outside of any box.
    *("--only-binary", ":all:"),
    # Hard links into uv's cache would make a damaged cache out of a damaged environment.
    *("--link-mode", "copy"),
    *("--compile-bytecode", "--no-python-downloads", "--no-progress", "--color", "never"),
)
FROM_PIP: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
"""Options of pip that say where packages come from, and the variables by which uv is told."""
BY_COMMA: Final = frozenset({"UV_FIND_LINKS"})
NETWORK: Final = re.compile(
    r"error sending request|failed to fetch|dns error|connect error|tcp connect|timed? ?out"
    r"|connection (?:refused|reset|closed)|HTTP status (?:server error|.*\b5\d\d\b)|network"
    r"|invalid peer certificate|certificate|no space left|permission denied",
    re.IGNORECASE,
)
"""What uv says when nothing is known of the package itself."""


class PackageError(Exception):
    """Packages that cannot be had, in words for whoever declared them."""


def install(dependencies: Sequence[str], folder: Path) -> None:
    """Fetch wheels and unpack them into a folder. Runs no code of theirs. Blocks.

    Raises:
        PackageError: If there is no wheel that fits.
        SandboxUnavailable: If nothing could be fetched.
    """
    import uv  # noqa: PLC0415 - needed only when an environment is made

    named = ", ".join(dependencies)
    told = pip_options(os.environ)
    options = [*OPTIONS, *(["--no-index"] if _is_set(told.get("no-index", "")) else [])]
    try:
        command = [uv.find_uv_bin(), "pip", "install", "--python", interpreter(), *options]
        done = subprocess.run(  # noqa: S603 - the names were checked
            [*command, "--target", str(folder), "--", *dependencies],
            env=uv_environment(os.environ, told),
            cwd=folder.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise _unavailable(named, f"uv did not end within {TIMEOUT_S:.0f} s") from exc
    except OSError as exc:
        raise _unavailable(named, f"uv cannot be run: {exc}") from exc
    if done.returncode == 0:
        (folder / ".lock").unlink(missing_ok=True)  # uv's own
        return
    said = _shorten(done.stderr)
    if NETWORK.search(done.stderr) or done.returncode < 0:
        raise _unavailable(named, said or f"uv ended with {done.returncode}")
    raise PackageError(f"package {named} cannot be installed: {said}")


def uv_environment(env: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for uv: what pip is told, unless uv is told otherwise."""
    ours = {
        name: _joined(told[option], "," if name in BY_COMMA else " ")
        for option, name in FROM_PIP.items()
        if told.get(option)
    }
    if "UV_INDEX_URL" in env:  # its older name
        ours.pop("UV_DEFAULT_INDEX", None)
    if "UV_INDEX" in ours:  # pip takes the best of all indexes, uv the first that has the name
        ours["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    dropped = {
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "UV_TARGET",
        "UV_PREFIX",
        "UV_SYSTEM_PYTHON",
    }
    # A build from source must not come in by a variable.
    dropped |= {"UV_NO_BINARY", "UV_NO_BINARY_PACKAGE"}
    return {key: text for key, text in {**ours, **env}.items() if key not in dropped}


def pip_options(env: Mapping[str, str]) -> dict[str, str]:
    """Return what pip is configured with; its environment variables win over its files. Blocks."""
    found: dict[str, str] = {}
    try:
        listed = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError, ValueError):
        listed = ""
    lines = [line.partition("=") for line in listed.splitlines()]
    for section in ("global.", "install."):
        for key, _, quoted in lines:
            if key.startswith(section):
                found[key.removeprefix(section)] = _unquoted(quoted)
    for option in (*FROM_PIP, "no-index"):
        if text := env.get("PIP_" + option.upper().replace("-", "_")):
            found[option] = text
    return found


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def _is_set(text: str) -> bool:
    return text.strip().lower() in {"1", "true", "yes", "on", "y", "t"}


def _joined(text: str, by: str) -> str:
    return by.join(text.split())


def _unavailable(named: str, why: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The packages {named} could not be fetched: {why}",
        hint="Check the network and the index that pip or uv is configured with, then try again.",
    )


def _shorten(said: str) -> str:
    """Return what uv complained of on one line, without its drawing."""
    text = " ".join(re.sub(r"[^\x20-\x7e]", " ", said).split())
    return text if len(text) <= SAID_CHARS else text[:SAID_CHARS] + "…"
