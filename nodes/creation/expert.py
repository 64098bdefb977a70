"""Making an expert agent: through the same door as a tool, and no twin of one that is there."""

from typing import Annotated, NamedTuple

from pydantic import BaseModel, StringConstraints

from ...errors import ModelReplyError
from ...graph.state import Wanted
from ...memory.recall import Need
from ...memory.records import AgentRecord, StatusChange, card
from ...prompts.load import load_prompt
from ..desk import Desk, bullet_lessons
from ..retrieve_experience import recall_lessons
from .free_name import free_name

Strategy = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class ExpertReply(BaseModel):
    """The shape `prompts/agent.yaml` and `prompts/improve_agent.yaml` ask for."""

    strategy: Strategy


class Expert(NamedTuple):
    """An expert for a need."""

    record: AgentRecord | None
    known: bool
    """Whether it was there already."""
    why: str


async def describe_expert(desk: Desk, need: Wanted, goal: str) -> tuple[str, str]:
    """Ask how an expert for a need works; a step of its own, so that what was said is kept before anything is stored.

    Returns:
        The strategy, and why there is none: a recruitable expert says the same, or the reply cannot be used.

    Raises:
        ModelUnavailable: If the model cannot be reached.
        StoreError: If the memory cannot be read.
    """
    if twin := await _twin(desk, need, ""):
        return "", twin.why
    lessons = await recall_lessons(desk, goal, "agent", desk.context.lessons_for_planning)
    messages = load_prompt("agent").messages(
        name=need["name"],
        expertise=need["description"],
        goal=goal,
        lessons=bullet_lessons(lessons),
    )
    try:
        return (await desk.structured("planner", messages, ExpertReply)).strategy, ""
    except ModelReplyError as exc:
        return "", f"no expert was made: {exc}"


async def create_expert(
    desk: Desk, need: Wanted, strategy: str, lacking: str, run_id: str
) -> Expert:
    """Store an expert with that strategy as a candidate, unless a recruitable one says the same.

    It knows no tools yet: those that help it are added when they have. A frozen run stores nothing.

    Args:
        desk: Of the node.
        need: What is wanted.
        strategy: From `describe_expert`; empty for none.
        lacking: Why there is none.
        run_id: The run.

    Raises:
        ModelUnavailable: If the model cannot be reached.
        StoreError: If the memory cannot be read or written.
    """
    if twin := await _twin(
        desk, need, run_id
    ):  # known, or made meanwhile by a need or a run beside this one
        return twin
    if not strategy:
        return Expert(None, known=False, why=lacking)
    record = await _named(desk, need, strategy, run_id)
    if desk.context.evolve:
        await desk.memory.put(record)
    return Expert(record, known=False, why="")


async def _twin(desk: Desk, need: Wanted, run_id: str) -> Expert | None:
    """Return the best ranked recruitable expert whose card says the same.

    One that this run made for the very same need was made by this step before it was broken off: the plan
    has each need once.
    """
    wanted = Need(kind="agent", name=need["name"], description=need["description"])
    [found] = await desk.memory.recall_assets([wanted], namespace=desk.context.namespace)
    for one in found:
        record = (
            await desk.memory.get("agent", one.id)
            if one.score >= desk.memory.calibration.twin
            else None
        )
        if isinstance(record, AgentRecord):
            if (record.run_id, record.expertise) == (run_id, need["description"]):
                return Expert(record, known=False, why="")
            return Expert(record, known=True, why=f"recruited: its card is {one.score:.2f} close")
    return None


async def _named(desk: Desk, need: Wanted, strategy: str, run_id: str) -> AgentRecord:
    """Return the record under a name of its own.

    Where the very same card was dropped or faulted before, this is the next version of that expert.
    """
    name, namespace = need["name"], desk.context.namespace
    earlier = await desk.memory.find_by_name("agent", name, namespace=namespace)
    again = any(one.card == card(name, need["description"]) for one in earlier)
    if not again:
        name = await free_name(desk, "agent", name, need["description"])
    return AgentRecord(
        name=name,
        version=earlier[0].version + 1 if again else 1,
        expertise=need["description"],
        strategy=strategy,
        namespace=namespace,
        run_id=run_id,
        supersedes=earlier[0].id if again else "",
        history=(StatusChange(status="candidate", reason="made for a sub-task", run_id=run_id),),
    )
