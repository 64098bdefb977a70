"""A command that is killed at a step and resumed, in a copy of a home, and what is wrong with what is left."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..fakes import Asked, Cast, prompt_of
from ..openai_server import OpenAIServer, Reply
from .killed_life import digest
from .killed_traces import all_records, differ, named, processes_left

LIFE: Final = Path(__file__).with_name("killed_life.py")
KILLED: Final = -9
ASIDE: Final = (".new-", ".old-")
"""Begin the names of folders that a killed process may leave; `tools sync` removes them."""


@dataclass
class Life:
    """One process, from its start to its end."""

    code: int
    out: str
    err: str
    log: list[dict[str, Any]]
    asked: list[str]
    """Digests of the questions that came to the model."""
    pid: int

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log about one kind of event."""
        return [line for line in self.log if line["event"] == event]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Return the starts and ends of steps, in order."""
        return [line for line in self.log if line["event"] in ("start", "end")]

    @property
    def last(self) -> str:
        """What happened last, before it was killed."""
        return "{event} of {step}".format(**self.steps[-1]) if self.steps else "nothing"


class Launcher:
    """Starts lives, one after the other, from one process that has loaded everything."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(LIFE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run(self, order: dict[str, Any]) -> tuple[int, int]:
        """Return a life's process id and exit status."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._line()), int(self._line())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class World:
    """A home, a model, and the commands that are run there."""

    def __init__(self, folder: Path, launcher: Launcher, script: Callable[[Asked], Reply]) -> None:
        self.folder, self.home = folder, folder / "home"
        self._launcher, self._script = launcher, script
        (folder / "user").mkdir(parents=True, exist_ok=True)
        self.prompts: list[str] = []
        self._asked: list[str] = []
        self._lives = 0

    def _reply(self, asked: Asked) -> Reply:
        self._asked.append(digest([str(one.get("content") or "") for one in asked["messages"]]))
        self.prompts.append(prompt_of(asked))
        return self._script(asked)

    def live(self, *args: str, at: int = 0, late: float = 0.0) -> Life:
        """Run a command; it dies at an event, or never."""
        self._lives += 1
        self._asked = []
        out, log = self.folder / f"out{self._lives}", self.folder / f"log{self._lives}"
        with OpenAIServer(self._reply) as server:
            env = {
                "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8",
                "HOME": str(self.folder / "user"),
                "MEM2EVOLVE_HOME": str(self.home),
                "MEM2EVOLVE_CACHE": str(self.folder / "cache"),
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": "test",
            }
            order = {"args": args, "env": env, "cwd": str(self.folder), "out": str(out)}
            pid, code = self._launcher.run({**order, "log": str(log), "at": at, "late": late})
        lines = log.read_text().splitlines() if log.exists() else []
        err = Path(f"{out}.err").read_text()
        return Life(code, out.read_text(), err, [*map(json.loads, lines)], self._asked, pid)

    def ended(self) -> set[str]:
        """Return the ids of the steps whose result is stored, by what lies in the home."""
        path = self.home / ".mem2evolve" / "checkpoints.sqlite"
        with closing(sqlite3.connect(path)) as conn:
            found = conn.execute("SELECT task_id, channel FROM writes").fetchall()
        special = ("__error__", "__interrupt__", "__resume__", "__scheduled__")
        return {task for task, channel in found if channel not in special}

    def begun(self) -> list[str]:
        """Return the ids of unfinished runs."""
        path = self.home / ".mem2evolve" / "checkpoints.sqlite"
        with closing(sqlite3.connect(path)) as conn:
            return [key for (key,) in conn.execute("SELECT run_id FROM unfinished_runs")]

    def leftovers(self) -> dict[str, int]:
        """Return how much of unfinished runs is still stored."""
        path = self.home / ".mem2evolve" / "checkpoints.sqlite"
        with closing(sqlite3.connect(path)) as conn:
            tables = ("checkpoints", "writes", "unfinished_runs")
            counts = {
                name: int(conn.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 - names of ours
                for name in tables
            }
        locks = self.home / ".mem2evolve" / "running"
        return {**counts, "locks": len(list(locks.iterdir()))}

    def half_written(self) -> list[str]:
        """Return folders of versions that lack a file; those aside are not seen by anybody."""
        wanted = {"tool.py", "cases.json", "tool.json"}
        return [
            str(folder)
            for folder in self._versions()
            if {path.name for path in folder.iterdir()} != wanted
            or not all(path.stat().st_size for path in folder.iterdir())
        ]

    def _versions(self) -> Iterator[Path]:
        for folder in (self.home / "tools_generated").glob("*/*"):
            if not folder.parent.name.startswith(ASIDE):
                yield folder

    def state(self) -> dict[str, Any]:
        """Return everything that the home holds, without times, and with names in the place of random ids."""
        records = asyncio.run(all_records(self.home))
        names = {
            one[
                "id"
            ]: f"<{kind} {one.get('name') or one.get('title') or one['task']} v{one.get('version', 1)}>"
            for kind, found in records.items()
            for one in found
        }
        files = {
            str(path.relative_to(self.home)): path.read_text()
            for folder in self._versions()
            for path in sorted(folder.iterdir())
        }
        files = {
            name: json.loads(text) if name.endswith(".json") else text
            for name, text in files.items()
        }
        for kind, found in records.items():
            found.sort(key=lambda one: names[one["id"]])
            assert len(found) == len({names[one["id"]] for one in found}), (kind, found)
        return named({"records": records, "files": files}, names)  # type: ignore[no-any-return]

    def names(self, value: Any) -> Any:
        """Put names in the place of ids in what a command printed."""
        records = asyncio.run(all_records(self.home))
        known = {
            one["id"]: f"<{kind} {one.get('name') or one.get('title') or one['task']}>"
            for kind, found in records.items()
            for one in found
        }
        return named(value, known)


@dataclass
class Scenario:
    """A command on a prepared home, and how it ends when nothing breaks it."""

    name: str
    args: tuple[str, ...]
    parts: Callable[[], Cast]
    prepared: Path
    launcher: Launcher
    whole: Life = field(init=False)
    state: dict[str, Any] = field(init=False)
    end: Path = field(init=False)

    def world(self, folder: Path, launcher: Launcher) -> World:
        """Copy the prepared home."""
        folder.mkdir()
        shutil.copytree(self.prepared, folder / "home")
        return World(folder, launcher, self.parts())

    def unbroken(self, folder: Path) -> None:
        """Run it once without a break."""
        world = self.world(folder, self.launcher)
        self.whole = world.live(*self.args)
        assert self.whole.code == 0, self.whole.err
        self.state, self.end = world.state(), world.home
        self._said = world.names(json.loads(self.whole.out)) if "--json" in self.args else None
        self.leftovers = world.leftovers()

    def broken(self, folder: Path, launcher: Launcher, at: int, late: float = 0.0) -> list[str]:
        """Kill it at an event, resume it, and return what is not as it must be."""
        world = self.world(folder, launcher)
        first = world.live(*self.args, at=at, late=late)
        if first.code == 0 and late:
            return []  # it was done before it could be killed
        assert first.code == KILLED, (first.code, first.err)
        known = [(pid, start) for line in first.of("killed") for pid, start in line["below"]]
        found = [f"left behind: {one}" for one in processes_left(known, first.pid)]
        found += [f"half written after the kill: {one}" for one in world.half_written()]
        found += self._resumed(world, first)
        return [f"{self.name} {at} +{late:.3f} s ({first.last}): {one}" for one in found]

    def _resumed(self, world: World, first: Life) -> list[str]:
        ended, begun = world.ended(), world.begun()
        if not begun:  # it was killed when there was nothing left to do
            return self._differences(world, None)
        quiet = ["--json"] if "--json" in self.args else []
        second = world.live("runs", "resume", begun[0], *quiet)
        if second.code != 0:
            return [f"not resumed: {second.err}"]
        again = {one["step"] for one in second.of("start") if one["task"] in ended}
        found = [f"step {step} ran again though it had ended" for step in sorted(again)]
        found += self._questions(first, second, ended)
        return found + self._differences(world, json.loads(second.out) if quiet else None)

    def _questions(self, first: Life, second: Life, ended: set[str]) -> list[str]:
        """Both lives together ask what the unbroken one asks, and at most once more what a lost step had asked."""
        steps: dict[str, list[str]] = {}
        for line in first.of("asks"):
            steps.setdefault(line["what"], []).append(line["task"])
        whole, asked = Counter(self.whole.asked), Counter(first.asked) + Counter(second.asked)
        found = []
        for what in asked | whole:
            before = steps.get(what, [])[: first.asked.count(what)]
            most = whole[what] + sum(task not in ended for task in before)
            if not whole[what] <= asked[what] <= most:
                found.append(f"asked {asked[what]} times, not {whole[what]} to {most}: {what}")
        return found

    def _differences(self, world: World, said: Any) -> list[str]:
        found = [f"half written at the end: {one}" for one in world.half_written()]
        if world.leftovers() != self.leftovers:
            found.append(f"still stored: {world.leftovers()}, not {self.leftovers}")
        found += differ(self.state, world.state(), "state")
        if said is not None:
            found += differ(self._said, world.names(said), "said")
        return found
