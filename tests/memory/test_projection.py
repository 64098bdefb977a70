"""The generated tools as files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import InputError
from mem2evolve.memory.projection import (
    edited_by_hand,
    folder_of,
    remove_projection,
    sync,
    write_projection,
)
from mem2evolve.memory.records import Case, StatusChange, ToolRecord


def tool(**fields: Any) -> ToolRecord:
    """Return a tool."""
    values: dict[str, Any] = {
        "name": "word_count",
        "description": "Counts words.",
        "input_schema": {"type": "object"},
        "code": "def word_count(text: str) -> int:\n    return len(text.split())\n",
        "function": "word_count",
        "cases": (Case(args={"text": "a b"}, expected=2, origin="task"),),
    }
    return ToolRecord(**values | fields)


def everything(folder: Path) -> dict[str, bytes]:
    """Return all files below `folder`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_version_is_three_files(tmp_path: Path) -> None:
    """Code, cases and description, below name and version; nothing else is left."""
    record = tool(version=3)
    folder = write_projection(tmp_path, record)
    assert folder == tmp_path / "word_count" / "v3"
    assert sorted(everything(tmp_path)) == [
        f"word_count/v3/{name}" for name in ("cases.json", "tool.json", "tool.py")
    ]
    assert (folder / "tool.py").read_text() == record.code
    assert json.loads((folder / "cases.json").read_text())[0]["expected"] == 2
    described = json.loads((folder / "tool.json").read_text())
    assert (described["id"], described["digest"]) == (record.id, record.digest)
    assert "status" not in described


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    """Also when the status changed in between: that is the record's business."""
    record = tool()
    write_projection(tmp_path, record)
    before = everything(tmp_path)
    change = StatusChange(status="active", reason="kept")
    later = record.model_copy(update={"status": "active", "history": (change,)})
    write_projection(tmp_path, later)
    assert everything(tmp_path) == before
    assert not edited_by_hand(tmp_path, later)


def test_an_edit_is_seen_and_kept(tmp_path: Path) -> None:
    """A person's edit is reported, and neither overwritten nor removed."""
    record = tool()
    assert not edited_by_hand(tmp_path, record)
    code = write_projection(tmp_path, record) / "tool.py"
    code.write_text("print('mine')")
    assert edited_by_hand(tmp_path, record)
    write_projection(tmp_path, record)
    assert not remove_projection(tmp_path, record)
    assert code.read_text() == "print('mine')"


@pytest.mark.parametrize(
    ("name", "edit", "edited"),
    [
        ("cases.json", lambda text: json.dumps(json.loads(text)), False),
        ("cases.json", lambda text: text.replace('"expected": 2', '"expected": 2.0'), True),
        ("cases.json", lambda text: text.replace('    "property": "",\n', ""), False),
        ("cases.json", lambda _: "[", True),
        ("cases.json", lambda _: "[" * 100_000, True),
        ("tool.json", lambda text: text.replace("Counts", "Loses"), True),
        ("tool.py", lambda text: text + "\n", True),
    ],
)
def test_layout_of_json_is_no_edit(tmp_path: Path, name: str, edit: Any, edited: bool) -> None:  # noqa: FBT001
    """Reformatted JSON says the same; another value does not, nor does any change of code."""
    record = tool()
    file = write_projection(tmp_path, record) / name
    file.write_text(edit(file.read_text()))
    assert edited_by_hand(tmp_path, record) is edited


def test_sync_writes_what_is_missing(tmp_path: Path) -> None:
    """Missing versions are written, edits reported, tools without code of ours passed over."""
    old, new = tool(), tool(version=2)
    host = tool(name="host tool!", origin="host", code="")
    (write_projection(tmp_path, old) / "tool.py").write_text("mine")
    done = sync(tmp_path, [old, new, host])
    assert done.written == (tmp_path / "word_count" / "v2",)
    assert done.edited == (tmp_path / "word_count" / "v1",)
    assert sync(tmp_path, [old, new]).written == ()


def test_removing_leaves_no_trace(tmp_path: Path) -> None:
    """The last version takes the tool's folder with it; removing again is fine."""
    old, new = tool(), tool(version=2)
    write_projection(tmp_path, old)
    write_projection(tmp_path, new)
    assert remove_projection(tmp_path, old)
    assert (tmp_path / "word_count" / "v2" / "tool.py").exists()
    assert remove_projection(tmp_path, new)
    assert remove_projection(tmp_path, new)
    assert list(tmp_path.iterdir()) == []


def test_namespaces_do_not_collide(tmp_path: Path) -> None:
    """The same name in another namespace has a folder of its own."""
    mine = tool()
    write_projection(tmp_path, mine)
    other = write_projection(tmp_path, tool(namespace="team", code="pass\n"))
    assert other == tmp_path / "@team" / "word_count" / "v1"
    assert not edited_by_hand(tmp_path, mine)


def test_a_link_does_not_lead_outside(tmp_path: Path) -> None:
    """A tool's folder that is a link to elsewhere is refused."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "word_count").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads outside"):
        write_projection(tmp_path / "tools", tool())
    assert not (tmp_path / "elsewhere").exists()


nasty = st.one_of(
    st.text(max_size=70),
    st.sampled_from(["..", ".", "", "/etc", "a/b", "../x", "a\x00", "v1\n", "é", "A" * 65, "con"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(name=nasty, namespace=st.one_of(st.just("default"), nasty), version=st.integers(-2, 3))
def test_no_name_leads_outside(tmp_path: Path, name: str, namespace: str, version: int) -> None:
    """Whatever a tool is called, it is refused or its folder lies below the tools' folder."""
    base = tmp_path / "tools"
    record = tool(name=name, namespace=namespace, version=version)
    try:
        write_projection(base, record)
    except InputError:
        pass
    else:
        assert folder_of(base, record).is_relative_to(base)
        assert folder_of(base, record).name == f"v{version}"
        assert remove_projection(base, record)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["tools"])


def test_code_that_is_no_text_can_be_written(tmp_path: Path) -> None:
    """A lone surrogate in the code stops nothing."""
    record = tool(code="x = '\ud800'\r\n")
    write_projection(tmp_path, record)
    assert not edited_by_hand(tmp_path, record)
