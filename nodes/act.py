"""Node: an expert works on one sub-task with the tools recruited or made for it."""

from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..errors import ModelReplyError
from ..graph.context import Context
from ..graph.state import Decision, Result, Spent, State, SubTask, SubTaskState
from ..memory.records import AgentRecord, ToolRecord, card
from ..prompts.load import load_prompt
from .creation.verify import wrong_today
from .desk import Desk, Resources, bullet_lessons, named_files
from .known_tools import known_tools
from .react import calls_of, steps_taken
from .retrieve_experience import recall_lessons
from .toolbox.builtin import Bench
from .toolbox.registry import BENCH, Offer, builtin_records, host_records, offer_of

KNOWN: Final = 3
"""Tools that an expert knows, offered beside those of its sub-task."""
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
    offers = await offers_for(desk, state, expert)
    desk.tell(
        "acting",
        subtask=state["subtask"]["id"],
        goal=state["subtask"]["goal"],
        tools=[o["name"] for o in offers],
    )
    result, ledger = await attempt(desk, state, expert, offers, react)
    desk.tell("acted", **result)
    return {"results": [result], "ledger": [*desk.ledger, *ledger]}


async def attempt(
    desk: Desk,
    state: SubTaskState,
    expert: AgentRecord | None,
    offers: list[Offer],
    react: "CompiledStateGraph[Any, Any, Any, Any]",
    tries: int = TRIES,
) -> tuple[Result, list[Spent]]:
    """Let an expert work on a sub-task with the tools offered; return the result and what it cost.

    Raises:
        ModelUnavailable: If the model cannot be reached.
        SandboxUnavailable: If a tool was called and code cannot be run.
    """
    lessons = await recall_lessons(
        desk, state["subtask"]["goal"], "agent", desk.context.lessons_for_planning
    )
    bench = Bench(
        sandbox=desk.resources.sandbox, files=named_files(state["files"]), web=desk.context.web
    )
    token = BENCH.set(bench)
    try:
        return await _work(desk, state, expert, offers, lessons, react, tries)
    finally:
        BENCH.reset(token)


def subtask_state(state: State, subtask: SubTask) -> SubTaskState:
    """Return what `act` is given of a run for one sub-task."""
    before = [result for result in state["results"] if result["subtask"] in subtask["depends_on"]]
    mine = [
        decision for decision in state["decisions"] if subtask["id"] in decision["need"]["subtasks"]
    ]
    return SubTaskState(
        run_id=state["run_id"],
        task=state["task"],
        subtask=subtask,
        alone=len(state["plan"]) == 1,
        before=before,
        decisions=mine,
        files=state.get("files") or [],
    )


async def _work(
    desk: Desk,
    state: SubTaskState,
    expert: AgentRecord | None,
    offers: list[Offer],
    lessons: list[dict[str, Any]],
    react: "CompiledStateGraph[Any, Any, Any, Any]",
    tries: int,
) -> tuple[Result, list[Spent]]:
    """Run the loop, at most `tries` times; keep what was seen."""
    seen = ""
    ledger: list[Spent] = []
    calls: list[dict[str, Any]] = []
    answer, partial = "", True
    for _ in range(tries):
        brief = {
            "expert": f"{expert.name}: {expert.expertise}" if expert else ANYBODY,
            "strategy": expert.strategy if expert else "",
            "lessons": bullet_lessons(lessons),
            "goal": goal_of(state),
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
        known=[{"id": one["id"], "name": one["name"]} for one in offers if one.get("known")],
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


async def offers_for(desk: Desk, state: SubTaskState, expert: AgentRecord | None) -> list[Offer]:
    """Return the few tools of this sub-task.

    Those decided on, the reader where there are files, and `python` where a need stayed open. Beside
    them a few that the expert knows: a sub-task that needs no tool is not given any.
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
    return [*offers, *await _known(desk, state, expert, offers)] if offers else []


async def _known(
    desk: Desk, state: SubTaskState, expert: AgentRecord | None, offers: list[Offer]
) -> list[Offer]:
    """Return the tools that helped the expert most lately, as far as they can be recruited and pass their cases here.

    A model that is to choose among few tools gets none of them.
    """
    if expert is None or (await desk.chat("actor")).profile.tools_per_subtask == 1:
        return []
    names = {offer["name"] for offer in offers}
    found = await known_tools(desk, [name for name in reversed(expert.tools) if name not in names])
    fit = [one for one in found[:KNOWN] if not await wrong_today(desk, state["run_id"], one)]
    return [{**offer_of(record), "known": True} for record in fit]


async def _tool(desk: Desk, decision: Decision) -> ToolRecord | None:
    if decision["record"]:
        return ToolRecord(**without_id(decision["record"]))
    return await desk.memory.get("tool", decision["asset_id"]) if decision["asset_id"] else None


def without_id(record: dict[str, Any]) -> dict[str, Any]:
    """Return a stored record's own fields: its id follows from them."""
    return {key: value for key, value in record.items() if key != "id"}


def _wanted(decision: Decision) -> str:
    return card(decision["need"]["name"], decision["need"]["description"])


def goal_of(state: SubTaskState) -> str:
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
