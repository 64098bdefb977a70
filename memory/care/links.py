"""The links of a lesson, in both directions."""

from collections.abc import Sequence

from ..records import ExperienceRecord

Links = dict[str, list[ExperienceRecord]]


def links_of(lesson: ExperienceRecord, lessons: Sequence[ExperienceRecord]) -> Links:
    """Return the lessons that one is linked with, by how; what is not there any more is left out.

    The keys are `supports`, `supported_by`, `supersedes`, `superseded_by`, `contradicts`, `contradicted_by`.
    """
    known = {one.id: one for one in lessons}

    def those(*ids: str) -> list[ExperienceRecord]:
        return [known[key] for key in ids if key in known]

    return {
        "supports": those(*lesson.supports),
        "supported_by": [one for one in lessons if lesson.id in one.supports],
        "supersedes": those(lesson.supersedes),
        "superseded_by": [one for one in lessons if one.supersedes == lesson.id],
        "contradicts": those(*lesson.contradicts),
        "contradicted_by": [one for one in lessons if lesson.id in one.contradicts],
    }
