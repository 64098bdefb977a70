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
    goal: str
    """The sub-task that wants the tool."""
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
    chosen: str
    """Source of the draft that passes; empty when there is none yet."""
    second_opinion: bool
    first_pass: bool
    """Whether a draft of the first round passed."""
    outcome: str
    """Why it ended: `created`, or what was lacking."""
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
