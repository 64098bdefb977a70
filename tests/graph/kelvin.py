"""One small task, and a model that answers every prompt of it by its words: plan, cases, code, lessons."""

from typing import Any, Final

from ..openai_server import Reply, reply_json, reply_text, reply_tools

TASK: Final = "How many kelvin are 20 degrees Celsius? Give the bare number."
TOOL: Final = "celsius_to_kelvin"
CARD: Final = "Converts a temperature from degrees Celsius to kelvin"
LESSON: Final = {
    "title": "Mind the lower end",
    "description": "Temperatures have a lowest value.",
    "applies_when": "A temperature is converted.",
    "knowledge": "Check for values below absolute zero.",
}
DRAFT: Final = '''```python
def celsius_to_kelvin(celsius: float) -> float:
    """Convert a temperature to kelvin.

    Args:
        celsius: In degrees Celsius.

    Returns:
        In kelvin.
    """
    kelvin = celsius + 273.15
    if kelvin < 0:
        raise ValueError("below absolute zero")
    return kelvin
```'''
ORACLE: Final = """```python
def celsius_to_kelvin(celsius: float) -> float:
    if celsius < -273.15:
        raise ValueError("too cold")
    return 273.15 + celsius
```"""


def plan_of(task: str) -> dict[str, Any]:
    """Return a plan of one sub-task with one tool."""
    expert = {"name": "physicist", "expertise": "Works with temperatures"}
    tool = {"name": TOOL, "description": CARD, "input": "celsius: float", "output": "float"}
    subtask = {"id": "a", "goal": task, "depends_on": [], "expert": expert, "tools": [tool]}
    return {"subtasks": [subtask]}


CASES: Final = {
    "typical": [{"celsius": 20.0}, {"celsius": 37.5}],
    "edge": [{"celsius": 0.0}, {"celsius": -40.0}],
    "invalid": [{"celsius": -300.0}],
}
BY_STAGE: Final = {
    "You plan tasks": reply_json(plan_of(TASK)),
    "You describe experts": reply_json({"strategy": "Call the tool, then answer."}),
    "You choose test inputs": reply_json(CASES),
    "You write small, correct": reply_text(DRAFT),
    "You write plain, correct": reply_text(ORACLE),
    "You write down lessons": reply_json(LESSON),
    "reply UNKNOWN": reply_text("293.15"),
}
"""By words of the prompt."""


def answer(asked: dict[str, Any]) -> Reply:
    """Answer each stage by its prompt."""
    messages = asked["messages"]
    if asked.get("tools"):
        done = messages[-1]["role"] == "tool"
        return reply_text(messages[-1]["content"]) if done else reply_tools((TOOL, {"celsius": 20}))
    prompt = "\n".join(str(message["content"]) for message in messages)
    return next(reply for words, reply in BY_STAGE.items() if words in prompt)
