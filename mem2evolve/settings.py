"""What the program is told from outside, parsed once and refused loudly.

`Settings` holds what belongs to a process (where things are kept, which models). What may differ
from run to run is in `graph.context.Context`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import platformdirs

from .errors import ConfigError
from .servers import McpServer, load_servers

APP: Final = "mem2evolve"
EMBEDDED_MODEL: Final = "embedded"
"""Model string of the model that this program serves itself."""
DEFAULT_OPENAI_MODEL: Final = "openai:gpt-5"
"""Used when a key is set and no model is named."""
DEFAULT_EMBEDDING: Final = "minilm"
_PACKAGE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_HOST: Final = re.compile(r"[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?", re.ASCII)

SandboxChoice = Literal["bubblewrap", "unsafe-subprocess"]
SANDBOXES: Final[tuple[SandboxChoice, ...]] = ("bubblewrap", "unsafe-subprocess")


def find_home(env: Mapping[str, str] | None = None) -> Path:
    """Return where runs keep things.

    `MEM2EVOLVE_HOME`; else the nearest folder upward that holds a `langgraph.json` or a
    `.mem2evolve/`; else the user's data folder.
    """
    env = os.environ if env is None else env
    if named := env.get("MEM2EVOLVE_HOME"):
        return Path(named).expanduser().absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "langgraph.json").is_file() or (folder / ".mem2evolve").is_dir():
            return folder
    return _own_home()


def _own_home() -> Path:
    return Path(platformdirs.user_data_dir(APP))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where this process keeps things and which models it uses."""

    home: Path = field(default_factory=find_home)
    """Folder of everything that runs keep: `tools_generated/` and `.mem2evolve/`."""

    model: str = EMBEDDED_MODEL
    """Chat model, as LangChain names it (`openai:gpt-5`), or `embedded`."""

    embedding: str = DEFAULT_EMBEDDING
    """Embedding model: `minilm` (built in), or as LangChain names it (`openai:text-embedding-3-small`)."""

    sandbox: SandboxChoice = "bubblewrap"
    """Where generated code runs; `unsafe-subprocess` isolates nothing."""

    packages: tuple[str, ...] = ()
    """Packages that generated tools may use, by their normalised names; they are fetched when needed."""

    fetch_hosts: tuple[str, ...] = ()
    """Hosts, as `HOST` or `HOST:PORT`, from which a tool with that permission may fetch."""

    mcp_servers: tuple[McpServer, ...] = ()
    """MCP servers whose tools may be recruited."""

    qdrant_url: str | None = None
    """Qdrant server that keeps the memory instead of the home."""

    qdrant_api_key: str | None = field(default=None, repr=False)
    """Key of that server."""

    @classmethod
    def from_env(
        cls,
        env: Mapping[str, str] | None = None,
        *,
        home: Path | None = None,
        model: str | None = None,
    ) -> "Settings":
        """Read the environment; arguments win over it.

        `MEM2EVOLVE_HOME`, `MEM2EVOLVE_MODEL`, `MEM2EVOLVE_EMBEDDING`, `MEM2EVOLVE_SANDBOX`,
        `MEM2EVOLVE_PACKAGES`, `MEM2EVOLVE_FETCH_HOSTS`, `QDRANT_URL`, `QDRANT_API_KEY`;
        `OPENAI_API_KEY` chooses `openai:gpt-5` when no model is named. MCP servers: see `servers`.

        Raises:
            ConfigError: If a value is not one of those allowed.
        """
        env = os.environ if env is None else env
        sandbox = env.get("MEM2EVOLVE_SANDBOX") or "bubblewrap"
        if sandbox not in SANDBOXES:
            raise ConfigError(
                f"MEM2EVOLVE_SANDBOX={sandbox!r} is not a sandbox.",
                hint=f"Use one of {', '.join(SANDBOXES)}, or unset it.",
            )
        named = (home or find_home(env)).expanduser().absolute()
        trusted = bool(home or env.get("MEM2EVOLVE_HOME")) or named == _own_home()
        return cls(
            home=named,
            model=model or env.get("MEM2EVOLVE_MODEL") or _implied_model(env),
            embedding=env.get("MEM2EVOLVE_EMBEDDING") or DEFAULT_EMBEDDING,
            sandbox=sandbox,
            packages=_names(env, "MEM2EVOLVE_PACKAGES"),
            fetch_hosts=_hosts(env, "MEM2EVOLVE_FETCH_HOSTS"),
            mcp_servers=load_servers(named, env, trusted=trusted),
            qdrant_url=env.get("QDRANT_URL") or None,
            qdrant_api_key=env.get("QDRANT_API_KEY") or None,
        )

    @property
    def memory_place(self) -> str:
        """Where the memory is, as one may show it: the server's address without a password, or the folder."""
        return (
            without_secret(self.qdrant_url) if self.qdrant_url else str(self.state_dir / "memory")
        )

    @property
    def state_dir(self) -> Path:
        """Memory shards, manifest, checkpoints and logs."""
        return self.home / ".mem2evolve"

    @property
    def tools_dir(self) -> Path:
        """The generated tools as files, for people and git."""
        return self.home / "tools_generated"


def without_secret(url: str) -> str:
    """Return an address without what stands before its host: a name and a password."""
    return re.sub(r"(?<=//)[^/@]*@", "", url)


def cache_dir() -> Path:
    """Return the user's cache folder of this program: models and tool sources."""
    override = os.environ.get("MEM2EVOLVE_CACHE")
    return Path(override).expanduser() if override else Path(platformdirs.user_cache_dir(APP))


def _names(env: Mapping[str, str], variable: str) -> tuple[str, ...]:
    """Read names of packages, separated by commas, in the one spelling that indexes compare."""
    names = [name.strip() for name in env.get(variable, "").split(",") if name.strip()]
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise ConfigError(
                f"{variable} names {name!r}, which is not the name of a package.",
                hint=f'Separate names by commas and leave versions out: {variable}="numpy,pandas".',
            )
    return tuple(dict.fromkeys(re.sub(r"[-_.]+", "-", name).lower() for name in names))


def _hosts(env: Mapping[str, str], variable: str) -> tuple[str, ...]:
    hosts = [host.strip().lower() for host in env.get(variable, "").split(",") if host.strip()]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ConfigError(
                f"{variable} names {host!r}, which is not a host.",
                hint=f'Separate hosts by commas, without http:// or paths: {variable}="api.example.org".',
            )
    return tuple(dict.fromkeys(hosts))


def _implied_model(env: Mapping[str, str]) -> str:
    """Name a model when none is named: a base URL or a key points at a provider."""
    if env.get("OPENAI_BASE_URL"):
        return "openai:"  # the server's only model; `models.chat` asks it
    if env.get("OPENAI_API_KEY"):
        return DEFAULT_OPENAI_MODEL
    return EMBEDDED_MODEL
