"""Prompts are data: `prompts/*.yaml`, loaded once, with declared variables and escaped fences."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

import yaml
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ..errors import ConfigError

PROMPT_DIR = Path(__file__).parent
_KEYS = frozenset({"version", "variables", "system", "text"})
_FENCE = re.compile(r"</([a-z_]+)>")


@dataclass(frozen=True)
class Prompt:
    """One prompt file. `version` goes up with each change, so that results can be compared."""

    name: str
    version: int
    system: str
    text: str
    variables: frozenset[str]

    def messages(self, **values: str) -> list[BaseMessage]:
        """Fill in the variables.

        Values come from users, models, tools and the web, and must not be able to close the fence
        they stand in. Their tags are escaped, not removed: removing the inner tag of
        `</ta</task>sk>` would build the outer one.

        Raises:
            ConfigError: If the values given are not exactly `variables`.
        """
        if values.keys() != self.variables:
            raise ConfigError(
                f"Prompt {self.name!r} takes {sorted(self.variables)}, got {sorted(values)}.",
                hint=f"Compare the call with prompts/{self.name}.yaml.",
            )
        tag = _tags(self.system + self.text)
        safe = {key: tag.sub("&lt;", value) for key, value in values.items()}
        text = HumanMessage(_fill(self.text, safe))
        return [SystemMessage(_fill(self.system, safe)), text] if self.system else [text]


def _fill(text: str, values: dict[str, str]) -> str:
    """Substitute, and close the gaps that empty blocks leave."""
    return re.sub(r"\n{3,}", "\n\n", Template(text).substitute(values)).strip()


@cache
def _tags(template: str) -> re.Pattern[str]:
    """Match the `<` of every tag that the template uses as a fence, opening or closing."""
    names = "|".join(sorted(set(_FENCE.findall(template)))) or "(?!)"
    return re.compile(rf"<(?=\s*/?\s*(?:{names})\b)", re.IGNORECASE)


@cache
def load_prompt(name: str, folder: Path = PROMPT_DIR) -> Prompt:
    """Read one prompt file.

    Raises:
        ConfigError: If it has unknown keys, or its variables and texts disagree.
        FileNotFoundError: If there is no such prompt.
    """
    raw = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    if unknown := raw.keys() - _KEYS:
        raise ConfigError(
            f"Prompt {name!r} has unknown keys {sorted(unknown)}.",
            hint=f"prompts/{name}.yaml may hold {', '.join(sorted(_KEYS))}.",
        )
    system = raw.get("system", "")
    declared = frozenset(raw["variables"])
    used = frozenset(Template(system + raw["text"]).get_identifiers())
    if declared != used:
        raise ConfigError(
            f"Prompt {name!r} declares {sorted(declared)} but uses {sorted(used)}.",
            hint=f"Edit `variables` in prompts/{name}.yaml.",
        )
    return Prompt(name, raw["version"], system, raw["text"], declared)
