"""What travels through the making of one tool."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from ...graph.state import Spent, Wanted, gather
from .inputs import TestInput

Role = Literal["tool", "oracle"]
"""`tool`: may be kept. `oracle`: the second opinion, which only votes."""


class Draft(TypedDict):
    """One implementation, and what the check made of it."""

    role: Role
    round: int
    source: str
    problems: list[str]
    """Why it cannot be used, or where it fails; empty when it passes."""


class CreationState(TypedDict, total=False):
    """State of the making of one tool."""

    run_id: str
    need: Wanted
    task: str
    """The run's task, in whose words examples may stand."""
    files: list[str]
    """Paths of its files."""
    near: list[str]
    """Cards of tools that came close, but do not do what is wanted."""
    name: str
    signature: str
    lessons: list[dict[str, Any]]
    """Tool experience: id, text, score."""
    web: list[dict[str, str]]
    """Search results: title, url, snippet. Untrusted."""
    web_note: str
    """Why there are none."""
    inputs: list[TestInput]
    stated: list[dict[str, Any]]
    """Cases that the task or its files state."""
    properties: list[str]
    """Names of what must hold of every result."""
    drafts: Annotated[list[Draft], gather]
    round: int
    """Rounds done."""
    voters: list[Role]
    """Roles of the different implementations so far that could be run."""
    failures: str
    """What to mend, in words for the model."""
    cases: list[dict[str, Any]]
    """Confirmed cases."""
    contested: list[dict[str, Any]]
    """Inputs on which the implementations did not agree, with what became of them."""
    mutation_score: float | None
    """Share of mutants that the cases notice; `None` while it was not measured."""
    survivors: list[str]
    """What was changed in those that they do not notice."""
    granted: list[str]
    """What a person allowed the tool to do: `files`, `network:HOST`, `package:NAME`."""
    refused: dict[str, str]
    """What a person refused, each with the reason: nobody is asked for it again."""
    chosen: str
    """Source of the draft that passes; empty when there is none yet."""
    second_opinion: bool
    first_pass: bool
    """Whether a draft of the first round passed."""
    outcome: str
    """Why it ended: `created`, or what was lacking."""
    record: dict[str, Any]
    """What the chosen draft becomes, settled against its twins and not stored yet."""
    question: dict[str, Any]
    """What a person is asked before the tool is kept; empty when nobody is."""
    approval: str
    """What a person said for the tool; it becomes a line of the record's history."""
    rejected: list[str]
    """Normal forms of the drafts that a person rejected: they vote, but are not chosen again."""
    demanded: list[dict[str, Any]]
    """Cases that a person gave: what is kept passes them."""
    tool: dict[str, Any] | None
    """The record that was stored."""
    ledger: Annotated[list[Spent], gather]
