"""Labelled sets: cards, and what is wanted of them. Recall is calibrated and tested with them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import InputError

LABELLED: Final = Path(__file__).parent / "labelled"
"""The sets that come with the program; their README says what the fields are."""
Collection = Literal["tool", "agent", "experience"]
COLLECTIONS: Final[tuple[Collection, ...]] = ("tool", "agent", "experience")


@dataclass(frozen=True, kw_only=True)
class Card:
    """An asset or a lesson of the set."""

    id: str
    asset: Collection
    text: str


@dataclass(frozen=True, kw_only=True)
class Query:
    """Something wanted."""

    id: str
    want: str
    """The wanted card."""
    query: str
    """The raw sub-task behind it."""
    answer: str
    """Id of the card that does it; empty for none."""


@dataclass(frozen=True, kw_only=True)
class Near:
    """A wanted card that differs from a card of the set in one crucial respect."""

    id: str
    card: str
    wanted: str
    differs: str


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """Cards, and what is wanted of them."""

    cards: tuple[Card, ...]
    queries: tuple[Query, ...]
    near: tuple[Near, ...] = ()

    def collections_of(self, query: Query) -> tuple[Collection, ...]:
        """Return where a query is looked for: where its card is; everywhere if there is none."""
        found = tuple(card.asset for card in self.cards if card.id == query.answer)
        return found or COLLECTIONS


def load(path: Path | None = None) -> LabelledSet:
    """Read a labelled set; without a path the one that comes with the program.

    Raises:
        InputError: If the file cannot be read, or a line is not what it should be.
    """
    rows = _rows(path) if path else _rows(LABELLED / "recruit.jsonl")
    near = rows if path else _rows(LABELLED / "near.jsonl")
    try:
        found = LabelledSet(
            cards=tuple(
                Card(id=_text(row, "id"), asset=_asset(row), text=_text(row, "text"))
                for row in rows
                if row.get("kind") == "card"
            ),
            queries=tuple(_query(row) for row in rows if row.get("kind") == "query"),
            near=tuple(
                Near(**{key: _text(row, key) for key in ("id", "card", "wanted", "differs")})
                for row in near
                if "wanted" in row
            ),
        )
        _check(found)
    except ValueError as exc:
        raise InputError(
            f"The labelled set {path or LABELLED} cannot be used: {exc}.",
            hint="Each line is a JSON object; see memory/labelled/README.md for its fields.",
        ) from exc
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(
            f"The labelled set {path} cannot be read: {exc}.", hint="Name a readable JSONL file."
        ) from exc
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if line.strip() else {}
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InputError(
                f"Line {number} of the labelled set {path} is not a JSON object.",
                hint="Write one JSON object a line; see memory/labelled/README.md.",
            )
        found.append(row)
    return found


def _query(row: dict[str, Any]) -> Query:
    answer = row.get("answer") or ""
    if not isinstance(answer, str):
        raise ValueError(f"the answer {answer!r} is no card's id")  # noqa: TRY004 - one error type for a bad line
    return Query(
        id=_text(row, "id"),
        want=_text(row, "want"),
        query=str(row.get("query") or row["want"]),
        answer=answer,
    )


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a line has {key} = {value!r}")
    return value


def _asset(row: dict[str, Any]) -> Collection:
    for collection in COLLECTIONS:
        if row.get("asset") == collection:
            return collection
    raise ValueError(f"the card {row.get('id')!r} has asset = {row.get('asset')!r}")


def _check(labelled: LabelledSet) -> None:
    known = {card.id for card in labelled.cards}
    named = [(query.id, query.answer) for query in labelled.queries if query.answer]
    named += [(one.id, one.card) for one in labelled.near]
    if stray := [f"{key} names {answer!r}" for key, answer in named if answer not in known]:
        raise ValueError(f"{stray[0]}, which is no card of the set")
    answered = sum(bool(query.answer) for query in labelled.queries)
    if not known or not answered or answered == len(labelled.queries):
        raise ValueError(
            "it needs cards, queries that one of them answers, and queries that none does"
        )
