"""The whole loop on the embedded model, through the command line, in a fresh home."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

TRIES = 2
"""A small model sometimes writes no tool that passes; a loop that never works is broken."""


def demo(home: Path) -> list[dict[str, Any]]:
    """Run the demo; whatever the model does, it has to end well."""
    env = {**os.environ, "MEM2EVOLVE_HOME": str(home), "MEM2EVOLVE_MODEL": "embedded"}
    command = [sys.executable, "-m", "mem2evolve.cli", "demo", "--json", "--yes"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    tasks: list[dict[str, Any]] = json.loads(done.stdout)
    return tasks


def outcomes(task: dict[str, Any]) -> list[tuple[str, str]]:
    """Return outcome and name of the decisions on tools."""
    return [
        (one["outcome"], one["asset_name"])
        for one in task["decisions"]
        if one["need"]["kind"] == "tool"
    ]


def test_a_tool_is_written_run_stored_and_used_again(tmp_path: Path) -> None:
    """The first task makes a tool that passes its cases, the second one recruits it."""
    seen = []
    for n in range(TRIES):
        home = tmp_path / f"home{n}"
        first, second = demo(home)
        assert first["answer"]
        assert second["answer"]
        made, used = outcomes(first), outcomes(second)
        seen.append((made, used))
        if len(made) == 1 and made[0][0] == "created" and used == [("recruited", made[0][1])]:
            code = home / "tools_generated" / made[0][1] / "v1" / "tool.py"
            assert f"def {made[0][1]}(" in code.read_text()
            assert any(one["name"] == made[0][1] for one in first["kept"])
            return
    pytest.fail(f"no tool was made and used again in {TRIES} tries: {seen}")
