"""A sandbox of each kind, closed afterwards."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mem2evolve.sandbox import BubblewrapSandbox, Sandbox, UnsafeSubprocess, bubblewrap


@pytest.fixture(params=[BubblewrapSandbox, UnsafeSubprocess], ids=["bubblewrap", "unsafe"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """Each back-end in turn."""
    made: Sandbox = request.param()
    yield made
    await made.close()


@pytest.fixture
async def box() -> AsyncIterator[BubblewrapSandbox]:
    """The one that contains."""
    made = BubblewrapSandbox()
    yield made
    await made.close()


@pytest.fixture
def forgotten() -> Iterator[None]:
    """No bwrap has been chosen yet, and what the test chooses is forgotten after it."""
    before, bubblewrap._choice.path = bubblewrap._choice.path, ""
    yield
    bubblewrap._choice.path = before
