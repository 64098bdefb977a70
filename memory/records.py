"""The four kinds of records of the dual memory: tools, expert agents, lessons and runs.

Content is immutable: an edit is a new record that `supersedes` the old one. Only `status` changes,
and each change is logged with its reason. Uses and wins are counted from `runs`, never kept here.
"""

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

NAMESPACE: Final = uuid.UUID("6f4c2f0a-5d0b-5c8e-9a55-6d656d326576")
"""Root of our UUIDv5 ids (the last bytes spell `mem2ev`)."""

_VERSION: Final = re.compile(r"(.+)@v?(\d{1,6})")

Kind = Literal["tool", "agent"]
Status = Literal["candidate", "active", "superseded", "quarantined", "retired"]
"""Life of an asset or a lesson.

- `candidate`: made and tested in a run that has no verdict yet; recruitable, below active ones.
- `active`: kept.
- `superseded`: a newer version took its place.
- `quarantined`: faulted, or fails its cases in this environment; not recruited.
- `retired`: dropped or pruned; kept only as history.
"""

RECRUITABLE: Final[tuple[Status, ...]] = ("active", "candidate")

Origin = Literal["generated", "builtin", "host", "mcp"]
CaseOrigin = Literal["task", "file", "person", "agreement", "property", "model"]
"""Where a case's expected value comes from, in falling order of trust; `model` is a guess."""

Verdict = Literal["success", "failure", "abstained"]


def stable_id(*parts: object) -> str:
    """Return the UUIDv5 of `parts`: the same content has the same id, and is one record."""
    return str(uuid.uuid5(NAMESPACE, json.dumps(parts, sort_keys=True, default=str)))


def now() -> str:
    """Return the time as ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Base(BaseModel):
    """Frozen, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StatusChange(Base):
    """One line of a record's history."""

    status: Status
    reason: str
    run_id: str = ""
    at: str = Field(default_factory=now)


class Case(Base):
    """A test of a tool, as data: compared on the host, never inside the box."""

    args: dict[str, JsonValue]
    expected: JsonValue = None
    raises: str = ""
    """Name of the exception it must raise; empty when it must return `expected`."""
    property: str = ""
    """Name of what must hold of the result, instead of `expected`; see `nodes.creation.properties`."""
    tolerance: float = 0.0
    """Allowed absolute difference of every number in the value."""
    origin: CaseOrigin


class ToolRecord(Base):
    """One version of a tool."""

    name: str
    version: int = 1
    description: str
    """One sentence; with the name it makes the card that recall compares."""
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue] = Field(default_factory=dict)
    code: str = ""
    """The module. Empty for built-in, host and MCP tools."""
    function: str = ""
    documentation: str = ""
    cases: tuple[Case, ...] = ()
    permissions: tuple[str, ...] = ()
    """What it may do besides computing: `files`, `network:HOST`, `package:NAME`. Part of its id."""
    dependencies: tuple[str, ...] = ()
    origin: Origin = "generated"
    second_opinion: bool = False
    """Whether a truly different implementation agreed with it."""
    mutation_score: float | None = None
    """Share of mutants that the cases catch; `None` when not measured."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Python, platform, isolation and packages under which the cases passed."""
    namespace: str = "default"
    run_id: str = ""
    """The run that made it."""
    supersedes: str = ""
    created_at: str = Field(default_factory=now)
    status: Status = "candidate"
    history: tuple[StatusChange, ...] = ()

    @property
    def id(self) -> str:
        """UUIDv5 of namespace, name, version, content and what it is permitted."""
        permitted = [sorted(self.permissions)] if self.permissions else []
        return stable_id("tool", self.namespace, self.name, self.version, self.digest, *permitted)

    @property
    def digest(self) -> str:
        """SHA-256 of code and cases, hexadecimal."""
        cases = [case.model_dump(mode="json") for case in self.cases]
        body = [
            self.code,
            [{k: v for k, v in case.items() if k != "property" or v} for case in cases],
        ]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    @property
    def card(self) -> str:
        """What recall embeds."""
        return card(self.name, self.description)


class AgentRecord(Base):
    """One version of an expert agent."""

    name: str
    version: int = 1
    expertise: str
    """One sentence; with the name it makes the card that recall compares."""
    strategy: str
    """How it works: put into its system prompt."""
    tools: tuple[str, ...] = ()
    """Names of tools that helped it before."""
    origin: Origin = "generated"
    namespace: str = "default"
    run_id: str = ""
    supersedes: str = ""
    created_at: str = Field(default_factory=now)
    status: Status = "candidate"
    history: tuple[StatusChange, ...] = ()

    @property
    def id(self) -> str:
        """UUIDv5 of namespace, name, version and content."""
        content = (self.expertise, self.strategy, list(self.tools))
        return stable_id("agent", self.namespace, self.name, self.version, *content)

    @property
    def card(self) -> str:
        """What recall embeds."""
        return card(self.name, self.expertise)


