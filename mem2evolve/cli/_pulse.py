"""Shows on a terminal what a run is busy with, and for how long: the last line, which is not kept."""

import asyncio
import sys
import time
from typing import Any, Final

import click

from ._text import cut, width_of

BEAT_S: Final = 0.5
PATIENCE_S: Final = 2.0
"""What is done sooner is not shown."""
DOING: Final = {
    "retrieve_experience": "recalling lessons",
    "plan": "planning",
    "choose": "looking for what fits",
    "describe": "describing an expert",
    "gather_knowledge": "gathering what is known",
    "choose_inputs": "choosing test inputs",
    "write_code": "writing code",
    "check_drafts": "running the drafts",
    "measure_cases": "testing the tests",
    "reason": "at work",
    "act": "at work",
    "aggregate": "putting the answer together",
    "evaluate": "judging the answer",
    "evolve_assets": "keeping what held up",
    "draw": "writing lessons",
}
"""Steps of the graph, and what one would say of them. The most recent one that is at work is shown."""
_CLEAR: Final = "\r\x1b[K"


class Pulse:
    """Follows the steps of a run. Silent unless standard error is a terminal."""

    def __init__(self) -> None:
        self._width = width_of(sys.stderr)
        self._busy: dict[str, tuple[str, float]] = {}
        """Id of a step at work → what it does, and since when."""
        self._drawn = False

    def watch(self, event: dict[str, Any]) -> None:
        """Take note that a step began, or ended (it has a result, an error or a question then)."""
        if "input" not in event:
            self._busy.pop(event["id"], None)
        elif event["name"] in DOING:
            self._busy[event["id"]] = DOING[event["name"]], time.monotonic()

    async def beat(self) -> None:
        """Draw the line again and again, until cancelled."""
        while self._width is not None:
            await asyncio.sleep(BEAT_S)
            self._draw(time.monotonic())

    def clear(self) -> None:
        """Take the line away: something else is written now."""
        if self._drawn:
            click.echo(_CLEAR, nl=False, err=True)
            self._drawn = False

    def _draw(self, now: float) -> None:
        self.clear()
        if self._busy:
            doing, since = [*self._busy.values()][-1]
            if now - since >= PATIENCE_S:
                more = f", and {len(self._busy) - 1} more" if len(self._busy) > 1 else ""
                line = cut(f"… {doing}, {now - since:.0f} s{more}", self._width)
                click.secho(line, nl=False, err=True, dim=True)
                self._drawn = True
