"""The registry runs what was checked, or nothing."""

from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ToolFailure
from mem2evolve.memory.records import ToolRecord
from mem2evolve.nodes.desk import Resources
from mem2evolve.nodes.permitted import fetcher_of, permissions_of
from mem2evolve.nodes.toolbox.registry import Registry, offer_of
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


ASKS = '# /// script\n# [tool.mem2evolve]\n# permissions = ["network:a.org", "network:b.org", "files"]\n# ///\n'


@pytest.mark.parametrize(
    ("permissions", "head", "listed", "hosts"),
    [
        ((), "", ("a.org",), None),
        ((), ASKS, ("a.org", "c.org"), ("a.org",)),
        ((), ASKS, (), None),
        (("network:a.org",), "", (), ("a.org",)),
        (("network:b.org", "files"), ASKS, ("a.org",), ("a.org", "b.org")),
        (("a.org", "network:"), "", ("a.org",), None),
    ],
)
def test_a_tool_fetches_what_its_record_or_the_list_allows(
    tmp_path: Path,
    permissions: tuple[str, ...],
    head: str,
    listed: tuple[str, ...],
    hosts: tuple[str, ...] | None,
) -> None:
    """A person's word stands in the record; the list is for those that ask, and for as long as it says so."""
    changed = {"permissions": permissions, "code": head + CHECKED.code}
    settings = Settings(home=tmp_path, fetch_hosts=listed)
    fetcher = fetcher_of(permissions_of(CHECKED.model_copy(update=changed), settings))
    assert (fetcher and fetcher.hosts) == hosts
