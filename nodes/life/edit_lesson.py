"""A person's edit of a lesson: other words are another record, which supersedes the one that was edited."""

from collections.abc import Mapping
from typing import Final

from ...errors import InputError
from ...memory.care.opposite import opposite
from ...memory.memory import Memory
from ...memory.records import RECRUITABLE, ExperienceRecord, StatusChange
from ...memory.words import LESSON_CHARS, unseen

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
        changes: New text by field, one of `LESSON_CHARS`.
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
    _check_place(old, known)
    if known is None:
        await memory.put(new)
    await memory.set_status("experience", old.id, "superseded", f"{reason} (now {new.id})")
    return known or new


def _check_place(old: ExperienceRecord, known: ExperienceRecord | None) -> None:
    """Refuse an edit of what has other words already, or to words that a lesson has.

    Args:
        old: The lesson that is edited.
        known: What is there of the new one; it may be from the same edit, broken off.
    """
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


def _checked(old: ExperienceRecord, changes: Mapping[str, str]) -> dict[str, str]:
    words = {name: getattr(old, name) for name in LESSON_CHARS}
    words |= {name: text.strip() for name, text in changes.items()}
    for name, text in words.items():
        if not 0 < len(text) <= LESSON_CHARS[name]:
            raise InputError(
                f"{name} has {len(text):,} characters; it takes 1 to {LESSON_CHARS[name]:,}.",
                hint="A lesson is a few words of title and one or two sentences for the rest.",
            )
        if found := unseen(text):
            raise InputError(
                f"{name} holds {found}, which a reader does not see.", hint="Take it out."
            )
    return words


async def _still_contradicted(
    memory: Memory, old: ExperienceRecord, knowledge: str
) -> tuple[str, ...]:
    others = await memory.opponents(old)
    return tuple(one.id for one in others if opposite(knowledge, one.knowledge))
