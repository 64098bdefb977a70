"""A model that does the loop's work: it answers each prompt by what the prompt asks for."""

from collections.abc import Mapping
from typing import Any, Final

from ..openai_server import Reply, reply_json, reply_text, reply_tools

ASKS: Final = {
    "You plan tasks": "plan",
    "You write small, correct": "tool",
    "You write plain, correct": "oracle",
    "You choose test inputs": "cases",
    "You describe experts": "agent",
    "You decide whether an existing": "fit",
    "You write down lessons for programmers": "tool_lesson",
    "You write down lessons for a team": "lesson",
    "You compare lessons": "contradicts",
    "You are a strict judge": "judge",
    "What is the answer to the task?": "second_answer",
}
"""Words of a prompt, and what it asks for; everything else is an expert at work."""

ANSWER: Final = "42"
TOOL: Final = '''```python
def triple_number(n: int) -> int:
    """Return three times a whole number.

    Args:
        n: The number.

    Returns:
        Three times the number.
    """
    if isinstance(n, bool) or not isinstance(n, int):
        raise ValueError("n must be a whole number")
    return 3 * n
```'''
ORACLE: Final = """```python
def triple_number(n: int) -> int:
    if type(n) is not int:
        raise ValueError("no whole number")
    total = 0
    for _ in range(3):
        total += n
    return total
```"""
PLAN: Final = {
    "subtasks": [
        {
            "id": "s1",
            "goal": "Triple 14",
            "depends_on": [],
            "expert": {"name": "arithmetician", "expertise": "Multiplies whole numbers"},
            "tools": [
                {
                    "name": "triple_number",
                    "description": "Multiply a whole number by three",
                    "input": "n: int",
                    "output": "int",
                }
            ],
        }
    ]
}
LESSON: Final = {
    "title": "Call the tool",
    "description": "Let a tool do the arithmetic.",
    "applies_when": "A task asks for a product.",
    "knowledge": "Call the multiplying tool with the number and reply with what it returns.",
}


class Brain:
    """A script for `OpenAIServer`. `said` lists what was asked for, in order.

    Args:
        delays: Seconds to wait before answering, by what is asked for.
        answers: Replies to give instead, by what is asked for.
    """

    def __init__(
        self,
        *,
        delays: Mapping[str, float] | None = None,
        answers: Mapping[str, Reply] | None = None,
    ) -> None:
        self.said: list[str] = []
        self._delays = delays or {}
        self._answers = answers or {}

    def __call__(self, asked: dict[str, Any]) -> Reply:
        """Answer one request."""
        what = self._what(asked)
        self.said.append(what)
        reply = self._answers.get(what) or self._usual(what, asked)
        return Reply(**{**reply.__dict__, "delay": self._delays.get(what, 0.0)})

    @staticmethod
    def _what(asked: dict[str, Any]) -> str:
        text = "\n".join(str(message.get("content")) for message in asked["messages"])
        found = (what for words, what in ASKS.items() if words in text)
        return next(found, "act")

    @staticmethod
    def _usual(what: str, asked: dict[str, Any]) -> Reply:
        told = {
            "plan": reply_json(PLAN),
            "tool": reply_text(TOOL),
            "oracle": reply_text(ORACLE),
            "cases": reply_json(
                {
                    "typical": [{"n": 14}, {"n": 2}],
                    "edge": [{"n": 0}, {"n": -3}],
                    "invalid": [{"n": "x"}],
                }
            ),
            "agent": reply_json({"strategy": "Call the tool; check the sign."}),
            "fit": reply_json({"why": "The same.", "fits": 1}),
            "tool_lesson": reply_json({**LESSON, "title": "Check the type first"}),
            "lesson": reply_json(LESSON),
            "contradicts": reply_json({"why": "It adds something.", "opposite": 0}),
            "judge": reply_json(
                {"evidence": ANSWER, "verdict": "success", "reason": "It is shown."}
            ),
            "second_answer": reply_text(ANSWER),
        }
        if what in told:
            return told[what]
        called = any(message["role"] == "tool" for message in asked["messages"])
        names = [tool["function"]["name"] for tool in asked.get("tools", [])]
        if not names or called:
            return reply_text(ANSWER)
        return reply_tools((names[0], {"n": 14}))
