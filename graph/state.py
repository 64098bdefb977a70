"""What travels between nodes: plain JSON values, and ids of what is big."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from pydantic import with_config
from typing_extensions import TypedDict

described: Final = with_config(use_attribute_docstrings=True)
"""Shows the texts below the fields in JSON schemas, and so in Studio."""


def gather(old: list[Any] | None, new: "list[Any] | Mapping[str, list[Any]] | None") -> list[Any]:
    """Reducer: append. `None` starts afresh, so that a thread can be used for another task; `{"all": […]}` replaces."""
    if new is None:
        return []
    return list(new["all"]) if isinstance(new, Mapping) else [*(old or []), *new]


@described
class Wanted(TypedDict):
    """A need: the wanted card of a tool or an expert, and who wants it."""

    kind: Literal["tool", "agent"]
    name: str
    description: str
    input: str
    """Parameters as `name: type, …`; tools only."""
    output: str
    subtasks: list[str]
    """Ids of the sub-tasks that want it; near-identical needs are merged."""


@described
class SubTask(TypedDict):
    """One step of the plan."""

    id: str
    goal: str
    depends_on: list[str]
    expert: str
    """Wanted card of its expert; empty for none."""
    tools: list[str]
    """Wanted cards of its tools."""


@described
class Decision(TypedDict):
    """How one need was met, with what it takes to answer "why was this (not) reused?"."""

    need: Wanted
    outcome: Literal["recruited", "created", "none"]
    asset_id: str
    asset_name: str
    score: float | None
    """Cosine of the best candidate; `None` when there was none."""
    delta: float
    candidates: list[dict[str, Any]]
    """Best first: id, name, version, score, status, uses, wins."""
    runner_up: str
    why: str
    fit: NotRequired[str]
    """Id of the pair of need and asset, when a model was asked whether it fits, and confirmed it."""
    record: dict[str, Any] | None
    """What was created, whole: in a frozen run (`evolve=False`) it is nowhere else."""


@described
class Result(TypedDict):
    """What came of one sub-task."""

    subtask: str
    goal: str
    result: str
    partial: bool
    """True when the step cap or an error ended it; those that depend on it are told."""
    calls: list[dict[str, Any]]
    """Tool calls in order: tool, args, value or error, seconds."""
    expert_id: str
    known: NotRequired[list[dict[str, str]]]
    """Tools offered because the expert knows them, beside those of the sub-task: id, name."""
    lessons: list[str]
    """Ids of the lessons that were shown."""


@described
class Spent(TypedDict):
    """Usage of one stage."""

    stage: str
    direction: Literal["forward", "backward"]
    calls: int
    prompt: int
    completion: int
    seconds: float


@described
class Input(TypedDict, total=False):
    """What a run is given: a task, or a conversation whose last human message is the task."""

    task: str
    """What is to be done, in plain words."""
    messages: Annotated[list[AnyMessage], add_messages]
    """A conversation; a last human message is the task."""
    files: list[str]
    """Paths of files that belong to the task."""
    correction: "Correction | None"
    """A person's verdict on an earlier run; given instead of a task."""


@described
class Correction(TypedDict):
    """What a person says of an earlier run."""

    run_id: str
    right: bool
    because: str


@described
class Judgement(TypedDict):
    """A verdict with its reasons."""

    verdict: Literal["success", "failure", "abstained"]
    by: Literal["judge", "checker", "person"]
    evidence: str
    reason: str
    transient: bool
    """Whether passing trouble kept it from being judged: nothing is learned then."""
    subtasks: list[dict[str, Any]]
    """Per sub-task: id, ok, critique."""
    faults: list[dict[str, Any]]
    """Per faulted asset: id, name, why, and a case if one was given."""


@described
class State(Input, total=False):
    """State of one run. Nodes return updates; nothing edits it in place."""

    run_id: str
    """Id of the run, and of its record in the memory."""
    namespace: str
    """Where the run's memory lives; a correction works where the run did."""
    started: float
    """Unix time of the start, seconds."""
    ended: float
    """Unix time of the answer; once the run has been learned from, of that."""
    reopened: Correction | None
    """The correction that is being worked on: it leaves `correction` at once, so that a refused one is spent."""
    lessons: list[dict[str, Any]]
    """Agent experience recalled for the plan: id, title, outcome, text, score."""
    plan: list[SubTask]
    """Sub-tasks in the order of the plan."""
    needs: list[Wanted]
    """What the plan wants; near-identical needs are one."""
    decisions: Annotated[list[Decision], gather]
    """How each need was met, and why."""
    creations: Annotated[list[dict[str, Any]], gather]
    """Creation trajectories, each with the id of what came of it."""
    results: Annotated[list[Result], gather]
    """What came of each sub-task."""
    answer: str
    """The answer, in the form that the task asks for."""
    verdict: str
    """`success`, `failure` or `abstained`; empty when the run was not judged."""
    judgement: Judgement | None
    """The verdict with its evidence."""
    standing: NotRequired[dict[str, dict[str, str]]]
    """How the assets stood at the verdict, by the ids that the run knows: id of the version in use, and status."""
    kept: list[dict[str, Any]]
    """What `evolve_assets` did: id, name, kind, from and to status, reason."""
    learned: list[dict[str, Any]]
    """Lessons written, and lessons confirmed: id, title, scope, new."""
    ledger: Annotated[list[Spent], gather]
    """Tokens and seconds of each stage."""


@described
class NeedState(TypedDict):
    """What `select_or_create_asset` gets: one need."""

    run_id: str
    need: Wanted
    goal: str
    """Goal of the first sub-task that wants it."""
    task: str
    files: list[str]


@described
class SubTaskState(TypedDict):
    """What `act` gets: one sub-task with what it builds on."""

    run_id: str
    task: str
    subtask: SubTask
    alone: bool
    """Whether it is the plan's only sub-task: then it works on the task's own words."""
    before: list[Result]
    decisions: list[Decision]
    files: list[str]
