"""Step 7: store the tool as a candidate, usable in this run, unless a known one does the same."""

from typing import Any

from langgraph.runtime import Runtime

from ...graph.context import Context
from ...memory.records import Case, StatusChange, ToolRecord
from ...sandbox import read_header
from ...sandbox.signature import docstring_summary, output_schema, signature_schema
from ..desk import Desk, Resources
from ..naming import tool_name
from .state import CreationState
from .twins import REUSED, settle_twins
from .verify import environment


async def register(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Store the chosen draft with its confirmed cases; a frozen run only hands it on.

    A near-twin of a known tool is stored as a version of that, or, where nothing is gained, not at all.

    Raises:
        SandboxUnavailable: If it cannot be compared with its twins.
    """
    desk = Desk.of(runtime, resources, "create:register")
    source, name = state["chosen"], state["name"]
    record = ToolRecord(
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
        environment=await environment(resources, source),
        namespace=desk.context.namespace,
        run_id=state["run_id"],
        history=(
            StatusChange(status="candidate", reason="passed its cases", run_id=state["run_id"]),
        ),
    )
    record, settled = await settle_twins(desk, record, tool_name(state["need"]["name"]))
    if desk.context.evolve and settled != "reused":
        await desk.memory.put(record)
    desk.tell(
        "registered", name=record.name, id=record.id, cases=len(record.cases), settled=settled
    )
    update = {"tool": record.model_dump(mode="json") | {"id": record.id}}
    return update | ({"outcome": REUSED} if settled == "reused" else {})
