"""The gate of `make bench-creation-gate`, over a few needs, so that its bars hold from change to change."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

FILE: Final = Path(__file__).parents[2] / "bench" / "creation_gate.py"
TRIED: Final = ("s04", "s20", "s27")


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("creation_gate", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses ask for it
    spec.loader.exec_module(module)
    return module


def test_a_few_needs_pass_the_bars(gate: Any) -> None:
    """No wrong tool gets through the good writer's cases, and the lazy writer's are mended."""
    needs = [need for need in gate.load() if need.id.startswith(TRIED)]
    found = gate.summary(asyncio.run(gate.try_all(needs)))

    assert len(gate.load()) == 32
    assert found["wrong_tools"] == 9
    assert found["ok"], found


def test_the_bars_bite(gate: Any) -> None:
    """One wrong tool let through, or one reference kept out, is enough to fail."""
    good = {
        "promoted_good_writer": 0,
        "right_rejected_good_writer": 0,
        "lazy_wrong_caught": 0.6,
        "lazy_right_flagged": 0.2,
    }
    assert gate.good_enough(good)
    for key, value in (
        ("promoted_good_writer", 1),
        ("right_rejected_good_writer", 1),
        ("lazy_wrong_caught", 0.59),
        ("lazy_right_flagged", 0.21),
    ):
        assert not gate.good_enough(good | {key: value})
