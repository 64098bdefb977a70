"""What may differ from run to run: plain JSON values, shown as settings in Studio."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from ..errors import ConfigError

Mode = Literal["full", "experience_only", "assets_only", "react", "cot", "direct"]
Planner = Literal["plan", "react", "cot", "direct"]
"""How a task is tackled.

- `plan`: split into sub-tasks, each with its expert and tools.
- `react`: one sub-task for the whole task, with the built-in tools.
- `cot`: one reply that thinks step by step. `direct`: one reply.
"""


@dataclass(frozen=True)
class Arm:
    """The switches behind a mode."""

    planner: Planner
    create_tools: bool = False
    create_agents: bool = False
    use_agent_experience: bool = False
    use_tool_experience: bool = False


MODES: Final[Mapping[str, Arm]] = {
    "full": Arm(
        "plan",
        create_tools=True,
        create_agents=True,
        use_agent_experience=True,
        use_tool_experience=True,
    ),
    "experience_only": Arm("plan", use_agent_experience=True, use_tool_experience=True),
    "assets_only": Arm("plan", create_tools=True, create_agents=True),
    "react": Arm("react"),
    "cot": Arm("cot"),
    "direct": Arm("direct"),
}

Approve = Literal["never", "risky", "always"]

Switch = bool | None
"""`None` leaves it to the mode."""


def _about(default: Any, text: str) -> Any:
    return field(default=default, metadata={"description": text})


@dataclass(frozen=True, kw_only=True)
class Context:
    """Settings of one run."""

    mode: Mode = _about("full", "Preset of the switches below.")
    planner: Planner | None = _about(None, "How the task is tackled; empty: as the mode says.")
    create_tools: Switch = _about(None, "Make the tools that are lacking.")
    create_agents: Switch = _about(None, "Make the expert agents that are lacking.")
    use_agent_experience: Switch = _about(
        None, "Let lessons from earlier tasks steer planning and acting."
    )
    use_tool_experience: Switch = _about(
        None, "Let lessons from earlier tool making steer tool making."
    )
    evolve: bool = _about(True, "Judge, keep assets and write lessons after the answer.")
    model: str = _about("", "Chat model, as in openai:gpt-5, or `embedded`; empty: the program's.")
    planner_model: str = _about("", "Model that plans; empty: the main one.")
    coder_model: str = _about("", "Model that writes tools.")
    actor_model: str = _about("", "Model that acts.")
    judge_model: str = _about("", "Model that judges.")
    distiller_model: str = _about("", "Model that writes lessons.")
    actions: Literal["auto", "native", "json"] = _about("auto", "How experts call tools.")
    delta: float | None = _about(
        None, "Cosine from which an asset is recruited; empty: calibrated."
    )
    fit_check: bool = _about(True, "Ask the model whether a near match really fits.")
    lessons_for_planning: int = _about(1, "Lessons shown when planning and acting.")
    lessons_for_creating: int = _about(3, "Lessons shown when a tool is made.")
    debug_rounds: int = _about(3, "Rounds in which a tool may be mended before it is given up.")
    approve: Approve = _about(
        "risky",
        "When a person is asked before a tool is kept; risky: network, files, a new package, no second "
        "opinion, or weak cases.",
    )
    agreement: bool = _about(
        True, "Confirm a tool's cases by a second implementation; off: stated cases only."
    )
    max_steps: int = _about(8, "Tool calls that one sub-task may take.")
    web: bool = _about(True, "Allow web search and web pages.")
    namespace: str = _about("default", "Memory is kept apart by namespace.")

    def __post_init__(self) -> None:
        """Refuse what is out of range, naming the value."""
        _one_of("mode", self.mode, tuple(MODES))
        _one_of("planner", self.planner, (None, "plan", "react", "cot", "direct"))
        _one_of("actions", self.actions, ("auto", "native", "json"))
        _one_of("approve", self.approve, get_args(Approve))
        for entry in dataclasses.fields(self):
            _typed(entry.name, getattr(self, entry.name), entry.type)
        for name in ("lessons_for_planning", "lessons_for_creating"):
            _in_range(name, getattr(self, name), 0, 20)
        for name in ("debug_rounds", "max_steps"):
            _in_range(name, getattr(self, name), 1, 100)
        if self.delta is not None:
            _in_range("delta", self.delta, -1, 1)
        if not self.namespace:
            raise ConfigError("namespace is empty.", hint="Leave it out to use 'default'.")

    @classmethod
    def of(cls, given: object) -> "Context":
        """Normalise what a run carries: a `Context`, a mapping, or nothing.

        LangGraph passes `None` when the caller gave none, and the parent's own context, a mapping or
        an object, inside a parent graph that has another schema. Keys of other graphs are passed over.
        """
        if isinstance(given, Context):
            return given
        values = given if isinstance(given, Mapping) else getattr(given, "__dict__", {})
        names = {entry.name for entry in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})

    @property
    def arm(self) -> Arm:
        """The mode's switches, with those set here put in their place."""
        names = [entry.name for entry in dataclasses.fields(Arm)]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return dataclasses.replace(MODES[self.mode], **given)

    def model_for(self, role: str) -> str:
        """Return the model string of a role (`planner`, `coder`, …), or of the run; empty: the program's."""
        own: str = getattr(self, f"{role}_model")
        return own or self.model


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        names = ", ".join(str(item) for item in allowed if item is not None)
        raise ConfigError(f"{name}={value!r} is unknown.", hint=f"Use one of {names}.")


def _typed(name: str, value: object, kind: object) -> None:
    """Refuse the text "false" for a switch, 2.5 for a count, and the like."""
    words = {
        bool: ("true or false", bool),
        Switch: ("true or false", bool | None),
        int: ("a whole number", int),
        str: ("text", str),
    }
    if kind in words:
        word, allowed = words[kind]
        if not isinstance(value, allowed) or (kind is int and isinstance(value, bool)):
            raise ConfigError(f"{name}={value!r} is out of place.", hint=f"Use {word}.")


def _in_range(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(
            f"{name}={value!r} is out of range.", hint=f"Use a number from {low} to {high}."
        )
