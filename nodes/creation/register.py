"""Step 7: store the tool as a candidate, usable in this run."""

from typing import Any

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...memory.records import Case, StatusChange, ToolRecord
from ...sandbox.signature import docstring_summary, output_schema, signature_schema
from ..desk import Desk, Resources
from ..life.keeping import numbered
from ..permitted import box_for, dependencies_of, given
from .state import CreationState
from .verify import environment


async def register(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Store the settled record, with what a person said of it; a frozen run only hands it on."""
    desk = Desk.of(runtime, resources, "create:register")
    record = ToolRecord(**state["record"])
    if state.get("approval"):
        record = await numbered(desk, _approved(record, state))
    if desk.context.evolve:
        await desk.memory.put(record)
    desk.tell(
        "registered",
        name=record.name,
        id=record.id,
        version=record.version,
        cases=len(record.cases),
    )
    return {"tool": record.model_dump(mode="json") | {"id": record.id}}


def _approved(record: ToolRecord, state: CreationState) -> ToolRecord:
    """Add a person's word, and the cases that they want it to pass."""
    demanded = tuple(Case(**case) for case in state["demanded"])
    told = [case.args for case in demanded]
    kept = tuple(case for case in record.cases if case.args not in told)
    said = StatusChange(status="candidate", reason=state["approval"], run_id=state["run_id"])
    changed = {"cases": kept + demanded, "history": (*record.history, said)}
    return record.model_copy(update=changed)


async def record_of(desk: Desk, state: CreationState) -> ToolRecord:
    """Return the record of the chosen draft, which is not stored yet.

    Raises:
        SandboxUnavailable: If the packages that it declares could not be fetched now.
    """
    source, name, resources = state["chosen"], state["name"], desk.resources
    granted = state.get("granted", [])
    may = given(source, granted, resources.settings)
    reasons = ["passed its cases", *([f"a person allowed {', '.join(may)}"] if may else [])]
    return ToolRecord(
        name=name,
        description=state["need"]["description"],
        input_schema=signature_schema(source, name),
        output_schema=output_schema(source, name),
        code=source,
        function=name,
        documentation=docstring_summary(source, name),
        permissions=may,
        dependencies=dependencies_of(source, granted, resources.settings),
        cases=tuple(Case(**case) for case in state["cases"]),
        second_opinion=state["second_opinion"],
        mutation_score=state["mutation_score"],
        environment=await environment(box_for(resources, source, granted), source),
        namespace=desk.context.namespace,
        run_id=state["run_id"],
        history=tuple(
            StatusChange(status="candidate", reason=reason, run_id=state["run_id"])
            for reason in reasons
        ),
    )
