"""`mem2evolve tools`: versions, edits by hand, and a person's word, through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.memory.records import Case, StatusChange, ToolRecord

from ..openai_server import OpenAIServer, reply_text
from .brain import TOOL as FIRST
from .brain import Brain
from .conftest import TASK, Done, Say, Seed

NAME = "triple_number"
CODE = '''\
def triple_number(n: int) -> int:
    """Return three times a whole number.

    Args:
        n: The number.

    Returns:
        Three times the number.
    """
    return 3 * n
'''
BETTER = FIRST.replace("return 3 * n", "return n + n + n")
FAULT = f"{NAME} must not multiply"


def record(**changed: Any) -> ToolRecord:
    """Return the tool as a run has left it."""
    parts = {
        "name": NAME,
        "description": "Multiply a whole number by three",
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "code": CODE,
        "function": NAME,
        "cases": tuple(
            Case(args={"n": n}, expected=3 * n, origin="agreement") for n in (0, 1, 14, -3)
        ),
        "second_opinion": True,
        "status": "active",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return ToolRecord(**{**parts, **changed})


def second(first: ToolRecord, **changed: Any) -> ToolRecord:
    """Return a version that takes the place of the first."""
    later = {"version": 2, "supersedes": first.id, "created_at": "2026-01-02T00:00:00+00:00"}
    return record(**{**later, "code": CODE.replace("3 * n", "n * 3"), **changed})


def went(status: str, reason: str) -> dict[str, Any]:
    """Return a status with the reason for it."""
    return {"status": status, "history": (StatusChange(status=status, reason=reason),)}  # type: ignore[arg-type]


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """A quick place for homes."""
    return in_memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the versions of the tool are."""
    return tmp_path / "home" / "tools_generated" / NAME


def history(say: Say, name: str = NAME) -> list[dict[str, Any]]:
    """Return the chain of versions."""
    found: list[dict[str, Any]] = json.loads(
        say("tools", "show", name, "--history", "--json", ok=True).out
    )
    return found


def statuses(say: Say) -> dict[str, str]:
    """Return status and last reason of each version."""
    return {
        f"v{one['version']}": ": ".join([one["status"], one["history"][0]["reason"]])
        if one["history"]
        else one["status"]
        for one in history(say)
    }


