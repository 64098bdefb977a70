"""Runs the demo on the embedded model in fresh homes, and reports how often it succeeds and what it costs.

    python bench/demo.py --runs 10 [--keep FOLDER]

Success: the first task creates a tool, the second recruits it, both answers are right. The last line is
one JSON object; the exit code is 1 below the bar of 8 in 10 or above a token bar.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

BAR: Final = 0.8
CREATING: Final = (6_000, 2_500)
"""Prompt and generated tokens that the creating task may take; the reusing one half of each."""


def main() -> int:
    """Run the demo, print a line a run and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="Keep the homes and outputs here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        rows = [one_run(folder / f"run{n:02}") for n in range(1, options.runs + 1)]
    good = [row for row in rows if row["ok"]]
    report = {
        "runs": len(rows),
        "ok": len(good),
        "failures": [row["why"] for row in rows if not row["ok"]],
        "creating": spread(rows, 0),
        "reusing": spread(rows, 1),
    }
    print(json.dumps(report))
    return 0 if len(good) >= BAR * len(rows) and all(row["within"] for row in good) else 1


def one_run(home: Path) -> dict[str, Any]:
    """Run the demo once in a home of its own."""
    home.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    env = {**os.environ, "MEM2EVOLVE_HOME": str(home), "MEM2EVOLVE_MODEL": "embedded"}
    command = [sys.executable, "-m", "mem2evolve.cli", "demo", "--json", "--yes"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    (home / "out.json").write_text(done.stdout)
    (home / "err.txt").write_text(done.stderr)
    row = judge(done) | {"wall": round(time.monotonic() - started, 1)}
    print(json.dumps(row), flush=True)
    return row


def judge(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Say whether one demo did what it should, and what it cost."""
    if done.returncode != 0:
        return {
            "ok": False,
            "why": f"exit {done.returncode}: {done.stderr.strip()[-300:]}",
            "within": False,
            "costs": [],
        }
    tasks = json.loads(done.stdout)
    wanted = ("created", "recruited")
    why = []
    for n, (task, outcome) in enumerate(zip(tasks, wanted, strict=True), 1):
        tools = [one for one in task["decisions"] if one["need"]["kind"] == "tool"]
        if [one["outcome"] for one in tools] != [outcome]:
            why.append(f"task {n}: {[(one['outcome'], one['why']) for one in tools]}")
        if not task["right"]:
            why.append(f"task {n}: answered {task['answer']!r}")
    costs = [
        {
            "prompt": sum(task["tokens"][way]["prompt"] for way in ("forward", "backward")),
            "generated": sum(task["tokens"][way]["completion"] for way in ("forward", "backward")),
            "seconds": task["seconds"]["total"],
            "model_seconds": round(
                task["seconds"]["forward_model"] + task["seconds"]["backward_model"], 1
            ),
            "verdict": task["verdict"],
        }
        for task in tasks
    ]
    bars = (CREATING, (CREATING[0] / 2, CREATING[1] / 2))
    within = all(
        cost["prompt"] <= bar[0] and cost["generated"] <= bar[1]
        for cost, bar in zip(costs, bars, strict=True)
    )
    return {"ok": not why, "why": "; ".join(why), "within": within, "costs": costs}


def spread(rows: list[dict[str, Any]], n: int) -> dict[str, Any]:
    """Return median and largest cost of the first or the second task, and its generated tokens per second."""
    costs = [row["costs"][n] for row in rows if row["costs"]]
    if not costs:
        return {}
    found: dict[str, Any] = {}
    for key in ("prompt", "generated", "seconds"):
        values = [cost[key] for cost in costs]
        found[key] = {"median": statistics.median(values), "max": max(values)}
    found["tokens_per_s"] = round(
        statistics.median(cost["generated"] / max(cost["seconds"], 0.1) for cost in costs), 1
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
