"""Tells what a run does, as it happens: one line an event, on standard error."""

import json
import sys
from typing import Any, Final

import click

from ._pulse import Pulse
from ._text import LABEL, hang, one_line

_COLOURS: Final = {
    "created": "green", "recruited": "cyan", "answer": "green", "verdict": "magenta", "tests": "yellow", "none": "red",
    "approval": "yellow",
}  # fmt: skip


class Story:
    """Prints events. `quiet` keeps it silent; a `pulse` is taken away before a line is written."""

    def __init__(self, pulse: Pulse | None = None, *, quiet: bool = False) -> None:
        self._pulse = pulse
        self._quiet = quiet

    def tell(self, event: dict[str, Any]) -> None:
        """Print one custom event of the graph; events it does not know are passed over."""
        teller = getattr(self, f"_{event.get('event')}", None)
        if teller is not None and not self._quiet:
            teller(event)

    def _say(self, word: str, text: str) -> None:
        if self._pulse is not None:
            self._pulse.clear()
        label = click.style(word.ljust(LABEL), fg=_COLOURS.get(word, "blue"), bold=True)
        try:
            click.echo(f"{label}{hang(one_line(text), sys.stderr)}", err=True)
        except OSError:  # nobody reads it any more; the run goes on
            self._quiet = True

    def _started(self, event: dict[str, Any]) -> None:
        self._say("task", " ".join(event["task"].split())[:300])
        for lesson in event["lessons"]:
            self._say(
                "recalled", f"{lesson['title']} ({lesson['score']:.2f}): {lesson['text'][:160]}"
            )

    def _planned(self, event: dict[str, Any]) -> None:
        for subtask in event["plan"]:
            waits = f" (after {', '.join(subtask['depends_on'])})" if subtask["depends_on"] else ""
            self._say("plan", f"{subtask['id']}{waits} {subtask['goal']}")
            for word, cards in (("expert", [subtask["expert"]]), ("tool", subtask["tools"])):
                for card in filter(None, cards):
                    self._say("", f"wants {word} {card}")

    def _creating(self, event: dict[str, Any]) -> None:
        self._say("making", f"{event['signature']}")
        for lesson in event["lessons"]:
            self._say("", f"lesson: {lesson['title']} ({lesson['score']:.2f})")
        self._say(
            "", f"web: {event['web']} results" if event["web"] else f"web: {event['web_note']}"
        )

    def _inputs(self, event: dict[str, Any]) -> None:
        if event.get("why"):
            self._say("inputs", f"none: {event['why']}")
        else:
            stated = f", {event['stated']} examples in the task" if event["stated"] else ""
            rules = f"; must hold: {', '.join(event['properties'])}" if event["properties"] else ""
            self._say(
                "inputs",
                f"{event['chosen']} chosen, {event['generated']} generated from them{stated}{rules}",
            )

    def _drafted(self, event: dict[str, Any]) -> None:
        self._say("drafts", f"round {event['round']}: {event['drafts']} implementations written")

    def _checked(self, event: dict[str, Any]) -> None:
        passed = "all pass" if event["passed"] else event["why"]
        contested = f", {event['contested']} contested" if event["contested"] else ""
        confirmed = f"implementations confirm {event['confirmed']} cases{contested}"
        self._say("tests", f"{event['implementations']} different {confirmed}; {passed}")

    def _measured(self, event: dict[str, Any]) -> None:
        noticed = f"the cases notice {event['score']:.0%} of {event['mutants']} deliberate mistakes"
        more = f", {event['added']} more generated" if event["added"] else ""
        open_ones = f", {event['contested']} contested" if event["contested"] else ""
        fault = "; one shows a fault" if event["faults"] else ""
        self._say("tests", f"{noticed}{more}{open_ones}{fault}")

    def _replayed(self, event: dict[str, Any]) -> None:
        came = event["lacking"] or "better"
        self._say("replayed", f"expert {event['name']} v{event['version']}: {came}")

    def _approval_wanted(self, event: dict[str, Any]) -> None:
        about = f"may {event['tool']} v{event['version']} be kept? {'; '.join(event['reasons'])}"
        self._say("approval", about)

    def _approval(self, event: dict[str, Any]) -> None:
        said = "approved" if event["approved"] else "rejected"
        self._say("approval", f"{event['tool']} {said}: {event['reason'] or 'no reason given'}")

    def _permission(self, event: dict[str, Any]) -> None:
        said = "allowed" if event["granted"] else f"refused ({event['reason']})"
        self._say("approval", f"{event['tool']} asks for {', '.join(event['asked'])}: {said}")

    def _decided(self, event: dict[str, Any]) -> None:
        score = (
            ""
            if event["score"] is None
            else f"closest {event['candidates'][0]['name']} {event['score']:.2f}, δ {event['delta']:.2f}"
        )
        runner_up = f"runner-up {event['runner_up']}" if event["runner_up"] else ""
        facts = "; ".join(part for part in (score, runner_up, event["why"]) if part)
        self._say(
            event["outcome"],
            f"{event['need']['kind']} {event['asset_name'] or event['need']['name']} ({facts})",
        )

    def _verified(self, event: dict[str, Any]) -> None:
        self._say("verified", f"tool {event['name']} v{event['version']}: {event['why']}")

    def _mcp_server(self, event: dict[str, Any]) -> None:
        about = f"server {event['server']}"
        if not event["up"]:
            self._say("mcp", f"{about} is left out of this run: {event['why']}")
        elif event["changed"]:
            self._say(
                "mcp", f"{about} offers {event['tools']} tools: {', '.join(event['changed'])}"
            )

    def _acted(self, event: dict[str, Any]) -> None:
        for call in event["calls"]:
            args = ", ".join(
                f"{key}={json.dumps(value, ensure_ascii=False)}"
                for key, value in call["args"].items()
            )
            self._say(
                "call",
                f"{call['tool']}({args}) {'→' if call['ok'] else 'failed:'} {' '.join(call['result'].split())[:200]}",
            )
        if event["partial"]:
            self._say("partial", f"{event['subtask']} was not finished")

    def _answered(self, event: dict[str, Any]) -> None:
        self._say("answer", f"after {event['seconds']} s")

    def _judged(self, event: dict[str, Any]) -> None:
        self._say("verdict", f"{event['verdict']} by {event['by']}: {event['reason']}")
        for fault in event["faults"]:
            self._say("", f"faults {fault['name']}: {fault['why']}")

    def _evolved(self, event: dict[str, Any]) -> None:
        for one in event["kept"]:
            moved = one["from"] if one["from"] == one["to"] else f"{one['from']} → {one['to']}"
            self._say("kept", f"{one['kind']} {one['name']}: {moved} ({one['reason']})")

    def _not_distilled(self, event: dict[str, Any]) -> None:
        self._say("lesson", f"none: {event['why']}")

    def _learned(self, event: dict[str, Any]) -> None:
        for lesson in event["lessons"]:
            what = "new" if lesson["new"] else "confirmed"
            self._say("lesson", f"{what}, {lesson['scope']} experience: {lesson['title']}")

    def _set_aside(self, event: dict[str, Any]) -> None:
        for one in event["losers"]:
            self._say("set aside", f"{one['kind']} {one['name']}: {one['reason']}")

    def _finished(self, event: dict[str, Any]) -> None:
        seconds = event["seconds"]
        for direction in ("forward", "backward"):
            spent = event["tokens"].get(direction)
            if spent:
                took = seconds.get(f"{direction}_model", 0.0)
                tokens = f"{spent['prompt']:,} prompt + {spent['completion']:,} generated tokens"
                self._say(
                    "spent" if direction == "forward" else "",
                    f"{direction}: {spent['calls']} calls, {tokens}, {took:.0f} s of model time",
                )
        self._say("", f"{seconds.get('total', 0):.0f} s in all; run {event['run_id'][:8]}")
