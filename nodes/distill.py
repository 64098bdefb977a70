"""Node: write down what was learned.

Success is generalised, failure diagnosed, and how tools were made becomes tool experience. Passing trouble
and abstentions teach nothing.
"""

import time
from typing import Annotated, Any, Final, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from ..errors import ModelError
from ..graph.context import Context
from ..graph.state import Spent, State, gather
from ..memory.records import ExperienceRecord, card
from ..memory.words import LESSON_CHARS, SOURCE_CHARS
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .chronicle import record_run
from .creation.approve import UNANSWERED
from .desk import Desk, Resources
from .evaluate import work_of
from .life.losers import set_aside_losers
from .relate import related

MAX_TOOL_LESSONS: Final = 3
"""Creation trajectories of one run that are distilled."""
WRITING: Final = Sampling(temperature=0.2, max_tokens=300)
STORY_CHARS: Final = 1_500
REJUDGED: Final = "a person judged the run anew"
"""Why lessons of an earlier verdict are superseded."""

Outcome = Literal["success", "failure"]


class LessonReply(BaseModel):
    """The shape that the lesson prompts ask for."""

    title: str = Field(min_length=1, max_length=LESSON_CHARS["title"])
    description: str = Field(min_length=1, max_length=LESSON_CHARS["description"])
    applies_when: str = Field(min_length=1, max_length=LESSON_CHARS["applies_when"])
    knowledge: str = Field(min_length=1, max_length=LESSON_CHARS["knowledge"])


class Drawing(TypedDict, total=False):
    """State of the drawing of lessons, which stores none: words that were drawn are kept before any is stored."""

    run: dict[str, Any]
    """The run's state."""
    drawn: list[dict[str, Any]]
    """Lessons: scope, outcome, what taught it, the words, and what it supports and contradicts."""
    why: str
    """The trouble that cost the lessons; empty when there was none."""
    ledger: Annotated[list[Spent], gather]


def build_drawing(resources: Resources) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled sub-graph."""

    async def draw(state: Drawing, runtime: Runtime[Context]) -> dict[str, Any]:
        run = State(**state["run"])  # type: ignore[typeddict-item]
        desk = Desk.of(runtime, resources, "distill", "backward", run["namespace"])
        try:
            drawn, why = await _draw(desk, run), ""
        except ModelError as exc:
            drawn, why = [], str(exc)
        return {"drawn": drawn, "why": why, "ledger": desk.ledger}

    graph = StateGraph(Drawing, context_schema=Context)
    graph.add_node("draw", draw)
    graph.add_edge(START, "draw")
    graph.add_edge("draw", END)
    return graph.compile(name="draw_lessons")


async def distill(
    state: State,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    drawing: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Draw lessons, complete the record of the run, and set aside what loses by the runs so far.

    A later verdict on the same run supersedes what the earlier one taught. Trouble with the model here
    costs the lessons, not the run. All are drawn before one is stored.

    Raises:
        StoreError: If the memory cannot be written.
    """
    desk = Desk.of(runtime, resources, "distill", "backward", state["namespace"])
    judgement = state["judgement"]
    learned: list[dict[str, Any]] = []
    drawn: list[ExperienceRecord] = []
    ledger: list[Spent] = []
    if judgement and judgement["verdict"] != "abstained" and not judgement["transient"]:
        run = {key: value for key, value in state.items() if key not in ("messages", "ledger")}
        end = await drawing.ainvoke({"run": run}, context=desk.context)
        drawn, ledger = [_record(state, one) for one in end["drawn"]], end["ledger"]
        if end["why"]:
            desk.tell("not_distilled", why=end["why"])
        elif confirmed := _confirmed(state, desk):
            learned.append(confirmed)
    if judgement and judgement["by"] == "person":
        await _unlearn(desk, state, {record.id for record in drawn})
    learned += [await _keep(desk, record) for record in drawn]
    desk.tell("learned", lessons=learned)
    ended = State(**{**state, "learned": learned, "ledger": [*state["ledger"], *ledger]})
    record = await record_run(desk, ended)
    if losers := await set_aside_losers(desk, record):
        desk.tell("set_aside", losers=losers)
    desk.tell("finished", run_id=record.id, tokens=record.tokens, seconds=record.seconds)
    return {"learned": learned, "ended": time.time(), "ledger": ledger}