def test_promoted_faulted_improved_rolled_back(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole life of a tool by its commands; the history shows each version and why."""
    brain = Brain()
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    with OpenAIServer(brain) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run = json.loads(say("run", TASK, "--no-web", "--json", ok=True).out)["run_id"][:8]
        brain._answers = {"tool": reply_text(BETTER)}
        say("runs", "verdict", run, "wrong", "--because", FAULT, ok=True)
    assert [one["status"] for one in history(say)] == ["candidate", "superseded"]
    done = say("tools", "rollback", NAME, "--because", "v1 was right", ok=True)
    assert done.out.startswith(f"{NAME} v1  active\n")

    shown = say("tools", "show", NAME, "--history", "--diff", ok=True).out
    lines = [line.rstrip() for line in shown.splitlines()]
    essential = [line[20:] if line.startswith("  20") else line for line in lines]
    v2, v1 = history(say)
    heads = f"cases  after v1  id {v2['id'][:8]}", f"cases  id {v1['id'][:8]}"
    assert essential[0].startswith(f"{NAME} v2  quarantined  ")
    assert essential[0].endswith(heads[0])
    assert essential[1:3] == [
        "quarantined a person rolled back to v1: v1 was right",
        f"candidate   mends: {FAULT} (run {run})",
    ]
    assert "    -    return 3 * n" in lines
    assert "    +    return n + n + n" in lines
    start = next(n for n, line in enumerate(essential) if line.startswith(f"{NAME} v1  active  "))
    assert essential[start].endswith(heads[1])
    assert essential[start + 1 :] == [
        "active      a person rolled back from v2: v1 was right",
        f"superseded  version 2: {FAULT} (run {run})",
        f"active      passed its gate; verdict success by judge (run {run})",
        f"candidate   passed its cases (run {run})",
    ]


# Rolling back


def test_a_rollback_needs_something_to_go_back_to(say: Say, seed: Seed) -> None:
    """An only version is named; so is one that is not earlier."""
    seed(record())
    refused = say("tools", "rollback", NAME, "--because", "x")
    refused.refused("nothing to roll back to", "tools quarantine")
    say("tools", "rollback", NAME, "--to", "first", "--because", "x").refused("'first'")
    say("tools", "rollback", NAME, "--because", " ").refused("nothing to roll back to")
    say("tools", "rollback", NAME).refused("Missing option '--because'")


def test_a_rollback_to_what_was_set_aside_needs_force(say: Say, seed: Seed) -> None:
    """The reason is shown; a third version is a way out."""
    first = record(**went("superseded", "version 2: slow"))
    aside = second(first, **went("quarantined", "a person faulted it: it lies"))
    now = record(version=3, supersedes=aside.id, code=CODE.replace("3 * n", "n + n * 2"))
    seed(first, aside, now)
    say("tools", "rollback", NAME, "--because", "x").refused(
        f"{NAME} v2 was quarantined: a person faulted it: it lies", "--to vN", "--force"
    )
    say("tools", "rollback", NAME, "--to", "3", "--because", "x").refused(
        f"v3 is no version earlier than {NAME} v3", "v2, v1"
    )
    say("tools", "rollback", NAME, "--because", " ", "--force").refused("The reason is empty")
    assert statuses(say)["v3"] == "active"

    say("tools", "rollback", NAME, "--to", "v1", "--because", "v1 is best", ok=True)
    assert statuses(say) == {
        "v3": "quarantined: a person rolled back to v1: v1 is best",
        "v2": "quarantined: a person faulted it: it lies",
        "v1": "active: a person rolled back from v3: v1 is best",
    }
    say("tools", "activate", f"{NAME}@v3", "--because", "after all", ok=True)
    say("tools", "rollback", NAME, "--force", "--because", "no lie", ok=True)
    assert statuses(say)["v2"] == "active: a person rolled back from v3: no lie"


def test_a_rollback_that_was_killed_goes_on(say: Say, seed: Seed) -> None:
    """With the new version quarantined and none in use, the same command ends where it would have."""
    first = record(**went("superseded", "version 2: slow"))
    seed(first, second(first, **went("quarantined", "a person rolled back to v1: x")))
    say("tools", "rollback", NAME, "--because", "x", ok=True)
    assert [one["status"] for one in history(say)] == ["quarantined", "active"]


# A person's word


def test_quarantine_activate_retire(say: Say, seed: Seed, folder: Path) -> None:
    """Each is logged as a person's; files come and go with the status."""
    seed(record())
    said = say("tools", "quarantine", NAME, "--because", "it\nlies", ok=True)
    assert said.out == f"{NAME} v1  quarantined: a person: it lies\n"
    say("tools", "quarantine", NAME, "--because", "x").refused(
        "is quarantined already: a person: it lies", "--history"
    )
    say("tools", "activate", NAME, "--because", "it does not", ok=True)
    say("tools", "retire", NAME, "--because", "unused", ok=True)
    assert not folder.exists()
    assert NAME not in say("tools", "list", ok=True).out
    assert f"{NAME} v1" in say("tools", "list", "--all", ok=True).out
    say("tools", "activate", NAME, "--because", "used", ok=True)
    assert (folder / "v1" / "tool.py").read_text() == CODE
    reasons = [change["reason"] for change in history(say)[0]["history"]]
    assert reasons == [
        "a person: used", "a person: unused", "a person: it does not", "a person: it lies",
    ]  # fmt: skip


def test_of_one_name_one_version_is_in_use(say: Say, seed: Seed) -> None:
    """An earlier one is activated by a rollback only; a later one takes the earlier one's place."""
    first = record(**went("superseded", "version 2: slow"))
    seed(first, second(first))
    say("tools", "activate", f"{NAME}@v1", "--because", "x").refused(
        f"{NAME} v2, a later version, is active", "tools rollback"
    )
    say("tools", "rollback", NAME, "--because", "x", ok=True)
    say("tools", "activate", f"{NAME}@2", "--because", "y", ok=True)
    assert statuses(say) == {
        "v2": "active: a person: y",
        "v1": "superseded: a person activated v2: y",
    }


# Finding one


def test_names_that_fit_none_or_several(say: Say, seed: Seed) -> None:
    """Each refusal names what there is instead."""
    first = record(**went("superseded", "version 2: slow"))
    there = record(namespace="team", name="other_tool")
    twin = record(namespace="team", version=3, name="twin", code=CODE + "\n")
    seed(first, second(first), there, twin, twin.model_copy(update={"code": CODE}))
    show = ("tools", "show")
    say(*show, f"{NAME}@v7").refused(f"{NAME!r} has no version 7", "v1, v2")
    say(*show, "triple_numbr").refused("no tool 'triple_numbr'", f"Did you mean '{NAME}'?")
    say(*show, "other_tool").refused("in the namespace 'default'", "'team'", "--namespace team")
    say(*show, NAME, "--namespace", "team").refused("namespace 'team'", "--namespace default")
    say(*show, "twin@v3", "--namespace", "team").refused("'twin@v3' fits 2 tools", "twin v3 (")
    say(*show, "").refused("no tool ''")
    assert "v2  active" in say(*show, NAME, ok=True).out.splitlines()[0]
    shown = say(*show, f"{NAME}@v1", ok=True).out
    assert f"{NAME} v1  superseded" in shown.splitlines()[0]
    assert say(*show, first.id[:8], ok=True).out == shown
    assert f"{NAME} v1  superseded" in say(*show, f"{NAME}@v1", "--history", ok=True).out
    assert "@team/other_tool v1" in say("tools", "list", ok=True).out
    assert NAME not in say("tools", "list", "--namespace", "team", ok=True).out


# Files


def test_sync_writes_and_reports(say: Say, seed: Seed, folder: Path) -> None:
    """A missing folder is written, an edited one named and left alone."""
    seed(record(), record(name="other_tool", function="other_tool"))
    assert say("tools", "sync", ok=True).err.endswith("are as recorded.\n")
    (folder / "v1" / "tool.py").write_text("mine")
    for file in (folder.parent / "other_tool" / "v1").iterdir():
        file.unlink()
    (folder.parent / "other_tool" / "v1").rmdir()
    left = folder.parent / ".new-0"
    left.mkdir()
    os.utime(left, (0, 0))
    done = say("tools", "sync", ok=True)

    assert done.out == f"written  other_tool/v1\nedited   {NAME}/v1\n"
    assert "tools adopt" in done.err
    assert (folder / "v1" / "tool.py").read_text() == "mine"
    assert not left.exists()


def edit(file: Path, old: str, new: str) -> None:
    """Change a file by hand."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_adopting_an_edit(say: Say, seed: Seed, folder: Path) -> None:
    """A new version with the schema of the new signature; the old one superseded, its files as recorded."""
    [old] = seed(record())
    edit(folder / "v1" / "tool.py", "(n: int)", "(n: int, times: int = 3)")
    edit(folder / "v1" / "tool.py", "3 * n", "times * n")
    edit(folder / "v1" / "tool.py", "The number.", "The number.\n        times: How often.")
    cases = json.loads((folder / "v1" / "cases.json").read_text())
    cases[1] = {"args": {"n": 5, "times": 2}, "expected": 10}
    cases[0]["origin"] = "person"
    (folder / "v1" / "cases.json").write_text(json.dumps(cases))
    (folder / "v1" / "notes.md").write_text("mine")
    done = say("tools", "adopt", NAME, "--because", "any factor", ok=True)

    assert done.out.startswith(f"{NAME} v2  active  4 cases pass\n")
    assert statuses(say) == {
        "v2": "active: a person adopted the edited files of v1: any factor",
        "v1": "superseded: a person adopted v2: any factor",
    }
    new = json.loads(say("tools", "show", NAME, "--json", ok=True).out)
    times = {"type": "integer", "description": "How often.", "default": 3}
    assert new["input_schema"]["properties"]["times"] == times
    assert [case["origin"] for case in new["cases"]] == ["agreement", "person", *["agreement"] * 2]
    assert (new["supersedes"], new["environment"]["isolation"]) == (old.id, "bubblewrap")
    assert (folder / "v1" / "tool.py").read_text() == CODE
    assert (folder / "v1" / "notes.md").read_text() == "mine"
    assert (folder / "v2" / "tool.py").read_text() == new["code"]
    assert sorted(path.name for path in folder.parent.iterdir()) == [NAME]
    assert say("tools", "sync", ok=True).out == ""


def test_an_edit_that_does_not_hold(say: Say, seed: Seed, folder: Path) -> None:
    """What is wrong is said with its line or its case, and nothing has changed."""
    seed(record())
    code, cases = folder / "v1" / "tool.py", folder / "v1" / "cases.json"
    header = '# /// script\n# dependencies = ["numpy"]\n# ///\n'
    for edited, *said in (
        (CODE.replace("3 * n", "4 * n"), '{"n": 14} it returned 56; it should have returned 42'),
        (CODE.replace("3 * n", "3 *"), "tool.py is no tool. Line 10: Syntax error"),
        (CODE.replace("3 * n", "eval('3 * n')"), "Line 10: eval is not allowed"),
        (CODE.replace("triple_", "my_"), "no top-level function named 'triple_number'"),
        (CODE.replace("return 3 * n", "exit(n)"), "4 of 4 cases fail: (1) called with"),
        (
            header + CODE,
            "more than triple_number v1 was allowed. Line 2: it asks for 'package:numpy'",
        ),
    ):
        code.write_text(edited)
        say("tools", "adopt", NAME).refused(*said)
        assert code.read_text() == edited
    code.write_text(CODE)
    cases.write_text('[\n{"args": {"n": 1}, "expected": 3},\n{"args": {"n": 2}, "expected": NaN}]')
    say("tools", "adopt", NAME).refused("cases.json, line 3, case 2: NaN is no JSON number")
    cases.write_text(" " * (1 << 20) + "[]")
    say("tools", "adopt", NAME).refused("1,048,578 bytes; at most 1,048,576")
    assert statuses(say) == {"v1": "active"}
    assert not (folder / "v2").exists()


def test_an_edit_brings_no_permission(say: Say, seed: Seed, folder: Path) -> None:
    """What the edited version was allowed it may go on to do; more is refused by its line, and nothing has changed."""
    head = '# /// script\n# [tool.mem2evolve]\n# permissions = ["network:a.org"]\n# ///\n'
    seed(record(code=head + CODE, permissions=("network:a.org",)))
    code = folder / "v1" / "tool.py"
    edit(code, '["network:a.org"]', '["network:a.org", "network:b.org", "files"]')
    done = say("tools", "adopt", NAME)
    done.refused(
        "Line 3: it asks for 'files'. Line 3: it asks for 'network:b.org'", "MEM2EVOLVE_FETCH_HOSTS"
    )
    assert statuses(say) == {"v1": "active"}

    code.write_text(head + CODE.replace("3 * n", "n * 3"))
    say("tools", "adopt", NAME, ok=True)
    kept = json.loads(say("tools", "show", f"{NAME}@v2", "--json", ok=True).out)
    assert kept["permissions"] == ["network:a.org"]
    assert "network:a.org" in say("tools", "show", NAME, ok=True).out
    (folder / "v2" / "tool.py").write_text(CODE)
    say("tools", "adopt", NAME, ok=True)
    kept = json.loads(say("tools", "show", f"{NAME}@v3", "--json", ok=True).out)
    assert kept["permissions"] == []


def test_what_cannot_be_adopted(say: Say, seed: Seed, folder: Path) -> None:
    """Nothing edited, only the description edited, a file lost, several versions edited."""
    first = record(**went("superseded", "version 2: slow"))
    seed(first, second(first))
    say("tools", "adopt", NAME).refused("No file of 'triple_number' differs", "v2/tool.py")
    edit(folder / "v2" / "tool.json", "Multiply", "Divide")
    say("tools", "adopt", NAME).refused("Neither code nor cases", "tool.json is written from")
    (folder / "v1" / "tool.py").write_bytes(b"x = 1\ny = '\xff'\n")
    say("tools", "adopt", NAME).refused("files of v2 and v1", f"adopt {NAME}@v2")
    say("tools", "adopt", f"{NAME}@v1").refused("no UTF-8: byte 12, in line 2, is 0xff")
    (folder / "v1" / "tool.py").unlink()
    (folder / "v1" / "tool.py").symlink_to("/etc/passwd")
    say("tools", "adopt", f"{NAME}@v1").refused("is no regular file")
    (folder / "v1" / "tool.py").unlink()
    (folder / "v1" / "tool.py").write_text(CODE + "# x\n")
    (folder / "v1" / "cases.json").unlink()
    say("tools", "adopt", f"{NAME}@v1").refused("cases.json does not exist", "tools sync")


def test_adopting_the_same_edit_again(say: Say, seed: Seed, folder: Path) -> None:
    """It is the version that there is; one that was set aside is not brought back by the way."""
    seed(record())
    edit(folder / "v1" / "tool.py", "3 * n", "n + n + n")
    edited = (folder / "v1" / "tool.py").read_text()
    say("tools", "adopt", NAME, ok=True)
    say("tools", "rollback", NAME, "--because", "x", ok=True)
    (folder / "v1" / "tool.py").write_text(edited)
    say("tools", "adopt", f"{NAME}@v1").refused(
        f"{NAME} v2 is the same, and was quarantined", f"tools activate {NAME}@v2"
    )


def test_an_adoption_that_was_killed_goes_on(say: Say, seed: Seed, folder: Path) -> None:
    """With both versions in use, the same command makes no third, and ends where it would have."""
    [old] = seed(record())
    edit(folder / "v1" / "tool.py", "3 * n", "n * 3")
    seed(second(old))
    say("tools", "adopt", f"{NAME}@v1", ok=True)

    assert [one["status"] for one in history(say)] == ["active", "superseded"]
    assert (folder / "v1" / "tool.py").read_text() == CODE


# Tests for others


def run_pytest(file: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run an exported file as a person would."""
    return subprocess.run(  # noqa: S603 - our own file
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name],
        cwd=file.parent,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_exported_tests_run_alone(say: Say, seed: Seed, folder: Path, tmp_path: Path) -> None:
    """Beside tool.py or pointed to one; they pass on the tool and fail on another."""
    raising = Case(args={"n": "x"}, raises="ValueError", origin="agreement")
    held = Case(args={"n": 2}, property="idempotent", origin="property")
    about = Case(args={"n": 0.1}, expected=0.3, tolerance=1e-9, origin="agreement")
    checked = CODE.replace(
        "    return 3", "    if isinstance(n, str):\n        raise ValueError(n)\n    return 3"
    )
    seed(record(code=checked, cases=(*record().cases, raising, held, about)))
    done = say("tools", "export-tests", NAME, ok=True)
    file = folder / "v1" / f"test_{NAME}.py"
    assert done.out == f"written  {file}\n"
    ran = run_pytest(file)
    assert "6 passed, 1 skipped" in ran.stdout, ran.stdout
    assert say("tools", "sync", ok=True).out == ""

    (tmp_path / "mine.py").write_text("print()")
    say("tools", "export-tests", NAME, "--to", "mine.py").refused("no earlier export", "--to FILE")
    say("tools", "export-tests", NAME, "--to", "test_it.py", ok=True)
    say("tools", "export-tests", NAME, "--to", "test_it.py", ok=True)
    ran = run_pytest(tmp_path / "test_it.py")
    assert "put tool.py beside this file" in ran.stdout
    (tmp_path / "wrong.py").write_text(checked.replace("3 *", "4 *"))
    ran = run_pytest(tmp_path / "test_it.py", MEM2EVOLVE_TOOL="wrong.py")
    assert "4 failed, 2 passed, 1 skipped" in ran.stdout, ran.stdout
    printed: Done = say("tools", "export-tests", NAME, "--to", "-", ok=True)
    assert printed.out.startswith('"""Cases of a generated tool')
