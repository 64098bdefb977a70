"""`mem2evolve memory edit`: says a lesson in other words."""

import tempfile

import click

from ...errors import InputError
from .._common import only_one, open_memory, print_json, say, short, wait
from .._text import typed
from ._ask import JSON, on_terminal

FIELDS = ("title", "description", "applies_when", "knowledge")


@click.command()
@click.argument("lesson")
@click.option("--title", help="A few words.")
@click.option("--description", help="One sentence.")
@click.option("--applies-when", help="The situation.")
@click.option("--knowledge", help="What to do.")
@click.option("--because", help="Why; kept in its history. Asked for on a terminal.")
@JSON
def edit(lesson: str, because: str | None, *, as_json: bool, **given: str | None) -> None:
    """Say a LESSON in other words. Without a text to change, it opens $EDITOR.

    The new words are a record of their own that supersedes the old one and keeps its evidence; nothing is rewritten.
    """
    changes = {name: typed(text) for name, text in given.items() if text is not None}
    wait(_edit(lesson, changes, because, as_json=as_json))


async def _edit(
    wanted: str, changes: dict[str, str], because: str | None, *, as_json: bool
) -> None:
    from ...nodes.life.edit_lesson import edit_lesson  # noqa: PLC0415 - `--help` stays quick

    async with open_memory() as kept:
        found = [
            one for one in await kept.list("experience", limit=None) if one.id.startswith(wanted)
        ]
        old = only_one(found, "lesson", wanted, [short(one.id) for one in found])
        saved = "" if changes else _in_editor({name: getattr(old, name) for name in FIELDS})
        try:
            changes = _read(saved) if saved else changes
            why = typed(because) if because is not None else _why()
            new = await edit_lesson(kept, old, changes, why)
        except InputError as exc:
            if saved:
                raise InputError(str(exc), hint=f"{exc.hint} {_aside(saved)}") from exc
            raise
    if as_json:
        print_json(new.model_dump(mode="json") | {"id": new.id})
        return
    say(f"{new.title}  {new.status}", bold=True)
    say(f"id {new.id}\nwhen   {new.applies_when}\ndo     {new.knowledge}")
    say(f"{short(old.id)} is superseded; `mem2evolve memory show {short(new.id)}` lists both")


def _why() -> str:
    if not on_terminal():
        raise InputError("No reason is given.", hint="Say why with `--because TEXT`.")
    return str(click.prompt("because", err=True))


def _in_editor(words: dict[str, str]) -> str:
    """Let a person change the texts in an editor; return what was saved.

    Raises:
        InputError: If there is no terminal, no editor, or nothing was saved.
    """
    import yaml  # noqa: PLC0415 - `--help` stays quick

    if not on_terminal():
        raise InputError(
            "There is nothing to change, and no terminal for an editor.",
            hint="Give a text, as in `--knowledge TEXT --because TEXT`.",
        )
    shown = yaml.safe_dump(words, sort_keys=False, allow_unicode=True, width=100)
    try:
        saved = click.edit(shown, extension=".yaml")
    except click.ClickException as exc:
        raise InputError(
            exc.format_message(), hint="Set EDITOR to a program that you have, or give a text."
        ) from exc
    if saved is None:
        raise InputError("Nothing was saved.", hint="Save the file to change the lesson.")
    return str(saved)


def _read(saved: str) -> dict[str, str]:
    """Return the texts that an editor left.

    Raises:
        InputError: If they have another form.
    """
    import yaml  # noqa: PLC0415 - `--help` stays quick

    try:
        read = yaml.safe_load(saved)
    except yaml.YAMLError as exc:
        raise InputError(
            f"What was saved is no YAML: {exc}", hint="Keep the form `field: text`."
        ) from exc
    if not isinstance(read, dict) or not all(
        key in FIELDS and isinstance(text, str) for key, text in read.items()
    ):
        raise InputError(
            f"What was saved is not {', '.join(FIELDS)} with a text each.",
            hint="Keep the form `field: text`; put quotes around a text with a colon.",
        )
    return dict(read)


def _aside(saved: str) -> str:
    """Keep what a person wrote and could not be used; say where."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="mem2evolve-lesson-", suffix=".yaml", delete=False
    ) as file:
        file.write(saved)
    return f"What you wrote is in {file.name}."
