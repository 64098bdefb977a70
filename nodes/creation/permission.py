"""Step before the check: a person settles what drafts ask for, before any of it is installed, fetched or run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...sandbox.header import FILES, NETWORK, PACKAGE, asked, why_asked
from ...sandbox.screen import parse
from ..desk import Desk, Resources, named_files
from ..permitted import listed
from .question import ask, nobody_to_ask
from .state import CreationState, Draft

HOW_TO_ANSWER: Final = (
    'true, false, "yes", "no, because …", or {"approve": true or false, "reason": "…"}'
)


async def settle_permissions(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Ask a person, once, for all that the new drafts want to do and nobody has settled yet.

    Where nobody can be asked nothing is granted, and the screen refuses it. The run stops here until it is
    resumed, and then begins this node anew: before the interrupt it only reads the drafts' heads.
    """
    desk = Desk.of(runtime, resources, "create:permission")
    wanted = _open_wishes(desk, state)
    if not wanted or nobody_to_ask(desk.context.approve):
        return {}
    answer = ask(_question(state, wanted))
    names = sorted({one for _, wishes in wanted for one in wishes})
    reason = answer.reason or "no reason was given"
    desk.tell("permission", tool=state["name"], asked=names, granted=answer.approve, reason=reason)
    if answer.approve:
        return {"granted": sorted({*state.get("granted", []), *names})}
    return {"refused": {**state.get("refused", {}), **dict.fromkeys(names, reason)}}


def refused_by_person(source: str, refused: Mapping[str, str]) -> list[str]:
    """Return the faults of code that asks for what a person refused."""
    return [
        f"line {line}: a person refused {in_words(one)}: {refused[one]}. Do without it."
        for one, line in asked(source).items()
        if one in refused
    ]


def in_words(permission: str) -> str:
    """Return what a permission is for, in words for a person or a model."""
    if permission == FILES:
        return "the permission to read the task's files"
    if permission.startswith(NETWORK):
        return f"the permission to fetch from {permission.removeprefix(NETWORK)}"
    return f"the package {permission.removeprefix(PACKAGE)!r}"


def _open_wishes(desk: Desk, state: CreationState) -> list[tuple[Draft, list[str]]]:
    """Return the drafts that ask for what is not settled, each with what it asks for."""
    settled = {*state.get("granted", []), *state.get("refused", {})}
    found = []
    for draft in state["drafts"]:
        known = settled | {*listed(draft["source"], desk.resources.settings)}
        wishes = [one for one in asked(draft["source"]) if one not in known]
        if wishes and _is_python(draft["source"]):
            found.append((draft, wishes))
    return found


def _is_python(source: str) -> bool:
    """Whether it can be read at all: nobody is asked about code that is refused anyway."""
    try:
        parse(source)
    except SyntaxError:
        return False
    return True


def _question(
    state: CreationState, wanted: Sequence[tuple[Draft, Collection[str]]]
) -> dict[str, Any]:
    """Return what a person is shown: plain JSON, whole, so that any client can ask."""
    names = sorted({one for _, wishes in wanted for one in wishes})
    return {
        "kind": "tool_permission",
        "tool": state["name"],
        "description": state["need"]["description"],
        "reasons": [_may_it(one) for one in names],
        "permissions": names,
        "files": sorted(named_files(state.get("files", []))) if FILES in names else [],
        "drafts": [
            {
                "role": draft["role"],
                "round": draft["round"],
                "permissions": [*wishes],
                "why": why_asked(draft["source"]),
                "code": draft["source"],
            }
            for draft, wishes in wanted
        ],
        "parameters": [],
        "required": [],
        "answer": HOW_TO_ANSWER,
        "note": "",
    }


def _may_it(permission: str) -> str:
    if permission == FILES:
        return "may it read the task's files?"
    if permission.startswith(NETWORK):
        return f"may it fetch from {permission.removeprefix(NETWORK)}?"
    return f"may it use the package {permission.removeprefix(PACKAGE)!r}, which is not in MEM2EVOLVE_PACKAGES?"
