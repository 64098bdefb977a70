"""The compose file for servers. It cannot be run here: what can be read of it has to fit together."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mem2evolve.settings import Settings

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "deploy"
TEXT: Final = (FOLDER / "compose.yaml").read_text()
COMPOSE: Final[dict[str, Any]] = yaml.safe_load(TEXT)
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
EXAMPLE: Final = re.findall(r"^([A-Z_]+)=(.*)$", (FOLDER / "env.example").read_text(), re.MULTILINE)
KEYS: Final = {
    *("image", "pull_policy", "restart", "command", "environment", "env_file", "volumes", "ports"),
    *("healthcheck", "depends_on", "security_opt"),
}
"""Of the compose specification, those that are used."""


def test_the_keys_are_those_of_the_specification() -> None:
    """A misspelled key would be passed over or refused at start."""
    assert set(COMPOSE) == {"name", "services", "volumes"}
    assert set().union(*SERVICES.values()) <= KEYS
    for service in SERVICES.values():
        assert set(service["healthcheck"]) <= {
            "test",
            "interval",
            "timeout",
            "retries",
            "start_period",
        }


def test_services_wait_for_each_other() -> None:
    """What is waited for exists and has a health check, without which it would be waited for in vain."""
    waits = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert waits["langgraph"].keys() == {"qdrant", "redis", "postgres"}
    for needed in waits.values():
        for name, how in needed.items():
            assert how == {"condition": "service_healthy"}
            assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_volumes_are_declared_and_used() -> None:
    """Else data would be lost with a container."""
    used = {
        volume.partition(":")[0] for one in SERVICES.values() for volume in one.get("volumes", [])
    }
    assert used == set(COMPOSE["volumes"])


def test_ports_are_on_loopback_and_versions_pinned() -> None:
    """Nothing is open to the network by default, and no tag moves."""
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert re.search(r"\d+\.\d+", service["image"].partition(":")[2])


def test_secrets_come_from_the_env_file() -> None:
    """Each that the file asks for is in the example, which holds no value, and is refused when empty."""
    asked = re.findall(r"\$\{([A-Z_]+)(:\?)?", TEXT)
    assert {required for _, required in asked} == {":?"}
    assert {name for name, _ in asked} <= {name for name, _ in EXAMPLE}
    assert {value for _, value in EXAMPLE} == {""}
    assert SERVICES["langgraph"]["env_file"] == [".env"]
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_addresses_name_services_and_their_ports() -> None:
    """Each address that the server is given leads to a service, with the user and database that it is made with."""
    told = SERVICES["langgraph"]["environment"]
    made = SERVICES["postgres"]["environment"]
    assert told["REDIS_URI"] == "redis://redis:6379"
    assert told["QDRANT_URL"] == "http://qdrant:6333"
    user, database = made["POSTGRES_USER"], made["POSTGRES_DB"]
    assert told["DATABASE_URI"].startswith(
        f"postgres://{user}:{made['POSTGRES_PASSWORD']}@postgres:5432/{database}?"
    )


def test_our_own_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file sets for this program is what its settings read."""
    names = {*SERVICES["langgraph"]["environment"], *(name for name, _ in EXAMPLE)}
    ours = {name for name in names if name.startswith(("MEM2EVOLVE_", "QDRANT_"))}
    env = {name: f"/{name}" for name in ours}
    monkeypatch.delenv("MEM2EVOLVE_HOME", raising=False)
    found = Settings.from_env(env)
    read = {str(getattr(found, field.name)) for field in fields(found)}
    assert {value for name, value in env.items() if name != "MEM2EVOLVE_CACHE"} <= read


def test_the_readme_names_every_variable_and_says_what_was_not_done() -> None:
    """Nobody takes it for tested; the graph is that of the repository."""
    said = (FOLDER / "README.md").read_text()
    assert "**We have not run it.**" in said
    assert all(f"`{name}`" in said for name, _ in EXAMPLE)
    tag = SERVICES["langgraph"]["image"]
    assert f"langgraph build -t {tag}" in said
    assert "mem2evolve" in json.loads((ROOT / "langgraph.json").read_text())["graphs"]
