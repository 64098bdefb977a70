"""Node: write down what was learned.

Success is generalised, failure diagnosed, and how tools were made becomes tool experience. Passing trouble
and abstentions teach nothing.
"""

import time
from typing import Any, Final, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from ..errors import ModelError
from ..graph.context import Context
from ..graph.state import State
from ..memory.records import ExperienceRecord, card
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .chronicle import record_run
from .creation.approve import UNANSWERED
from .desk import Desk, Resources
from .evaluate import work_of

MAX_TOOL_LESSONS: Final = 3
"""Creation trajectories of one run that are distilled."""
WRITING: Final = Sampling(temperature=0.2, max_tokens=300)
STORY_CHARS: Final = 1_500
SOURCE_CHARS: Final = 300
"""Of the task that taught a lesson, kept with it."""

Scope = Literal["agent", "tool"]
Outcome = Literal["success", "failure"]


class LessonReply(BaseModel):
    """The shape that the lesson prompts ask for."""

    title: str = Field(min_length=1, max_length=200)
    description: str = Field(min_length=1, max_length=1000)
    applies_when: str = Field(min_length=1, max_length=1000)
    knowledge: str = Field(min_length=1, max_length=2000)


async def distill(
    state: State, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Draw lessons, and complete the record of the run.

    A later verdict on the same run supersedes what the earlier one taught. Trouble with the model here
    costs the lessons, not the run.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "distill", "backward")
    judgement = state["judgement"]
    learned: list[dict[str, Any]] = []
    if judgement and judgement["by"] == "person":
        await _unlearn(desk, state)
    if judgement and judgement["verdict"] != "abstained" and not judgement["transient"]:
        try:
            learned = await _learn(desk, state, judgement["verdict"])
        except ModelError as exc:
            desk.tell("not_distilled", why=str(exc))
    desk.tell("learned", lessons=learned)
    ended = State(**{**state, "learned": learned, "ledger": [*state["ledger"], *desk.ledger]})
    record = await record_run(desk, ended)
    desk.tell("finished", run_id=record.id, tokens=record.tokens, seconds=record.seconds)
    return {"learned": learned, "ended": time.time(), "ledger": desk.ledger}


async def _learn(desk: Desk, state: State, verdict: Outcome) -> list[dict[str, Any]]:
    learned: list[dict[str, Any]] = []
    arm = desk.context.arm
    if arm.use_agent_experience:
        confirmed = _confirmed(state, desk) if verdict == "success" else None
        learned.append(confirmed or await _agent_lesson(desk, state, verdict))
    if arm.use_tool_experience:
        # What nobody could be asked about says nothing of how tools are made.
        drafted = [
            creation
            for creation in state["creations"]
            if creation["drafts"] and not creation["outcome"].startswith(UNANSWERED)
        ]
        learned += [await _tool_lesson(desk, state, one) for one in drafted[:MAX_TOOL_LESSONS]]
    return learned


def _confirmed(state: State, desk: Desk) -> dict[str, Any] | None:
    """Return the lesson that this success only confirms: it was followed, it is about this, and nothing new was made.

    It gets the run as further evidence; a reworded twin would only crowd the memory.
    """
    if any(decision["outcome"] == "created" for decision in state["decisions"]):
        return None
    delta = desk.memory.calibration.delta
    close = [
        one for one in state["lessons"] if one["score"] >= delta and one["outcome"] == "success"
    ]
    if not close:
        return None
    return {"id": close[0]["id"], "title": close[0]["title"], "scope": "agent", "new": False}


async def _agent_lesson(desk: Desk, state: State, verdict: Outcome) -> dict[str, Any]:
    told = {
        "task": state["task"],
        "work": work_of(state)[:STORY_CHARS],
        "answer": state["answer"][:500],
    }
    if verdict == "success":
        messages = load_prompt("generalise").messages(**told)
    else:
        judgement = state["judgement"]
        critiques = (
            [item["critique"] for item in judgement["subtasks"] if not item["ok"]]
            if judgement
            else []
        )
        why = "\n".join([judgement["reason"] if judgement else "", *critiques])
        messages = load_prompt("diagnose_run").messages(**told, why=why)
    return await _keep(desk, state, await _write(desk, messages), "agent", verdict, state["task"])


async def _tool_lesson(desk: Desk, state: State, creation: dict[str, Any]) -> dict[str, Any]:
    wanted = card(creation["need"]["name"], creation["need"]["description"])
    outcome: Outcome = "success" if creation["asset_id"] else "failure"
    return await _keep(desk, state, await tool_lesson(desk, creation), "tool", outcome, wanted)


async def tool_lesson(desk: Desk, creation: dict[str, Any]) -> LessonReply:
    """Return what the making of a tool teaches.

    Raises:
        ModelError: If the model cannot be reached, or its reply not be used.
    """
    made = bool(creation["asset_id"])
    wanted = card(creation["need"]["name"], creation["need"]["description"])
    messages = load_prompt("tool_lesson").messages(
        need=wanted,
        story=_story(creation),
        outcome=f"made after {creation['rounds']} rounds"
        if made
        else f"not made: {creation['outcome']}",
    )
    return await _write(desk, messages)


async def _write(desk: Desk, messages: Any) -> LessonReply:
    return await desk.structured("distiller", messages, LessonReply, WRITING)


async def _keep(
    desk: Desk, state: State, reply: LessonReply, scope: Scope, outcome: Outcome, source: str
) -> dict[str, Any]:
    record = ExperienceRecord(
        scope=scope,
        outcome=outcome,
        run_id=state["run_id"],
        namespace=state["namespace"],
        learned_from=source[:SOURCE_CHARS],
        **reply.model_dump(),
    )
    key, new = await desk.memory.remember(record)
    new = (
        new or key == record.id
    )  # written by this step before it was broken off: the id is of the run and the text
    kept = await desk.memory.get("experience", key)
    if kept is not None and kept.status == "superseded":  # `_unlearn` set it aside just now
        await desk.memory.set_status(
            "experience", key, "active", "drawn again", run_id=state["run_id"]
        )
    return {"id": key, "title": record.title, "scope": scope, "new": new}


async def _unlearn(desk: Desk, state: State) -> None:
    """A person's verdict supersedes what the run's earlier verdict taught."""
    where = {"run_id": state["run_id"], "status": "active"}
    for lesson in await desk.memory.list("experience", where=where):
        await desk.memory.set_status(
            "experience",
            lesson.id,
            "superseded",
            "a person judged the run anew",
            run_id=state["run_id"],
        )


def _story(creation: dict[str, Any]) -> str:
    """Return how a tool was made: what failed in each round, and the code at the end."""
    lines = []
    for draft in creation["drafts"]:
        if draft["role"] == "tool":
            said = "; ".join(draft["problems"][:2])[:300] or "passed all confirmed cases"
            lines.append(f"Round {draft['round']}: {said}")
    final = creation["drafts"][-1]["source"] if creation["drafts"] else ""
    body = "\n".join(line for line in final.splitlines() if line.strip())
    return "\n".join([*lines, "Code:", body])[:STORY_CHARS]
