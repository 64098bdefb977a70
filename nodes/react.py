"""The ReAct loop of one sub-task: a sub-graph of `reason` and a tool node without fixed tools.

Two action protocols share it: native tool calls, and JSON actions for models without them. Both
produce the same messages, so the same tool node runs the calls.
"""

import itertools
import json
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from ..errors import ModelReplyError
from ..graph.context import Context
from ..graph.state import Spent, gather
from ..models.chat import Sampling
from ..prompts.load import load_prompt
from .desk import Desk, Resources
from .toolbox.registry import Offer, Registry, signature_line, tool_node

CALL: Final = "CALL"
"""What a model without native calls replies when it needs another one."""
NO_TOOL: Final = "none"
STEADY: Final = Sampling(temperature=0.0, max_tokens=600)


class ReactState(TypedDict):
    """One sub-task at work. Stays in the sub-graph: only the result goes to the parent."""

    brief: dict[str, str]
    """Variables of the prompt: expert, strategy, lessons, goal, context."""
    offers: list[Offer]
    """The few tools that this sub-task needs."""
    messages: Annotated[list[AnyMessage], add_messages]
    """Tool calls, observations, and at last the answer."""
    ledger: Annotated[list[Spent], gather]


class ActionReply(BaseModel):
    """A JSON action."""

    tool: str
    args: dict[str, Any] = {}


def build_react(resources: Resources) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled sub-graph."""

    async def reason(state: ReactState, runtime: Runtime[Context]) -> dict[str, Any]:
        desk = Desk.of(runtime, resources, "act")
        message = await _next_message(desk, state)
        return {"messages": [message], "ledger": desk.ledger}

    def after_reason(state: ReactState) -> Literal["tools", "__end__"]:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else "__end__"

    graph = StateGraph(ReactState, context_schema=Context)
    graph.add_node("reason", reason)
    graph.add_node("tools", tool_node(Registry(resources)))
    graph.add_edge(START, "reason")
    graph.add_conditional_edges("reason", after_reason, {"tools": "tools", "__end__": END})
    graph.add_edge("tools", "reason")
    return graph.compile(name="react")


async def _next_message(desk: Desk, state: ReactState) -> AIMessage:
    """Return the next call or the answer; at the step cap, the answer from what is known."""
    if not state["offers"]:
        return AIMessage(await desk.text("actor", load_prompt("answer").messages(**state["brief"])))
    if steps_taken(state["messages"]) >= desk.context.max_steps:
        return await _answer(desk, state)
    chat = await desk.chat("actor")
    chosen = desk.context.actions
    if (chat.profile.actions if chosen == "auto" else chosen) == "native":
        functions = [
            {"type": "function", "function": offer["function"]} for offer in state["offers"]
        ]
        message = await desk.act(_transcript("act", state), functions)
        if message.tool_calls or message.text.strip():
            if chosen != "auto" or chat.profile.actions == "native":
                return message
        else:
            raise ModelReplyError(
                f"Model {chat.name!r} gave neither a tool call nor an answer.",
                hint="Try again, or use a more capable model (MEM2EVOLVE_MODEL).",
            )
    return await _json_action(desk, state)


async def _json_action(desk: Desk, state: ReactState) -> AIMessage:
    """Ask for a call as JSON; once a call has worked, first ask whether that is the answer."""
    messages = state["messages"]
    last = messages[-1] if messages else None
    if isinstance(last, ToolMessage) and last.status != "error":
        answer = await _answer(desk, state)
        if not answer.text.strip().startswith(CALL):
            return answer
    tools = "\n".join(map(signature_line, state["offers"]))
    reply = await desk.structured(
        "actor",
        _transcript("act_json", state, tools=tools),
        ActionReply,
        STEADY,
        schema=_action_schema(state["offers"]),
    )
    if reply.tool == NO_TOOL or _called_before(messages, reply):
        return await _answer(desk, state)
    call = {"name": reply.tool, "args": reply.args, "id": f"call_{uuid.uuid4().hex[:12]}"}
    return AIMessage("", tool_calls=[call])


async def _answer(desk: Desk, state: ReactState) -> AIMessage:
    messages = load_prompt("act_answer").messages(
        goal=_goal(state["brief"]), observations=observations(state["messages"]) or "(nothing yet)"
    )
    return AIMessage(await desk.text("actor", messages, STEADY))


def _transcript(prompt: str, state: ReactState, **more: str) -> list[BaseMessage]:
    """Return the prompt with what happened so far; for JSON actions as plain turns."""
    messages = load_prompt(prompt).messages(**state["brief"], **more)
    if prompt == "act":
        return [*messages, *state["messages"]]
    for message in state["messages"]:
        if isinstance(message, AIMessage) and message.tool_calls:
            call = message.tool_calls[0]
            messages.append(
                AIMessage(
                    json.dumps({"tool": call["name"], "args": call["args"]}, ensure_ascii=False)
                )
            )
        elif isinstance(message, ToolMessage):
            word = "failed" if message.status == "error" else "returned"
            messages.append(HumanMessage(f"{message.name} {word}: {message.text}"))
    return messages


def _action_schema(offers: Sequence[Offer]) -> dict[str, Any]:
    """Return the union of one call for each tool and no call."""
    shapes: list[dict[str, Any]] = [
        {
            "type": "object",
            "properties": {
                "tool": {"const": offer["name"]},
                "args": offer["function"]["parameters"],
            },
            "required": ["tool", "args"],
            "additionalProperties": False,
        }
        for offer in offers
    ]
    nothing = {
        "type": "object",
        "properties": {"tool": {"const": NO_TOOL}},
        "required": ["tool"],
        "additionalProperties": False,
    }
    return {"anyOf": [*shapes, nothing]}


def _called_before(messages: Sequence[BaseMessage], reply: ActionReply) -> bool:
    """Whether the same call was made already: small models repeat themselves instead of answering."""
    return any(
        call["name"] == reply.tool and call["args"] == reply.args
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    )


def _goal(brief: dict[str, str]) -> str:
    return "\n\n".join(part for part in (brief["context"], brief["goal"]) if part)


def steps_taken(messages: Sequence[BaseMessage]) -> int:
    """Return how many times tools were called."""
    return sum(1 for message in messages if isinstance(message, AIMessage) and message.tool_calls)


def calls_of(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the tool calls with what came of each, in order."""
    found: list[dict[str, Any]] = []
    for n, message in enumerate(messages):
        if not isinstance(message, AIMessage):
            continue
        # Some servers give the same ids in every turn, so results are told apart by their place.
        following = messages[n + 1 : n + 1 + len(message.tool_calls)]
        results = [one for one in following if isinstance(one, ToolMessage)]
        for call, result in itertools.zip_longest(message.tool_calls, results):
            found.append(
                {
                    "tool": call["name"],
                    "args": call["args"],
                    "ok": result is not None and result.status != "error",
                    "result": result.text if result else "no result",
                }
            )
    return found


def observations(messages: Sequence[BaseMessage]) -> str:
    """Return the calls as lines of evidence: `tool(args) = value`."""
    return "\n".join(evidence_line(call) for call in calls_of(messages))


def evidence_line(call: dict[str, Any]) -> str:
    """Return one call as a line of evidence."""
    args = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["args"].items()
    )
    return f"{call['tool']}({args}) {'=' if call['ok'] else 'failed:'} {call['result']}"
