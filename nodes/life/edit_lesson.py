"""A person's edit of a lesson: other words are another record, which supersedes the one that was edited."""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from ...errors import InputError
from ...memory.care.opposite import opposite
from ...memory.memory import Memory
from ...memory.records import RECRUITABLE, ExperienceRecord, StatusChange
from ..distill import LessonReply

FIELDS: Final = ("title", "description", "applies_when", "knowledge")
"""What may be changed."""
_OPEN: Final = ("active", "candidate", "quarantined", "retired")


async def edit_lesson(
    memory: Memory, old: ExperienceRecord, changes: Mapping[str, str], because: str
) -> ExperienceRecord:
    """Store the lesson in other words, active, and supersede the old one.

    Evidence follows the chain of wordings; uses and wins are counted anew. What the old words contradicted
    counts as settled unless the new words still say the opposite. Given again after it was killed, it ends the same.

    Args:
        memory: Where the lesson is.
        old: The lesson.
        changes: New text by field, one of `FIELDS`.
        because: A person's reason.

    Raises:
        InputError: If nothing changes, a text is empty or too long, or other words took its place already.
        StoreError: If the memory cannot be written.
    """
    why = " ".join(because.split())
    if not why:
        raise InputError("The reason is empty.", hint="Say why with `--because TEXT`.")
    words = _checked(old, changes)
    reason = f"a person edited it: {why}"
    new = old.model_copy(
        update={
            **words,
            "supersedes": old.id,
            "contradicts": await _still_contradicted(memory, old, words["knowledge"]),
            "status": "active",
            "history": (StatusChange(status="active", reason=reason),),
        }
    )
    new = ExperienceRecord.model_validate(new.model_dump(exclude={"created_at"}))
    if new.id == old.id:
        raise InputError(
            f"Nothing differs from lesson {old.id[:8]}.", hint="Change a text, as with --knowledge."
        )
    known = await memory.get("experience", new.id)
    if known is not None and (known.supersedes != old.id or known.status not in RECRUITABLE):
        raise InputError(
            f"Lesson {known.id[:8]} ({known.status}) says just that.",
            hint="Word it in another way; what a lesson said before stays in its history.",
        )
    if known is None and old.status not in _OPEN:
        raise InputError(
            f"Lesson {old.id[:8]} is {old.status}: {old.history[-1].reason if old.history else ''}",
            hint=f"Edit the one in its place: `mem2evolve memory show {old.id[:8]}` names it.",
        )
    if known is None:
        await memory.put(new)
    await memory.set_status("experience", old.id, "superseded", f"{reason} (now {new.id})")
    return known or new


def _checked(old: ExperienceRecord, changes: Mapping[str, str]) -> dict[str, str]:
    words = {name: getattr(old, name) for name in FIELDS}
    words |= {name: text.strip() for name, text in changes.items()}
    try:
        LessonReply.model_validate(words)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = str(first["loc"][0])
        raise InputError(
            f"{field} has {len(words[field]):,} characters: {first['msg']}.",
            hint="A lesson is a few words of title and one or two sentences for the rest.",
        ) from exc
    for name, text in words.items():
        strange = [c for c in text if (c < " " and c not in "\n\t") or "\ud800" <= c <= "\udfff"]
        if strange:
            raise InputError(f"{name} holds {strange[0]!r}, which is no text.", hint="Take it out.")
    return words


async def _still_contradicted(
    memory: Memory, old: ExperienceRecord, knowledge: str
) -> tuple[str, ...]:
    others = await memory.opponents(old)
    return tuple(one.id for one in others if opposite(knowledge, one.knowledge))
