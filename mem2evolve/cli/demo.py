"""`mem2evolve demo`: two related tasks, to see it make a tool and use it again."""

from typing import Final

import click

from ._approval import Answers
from ._common import print_json, wait

TASKS: Final = (
    (
        "How far is it as the crow flies from Berlin (52.5200, 13.4050) to Lisbon (38.7223, -9.1393), "
        "in kilometres, rounded to a whole number?"
    ),
    (
        "How far is it as the crow flies from Tokyo (35.6762, 139.6503) to Sydney (-33.8688, 151.2093), "
        "in kilometres, rounded to a whole number?"
    ),
)
ANSWERS: Final = ("2312", "7826")
"""On a sphere with the Earth's mean radius, 6371 km."""


@click.command()
@click.option("--yes", is_flag=True, help="Download the embedded model without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line, and no story.")
def demo(*, yes: bool, as_json: bool) -> None:
    """Solve two related tasks. What the first one makes stays, as with any other run."""
    wait(_demo(yes=yes, as_json=as_json))


async def _demo(*, yes: bool, as_json: bool) -> None:
    from ..graph.context import Context  # noqa: PLC0415 - `--help` stays quick
    from ..settings import Settings  # noqa: PLC0415
    from ._report import summary  # noqa: PLC0415
    from ._work import solve  # noqa: PLC0415

    # It runs unattended: nobody is asked, and what is weak stays a candidate.
    context, settings = Context(approve="never"), Settings.from_env()
    ends = await solve(
        list(TASKS), [], context, settings, Answers(), show="json" if as_json else "story", yes=yes
    )
    if as_json:
        print_json(
            [
                summary(end.state) | {"right": end.state["answer"] == right}
                for end, right in zip(ends, ANSWERS, strict=True)
            ]
        )
        return
    click.echo("\nLook around: mem2evolve tools list, memory list, runs list", err=True)
