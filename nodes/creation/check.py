"""Steps 4 and 5: screen the drafts, run them all, and let agreement confirm the cases."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from ...errors import ModelReplyError
from ...graph.context import Context
from ...models.chat import Sampling
from ...prompts.load import load_prompt
from ...sandbox import Limits, Outcome, Problem, screen
from ..desk import Desk, Resources
from .agree import EXPECTED_ERROR, equal, normal_form, same, vote
from .document import documented
from .inputs import TestInput
from .state import CreationState, Draft

MIN_CASES: Final = 4
"""Fewer confirmed cases: no tool."""
MAX_DIAGNOSES: Final = 2
"""Disagreements that are shown to the model in one round."""
TEST_LIMITS: Final = Limits(wall_s=5.0, cpu_s=4)
SHOWN: Final = 3
"""Failing cases that are shown to the model."""

Table = list[list[Outcome]]
"""For each implementation, for each input."""


class DiagnoseReply(BaseModel):
    """The shape `prompts/diagnose.yaml` asks for."""

    why: str
    right: Literal["first", "second", "neither", "unclear"]


async def check_drafts(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Confirm cases by agreement, and choose a draft that passes them all."""
    desk = Desk.of(runtime, resources, "create:check")
    drafts = [
        Draft(**{**draft, "problems": await _screened(desk, draft, state["name"])})
        for draft in state["drafts"]
    ]
    usable = [draft for draft in drafts if not draft["problems"]]
    voters = _different(usable)
    table = await _run_all(desk, voters, state)
    cases, contested = await _confirm(desk, state, voters, table)
    for draft, outcomes in zip(voters, table, strict=True):
        draft["problems"] = _failing(cases, state["inputs"], outcomes)
    turn = state["round"] + 1
    mends = (await desk.chat("coder")).profile.mends_code and turn < desk.context.debug_rounds
    passing = _passing(voters, state, spare=not mends)
    rejected = state.get("rejected", [])
    passing = [source for source in passing if normal_form(source) not in rejected]
    lacking = _lacking(state["inputs"], cases, voters, passing)
    desk.tell(
        "checked", round=turn, implementations=len(voters), confirmed=len(cases), contested=len(contested),
        passed=not lacking, why=lacking,
    )  # fmt: skip
    update: dict[str, Any] = {
        "round": turn,
        "drafts": {"all": drafts},
        "voters": [draft["role"] for draft in voters],
        "cases": [_case(state["inputs"][n]["args"], outcome) for n, outcome in cases.items()],
        "contested": contested,
        "failures": _failures(drafts, lacking),
        "outcome": lacking or "created",
        "ledger": desk.ledger,
    }
    if not lacking:
        update |= {
            "chosen": passing[0],
            "second_opinion": len(voters) > 1,
            "first_pass": turn == 1,
        }
    return update


async def screened(desk: Desk, source: str, function: str) -> list[Problem]:
    """Return what the screen says of a tool, with the packages that it declares at hand.

    Raises:
        SandboxUnavailable: If those could not be fetched now.
    """
    packages = await desk.resources.sandbox.provide(source)
    allowed = desk.resources.settings.packages
    problems = screen(source, function=function, dependencies=packages.modules, packages=allowed)
    # Those of the header itself are named by both.
    return sorted({*problems, *packages.problems})


async def _screened(desk: Desk, draft: Draft, name: str) -> list[str]:
    """Return what the screen says. An implementation that only votes need not be documented."""
    problems = await screened(desk, draft["source"], name)
    if draft["role"] == "oracle":
        problems = [
            problem
            for problem in problems
            if "docstring" not in problem.reason and "annotat" not in problem.reason
        ]
    return [f"line {problem.line}: {problem.reason}" for problem in problems]


def _different(drafts: Sequence[Draft]) -> list[Draft]:
    """Keep one of those that are the same code; a tool rather than its twin in the other role."""
    kept: dict[str, Draft] = {}
    for draft in sorted(drafts, key=lambda draft: draft["role"] != "tool"):
        kept.setdefault(normal_form(draft["source"]), draft)
    return list(kept.values())


async def _run_all(desk: Desk, drafts: Sequence[Draft], state: CreationState) -> Table:
    box = desk.resources.sandbox

    async def row(draft: Draft) -> list[Outcome]:
        calls = (
            box.call(draft["source"], state["name"], item["args"], limits=TEST_LIMITS, fresh=True)
            for item in state["inputs"]
        )
        return await asyncio.gather(*calls)

    return await asyncio.gather(*(row(draft) for draft in drafts))


async def _confirm(
    desk: Desk, state: CreationState, voters: Sequence[Draft], table: Table
) -> tuple[dict[int, Outcome], list[dict[str, Any]]]:
    """Return the confirmed outcome by number of the input, and the contested inputs."""
    confirmed: dict[int, Outcome] = {}
    contested: list[dict[str, Any]] = []
    asked = 0
    judges = (await desk.chat("coder")).profile.judges
    for n, item in enumerate(state["inputs"]):
        outcomes = [row[n] for row in table]
        agreed = vote(item["args"], outcomes).agreed
        why = ""
        if agreed is None and len(voters) > 1 and judges and asked < MAX_DIAGNOSES:
            asked += 1
            agreed, why = await _diagnose(desk, state, item, outcomes)
        if agreed is not None:
            confirmed[n] = agreed
        elif voters:
            shown = [describe(outcome) for outcome in outcomes]
            contested.append(
                {"args": item["args"], "kind": item["kind"], "results": shown, "why": why}
            )
    return confirmed, contested


