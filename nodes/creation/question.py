"""What a person is asked before a tool is kept, why, and how their answer is read."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from langgraph.config import get_config
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from ...graph.context import Approve
from ...memory.records import ToolRecord
from ...sandbox.header import name_of, packages_in
from .adequacy import LOW_SCORE

APPROVED: Final = "approved by a person"
"""Begins the line of a record's history that says so."""
HOW_TO_ANSWER: Final = (
    'true, false, "yes", "no, because …", or {"approve": true or false, "reason": "…", '
    '"cases": [{"args": {…}, "expected": …} or {"args": {…}, "raises": "ValueError"}]}'
)
CHECKPOINTER: Final = "__pregel_checkpointer"
"""Where LangGraph shows a node what keeps its state."""
_SAID: Final = re.compile(
    r"\s*(yes|y|no|n)\b[\s,.:;-]*(?:because\b)?\s*(.*)", re.IGNORECASE | re.DOTALL
)


class _Demand(BaseModel):
    """A case that a person wants the tool to pass."""

    model_config = ConfigDict(extra="forbid")

    args: dict[str, Any]
    expected: Any = None
    raises: str = Field(default="", pattern=r"^\w*$")
    tolerance: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one_outcome(self) -> "_Demand":
        if bool(self.raises) == ("expected" in self.model_fields_set):
            raise ValueError("a case says what is `expected` or what it `raises`, one of them")
        return self


class Answer(BaseModel):
    """What a person said of a tool."""

    model_config = ConfigDict(extra="forbid")

    approve: StrictBool
    reason: str = ""
    cases: list[_Demand] = []


def nobody_to_ask(policy: Approve) -> bool:
    """Whether no person can be asked in this run: it does not want it, or cannot wait for an answer."""
    return policy == "never" or not keeps_state()


def keeps_state() -> bool:
    """Whether the running graph has a checkpointer; without one an interrupt ends the run for good."""
    return bool(get_config()["configurable"].get(CHECKPOINTER))


def why_ask(
    record: ToolRecord, policy: Approve, allowed: Collection[str], granted: Collection[str] = ()
) -> list[str]:
    """Return why the run's settings want a person to be asked; empty when they do not.

    Args:
        record: The tool.
        policy: When a person is asked.
        allowed: Packages that the settings let every tool use.
        granted: What a person allowed this tool just now: no reason to ask them again.
    """
    if policy == "never":
        return []
    asked = tuple(one for one in record.permissions if one not in granted)
    packages = {*allowed, *packages_in(granted)}
    reasons = risks(record.model_copy(update={"permissions": asked}), packages)
    if not reasons and policy == "always":
        return ["every tool is shown to a person (approve=always)"]
    return reasons


def risks(record: ToolRecord, allowed: Collection[str]) -> list[str]:
    """Return what is risky about a tool, in words for a person.

    Args:
        record: The tool.
        allowed: Packages that the settings let every tool use.
    """
    found: list[str] = []
    for one in record.permissions:
        kind, _, what = one.partition(":")
        if kind == "network":
            found.append(f"it may fetch from {what}")
        elif kind == "files":
            found.append("it may read files")
    names = {name_of(one) for one in record.dependencies}
    names |= {
        one.partition(":")[2] for one in record.permissions if one.partition(":")[0] == "package"
    }
    found += [
        f"it uses the package {name!r}, which is not in MEM2EVOLVE_PACKAGES"
        for name in sorted(names - {*allowed})
    ]
    if not record.second_opinion:
        found.append("no second implementation agreed with it")
    if is_weak(record):
        found.append(f"its cases catch only {record.mutation_score:.0%} of deliberate mistakes")
    return found


def is_weak(record: ToolRecord) -> bool:
    """Whether the cases were measured and let too many mutants through."""
    return record.mutation_score is not None and record.mutation_score < LOW_SCORE


def was_approved(record: ToolRecord) -> bool:
    """Whether a person let this version in."""
    return any(change.reason.startswith(APPROVED) for change in record.history)


def question_of(
    record: ToolRecord, old: ToolRecord | None, reasons: list[str], permissions: Sequence[str]
) -> dict[str, Any]:
    """Return what a person is shown: plain JSON, whole, so that any client can ask.

    Args:
        record: The tool as it would be kept.
        old: The version that it takes the place of.
        reasons: Why they are asked.
        permissions: All that it may do, by a person's word or by the operator's lists.
    """
    diff = ""
    if old is not None:
        lines = difflib.unified_diff(
            old.code.splitlines(keepends=True),
            record.code.splitlines(keepends=True),
            f"{record.name} v{old.version}",
            f"{record.name} v{record.version}",
        )
        diff = "".join(lines)
    parameters: Any = record.input_schema
    return {
        "kind": "tool_approval",
        "tool": record.name,
        "version": record.version,
        "description": record.description,
        "reasons": reasons,
        "permissions": list(permissions),
        "dependencies": list(record.dependencies),
        "code": record.code,
        "diff": diff,
        "cases": [case.model_dump(mode="json") for case in record.cases],
        "parameters": list(parameters.get("properties", {})),
        "required": list(parameters.get("required", [])),
        "answer": HOW_TO_ANSWER,
        "note": "",
    }


def ask(question: Mapping[str, Any]) -> Answer:
    """Interrupt until the answer can be understood; each time the question says what was wrong with the last.

    Whoever calls it begins anew with each answer.
    """
    note = ""
    while True:
        said = interrupt({**question, "note": note})
        try:
            return read_answer(said, question)
        except ValueError as exc:
            note = f"{str(said)[:200]!r} is no answer: {exc}. Answer with {question['answer']}."


def read_answer(said: Any, question: Mapping[str, Any]) -> Answer:
    """Read what a person or their client said.

    Raises:
        ValueError: Says why it is no answer.
    """
    if isinstance(said, bool):
        return Answer(approve=said)
    if isinstance(said, str):
        found = _SAID.fullmatch(said)
        if found is None:
            raise ValueError("it begins with neither yes nor no")
        yes = found[1].lower().startswith("y")
        if yes and found[2]:
            raise ValueError("a yes with conditions is neither yes nor no")
        return Answer(approve=yes, reason=found[2].strip())
    if not isinstance(said, Mapping):
        raise ValueError("it is neither a text nor an object")  # noqa: TRY004 - read like the others
    try:
        answer = Answer.model_validate(dict(said))
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{where}: {first['msg']}") from exc
    for case in answer.cases:
        unknown = [name for name in case.args if name not in question["parameters"]]
        missing = [name for name in question["required"] if name not in case.args]
        if unknown or missing:
            raise ValueError(f"a case lacks {missing} and has unknown {unknown} among its args")
    return answer
