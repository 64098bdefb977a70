"""`mem2evolve doctor`: each thing that a run needs, whether it is there, and what to do."""

import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ..errors import Mem2EvolveError
from ._common import print_json, wait
from ._text import hang, one_line

if TYPE_CHECKING:
    from ..memory.rows import RecordKind
    from ..settings import Settings

KINDS: Final[dict[str, "RecordKind"]] = {
    "tools": "tool",
    "agents": "agent",
    "lessons": "experience",
    "runs": "run",
}
"""What the memory holds, in words."""
INDENT: Final = 17
"""Columns before a finding."""


class Line(NamedTuple):
    """One finding."""

    part: str
    ok: bool
    found: str
    todo: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line.")
def doctor(*, as_json: bool) -> None:
    """Check what a run needs. Exit code 0: it can run. 2: it cannot."""
    raise SystemExit(0 if wait(_check(as_json=as_json)) else 2)


async def _check(*, as_json: bool) -> bool:
    from ..settings import Settings  # noqa: PLC0415 - `--help` stays quick

    settings = Settings.from_env()
    lines = []
    async for line in _lines(settings):
        lines.append(line)
        if not as_json:
            mark = (
                click.style("ok  ", fg="green")
                if line.ok
                else click.style("FAIL", fg="red", bold=True)
            )
            click.echo(f"{mark} {line.part:11} {hang(one_line(line.found), sys.stdout, INDENT)}")
            if line.todo:
                todo = hang(one_line(line.todo), sys.stdout, INDENT + 2)
                click.echo(f"{'':{INDENT}}→ {todo}")
    if as_json:
        print_json([line._asdict() for line in lines])
    return all(line.ok for line in lines)


async def _lines(settings: "Settings") -> AsyncIterator[Line]:
    yield Line("home", ok=True, found=str(settings.home))
    for check in (_sandbox, _embedding, _memory, _model, _web):
        try:
            async for line in check(settings):
                yield line
        except Mem2EvolveError as exc:
            yield Line(check.__name__.strip("_"), ok=False, found=str(exc), todo=exc.hint)


async def _sandbox(settings: "Settings") -> AsyncIterator[Line]:
    from ..sandbox import open_sandbox  # noqa: PLC0415

    box = open_sandbox(settings.sandbox, settings.packages)
    try:
        report = await box.probe()
    finally:
        await box.close()
    for finding in report.findings:
        todo = "" if finding.ok else "Do what is said there; until then a run can make no tools."
        yield Line("sandbox", finding.ok, f"{finding.name}: {finding.detail}", todo)


async def _embedding(settings: "Settings") -> AsyncIterator[Line]:
    from ..models.embeddings import open_embedder  # noqa: PLC0415

    [vector] = await open_embedder(settings.embedding).embed(["probe"])
    yield Line("embedding", ok=True, found=f"{settings.embedding}, {len(vector)} dimensions")


async def _memory(settings: "Settings") -> AsyncIterator[Line]:
    from ..memory.memory import Memory  # noqa: PLC0415

    where = settings.memory_place
    async with Memory.open(settings) as memory:
        await memory.embed(["probe"])  # its vectors must be of the model in use
        counts = [f"{word} {await memory.count(kind)}" for word, kind in KINDS.items()]
    yield Line("memory", ok=True, found=f"{where}: {', '.join(counts)}")


async def _model(settings: "Settings") -> AsyncIterator[Line]:
    from ..settings import EMBEDDED_MODEL  # noqa: PLC0415

    if settings.model == EMBEDDED_MODEL:
        from ..models import embedded  # noqa: PLC0415

        entry = embedded.default_model()
        state = embedded.file_status(entry)
        ready = state in ("verified", "not verified") or bool(
            os.environ.get("MEM2EVOLVE_MODEL_FILE")
        )
        found = f"embedded, {entry.name}: file {state}"
        todo = "" if ready else "mem2evolve model pull, or set OPENAI_API_KEY or OPENAI_BASE_URL"
        embedded.require_runtime()
        yield Line("model", ready, found, todo)
        return
    from langchain_core.messages import HumanMessage  # noqa: PLC0415

    from ..models.pool import Models  # noqa: PLC0415

    chat = await Models(settings).chat()
    reply, usage = await chat.text([HumanMessage("Reply with the word ok.")])
    only = " the only model of OPENAI_BASE_URL" if settings.model == "openai:" else ""
    found = f"{settings.model}{only} says {reply[:40]!r} ({usage.seconds:.1f} s)"
    yield Line("model", ok=True, found=found)


async def _web(_: "Settings") -> AsyncIterator[Line]:
    named = [name for name in ("TAVILY_API_KEY", "BRAVE_API_KEY") if os.environ.get(name)]
    yield Line(
        "web",
        ok=True,
        found=f"search by {named[0] if named else 'ddgs, without a key'}; a run goes on without it",
    )
