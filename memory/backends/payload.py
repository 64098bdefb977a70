"""How a payload is kept, and how a filter is checked: the same for every back-end."""

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..store import INDEXED, Collection, Where

BODY: Final = "body"
"""Key that holds the payload as JSON text, beside a copy of the indexed fields.

The engines keep whole numbers above 64 bits as floats and refuse infinities and lone surrogates. A
tool's test cases may hold all of these, and its id is made from them.
"""


def pack(collection: Collection, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is written to the engine for `payload`."""
    packed = {
        field: _index_copy(payload[field]) for field in INDEXED[collection] if field in payload
    }
    return {**packed, BODY: json.dumps(dict(payload))}


def unpack(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the payload that `pack` was given.

    Raises:
        ValueError: If something else wrote `stored`.
    """
    body = (stored or {}).get(BODY)
    if not isinstance(body, str):
        raise ValueError(f"the payload has no text under {BODY!r}")  # noqa: TRY004 - as below
    payload = json.loads(body)
    if not isinstance(payload, dict):
        raise ValueError(f"the payload is a {type(payload).__name__}, not an object")  # noqa: TRY004 - one error type for whatever is stored
    return payload


def conditions(collection: Collection, where: Where | None) -> dict[str, list[str]]:
    """Return `where` with every value as a list of the allowed ones.

    Raises:
        ValueError: If a field is not indexed in this collection.
    """
    if unknown := set(where or ()) - set(INDEXED[collection]):
        raise ValueError(f"{collection} cannot be filtered by {sorted(unknown)}")
    return {
        field: [_index_copy(value)] if isinstance(value, str) else [_index_copy(v) for v in value]
        for field, value in (where or {}).items()
    }


def canonical(ids: Iterable[str]) -> list[str]:
    """Return `ids` in canonical form, once each and in order, without those that are no UUIDs."""
    found: dict[str, None] = {}
    for text in ids:
        try:
            found[str(uuid.UUID(text))] = None
        except ValueError:
            continue
    return list(found)


def require_uuid(text: str) -> str:
    """Return `text` in canonical form.

    Raises:
        ValueError: If it is not a UUID.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError(f"the id {text!r} is not a UUID") from None


def _index_copy(value: Any) -> Any:
    """Return a value the engines accept: lone surrogates become question marks, in filters too."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return [_index_copy(item) for item in value] if isinstance(value, list | tuple) else value
