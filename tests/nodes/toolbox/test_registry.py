"""The registry runs what was checked, or nothing."""

from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ToolFailure
from mem2evolve.memory.records import ToolRecord
from mem2evolve.nodes.desk import Resources
from mem2evolve.nodes.toolbox.registry import Registry, fetcher_of, offer_of
from mem2evolve.settings import Settings

CHECKED = ToolRecord(
    name="one",
    description="Return one.",
    input_schema={"type": "object", "properties": {}},
    code="def one() -> int:\n    return 1\n",
    function="one",
)


@pytest.fixture
def registry(tmp_path: Path, looking: Any) -> Registry:
    """One whose sandbox keeps what it was asked."""
    parts: Any = None
    return Registry(
        Resources(settings=Settings(home=tmp_path), memory=parts, sandbox=looking(), models=parts)
    )


async def test_a_tool_as_it_was_checked_is_run(registry: Registry) -> None:
    """With the code of its record."""
    await registry.find(offer_of(CHECKED)).ainvoke({})
    assert registry._resources.sandbox.asked[0]["source"] == CHECKED.code  # type: ignore[attr-defined]


async def test_code_swapped_after_the_check_is_not_run(registry: Registry) -> None:
    """The offer's id holds the hash of code and cases: other code under that id is refused."""
    offer = offer_of(CHECKED)
    offer["record"]["code"] = "def one() -> int:\n    return 2\n"
    with pytest.raises(ToolFailure, match="not the code that was checked"):
        registry.find(offer)
    assert registry._resources.sandbox.asked == []  # type: ignore[attr-defined]


async def test_what_was_found_once_stays_what_it_was(registry: Registry) -> None:
    """A change to the offer afterwards does not reach the tool."""
    offer = offer_of(CHECKED)
    registry.find(offer)
    offer["record"]["code"] = "def one() -> int:\n    return 2\n"
    await registry.find(offer).ainvoke({})
    assert registry._resources.sandbox.asked[0]["source"] == CHECKED.code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("permissions", "listed", "hosts"),
    [
        ((), ("a.org",), None),
        (("network:a.org",), (), None),
        (("network:a.org", "network:b.org", "files"), ("b.org", "c.org"), ("b.org",)),
        (("a.org", "network:"), ("a.org",), None),
    ],
)
def test_a_record_fetches_where_permission_and_list_agree(
    tmp_path: Path,
    looking: Any,
    permissions: tuple[str, ...],
    listed: tuple[str, ...],
    hosts: tuple[str, ...] | None,
) -> None:
    """Neither is enough without the other."""
    parts: Any = None
    settings = Settings(home=tmp_path, fetch_hosts=listed)
    resources = Resources(settings=settings, memory=parts, sandbox=looking(), models=parts)
    record = CHECKED.model_copy(update={"permissions": permissions})
    fetcher = fetcher_of(record, resources)
    assert (fetcher and fetcher.hosts) == hosts
