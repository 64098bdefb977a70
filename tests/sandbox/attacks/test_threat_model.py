"""The claims of THREAT_MODEL.md and the tests that hold them are one and the same list."""

import re
from pathlib import Path

from .table import ATTACKS, FORGERIES

ROOT = Path(__file__).parents[3]


def _cited() -> list[list[str]]:
    rows = re.findall(r"^\| .+ \| (`.+`) \|$", (ROOT / "THREAT_MODEL.md").read_text(), re.MULTILINE)
    return [re.findall(r"`(\w+)`", row) for row in rows]


def _tests() -> set[str]:
    folders = [ROOT / "tests" / name for name in ("sandbox", "nodes/toolbox", "graph", "cli")]
    texts = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", "\n".join(texts), re.MULTILINE))


def test_each_claim_names_what_there_is() -> None:
    """No claim without a test, and no test that does not exist."""
    rows = _cited()
    known = {one.name for one in (*ATTACKS, *FORGERIES)} | _tests()
    assert len(rows) > 30
    assert [name for row in rows for name in row if name not in known] == []


def test_each_attack_holds_a_claim() -> None:
    """No attack is tried without saying what it would disprove, and none holds two claims."""
    cited = [name for row in _cited() for name in row if not name.startswith("test_")]
    assert sorted(cited) == sorted(one.name for one in (*ATTACKS, *FORGERIES))
