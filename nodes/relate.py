"""How a lesson that was just drawn stands to those that are known: which one it adds to, and which it contradicts."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, Field

from ..errors import ModelError
from ..graph.state import State
from ..memory.care.opposite import opposite
from ..memory.records import ExperienceRecord
from ..memory.words import SOURCE_CHARS
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .answers import squeeze
from .desk import Desk

STEADY: Final = Sampling(temperature=0.0, max_tokens=300)

Links = dict[str, list[str]]
"""Ids, under the names of the fields of a lesson's record."""


class OppositeReply(BaseModel):
    """The shape `prompts/contradicts.yaml` asks for."""

    why: str
    opposite: int = Field(ge=0)


async def related(desk: Desk, state: State, drawn: dict[str, Any]) -> Links:
    """Return the links of a drawn lesson to known ones about the same situation (at least δ close).

    It supports the closest active one of its outcome that was shown to this run. What it contradicts is said by
    the model, if that is trusted to judge, else found by the words. Trouble with the model costs no lesson: then,
    too, the words decide.

    Raises:
        StoreError: If the memory cannot be read.
    """
    found = await desk.memory.near_lessons(
        drawn["source"][:SOURCE_CHARS], scope=drawn["scope"], namespace=state["namespace"]
    )
    # What this run taught itself is superseded when a person judges it anew.
    near = [one for one, _ in found if one.run_id != state["run_id"]]
    against = await _contradicted(desk, drawn, near)
    shown = _shown_to(state)
    added_to = [
        one.id
        for one in near
        if one.id in shown
        and (one.status, one.outcome) == ("active", drawn["outcome"])
        and one.id not in against
    ]
    return {"supports": added_to[:1], "contradicts": against}


def _shown_to(state: State) -> set[str]:
    shown = {lesson["id"] for lesson in state["lessons"]}
    for done in (*state["results"], *state["creations"]):
        shown.update(done["lessons"])
    return shown


async def _contradicted(
    desk: Desk, drawn: dict[str, Any], near: Sequence[ExperienceRecord]
) -> list[str]:
    """Return the ids of lessons that give the opposite advice."""
    others = [one for one in near if squeeze(one.knowledge) != squeeze(drawn["knowledge"])]
    if not others:
        return []
    if (await desk.chat("distiller")).profile.judges:
        try:
            return await _asked(desk, drawn, others)
        except ModelError as exc:
            desk.tell("not_compared", why=str(exc))
    return [one.id for one in others if opposite(drawn["knowledge"], one.knowledge)]


async def _asked(
    desk: Desk, drawn: dict[str, Any], others: Sequence[ExperienceRecord]
) -> list[str]:
    lines = [f"{n}. {_advice(one.applies_when, one.knowledge)}" for n, one in enumerate(others, 1)]
    messages = load_prompt("contradicts").messages(
        lesson=_advice(drawn["applies_when"], drawn["knowledge"]), known="\n".join(lines)
    )
    reply = await desk.structured("distiller", messages, OppositeReply, STEADY)
    return [others[reply.opposite - 1].id] if 1 <= reply.opposite <= len(others) else []


def _advice(when: str, what: str) -> str:
    return f"{when.rstrip('.')}: {what}"
