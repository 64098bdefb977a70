"""Asks the person at the terminal what a tool may do, and whether it may be kept."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from ..errors import ConfigError
from ._text import one_line, typed, visible

WAITING: Final = 3
"""Exit code of a run that was left waiting for a person."""
PROMPT: Final = "[y]es / [n]o, because … / [s]how code / [q]uit (resume later): "
SHOWN_LINES: Final = 60
SHOWN_CASES: Final = 12

F = TypeVar("F", bound=Callable[..., Any])


def answering(command: F) -> F:
    """Give a command the options that answer for a person."""
    approve = click.option("--approve", is_flag=True, help="Say yes to whatever a person is asked.")
    reject = click.option("--reject", metavar="WHY", help="Say no to it, with this reason.")
    return approve(reject(command))


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Who answers: the options, else the person at the terminal, else nobody."""

    approve: bool = False
    reject: str | None = None

    def __post_init__(self) -> None:
        """Refuse a yes and a no at once."""
        if self.approve and self.reject is not None:
            raise ConfigError("--approve and --reject exclude each other.", hint="Give one.")

    async def answer(self, question: dict[str, Any]) -> Any:
        """Return the answer to a question, `None` when there is none now."""
        if self.approve:
            return True
        if self.reject is not None:
            return {"approve": False, "reason": typed(self.reject)}
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        return await _ask(question)


async def _ask(question: dict[str, Any]) -> Any:
    """Show what is to be kept, and ask until there is an answer; `None` to leave it for later."""
    for line in shown(question):
        click.echo(line, err=True)
    while True:
        said = await _line(PROMPT)
        word, _, rest = (said or "q").strip().partition(" ")
        match word.lower().rstrip(",.:;"):
            case "y" | "yes" if not rest:
                return True
            case "n" | "no":
                because = rest.strip() or (await _line("because: ") or "").strip()
                return {"approve": False, "reason": because.removeprefix("because ")}
            case "s":
                click.echo(visible(_code(question)), err=True)
            case "q":
                return None


def about(question: dict[str, Any]) -> str:
    """Return what a question is about, in a few words."""
    if question["kind"] == "tool_permission":
        return one_line(f"what {question['tool']} may do")
    return one_line(f"{question['tool']} v{question['version']}")


def shown(question: dict[str, Any]) -> list[str]:
    """Return what the person is shown, line by line; what a model wrote is made visible."""
    if question["kind"] == "tool_permission":
        return _wishes(question)
    name = f"{question['tool']} v{question['version']}"
    lines = ["", f"May {one_line(name)} be kept? {one_line(question['description'])}"]
    if question["note"]:
        lines.append(f"  note: {one_line(question['note'])}")
    lines += [f"  why you are asked: {one_line(reason)}" for reason in question["reasons"]]
    lines += [f"  permission: {one_line(one)}" for one in question["permissions"]]
    lines += [f"  package: {one_line(one)}" for one in question["dependencies"]]
    body = visible(question["diff"] or question["code"]).splitlines()
    lines += ["", *(f"  {line}" for line in body[:SHOWN_LINES])]
    if len(body) > SHOWN_LINES:
        lines.append(f"  … {len(body) - SHOWN_LINES} more lines: s shows the whole code")
    lines.append("")
    for case in question["cases"][:SHOWN_CASES]:
        args = ", ".join(f"{key}={value!r}" for key, value in case["args"].items())
        came = f"raises {case['raises']}" if case["raises"] else f"= {case['expected']!r}"
        call = f"{question['tool']}({args})"
        lines.append("  " + one_line(f"{call} {came}  [{case['origin']}]"))
    if len(question["cases"]) > SHOWN_CASES:
        lines.append(f"  … {len(question['cases']) - SHOWN_CASES} more cases")
    return [visible(line) for line in lines]


def _wishes(question: dict[str, Any]) -> list[str]:
    """Show what the drafts of a tool ask for, before anything of it is installed, fetched or run."""
    name, need = one_line(question["tool"]), one_line(question["description"])
    lines = ["", f"{name} is being made, and asks for more than to compute: {need}"]
    if question["note"]:
        lines.append(f"  note: {one_line(question['note'])}")
    lines += [f"  {one_line(reason)}" for reason in question["reasons"]]
    if question["files"]:
        lines.append(f"  the task's files: {one_line(', '.join(question['files']))}")
    for number, draft in enumerate(question["drafts"], 1):
        asks = one_line(", ".join(draft["permissions"]))
        lines += ["", f"  draft {number} ({draft['role']}) asks for {asks}"]
        if draft["why"]:
            lines.append(f"  its writer says: {one_line(draft['why'])}")
        body = visible(draft["code"]).splitlines()
        lines += ["", *(f"  {line}" for line in body[:SHOWN_LINES])]
        if len(body) > SHOWN_LINES:
            lines.append(f"  … {len(body) - SHOWN_LINES} more lines: s shows the whole code")
    lines += [
        "",
        f"Yes allows it to {name} alone, for as long as it is kept; no has it written without.",
    ]
    return [visible(line) for line in lines]


def _code(question: dict[str, Any]) -> str:
    """Return all code that a question is about."""
    if question["kind"] == "tool_permission":
        return "\n".join(draft["code"] for draft in question["drafts"])
    return str(question["code"])


async def _line(prompt: str) -> str | None:
    """Read a line from the terminal without keeping Ctrl-C waiting; `None` at the end of input."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    click.echo(prompt, err=True, nl=False)
    got: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(fd)
        if not got.done():
            try:
                got.set_result(os.read(fd, 1 << 16))
            except OSError:  # the terminal is gone
                got.set_result(b"")

    loop.add_reader(fd, read)
    try:
        data = await got
    finally:
        loop.remove_reader(fd)
    return data.decode("utf-8", "replace") if data else None
