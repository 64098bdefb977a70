"""Steps 4 and 5: screen the drafts, run them all, confirm cases, and choose a draft that passes them."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...sandbox import Problem, screen
from ...sandbox.header import packages_in
from ..desk import Desk, Resources
from ..permitted import box_for, given, listed
from .agree import normal_form
from .confirm import Confirmed, Trial, confirm
from .document import documented
from .permission import refused_by_person
from .properties import RETURNS
from .state import CreationState, Draft

MIN_CASES: Final = 4
"""Fewer confirmed cases: no tool."""
SHOWN_CHARS: Final = 8_000
"""Of a failing draft, to the model."""
SHOWN: Final = 3
"""Failing cases that are shown to the model."""


async def check_drafts(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Confirm cases, and choose a draft that passes them all."""
    desk = Desk.of(runtime, resources, "create:check")
    mends_code = (await desk.chat("coder")).profile.mends_code
    written = state["drafts"] if mends_code else [_described(one, state) for one in state["drafts"]]
    drafts = [
        Draft(**{**draft, "problems": await _screened(desk, draft, state)}) for draft in written
    ]
    usable = [draft for draft in drafts if not draft["problems"]]
    trials = [trial_of(resources, state, draft) for draft in _different(usable)]
    found = await confirm(desk, state, trials)
    for trial in trials:
        trial.draft["problems"] = await trial.failures(found.cases)
        if not desk.context.agreement:
            trial.draft["problems"] += await _refused(trial, state)
    turn = state["round"] + 1
    mends = mends_code and turn < desk.context.debug_rounds
    voters = [trial.draft for trial in trials]
    passing = _passing(voters, state, spare=not mends)
    rejected = state.get("rejected", [])
    passing = [source for source in passing if normal_form(source) not in rejected]
    lacking = _lacking(found, voters, passing, agreement=desk.context.agreement)
    desk.tell(
        "checked", round=turn, implementations=len(voters), confirmed=len(found.cases),
        contested=len(found.contested), passed=not lacking, why=lacking,
    )  # fmt: skip
    update: dict[str, Any] = {
        "round": turn,
        "drafts": {"all": drafts},
        "voters": [trial.draft["role"] for trial in found.voters],
        "cases": found.cases,
        "contested": found.contested,
        "failures": failures_of(drafts, lacking),
        "outcome": lacking or "created",
        "ledger": desk.ledger,
    }
    if not lacking:
        update |= {
            "chosen": passing[0],
            "second_opinion": any(case["origin"] == "agreement" for case in found.cases),
            "first_pass": turn == 1,
        }
    return update


def trial_of(resources: Resources, state: CreationState, draft: Draft) -> Trial:
    """Return a draft's trial, in which it may do what it asks for and was granted."""
    box = box_for(resources, draft["source"], state.get("granted", []), state.get("files", []))
    return Trial(box, draft, state["name"])


async def screened(
    resources: Resources, source: str, function: str, granted: Collection[str] = ()
) -> list[Problem]:
    """Return what the screen says of a tool, with the packages that it declares at hand.

    Args:
        resources: Where it will run.
        source: The code.
        function: Its public function.
        granted: What it may do besides what the settings let every tool do.

    Raises:
        SandboxUnavailable: If those could not be fetched now.
    """
    packages = await box_for(resources, source, granted).provide(source)
    problems = screen(
        source,
        function=function,
        permissions=(*granted, *listed(source, resources.settings)),
        dependencies=packages.modules,
        packages={*resources.settings.packages, *packages_in(granted)},
    )
    # Those of the header itself are named by both.
    return sorted({*problems, *packages.problems})


async def _screened(desk: Desk, draft: Draft, state: CreationState) -> list[str]:
    """Return what the screen says. An implementation that only votes need not be documented."""
    if faults := refused_by_person(draft["source"], state.get("refused", {})):
        return faults
    may = given(draft["source"], state.get("granted", []), desk.resources.settings)
    problems = await screened(desk.resources, draft["source"], state["name"], may)
    if draft["role"] == "oracle":
        problems = [
            problem
            for problem in problems
            if "docstring" not in problem.reason and "annotat" not in problem.reason
        ]
    return [f"line {problem.line}: {problem.reason}" for problem in problems]


def _described(draft: Draft, state: CreationState) -> Draft:
    """Give a draft the need as its docstring where it has none: who cannot mend it would write all of it anew."""
    if draft["role"] == "oracle":
        return draft
    try:
        source = documented(draft["source"], state["name"], state["need"]["description"])
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the screen says what is wrong
        return draft
    return Draft(**{**draft, "source": source})


def _different(drafts: Sequence[Draft]) -> list[Draft]:
    """Keep one of those that are the same code; a tool rather than its twin in the other role."""
    kept: dict[str, Draft] = {}
    for draft in sorted(drafts, key=lambda draft: draft["role"] != "tool"):
        kept.setdefault(normal_form(draft["source"]), draft)
    return list(kept.values())


async def _refused(trial: Trial, state: CreationState) -> list[str]:
    """Without agreement nobody says what a result must be: at least there must be one."""
    typical = [
        {"args": item["args"], "property": RETURNS}
        for item in state["inputs"]
        if item["kind"] == "typical"
    ]
    return await trial.failures(typical)


def _passing(voters: Sequence[Draft], state: CreationState, *, spare: bool) -> list[str]:
    """Return the sources that pass every confirmed case, the tool's drafts first.

    With `spare`, when the tool cannot be mended, the second opinion may serve: it was written for the same need.
    """
    passing = [draft for draft in voters if not draft["problems"]]
    found = [draft["source"] for draft in passing if draft["role"] == "tool"]
    if spare:
        name, need = state["name"], state["need"]["description"]
        named = [
            documented(draft["source"], name, need)
            for draft in passing
            if draft["role"] == "oracle"
        ]
        found += [source for source in named if not screen(source, function=name)]
    return found


def _lacking(
    found: Confirmed, voters: Sequence[Draft], passing: Sequence[str], *, agreement: bool
) -> str:
    """Say what keeps the tool from being registered; empty when nothing does."""
    if not passing and not any(draft["role"] == "tool" for draft in voters):
        return "no draft of the tool passed the screen"
    if not agreement:
        return "" if passing else "no draft passes all stated cases"
    known = [case for case in found.cases if not case["property"]]
    if len(known) < MIN_CASES:
        return f"only {len(known)} cases are confirmed, {MIN_CASES} are needed"
    if all(case["raises"] for case in known):
        return "no case returns a value"
    if found.open_typical:
        return f"the implementations disagree on {found.open_typical} typical inputs"
    return "" if passing else "no draft passes all confirmed cases"


def failures_of(drafts: Sequence[Draft], lacking: str) -> str:
    """Tell the model what to mend: its last draft and where it fails."""
    if not lacking:
        return ""
    last = next((draft for draft in reversed(drafts) if draft["role"] == "tool"), None)
    if last is None:
        return ""
    problems = "\n".join(f"- {problem}" for problem in last["problems"][:SHOWN]) or f"- {lacking}"
    source = last["source"]
    if len(source) > SHOWN_CHARS:
        source = f"{source[:SHOWN_CHARS]}\n# … {len(source):,} characters in all\n"
    return f"An earlier draft was not good enough:\n```python\n{source}```\nIts faults:\n{problems}"
