"""Which outcomes are believed: what the task states, then what different implementations agree on."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel

from ...errors import ModelReplyError
from ...models.chat import Sampling
from ...prompts.load import load_prompt
from ...sandbox import Outcome, Sandbox
from ..desk import Desk
from .agree import refuses, same, vote
from .cases import TEST_LIMITS, case_of, describe, try_case
from .inputs import TestInput
from .state import CreationState, Draft

MAX_DIAGNOSES: Final = 2
"""Disagreements that are shown to the model in one round."""


class DiagnoseReply(BaseModel):
    """The shape `prompts/diagnose.yaml` asks for."""

    why: str
    right: Literal["first", "second", "neither", "unclear"]


class Trial:
    """One implementation on trial. Each input is run once, in a box of its own."""

    def __init__(self, box: Sandbox, draft: Draft, function: str) -> None:
        self.draft = draft
        self.box, self._function = box, function
        self._runs: dict[str, asyncio.Task[Outcome]] = {}

    async def __call__(self, args: Mapping[str, Any]) -> Outcome:
        """Return the outcome of an input."""
        key = json.dumps(args, sort_keys=True)
        if key not in self._runs:
            call = self.box.call(
                self.draft["source"], self._function, args, limits=TEST_LIMITS, fresh=True
            )
            self._runs[key] = asyncio.ensure_future(call)
        return await self._runs[key]

    async def failures(self, cases: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return where it fails."""
        found = await asyncio.gather(*(try_case(self, case) for case in cases))
        return [failure for failure in found if failure]


@dataclass(frozen=True)
class Confirmed:
    """What came of the inputs."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    contested: list[dict[str, Any]] = field(default_factory=list)
    """Inputs on which the implementations differ, with what each made of them."""
    open_typical: int = 0
    """Typical inputs without a confirmed outcome."""
    voters: Sequence[Trial] = ()
    """Those that had a vote: a stale one is written anew."""


async def confirm(desk: Desk, state: CreationState, trials: Sequence[Trial]) -> Confirmed:
    """Return the stated cases and a person's, those that agreement adds, and the properties that hold.

    An implementation that fails one of the former has no vote.
    """
    stated = [*state["stated"], *state.get("demanded", [])]
    failing = await asyncio.gather(*(trial.failures(stated) for trial in trials))
    voters = [trial for trial, failures in zip(trials, failing, strict=True) if not failures]
    known = [case["args"] for case in stated]
    agree = desk.context.agreement
    inputs = [item for item in state["inputs"] if agree and item["args"] not in known]
    table = [await asyncio.gather(*(trial(item["args"]) for item in inputs)) for trial in voters]
    found = Confirmed(list(stated))
    asked = 0
    judges = (await desk.chat("coder")).profile.judges
    open_typical = 0
    for n, item in enumerate(inputs):
        outcomes = [row[n] for row in table]
        agreed, why = vote(item["args"], outcomes).agreed, ""
        if agreed is None and len(voters) > 1 and judges and asked < MAX_DIAGNOSES:
            asked += 1
            agreed, why = await diagnose(desk, state, item["args"], outcomes)
        if agreed is not None:
            found.cases.append(case_of(item["args"], agreed, "agreement"))
            continue
        open_typical += item["kind"] == "typical"
        if voters:
            found.contested.append(_contested(item, outcomes, why))
    cases = found.cases + await _properties(state, voters)
    return Confirmed(cases, found.contested, open_typical, voters)


async def diagnose(
    desk: Desk, state: CreationState, args: Mapping[str, Any], outcomes: Sequence[Outcome]
) -> tuple[Outcome | None, str]:
    """Show the model one input with two different results and the need: which is right?"""
    first = outcomes[0]
    second = next((outcome for outcome in outcomes[1:] if not same(first, outcome)), None)
    if second is None:
        return None, ""
    messages = load_prompt("diagnose").messages(
        description=state["need"]["description"],
        signature=state["signature"],
        call=json.dumps(args, ensure_ascii=False),
        first=describe(first),
        second=describe(second),
    )
    try:
        reply = await desk.structured("coder", messages, DiagnoseReply, Sampling(temperature=0.0))
    except ModelReplyError as exc:
        return None, str(exc)
    right = {"first": first, "second": second}.get(reply.right)
    usable = right is not None and (right.status == "ok" or refuses(right))
    return (right if usable else None), reply.why


async def _properties(state: CreationState, voters: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return, for each named property that one implementation keeps throughout, a case per typical input.

    The name came from the need, without a look at code; that some code keeps it shows that it can hold.
    """
    typical = [item["args"] for item in state["inputs"] if item["kind"] == "typical"]
    cases = []
    for name in state["properties"]:
        mine = [
            {
                "args": args,
                "expected": None,
                "raises": "",
                "property": name,
                "tolerance": 0.0,
                "origin": "property",
            }
            for args in typical
        ]
        kept = [not await trial.failures(mine) for trial in voters]
        cases += mine if any(kept) else []
    return cases


def _contested(item: TestInput, outcomes: Sequence[Outcome], why: str) -> dict[str, Any]:
    shown = [describe(outcome) for outcome in outcomes]
    return {"args": item["args"], "kind": item["kind"], "results": shown, "why": why}