async def _diagnose(
    desk: Desk, state: CreationState, item: TestInput, outcomes: Sequence[Outcome]
) -> tuple[Outcome | None, str]:
    """Show the model one input with two different results and the need: which is right?"""
    first = outcomes[0]
    second = next((outcome for outcome in outcomes[1:] if not same(first, outcome)), None)
    if second is None:
        return None, ""
    messages = load_prompt("diagnose").messages(
        description=state["need"]["description"],
        signature=state["signature"],
        call=json.dumps(item["args"], ensure_ascii=False),
        first=describe(first),
        second=describe(second),
    )
    try:
        reply = await desk.structured("coder", messages, DiagnoseReply, Sampling(temperature=0.0))
    except ModelReplyError as exc:
        return None, str(exc)
    right = {"first": first, "second": second}.get(reply.right)
    usable = right is not None and (right.status == "ok" or right.error_type == EXPECTED_ERROR)
    return (right if usable else None), reply.why


def _passing(voters: Sequence[Draft], state: CreationState, *, spare: bool) -> list[str]:
    """Return the sources that pass every confirmed case, the tool's drafts first.

    With `spare`, when the tool cannot be mended, the second opinion may serve: it was written for the same need.
    """
    found = [
        draft["source"] for draft in voters if draft["role"] == "tool" and not draft["problems"]
    ]
    if spare:
        name, need = state["name"], state["need"]["description"]
        others = [
            draft["source"]
            for draft in voters
            if draft["role"] == "oracle" and not draft["problems"]
        ]
        named = [documented(source, name, need) for source in others]
        found += [source for source in named if not screen(source, function=name)]
    return found


def _failing(
    cases: dict[int, Outcome], inputs: Sequence[TestInput], outcomes: Sequence[Outcome]
) -> list[str]:
    return [
        f"called with {json.dumps(inputs[n]['args'], ensure_ascii=False)} it {describe(outcomes[n])}; "
        f"it should have {describe(expected)}"
        for n, expected in cases.items()
        if not same(expected, outcomes[n])
    ]


def _lacking(
    inputs: Sequence[TestInput],
    cases: dict[int, Outcome],
    voters: Sequence[Draft],
    passing: Sequence[str],
) -> str:
    """Say what keeps the tool from being registered; empty when nothing does."""
    if not passing and not any(draft["role"] == "tool" for draft in voters):
        return "no draft of the tool passed the screen"
    if len(cases) < MIN_CASES:
        return f"only {len(cases)} cases are confirmed, {MIN_CASES} are needed"
    if not any(outcome.status == "ok" for outcome in cases.values()):
        return "no case returns a value"
    open_typical = [
        n for n, item in enumerate(inputs) if item["kind"] == "typical" and n not in cases
    ]
    if open_typical:
        return f"the implementations disagree on {len(open_typical)} typical inputs"
    return "" if passing else "no draft passes all confirmed cases"


def _failures(drafts: Sequence[Draft], lacking: str) -> str:
    """Tell the model what to mend: its last draft and where it fails."""
    if not lacking:
        return ""
    last = next((draft for draft in reversed(drafts) if draft["role"] == "tool"), None)
    if last is None:
        return ""
    problems = "\n".join(f"- {problem}" for problem in last["problems"][:SHOWN]) or f"- {lacking}"
    return f"An earlier draft was not good enough:\n```python\n{last['source']}```\nIts faults:\n{problems}"


def _case(args: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    raised = outcome.status == "raised"
    return {
        "args": args,
        "expected": None if raised else outcome.value,
        "raises": outcome.error_type if raised else "",
        "tolerance": 1e-9 if _has_float(outcome.value) else 0.0,
        "origin": "agreement",
    }


def _has_float(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_float, value))
    return (
        any(map(_has_float, value.values()))
        if isinstance(value, dict)
        else isinstance(value, float)
    )


def describe(outcome: Outcome) -> str:
    """Say what a call did, in words for a model or a person."""
    match outcome.status:
        case "ok":
            return f"returned {json.dumps(outcome.value, ensure_ascii=False)[:500]}"
        case "raised":
            return f"raised {outcome.error_type}: {outcome.error[:300]}"
        case "timeout":
            return "ran too long and was stopped"
        case _:
            return f"failed: {outcome.error[:300] or outcome.status}"


async def passes(
    desk: Desk, source: str, function: str, cases: Sequence[dict[str, Any]]
) -> list[str]:
    """Run a tool on its cases; return where it fails.

    Raises:
        SandboxUnavailable: If the box cannot be started.
    """
    box = desk.resources.sandbox
    outcomes = await asyncio.gather(
        *(
            box.call(source, function, case["args"], limits=TEST_LIMITS, fresh=True)
            for case in cases
        )
    )
    return [
        f"called with {json.dumps(case['args'], ensure_ascii=False)} it {describe(outcome)}"
        for case, outcome in zip(cases, outcomes, strict=True)
        if not holds(case, outcome)
    ]


def holds(case: dict[str, Any], outcome: Outcome) -> bool:
    """Whether the outcome is what the case expects."""
    if case["raises"]:
        return outcome.status == "raised" and outcome.error_type == case["raises"]
    return outcome.status == "ok" and equal(outcome.value, case["expected"], case["tolerance"])
