"""What a lesson is linked with, for `mem2evolve memory show`."""

from typing import TYPE_CHECKING

from .._common import say, short

if TYPE_CHECKING:
    from ...memory.care.links import Links
    from ...memory.records import ExperienceRecord


def print_links(links: "Links") -> None:
    """Print the lessons that it is linked with, in both directions."""
    lines = [
        f"  {how.replace('_', ' '):<16}{short(one.id)}  {one.status}  {one.title}"
        for how, linked in links.items()
        for one in linked
    ]
    if lines:
        say("links", bold=True)
        say("\n".join(lines))


def print_changes(lesson: "ExperienceRecord") -> None:
    """Print what became of it."""
    if lesson.history:
        say("history", bold=True)
    for change in lesson.history:
        say(f"  {change.at[:16].replace('T', ' ')}  {change.status}: {change.reason}")
