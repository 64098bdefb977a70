"""Node: an expert works on one sub-task with the tools recruited or made for it."""

from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..errors import ModelReplyError
from ..graph.context import Context
from ..graph.state import Decision, Result, SubTaskState
from ..memory.records import AgentRecord, ToolRecord, card
from ..prompts.load import load_prompt
from .desk import Desk, Resources, bullet_lessons, named_files
from .react import calls_of, steps_taken
from .retrieve_experience import recall_lessons
from .toolbox.builtin import Bench
from .toolbox.registry import BENCH, Offer, builtin_records, host_records, offer_of

TRIES: Final = 2
"""A sub-task that fails is tried once more, with what was seen."""
ANYBODY: Final = "a careful expert"
READER: Final = "read_file"
PYTHON: Final = "python"
PARTIAL: Final = "(partial: this sub-task was not finished)"


async def act(
    state: SubTaskState,
    runtime: Runtime[Context],
    *,
    resources: Resources,
    react: "CompiledStateGraph[Any, Any, Any, Any]",
) -> dict[str, Any]:
    """Work on one sub-task; a failure becomes a result marked partial.

    Raises:
        ModelUnavailable: If the model cannot be reached: the run stops, and can be resumed.
        SandboxUnavailable: If a tool was called and code cannot be run.
    """
    desk = Desk.of(runtime, resources, "act")
    planner = desk.context.arm.planner
    if planner in ("cot", "direct"):
        result = await _reply_at_once(desk, state, think=planner == "cot")
        return {"results": [result], "ledger": desk.ledger}
    expert = await _expert(desk, state)
    offers = await _offers(desk, state)
    lessons = await recall_lessons(
        desk, state["subtask"]["goal"], "agent", desk.context.lessons_for_planning
    )
    desk.tell(
        "acting",
        subtask=state["subtask"]["id"],
        goal=state["subtask"]["goal"],
        tools=[o["name"] for o in offers],
    )
    files = named_files(state["files"])
    token = BENCH.set(Bench(sandbox=resources.sandbox, files=files, web=desk.context.web))
    try:
        result, ledger = await _work(desk, state, expert, offers, lessons, react)
    finally:
        BENCH.reset(token)
    desk.tell("acted", **result)
    return {"results": [result], "ledger": [*desk.ledger, *ledger]}


async def _work(
    desk: Desk,
    state: SubTaskState,
    expert: AgentRecord | None,
    offers: list[Offer],
    lessons: list[dict[str, Any]],
    react: "CompiledStateGraph[Any, Any, Any, Any]",
) -> tuple[Result, list[Any]]:
    """Run the loop, at most twice; keep what was seen."""
    seen, ledger = "", []
    calls: list[dict[str, Any]] = []
    answer, partial = "", True
    for _ in range(TRIES):
        brief = {
            "expert": f"{expert.name}: {expert.expertise}" if expert else ANYBODY,
            "strategy": expert.strategy if expert else "",
            "lessons": bullet_lessons(lessons),
            "goal": _goal(state),
            "context": "\n\n".join(part for part in (_before(state), seen) if part),
        }
        start = {"brief": brief, "offers": offers, "messages": [], "ledger": None}
        try:
            end = await react.ainvoke(start, context=desk.context)
        except ModelReplyError as exc:
            seen = f"An earlier try failed: {exc}"
            continue
        calls += calls_of(end["messages"])
        ledger += end["ledger"]
        answer = end["messages"][-1].text.strip()
        partial = steps_taken(end["messages"]) >= desk.context.max_steps
        if answer and not partial:
            break
        seen = "An earlier try was not finished. It saw:\n" + "\n".join(
            str(call["result"])[:300] for call in calls[-3:]
        )
    result = Result(
        subtask=state["subtask"]["id"],
        goal=state["subtask"]["goal"],
        result=answer or "(no result)",
        partial=partial,
        calls=calls,
        expert_id=expert.id if expert else "",
        lessons=[lesson["id"] for lesson in lessons],
    )
    return result, ledger


async def _reply_at_once(desk: Desk, state: SubTaskState, *, think: bool) -> Result:
    """One reply, without tools and memory."""
    if think:
        text = await desk.text("actor", load_prompt("think").messages(goal=state["task"]))
        answer = text.rpartition("ANSWER:")[2].strip() or text
    else:
        brief = {
            "expert": ANYBODY,
            "strategy": "",
            "lessons": "",
            "goal": state["task"],
            "context": "",
        }
        answer = await desk.text("actor", load_prompt("answer").messages(**brief))
    return Result(
        subtask="s1",
        goal=state["task"],
        result=answer,
        partial=False,
        calls=[],
        expert_id="",
        lessons=[],
    )


async def _expert(desk: Desk, state: SubTaskState) -> AgentRecord | None:
    wanted = state["subtask"]["expert"]
    decision = next(
        (one for one in state["decisions"] if _wanted(one) == wanted and one["asset_id"]), None
    )
    if decision is None or decision["need"]["kind"] != "agent":
        return None
    if decision["record"]:
        return AgentRecord(**without_id(decision["record"]))
    return await desk.memory.get("agent", decision["asset_id"])


async def _offers(desk: Desk, state: SubTaskState) -> list[Offer]:
    """Return the few tools of this sub-task.

    Those decided on, the reader where there are files, and `python` where a need stayed open.
    """
    context = desk.context
    if context.arm.planner == "react":
        basic = [
            record
            for record in builtin_records(context.namespace)
            if context.web or not record.name.startswith(("web", "read_web"))
        ]
        return [
            offer_of(record)
            for record in (*basic, *host_records(desk.resources.tools, context.namespace))
        ]
    wanted = state["subtask"]["tools"]
    decided = [
        one
        for one in state["decisions"]
        if one["need"]["kind"] == "tool" and _wanted(one) in wanted
    ]
    names: set[str] = set()
    offers: list[Offer] = []
    for decision in decided:
        record = await _tool(desk, decision)
        if record is not None and record.name not in names:
            names.add(record.name)
            offers.append(offer_of(record))
    lacking = any(not decision["asset_id"] for decision in decided)
    for record in builtin_records(context.namespace):
        useful = (record.name == READER and state["files"]) or (record.name == PYTHON and lacking)
        if useful and record.name not in names:
            offers.append(offer_of(record))
    return offers


async def _tool(desk: Desk, decision: Decision) -> ToolRecord | None:
    if decision["record"]:
        return ToolRecord(**without_id(decision["record"]))
    return await desk.memory.get("tool", decision["asset_id"]) if decision["asset_id"] else None


def without_id(record: dict[str, Any]) -> dict[str, Any]:
    """Return a stored record's own fields: its id follows from them."""
    return {key: value for key, value in record.items() if key != "id"}


def _wanted(decision: Decision) -> str:
    return card(decision["need"]["name"], decision["need"]["description"])


def _goal(state: SubTaskState) -> str:
    """The task's own words when it is the only sub-task: nothing is lost in the plan's wording."""
    goal = state["subtask"]["goal"]
    return (
        state["task"] if state["alone"] else f"{goal}\n(This is a part of: {state['task'][:2000]})"
    )


def _before(state: SubTaskState) -> str:
    """Return the results that this sub-task builds on."""
    lines = [
        f"- {done['goal']}: {done['result']} {PARTIAL if done['partial'] else ''}".rstrip()
        for done in state["before"]
    ]
    return "Known from earlier sub-tasks:\n" + "\n".join(lines) if lines else ""