async def _draw(desk: Desk, state: State) -> list[dict[str, Any]]:
    drawn: list[dict[str, Any]] = []
    arm = desk.context.arm
    if arm.use_agent_experience and not _confirmed(state, desk):
        drawn.append(await _agent_lesson(desk, state))
    if arm.use_tool_experience:
        # What nobody could be asked about says nothing of how tools are made.
        drafted = [
            creation
            for creation in state["creations"]
            if creation["drafts"] and not creation["outcome"].startswith(UNANSWERED)
        ]
        drawn += [await _tool_lesson(desk, one) for one in drafted[:MAX_TOOL_LESSONS]]
    return [{**one, **await related(desk, state, one)} for one in drawn]


def _confirmed(state: State, desk: Desk) -> dict[str, Any] | None:
    """Return the lesson that this success only confirms: it was followed, it is about this, and nothing new was made.

    It gets the run as further evidence; a reworded twin would only crowd the memory. Of two lessons that
    disagree none is confirmed: which of them was followed is not known.
    """
    judgement = state["judgement"]
    if (
        not judgement
        or judgement["verdict"] != "success"
        or not desk.context.arm.use_agent_experience
    ):
        return None
    if any(decision["outcome"] == "created" for decision in state["decisions"]):
        return None
    delta = desk.memory.calibration.delta
    close = [
        one
        for one in state["lessons"]
        if one["score"] >= delta and one["outcome"] == "success" and not one.get("disputed")
    ]
    if not close:
        return None
    return {"id": close[0]["id"], "title": close[0]["title"], "scope": "agent", "new": False}


async def _agent_lesson(desk: Desk, state: State) -> dict[str, Any]:
    told = {
        "task": state["task"],
        "work": work_of(state)[:STORY_CHARS],
        "answer": state["answer"][:500],
    }
    judgement = state["judgement"]
    outcome: Outcome = "success" if judgement and judgement["verdict"] == "success" else "failure"
    if outcome == "success":
        messages = load_prompt("generalise").messages(**told)
    else:
        critiques = (
            [item["critique"] for item in judgement["subtasks"] if not item["ok"]]
            if judgement
            else []
        )
        why = "\n".join([judgement["reason"] if judgement else "", *critiques])
        messages = load_prompt("diagnose_run").messages(**told, why=why)
    reply = await _write(desk, messages)
    return {"scope": "agent", "outcome": outcome, "source": state["task"], **reply.model_dump()}


async def _tool_lesson(desk: Desk, creation: dict[str, Any]) -> dict[str, Any]:
    wanted = card(creation["need"]["name"], creation["need"]["description"])
    outcome: Outcome = "success" if creation["asset_id"] else "failure"
    reply = await tool_lesson(desk, creation)
    return {"scope": "tool", "outcome": outcome, "source": wanted, **reply.model_dump()}


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


def _record(state: State, drawn: dict[str, Any]) -> ExperienceRecord:
    words = {key: value for key, value in drawn.items() if key != "source"}
    return ExperienceRecord(
        run_id=state["run_id"],
        namespace=state["namespace"],
        learned_from=drawn["source"][:SOURCE_CHARS],
        **words,
    )


async def _keep(desk: Desk, record: ExperienceRecord) -> dict[str, Any]:
    key, new = await desk.memory.remember(record)
    new = new or key == record.id  # else this very step wrote it, and was broken off
    kept = await desk.memory.get("experience", key)
    if kept is not None and kept.status == "superseded" and kept.history[-1].reason == REJUDGED:
        await desk.memory.set_status(
            "experience", key, "active", "drawn again", run_id=record.run_id
        )
    return {"id": key, "title": record.title, "scope": record.scope, "new": new}


async def _unlearn(desk: Desk, state: State, drawn: set[str]) -> None:
    """A person's verdict supersedes what the run's earlier verdict taught, but for what it teaches as well."""
    where = {"run_id": state["run_id"], "status": "active"}
    for lesson in await desk.memory.list("experience", where=where):
        if lesson.id not in drawn and not lesson.supersedes:  # else they are a person's words
            await desk.memory.set_status(
                "experience",
                lesson.id,
                "superseded",
                REJUDGED,
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
