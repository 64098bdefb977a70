"""Which of the candidates does what is wanted, if any: by similarity, by what was confirmed before, by a model.

Similarity alone proves little: cards that differ in one crucial respect (first or last, reading or writing) come
as close as cards that say the same in other words. So wherever a model can judge it is asked, unless need and
card are worded alike. What it confirmed is remembered with the run, and not asked again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, Field

from ..graph.state import Wanted
from ..memory.recall import Calibration, Candidate, same_words
from ..memory.records import card, fit_id
from ..prompts.load import load_prompt
from .desk import Desk


class FitReply(BaseModel):
    """The shape `prompts/fit.yaml` asks for."""

    why: str
    fits: int = Field(ge=0)


class Choice(NamedTuple):
    """What is recruited, if anything, and why."""

    candidate: Candidate | None
    why: str
    fit: str = ""
    """The pair of need and asset (`records.fit_id`), when a model was asked now and confirmed it."""


async def thresholds(desk: Desk) -> Calibration:
    """Return δ and its band: as calibrated for the embedding model, or around the run's own δ."""
    known, own = await desk.memory.calibrated(), desk.context.delta
    if own is None:
        return known
    return Calibration(delta=own, low=min(known.low, own), high=max(known.high, own))


async def choose(
    desk: Desk, need: Wanted, found: Sequence[Candidate], limits: Calibration
) -> Choice:
    """Return the asset to recruit, or none.

    Args:
        desk: Of the run.
        need: What is wanted.
        found: The candidates, best first.
        limits: δ and the band.
    """
    if not found:
        return Choice(None, "nothing of its kind is known")
    best = found[0]
    if not desk.context.fit_check:
        return _by_delta(best, limits, "closest ")
    if best.score < limits.low:
        return Choice(None, f"closest scores {best.score:.2f}, below {limits.low:.2f}")
    wanted = card(need["name"], need["description"])
    if best.score >= limits.high and same_words(wanted, best.card):
        return _beyond_doubt(best, limits)
    near = [one for one in found if one.score >= limits.low]
    return await _confirmed(desk, wanted, near) or await _judged(desk, need, near, limits)


async def _judged(
    desk: Desk, need: Wanted, near: Sequence[Candidate], limits: Calibration
) -> Choice:
    """Ask the model; of one that cannot judge nothing is asked, and the similarity decides."""
    if (await desk.chat("planner")).profile.judges:
        return await _ask(desk, need, near)
    best = near[0]
    return _beyond_doubt(best, limits) if best.score >= limits.high else _by_delta(best, limits)


def _beyond_doubt(best: Candidate, limits: Calibration) -> Choice:
    return Choice(best, f"scores {best.score:.2f}, beyond doubt from {limits.high:.2f}")


def _by_delta(best: Candidate, limits: Calibration, which: str = "") -> Choice:
    why = f"{which}scores {best.score:.2f}, δ is {limits.delta:.2f}"
    return Choice(best if best.score >= limits.delta else None, why)


async def _confirmed(desk: Desk, wanted: str, near: Sequence[Candidate]) -> Choice | None:
    """Return the best of those of which a model said in an earlier run that they fit this very card."""
    pairs = {fit_id(wanted, one.id): one for one in near}
    known = await desk.memory.confirmed([*pairs], namespace=desk.context.namespace)
    for pair, one in pairs.items():
        if pair in known:
            said = f"scores {one.score:.2f}, confirmed before (run {known[pair][:8]})"
            return Choice(one, said)
    return None


async def _ask(desk: Desk, need: Wanted, near: Sequence[Candidate]) -> Choice:
    """Let the model say which of the near matches does what is wanted."""
    lines = "\n".join(f"{n}. {candidate.card}" for n, candidate in enumerate(near, 1))
    wanted = card(need["name"], need["description"])
    asked = wanted
    if need["input"]:
        asked += f"\nInput: {need['input']}\nOutput: {need['output']}"
    messages = load_prompt("fit").messages(need=asked, candidates=lines)
    reply = await desk.structured("planner", messages, FitReply)
    if not 1 <= reply.fits <= len(near):
        return Choice(None, reply.why)
    chosen = near[reply.fits - 1]
    return Choice(chosen, reply.why, fit_id(wanted, chosen.id))
