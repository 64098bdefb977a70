"""The built-in tools: what the agent can do before it has made any tool of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from ...sandbox.base import Sandbox
from . import files, python, web, webpage
from ._shared import PAGE_CHARS, text_argument, whole_argument
from .addresses import AddressCheck, public_addresses
from .web import Searcher


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a built-in tool may use during one run."""

    sandbox: Sandbox
    files: Mapping[str, Path]
    """The task's files, by the name shown to the model."""
    web: bool = True
    """Whether the web tools may go out at all."""
    searcher: Searcher | None = None
    """The search engine; chosen from the environment if None."""
    address_check: AddressCheck = public_addresses
    """Which hosts `read_webpage` may connect to."""


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """One tool: its card and what it does."""

    name: str
    description: str
    """One sentence, the card."""
    input_schema: dict[str, JsonValue]
    run: Callable[[Mapping[str, Any], Bench], Awaitable[JsonValue]]
    """Takes the arguments.

    Raises `ToolFailure` for what the model can act on; `SandboxUnavailable` where there is no box.
    """


async def _python(args: Mapping[str, Any], bench: Bench) -> JsonValue:
    code = text_argument(python.TOOL, args, "code")
    return await python.run_python(code, sandbox=bench.sandbox, files=bench.files)


async def _read_file(args: Mapping[str, Any], bench: Bench) -> JsonValue:
    name = text_argument(files.TOOL, args, "name")
    start = whole_argument(files.TOOL, args, "start", default=0, low=0)
    limit = whole_argument(files.TOOL, args, "limit", default=PAGE_CHARS, low=1, high=PAGE_CHARS)
    page = whole_argument(files.TOOL, args, "page", default=1, low=1)
    sheet = args.get("sheet")  # small models write 2 for "2"
    return await files.read_file(
        name,
        files=bench.files,
        sandbox=bench.sandbox,
        start=start,
        limit=limit,
        sheet=None if sheet is None else str(sheet),
        page=page,
    )


async def _web_search(args: Mapping[str, Any], bench: Bench) -> JsonValue:
    query = text_argument(web.TOOL, args, "query")
    limit = whole_argument(web.TOOL, args, "max_results", default=5, low=1, high=web.MAX_RESULTS)
    if not bench.web:
        raise web.unreachable(web.TOOL, "it is switched off for this run")
    found = await web.search_web(query, limit=limit, searcher=bench.searcher)
    return [{"title": hit["title"], "url": hit["url"], "snippet": hit["snippet"]} for hit in found]


async def _read_webpage(args: Mapping[str, Any], bench: Bench) -> JsonValue:
    url = text_argument(webpage.TOOL, args, "url")
    start = whole_argument(webpage.TOOL, args, "start", default=0, low=0)
    if not bench.web:
        raise web.unreachable(webpage.TOOL, "it is switched off for this run")
    return await webpage.read_webpage(url, start=start, check=bench.address_check)


def _schema(required: str, **properties: JsonValue) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


def _text(description: str) -> JsonValue:
    return {"type": "string", "minLength": 1, "description": description}


def _whole(description: str, *, minimum: int, **more: JsonValue) -> JsonValue:
    return {"type": "integer", "minimum": minimum, "description": description, **more}


BUILTINS: Final[tuple[BuiltIn, ...]] = (
    BuiltIn(
        name=python.TOOL,
        description="Run a one-off Python script (standard library, no network) and return what it "
        "prints and the value of its last line.",
        input_schema=_schema(
            "code",
            code=_text(
                "The script. Print what you want to see, or put it on the last line. "
                "The task's files are at /data/NAME."
            ),
        ),
        run=_python,
    ),
    BuiltIn(
        name=files.TOOL,
        description="Read one of the task's files: text, JSON and PDF by pages, CSV and XLSX as "
        "columns with types, number of rows, and rows, images as format and size.",
        input_schema=_schema(
            "name",
            name=_text("Name of the file, as the task gives it."),
            start=_whole("First character, or first row of a table.", minimum=0, default=0),
            limit=_whole(
                f"At most so many characters or rows; an answer holds about {PAGE_CHARS} "
                "characters.",
                minimum=1,
                maximum=PAGE_CHARS,
            ),
            sheet=_text("Sheet of an XLSX file, by its name; the first if left out."),
            page=_whole("First page of a PDF file.", minimum=1, default=1),
        ),
        run=_read_file,
    ),
    BuiltIn(
        name=web.TOOL,
        description="Search the web and return titles, addresses and snippets of pages.",
        input_schema=_schema(
            "query",
            query=_text("What to look for, in a few words."),
            max_results=_whole("How many results.", minimum=1, maximum=web.MAX_RESULTS, default=5),
        ),
        run=_web_search,
    ),
    BuiltIn(
        name=webpage.TOOL,
        description="Read the text of one public web page by its address.",
        input_schema=_schema(
            "url",
            url=_text("Address of the page, beginning with http:// or https://."),
            start=_whole("First character, to read on in a long page.", minimum=0, default=0),
        ),
        run=_read_webpage,
    ),
)
"""All of them, each name once."""
