"""Step 1: what is known before a tool is written: its form, lessons, what the web says, near misses."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from ...errors import ModelReplyError, ToolFailure
from ...graph.context import Context
from ...memory.records import card
from ...prompts.load import load_prompt
from ..desk import Desk, Resources
from ..naming import tool_name
from ..retrieve_experience import recall_lessons
from ..toolbox.web import search_web
from .free_name import free_name
from .spec import Spec, make_spec, spec_of
from .state import CreationState


class Parameter(BaseModel):
    """One parameter."""

    name: str = Field(pattern=r"^[A-Za-z_]\w*$")
    type: str


class SignatureReply(BaseModel):
    """The shape `prompts/signature.yaml` asks for."""

    parameters: list[Parameter] = Field(min_length=1, max_length=12)
    returns: str


async def gather_knowledge(
    state: CreationState, runtime: Runtime[Context], *, resources: Resources
) -> dict[str, Any]:
    """Settle the tool's name and signature, recall tool experience, and search the web."""
    desk = Desk.of(runtime, resources, "create:gather")
    need = state["need"]
    name = await free_name(desk, "tool", tool_name(need["name"]), need["description"])
    spec, trouble = spec_of(need, name), ""
    if spec is None:
        try:
            spec = await _ask_signature(desk, state, name)
        except ModelReplyError as exc:
            trouble = str(exc)
    wanted = card(need["name"], need["description"])
    lessons = await recall_lessons(desk, wanted, "tool", desk.context.lessons_for_creating)
    web, note = await _search(desk, need["description"])
    signature = spec.signature if spec else ""
    desk.tell(
        "creating",
        need=wanted,
        signature=signature,
        lessons=lessons,
        web=len(web),
        web_note=note,
    )
    return {
        "name": name,
        "signature": signature,
        "lessons": lessons,
        "web": web,
        "web_note": note,
        "inputs": [],
        "stated": [],
        "properties": [],
        "drafts": None,
        "round": 0,
        "voters": [],
        "failures": "",
        "cases": [],
        "contested": [],
        "mutation_score": None,
        "survivors": [],
        "granted": [],
        "refused": {},
        "chosen": "",
        "first_pass": False,
        "outcome": trouble,
        "tool": None,
        "ledger": desk.ledger,
    }


async def _ask_signature(desk: Desk, state: CreationState, name: str) -> Spec:
    need = state["need"]
    messages = load_prompt("signature").messages(
        name=name, description=need["description"], input=need["input"], output=need["output"]
    )
    reply = await desk.structured("coder", messages, SignatureReply)
    inside = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in reply.parameters)
    spec = make_spec(name, need["description"], f"{name}({inside}) -> {reply.returns}")
    if spec is None:
        raise ModelReplyError(
            f"The signature for tool {name!r} is no Python: {inside!r} -> {reply.returns!r}.",
            hint="Try again, or use a more capable model (MEM2EVOLVE_MODEL).",
        )
    return spec


async def _search(desk: Desk, what: str) -> tuple[list[dict[str, str]], str]:
    """Search the web for how to do it; say why when there is nothing."""
    limit = (await desk.chat("coder")).profile.web_snippets
    if not desk.context.web or limit == 0:
        return [], "web search is off"
    try:
        found = await search_web(f"python {what}", limit=limit)
    except ToolFailure as exc:
        return [], exc.reason
    return [
        {"title": hit["title"], "url": hit["url"], "snippet": hit["snippet"][:400]} for hit in found
    ], ""
