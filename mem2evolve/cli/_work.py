"""Opens what a run needs, runs tasks one after the other, and says what happens as it happens."""

import asyncio
import sys
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ._approval import Answers
from ._checkpoints import Unfinished
from ._common import print_json
from ._drive import Driver, End, open_driver
from ._pulse import Pulse
from ._report import Shown, write_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..graph.context import Context
    from ..nodes.desk import Resources
    from ..settings import Settings


async def solve(
    tasks: list[str],
    files: list[str],
    context: "Context",
    settings: "Settings",
    answers: Answers,
    *,
    show: Shown,
    yes: bool,
) -> list[End]:
    """Solve tasks one after the other, telling the story; return how far each got."""
    from ..nodes.retrieve_experience import check_files, check_task  # noqa: PLC0415 - `--help` stays quick

    tasks = [check_task(task) for task in tasks]
    check_files(files)
    async with working(settings, context, answers, show=show, yes=yes) as driver:
        ends: list[End] = []
        for task in tasks:
            run = Unfinished(
                run_id=str(uuid4()),
                given={"task": task, "files": files},
                context=asdict(context),
                model=settings.model,
            )
            ends.append(await driver.start(run, context))
        return ends


@asynccontextmanager
async def working(
    settings: "Settings",
    context: "Context",
    answers: Answers,
    *,
    show: Shown,
    yes: bool,
    told: list[str] | None = None,
) -> "AsyncIterator[Driver]":
    """Open everything that a run needs, and close it. Answers go to standard output, and into `told`."""
    from ._story import Story  # noqa: PLC0415 - `--help` stays quick

    resources = open_with_progress(settings, yes=yes)
    pulse = Pulse()
    story = Story(pulse, quiet=show != "story")
    written = True

    def tell(event: dict[str, Any]) -> None:
        nonlocal written
        story.tell(event)
        if show == "stream":
            print_json(event)
            sys.stdout.flush()
        if event["event"] == "answered" and show == "story":
            pulse.clear()
            written = write_answer(event["answer"]) and written
            if told is not None:
                told.append(event["answer"])

    beating = asyncio.create_task(pulse.beat()) if show == "story" else None
    try:
        await _look_ahead(resources, context)
        async with open_driver(resources, answers, tell, pulse.watch) as driver:
            yield driver
    finally:
        if beating is not None:
            beating.cancel()
        pulse.clear()
        await resources.close()
    if not written:
        raise SystemExit(1)


async def _look_ahead(resources: "Resources", context: "Context") -> None:
    """Open what every run needs, so that what is wrong there is said before anything is spent.

    Raises:
        StoreError: If the memory cannot be opened.
        ModelError: If the model cannot be opened.
        ConfigError: If a setting of theirs is malformed.
    """
    await resources.memory.count("run")
    await resources.models.chat(context.model_for("actor"))


def open_with_progress(settings: "Settings", *, yes: bool) -> "Resources":
    """Open the resources; the embedded model asks for its download on this terminal."""
    from ..api import open_resources  # noqa: PLC0415
    from .model import ProgressPrinter, terminal_confirm  # noqa: PLC0415

    def start() -> tuple[str, str]:
        from ..models.embedded import start as start_embedded  # noqa: PLC0415

        with ProgressPrinter() as report:
            endpoint = start_embedded(terminal_confirm(yes=yes), report)
        return endpoint.base_url, endpoint.model

    return open_resources(settings, start_embedded=start)
