"""What the box has to do so that JSON becomes what a function's annotations name, and back again."""

import ast
import json
import re
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from ._forms import ANY, Forms, needed, reachable
from .screen import parse

WORDS: Final = re.compile(r"\b(?:date|datetime|time|tuple|Tuple|dataclass|TypedDict|\w*Enum)\b")
"""A source without any of them needs no plan, and is not parsed for one."""
KEPT: Final = 256
"""Plans that are remembered: reading a source takes longer than a call."""


@lru_cache(maxsize=KEPT)
def plan_of(source: str, function: str) -> str:
    """Return as JSON how arguments and result are converted; empty where they are JSON as they are.

    `args` holds the form of each parameter that needs it, `result` whether the result may hold what
    JSON does not, `records` the classes that these need.
    """
    if not WORDS.search(source):
        return ""
    try:
        tree = parse(source)
        node = next((one for one in reversed(tree.body) if _is(one, function)), None)
        plan = _read(Forms(tree), node) if isinstance(node, ast.FunctionDef) else None
        return json.dumps(plan) if plan else ""
    except (SyntaxError, RecursionError):  # the call itself will say so, or the screen has
        return ""


def _read(forms: Forms, node: ast.FunctionDef) -> dict[str, object] | None:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    meant = {arg.arg: forms.form(arg.annotation) for arg in every}
    args = {name: _bare(form) for name, form in meant.items() if needed(form)}
    result = needed(forms.form(node.returns))
    if not args and not result:
        return None
    records = {
        name: {
            "kind": record.kind,
            "fields": {key: _bare(form) for key, form in forms.fields(record).items()},
            "required": [key for key, field in record.fields.items() if field.required],
        }
        for name, record in reachable(forms, [meant[name] for name in args]).items()
    }
    return {"args": args, "result": result, "records": records}


def _bare(form: JsonValue) -> JsonValue:
    """Leave out of a form what makes no difference: the box converts and does not check."""
    if not needed(form):
        return ANY
    if not isinstance(form, list) or form[0] == "record":
        return form
    if form[0] == "union":
        return ["union", *(_bare(one) if needed(one) else _kind(one) for one in form[1:])]
    return [form[0], *map(_bare, form[1:])]


def _kind(form: JsonValue) -> JsonValue:
    """Return what tells a value of this form from others."""
    if not isinstance(form, list):
        return form
    return {"list": "array", "dict": "object"}.get(str(form[0]), ANY)


def _is(node: ast.stmt, function: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
