"""Step 6: test the tests. Would the cases notice if the tool were wrong? Where they would not, add cases.

Generated inputs come first, since they cost no tokens; a capable model is then asked, once, for inputs that
tell the surviving mutants apart. Where the tool and another implementation disagree on an added input, the
model says which is right, and a tool found wrong goes back to its writer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph.runtime import Runtime
from pydantic import BaseModel

from ...errors import ModelReplyError
from ...graph.context import Context
from ...models.chat import Sampling
from ...prompts.load import load_prompt
from ...sandbox.header import NETWORK, asked
from ...sandbox.signature import signature_schema
from ..desk import Desk, Resources
from .adequacy import Adequacy, adequacy
from .agree import normal_form, same, vote
from .cases import case_of, describe
from .check import failures_of, trial_of
from .confirm import MAX_DIAGNOSES, diagnose
from .inputs import fitting
from .state import CreationState, Draft

ENOUGH: Final = 0.75
"""Share of noticed mutants from which no more inputs are asked for."""
MAX_ASKED: Final = 6
"""Inputs that the model is asked for."""
MAX_SURVIVORS: Final = 5
"""Surviving mutants that it is shown."""


class MoreReply(BaseModel):
    """The shape `prompts/more_inputs.yaml` asks for."""

    inputs: list[dict[str, Any]] = []


async def measure_cases(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Measure what the cases notice, and add cases until they notice enough or nothing more is found.

    Raises:
        SandboxUnavailable: If code cannot be run.
    """
    desk = Desk.of(runtime, resources, "create:measure")
    if any(one.startswith(NETWORK) for one in asked(state["chosen"])):
        # Hundreds of calls are no way to treat a site, and what it answers is not the tool's.
        return {"ledger": desk.ledger}
    drafts = _implementations(state)
    found, cases, contested = await _strengthened(desk, state, drafts)
    judges = (await desk.chat("coder")).profile.judges
    settled = await _settle(desk, state, drafts, contested) if judges else []
    cases += [case for case, _ in settled]
    faults = [fault for _, failures in settled for fault in failures]
    score = round(found.score, 3)
    desk.tell(
        "measured",
        score=score,
        mutants=found.total,
        survivors=list(found.survivors),
        added=len(cases) - len(state["cases"]),
        contested=len(contested),
        faults=len(faults),
    )
    update = {
        "cases": cases,
        "contested": [*state["contested"], *contested],
        "mutation_score": score,
        "survivors": list(found.survivors),
        "ledger": desk.ledger,
    }
    if not faults:
        return update
    return update | _back_to_the_writer(state, [case for case, _ in settled], faults)


async def _strengthened(
    desk: Desk, state: CreationState, drafts: Sequence[Draft]
) -> tuple[Adequacy, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what the cases notice in the end, the cases with those added, and the contested inputs."""
    found = await _measured(desk, state, drafts[1:], state["cases"])
    cases, contested = [*state["cases"], *found.added], list(found.contested)
    judges = (await desk.chat("coder")).profile.judges
    if judges and len(drafts) > 1 and found.score < ENOUGH:
        args = await _ask_inputs(desk, state, found.survivors)
        more, disputed = await _tried(desk, state, drafts, args)
        contested += disputed
        if more:
            cases += more
            found = await _measured(desk, state, [], cases)
    return found, cases, contested


def _back_to_the_writer(
    state: CreationState, settled: list[dict[str, Any]], faults: list[str]
) -> dict[str, Any]:
    """Return the update for a tool that an added input found wrong."""
    lacking = "an added input showed a fault"
    drafts = [_faulted(draft, _chosen(state), faults) for draft in state["drafts"]]
    return {
        "chosen": "",
        "first_pass": False,
        # They stand from here on: the next draft has to pass them.
        "stated": [*state["stated"], *settled],
        "drafts": {"all": drafts},
        "outcome": lacking,
        "failures": failures_of(drafts, lacking),
    }


def _implementations(state: CreationState) -> list[Draft]:
    """Return the chosen draft, then the other implementations that pass all cases."""
    own = normal_form(state["chosen"])
    different = {
        normal_form(draft["source"]): draft for draft in state["drafts"] if not draft["problems"]
    }
    different.pop(own, None)
    return [_chosen(state), *different.values()]


def _chosen(state: CreationState) -> Draft:
    return Draft(role="tool", round=state["round"], source=state["chosen"], problems=[])


async def _measured(
    desk: Desk, state: CreationState, others: Sequence[Draft], cases: Sequence[Mapping[str, Any]]
) -> Adequacy:
    return await adequacy(
        trial_of(desk.resources, state, _chosen(state)).box,
        state["chosen"],
        state["name"],
        others=[draft["source"] for draft in others],
        cases=[case for case in cases if not case["property"]],
        schema=signature_schema(state["chosen"], state["name"]),
        inputs=state["inputs"],
    )


async def _ask_inputs(
    desk: Desk, state: CreationState, survivors: Sequence[str]
) -> list[dict[str, Any]]:
    """Ask the model for inputs that tell the surviving mutants from the tool; none is no trouble."""
    schema = signature_schema(state["chosen"], state["name"])
    messages = load_prompt("more_inputs").messages(
        description=state["need"]["description"],
        code=state["chosen"],
        changes="\n".join(f"- {words}" for words in survivors[:MAX_SURVIVORS]),
    )
    args = {**schema, "required": list(schema["properties"])}  # type: ignore[arg-type]  # a dict
    asked = {
        "type": "object",
        "properties": {"inputs": {"type": "array", "items": args, "maxItems": MAX_ASKED}},
        "required": ["inputs"],
        "additionalProperties": False,
    }
    try:
        reply = await desk.structured(
            "coder", messages, MoreReply, Sampling(temperature=0.0), schema=asked
        )
    except ModelReplyError:
        return []
    known = [case["args"] for case in state["cases"]]
    return [one for one in fitting(reply.inputs, schema) if one not in known][:MAX_ASKED]


async def _tried(
    desk: Desk, state: CreationState, drafts: Sequence[Draft], inputs: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cases that the tool and another one agree on, and the contested inputs."""
    trials = [trial_of(desk.resources, state, draft) for draft in drafts]
    cases, contested = [], []
    for args in inputs:
        outcomes = [await trial(args) for trial in trials]
        agreed = vote(args, outcomes).agreed
        if agreed is not None and same(agreed, outcomes[0]):
            cases.append(case_of(args, agreed, "agreement"))
        else:
            results = [describe(outcome) for outcome in outcomes]
            contested.append({"args": args, "kind": "generated", "results": results, "why": ""})
    return cases, contested


async def _settle(
    desk: Desk, state: CreationState, drafts: Sequence[Draft], contested: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], list[str]]]:
    """Let the model settle some contested inputs, which leave the list: cases, and how the tool fails them."""
    settled = []
    trials = [trial_of(desk.resources, state, draft) for draft in drafts]
    for item in contested[:MAX_DIAGNOSES]:
        outcomes = [await trial(item["args"]) for trial in trials]
        right, item["why"] = await diagnose(desk, state, item["args"], outcomes)
        if right is not None:
            case = case_of(item["args"], right, "agreement")
            settled.append((case, await trials[0].failures([case])))
            contested.remove(item)
    return settled


def _faulted(draft: Draft, tool: Draft, faults: list[str]) -> Draft:
    if normal_form(draft["source"]) != normal_form(tool["source"]):
        return draft
    return Draft(**{**draft, "problems": faults})