class ExperienceRecord(Base):
    """One lesson."""

    scope: Literal["agent", "tool"]
    """`agent`: from how a task was executed; `tool`: from how a tool was made."""
    title: str
    description: str
    applies_when: str
    knowledge: str
    learned_from: str = ""
    """The task, or the wanted card of the tool, that taught it. Recall compares situations: a new task is
    closer to the task behind a lesson than to the lesson's words."""
    outcome: Literal["success", "failure"]
    """Generalised from a success, or diagnosed from a failure."""
    namespace: str = "default"
    run_id: str
    supports: tuple[str, ...] = ()
    """Ids of lessons that were shown to the run that taught this one, and that it adds to."""
    contradicts: tuple[str, ...] = ()
    """Ids of lessons that gave the opposite advice for the same situation when this one was written."""
    supersedes: str = ""
    """Id of the lesson whose words a person changed into these."""
    created_at: str = Field(default_factory=now)
    status: Status = "active"
    history: tuple[StatusChange, ...] = ()

    @property
    def id(self) -> str:
        """UUIDv5 of namespace, scope, outcome, run and text."""
        text = (self.outcome, self.title, self.description, self.applies_when, self.knowledge)
        return stable_id("experience", self.namespace, self.scope, self.run_id, *text)

    @property
    def card(self) -> str:
        """What recall embeds."""
        return card(self.title, self.learned_from or f"{self.description} {self.applies_when}")


class RunRecord(Base):
    """One run: the evidence for everything else."""

    id: str
    task: str
    mode: str
    model: str
    namespace: str = "default"
    status: Literal["running", "done", "partial", "failed"] = "running"
    plan: list[dict[str, Any]] = Field(default_factory=list)
    decisions: list[dict[str, Any]] = Field(default_factory=list)
    """Per need: candidates with scores, δ, what was chosen, runner-up, why."""
    results: list[dict[str, Any]] = Field(default_factory=list)
    """Per sub-task: result, whether it is partial, transcript."""
    creations: list[dict[str, Any]] = Field(default_factory=list)
    """Creation trajectories: need, what was retrieved, each draft, each failure, outcome."""
    answer: str = ""
    verdict: Verdict | Literal["none"] = "none"
    verdict_by: Literal["judge", "checker", "person", ""] = ""
    critique: dict[str, Any] = Field(default_factory=dict)
    assets: tuple[str, ...] = ()
    """Ids of the assets used."""
    won: tuple[str, ...] = ()
    """Those of `assets` whose critique did not fault them, once there is a verdict."""
    lessons: tuple[str, ...] = ()
    """Ids of the lessons that were shown to a model."""
    helped: tuple[str, ...] = ()
    """Those of `lessons` shown in a run that succeeded."""
    learned: tuple[str, ...] = ()
    """Ids of the lessons drawn from this run."""
    confirmed: tuple[str, ...] = ()
    """Needs and assets of which a model said in this run that they fit: the `fit_id` of each pair."""
    transient: str = ""
    """The passing trouble that stopped or bent it, if any: nothing is learned then."""
    tokens: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Per stage: calls, prompt and completion tokens."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """`forward` and `backward` wall time."""
    origin: Literal["own", "imported"] = "own"
    """`imported`: it came with a bundle. Nobody here saw it, so it counts for no use and no win."""
    created_at: str = Field(default_factory=now)

    @property
    def card(self) -> str:
        """What recall embeds."""
        return self.task[:2000]


def fit_id(need_card: str, asset_id: str) -> str:
    """Return the id of a pair: a wanted card, and one version of an asset."""
    return stable_id("fits", need_card, asset_id)


def card(name: str, sentence: str) -> str:
    """Return the one form in which assets and needs are embedded: "name: one sentence"."""
    return f"{name}: {' '.join(sentence.split())}"


def named_version(wanted: str) -> tuple[str, int | None]:
    """Return the name and the version that `NAME@v2` or `NAME@2` asks for; a bare name asks for none."""
    match = _VERSION.fullmatch(wanted)
    return (match[1], int(match[2])) if match else (wanted, None)
