"""Node: split the task into sub-tasks, and say what each one needs."""

from typing import Any, Final

from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field

from ..errors import ModelReplyError
from ..graph.context import Context
from ..graph.state import State, SubTask, Wanted
from ..memory.records import card
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .desk import Desk, Resources, bullet_lessons, named_files
from .naming import tool_name

MAX_SUBTASKS: Final = 6
STEADY: Final = Sampling(temperature=0.0, max_tokens=1500)
"""The same task is planned with the same cards: a card that varies finds no tool again."""
SAME_NEED: Final = 0.93
"""Cosine from which two needs of one plan are one need."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class WantedTool(_Part):
    """A tool as the plan wants it."""

    name: str = Field(min_length=1, max_length=80)
    description: str = Field(min_length=1, max_length=400)
    input: str = Field(default="", max_length=400)
    output: str = Field(default="", max_length=200)


class WantedExpert(_Part):
    """An expert as the plan wants it."""

    name: str = Field(min_length=1, max_length=80)
    expertise: str = Field(min_length=1, max_length=400)


class PlannedSubTask(_Part):
    """A sub-task as the model writes it."""

    id: str = Field(min_length=1, max_length=40)
    goal: str = Field(min_length=1)
    depends_on: list[str] = []
    expert: WantedExpert
    tools: list[WantedTool] = []


class PlanReply(_Part):
    """The shape `prompts/plan.yaml` asks for."""

    subtasks: list[PlannedSubTask] = Field(min_length=1, max_length=MAX_SUBTASKS)


async def plan(state: State, runtime: Runtime[Context], *, resources: Resources) -> dict[str, Any]:
    """Plan the task; the `react`, `cot` and `direct` planners have one sub-task and ask no model.

    Raises:
        ModelError: If the model cannot be reached, or its plan cannot be used.
    """
    desk = Desk.of(runtime, resources, "plan")
    if desk.context.arm.planner != "plan":
        alone: SubTask = {
            "id": "s1",
            "goal": state["task"],
            "depends_on": [],
            "expert": "",
            "tools": [],
        }
        return {"plan": [alone], "needs": []}
    profile = (await desk.chat("planner")).profile
    messages = load_prompt("plan").messages(
        task=state["task"],
        lessons=bullet_lessons(state["lessons"]),
        files=_file_lines(state.get("files") or []),
    )
    schema = plan_schema(profile.tools_per_subtask)
    reply = await desk.structured("planner", messages, PlanReply, STEADY, schema=schema)
    if stuck := _cycle(reply.subtasks):
        raise ModelReplyError(
            f"The plan's sub-tasks wait for each other: {', '.join(stuck)}.",
            hint="Try again, or use a more capable model (MEM2EVOLVE_MODEL).",
        )
    subtasks, needs = _settle(reply.subtasks)
    subtasks, needs = await _merge(desk, subtasks, needs)
    desk.tell("planned", plan=subtasks, needs=needs)
    return {"plan": subtasks, "needs": needs, "ledger": desk.ledger}


def plan_schema(tools: int) -> dict[str, Any]:
    """Return the JSON schema of a plan with at most `tools` tools for each sub-task."""
    text = {"type": "string"}

    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    tool = closed(dict.fromkeys(("name", "description", "input", "output"), text))
    subtask = closed(
        {
            "id": text,
            "goal": text,
            "depends_on": {"type": "array", "items": text},
            "expert": closed({"name": text, "expertise": text}),
            "tools": {"type": "array", "maxItems": tools, "items": tool},
        }
    )
    many = {"type": "array", "minItems": 1, "maxItems": MAX_SUBTASKS, "items": subtask}
    return closed({"subtasks": many})


def _file_lines(paths: list[str]) -> str:
    names = ", ".join(named_files(paths))
    return f"Files of the task, to be read with the tool read_file: {names}" if names else ""


def _cycle(subtasks: list[PlannedSubTask]) -> list[str]:
    """Return the ids of sub-tasks that can never start, because they wait for each other."""
    names = {subtask.id for subtask in subtasks}
    waiting = {
        subtask.id: {d for d in subtask.depends_on if d in names and d != subtask.id}
        for subtask in subtasks
    }
    while ready := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in ready:
            del waiting[name]
    return sorted(waiting)


def _settle(subtasks: list[PlannedSubTask]) -> tuple[list[SubTask], list[Wanted]]:
    """Number the sub-tasks, keep only known dependencies, and list the needs, equal cards once."""
    number = {subtask.id: f"s{n}" for n, subtask in enumerate(subtasks, 1)}
    planned: list[SubTask] = []
    needs: dict[str, Wanted] = {}
    for n, subtask in enumerate(subtasks, 1):
        own = f"s{n}"
        expert = card(subtask.expert.name, subtask.expert.expertise)
        _add(
            needs,
            expert,
            own,
            Wanted(
                kind="agent",
                name=subtask.expert.name,
                description=subtask.expert.expertise,
                input="",
                output="",
                subtasks=[],
            ),
        )
        tools = []
        for tool in subtask.tools:
            name = tool_name(tool.name)
            tools.append(card(name, tool.description))
            _add(
                needs,
                tools[-1],
                own,
                Wanted(
                    kind="tool",
                    name=name,
                    description=" ".join(tool.description.split()),
                    input=tool.input,
                    output=tool.output,
                    subtasks=[],
                ),
            )
        depends = sorted({number[d] for d in subtask.depends_on if d in number} - {own})
        planned.append(
            SubTask(id=own, goal=subtask.goal, depends_on=depends, expert=expert, tools=tools)
        )
    return planned, list(needs.values())


def _add(needs: dict[str, Wanted], key: str, subtask: str, need: Wanted) -> None:
    needs.setdefault(key, need)["subtasks"].append(subtask)


async def _merge(
    desk: Desk, subtasks: list[SubTask], needs: list[Wanted]
) -> tuple[list[SubTask], list[Wanted]]:
    """Make near-identical needs one, so that one tool is not made twice.

    All needs are embedded in this one call, of which the embedder keeps the vectors: recall, which looks at each
    need by itself, embeds none again.
    """
    vectors = await desk.memory.embed([card(need["name"], need["description"]) for need in needs])
    kept: list[int] = []
    same: dict[str, str] = {}
    for n, need in enumerate(needs):
        twin = next(
            (
                k
                for k in kept
                if needs[k]["kind"] == need["kind"] and _cosine(vectors[k], vectors[n]) >= SAME_NEED
            ),
            None,
        )
        if twin is None:
            kept.append(n)
            continue
        needs[twin]["subtasks"].extend(need["subtasks"])
        same[card(need["name"], need["description"])] = card(
            needs[twin]["name"], needs[twin]["description"]
        )
    for subtask in subtasks:
        subtask["expert"] = same.get(subtask["expert"], subtask["expert"])
        subtask["tools"] = list(dict.fromkeys(same.get(tool, tool) for tool in subtask["tools"]))
    return subtasks, [needs[k] for k in kept]


def _cosine(one: list[float], other: list[float]) -> float:
    """Cosine of two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))
