"""What a chat model can do. Known for the embedded model; assumed of others, and corrected by what they refuse."""

from dataclasses import dataclass
from typing import Final, Literal

Actions = Literal["native", "json"]
"""How an expert acts: `native` tool calls, or `json` actions that we turn into tool calls."""

Structured = Literal["json_schema", "function_calling", "prompt"]
"""How a structured reply is asked for, in the order in which they are tried."""

LADDER: Final[tuple[Structured, ...]] = ("json_schema", "function_calling", "prompt")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Abilities and habits of one model."""

    actions: Actions = "native"
    structured: Structured = "json_schema"
    """Where on the ladder to start."""
    talks_on: bool = False
    """Whether it goes on talking: then it gets stop sequences and a limit. Others may think within a limit."""
    drafts: int = 1
    """Drafts of a tool asked for at once."""
    mends_code: bool = True
    """Whether showing it its failures helps; otherwise a new sample is drawn."""
    judges: bool = True
    """Whether its opinion of a run counts without a check that was executed."""
    tools_per_subtask: int = 3
    """Tools that a plan may want for one sub-task."""
    web_snippets: int = 3
    """Search results shown when a tool is written."""


CAPABLE: Final = Profile()
"""Assumed of every provider's model."""

SMALL: Final = Profile(
    actions="json",
    talks_on=True,
    drafts=2,
    mends_code=False,
    judges=False,
    tools_per_subtask=1,
    web_snippets=1,
)
"""Measured on the embedded model: no native tool calls, does not mend its own code, passes wrong answers as a judge."""
