"""The chat models of `recruit.py`: one that knows the labels, and what a real one is worth there."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from mem2evolve.errors import ModelError
from mem2evolve.graph.context import Context
from mem2evolve.memory.labelled_set import Collection, Query
from mem2evolve.nodes.desk import Desk
from mem2evolve.nodes.plan import STEADY, PlanReply, _settle, plan_schema
from mem2evolve.prompts.load import load_prompt

if TYPE_CHECKING:
    from recruit import Bench

Json = dict[str, Any]
_CANDIDATE: Final = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)
_NEED: Final = re.compile(r"<need>\s*(.*?)\s*</need>", re.DOTALL)


class PerfectJudge(BaseChatModel):
    """Answers the prompt of the fit check by the labels: the number of the right card, or 0."""

    right: Mapping[str, str]
    """Wanted card → text of the card that does it; those without one are left out."""
    asked: list[str] = Field(default_factory=list)
    """The wanted cards that it was asked about."""

    @property
    def _llm_type(self) -> str:
        return "labels"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: Any = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        text = str(messages[-1].content)
        found = _NEED.search(text)
        if found is None:
            raise ValueError(f"This is no fit check: {text[:200]!r}")
        need = found[1]
        self.asked.append(need)
        numbers = {card: int(number) for number, card in _CANDIDATE.findall(text)}
        fits = numbers.get(self.right.get(need, ""), 0)
        reply = AIMessage(json.dumps({"why": "by the labels", "fits": fits}))
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def with_chat_model(bench: "Bench") -> Json:
    """Measure with a chat model as the judge of fits, and with wanted cards that it writes from the raw queries.

    A small model is not asked for fits in a run; here it is, to see what that would be worth.
    """
    desk = Desk(bench.resources, Context(), "select_or_create_asset")
    chat = await desk.chat("planner")
    small = chat.profile
    chat.profile = replace(small, judges=True)
    judged = {
        "accuracy": await bench.accuracy(Context()),
        "near_recruited": len(await bench.near_recruited(Context())),
    }
    chat.profile = small
    return {"as_judge": judged, "as_planner": await _planned(bench, desk)}


async def _planned(bench: "Bench", desk: Desk) -> Json:
    """Return what wanted cards of the planner are worth. Lessons are recalled by the task, not by a card."""
    asked = [one for one in bench.labelled.queries if _of_assets(bench, one)]
    alone = Context(fit_check=False)
    right: list[bool] = []
    unusable = none = 0
    for query in asked:
        try:
            wanted = await wanted_cards(desk, query.query)
        except ModelError:
            unusable, wanted = unusable + 1, []
        none += not wanted
        kinds = bench.labelled.collections_of(query)
        chosen = [
            key
            for kind, text in wanted
            if kind in kinds
            for key in await bench.chosen(text, (kind,), alone)
        ]
        right.append(chosen == ([bench.ids[query.answer]] if query.answer else []))
    return {
        "queries": len(asked),
        "accuracy": round(sum(right) / len(right), 3),
        "no_card": none,
        "unusable": unusable,
    }


async def wanted_cards(desk: Desk, task: str) -> list[tuple[Collection, str]]:
    """Return the cards that a plan for the task wants, each with its collection, as the node `plan` makes them."""
    profile = (await desk.chat("planner")).profile
    messages = load_prompt("plan").messages(task=task, lessons="", files="")
    schema = plan_schema(profile.tools_per_subtask)
    reply = await desk.structured("planner", messages, PlanReply, STEADY, schema=schema)
    _, needs = _settle(reply.subtasks)
    return [(need["kind"], f"{need['name']}: {need['description']}") for need in needs]


def _of_assets(bench: "Bench", query: Query) -> bool:
    return bench.labelled.collections_of(query) != ("experience",)
