"""Step 7: store the tool as a candidate, usable in this run."""

import platform
import sys
from typing import Any

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...memory.records import Case, StatusChange, ToolRecord
from ...sandbox import read_header
from ...sandbox.signature import docstring_summary, output_schema, signature_schema
from ..desk import Desk, Resources
from .state import CreationState


async def register(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Store the chosen draft with its confirmed cases; a frozen run only hands it on."""
    desk = Desk.of(runtime, resources, "create:register")
    record = record_of(desk, state)
    if desk.context.evolve:
        await desk.memory.put(record)
    desk.tell("registered", name=record.name, id=record.id, cases=len(record.cases))
    return {"tool": record.model_dump(mode="json") | {"id": record.id}}


def record_of(desk: Desk, state: CreationState) -> ToolRecord:
    """Return the record of the chosen draft."""
    source, name, resources = state["chosen"], state["name"], desk.resources
    reasons = ["passed its cases", *filter(None, [state.get("approval", "")])]
    return ToolRecord(
        name=name,
        description=state["need"]["description"],
        input_schema=signature_schema(source, name),
        output_schema=output_schema(source, name),
        code=source,
        function=name,
        documentation=docstring_summary(source, name),
        dependencies=read_header(source, resources.settings.packages).dependencies,
        cases=tuple(Case(**case) for case in state["cases"]),
        second_opinion=state["second_opinion"],
        environment=environment(resources),
        namespace=desk.context.namespace,
        run_id=state["run_id"],
        history=tuple(
            StatusChange(status="candidate", reason=reason, run_id=state["run_id"])
            for reason in reasons
        ),
    )


def environment(resources: Resources) -> dict[str, str]:
    """Return what a tool's cases were run under."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": f"{platform.system().lower()}-{platform.machine()}",
        "isolation": resources.sandbox.isolation,
    }
