"""A name that no other asset has: a more specific one for another purpose, else one with a number."""

import re
from typing import Final, Literal

from pydantic import BaseModel

from ...errors import ModelReplyError
from ...memory.records import Kind, card
from ...models.chat import Sampling
from ...prompts.load import load_prompt
from ..desk import Desk
from ..naming import MAX_NAME, tool_name

SHOWN: Final = 3
"""Owners of a name that the model is shown."""
_SAID: Final = re.compile(rf"[A-Za-z][A-Za-z0-9_ -]{{2,{MAX_NAME - 1}}}")
"""A reply that is a name, and not a sentence about one."""
_STEADY: Final = Sampling(temperature=0.0, max_tokens=60)


class NameReply(BaseModel):
    """The shape `prompts/rename.yaml` asks for."""

    name: str


async def free_name(desk: Desk, kind: Kind, name: str, purpose: str) -> str:
    """Return `name` if it is free.

    Where an asset of another purpose has it, the creator is asked once for a more specific one. A
    number is put behind it when the reply cannot be used, when the model is not trusted with such a
    choice, and when the owner says the same.

    Raises:
        ModelUnavailable: If the model cannot be reached.
    """
    owners = await _owners(desk, kind, name)
    if not owners:
        return name
    if await _another_purpose(desk, card(name, purpose), owners):
        asked = await _ask(desk, kind, name, purpose, owners)
        if asked and not await _owners(desk, kind, asked):
            return asked
    taken, n = name, 2
    while await _owners(desk, kind, taken):
        suffix = f"_{n}"
        taken, n = name[: MAX_NAME - len(suffix)] + suffix, n + 1
    return taken


async def _owners(desk: Desk, kind: Kind, name: str) -> list[str]:
    """Return the cards of the assets of that name, whatever their status."""
    found = await desk.memory.find_by_name(kind, name, namespace=desk.context.namespace)
    return list(dict.fromkeys(one.card for one in found))


async def _another_purpose(desk: Desk, wanted: str, owners: list[str]) -> bool:
    own, *others = await desk.memory.embed([wanted, *owners])
    twin = desk.memory.calibration.twin
    return all(sum(a * b for a, b in zip(own, one, strict=True)) < twin for one in others)


async def _ask(desk: Desk, kind: Kind, name: str, purpose: str, owners: list[str]) -> str:
    """Ask for a name; empty when there is none that can be used."""
    role: Literal["coder", "planner"] = "coder" if kind == "tool" else "planner"
    if not (await desk.chat(role)).profile.judges:
        return ""
    messages = load_prompt("rename").messages(
        kind="tool" if kind == "tool" else "expert",
        name=name,
        description=purpose,
        others="\n".join(f"- {owner}" for owner in owners[:SHOWN]),
    )
    try:
        reply = await desk.structured(role, messages, NameReply, _STEADY)
    except ModelReplyError:
        return ""
    said = reply.name.strip()
    return tool_name(said) if _SAID.fullmatch(said) else ""
