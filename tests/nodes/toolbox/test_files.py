"""`nodes/toolbox/files.py` and `tables.py`: every kind of file, a page at a time."""

import asyncio
import csv
import io
import json
import os
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import ToolFailure
from mem2evolve.nodes.toolbox._shared import PAGE_CHARS, clean
from mem2evolve.nodes.toolbox.files import read_file


async def read(path: Path, **options: Any) -> Any:
    """The answer for a file shown under its own name."""
    return await read_file(path.name, files={path.name: path}, **options)


async def read_all(path: Path, limit: int | None) -> list[Any]:
    """Every page, as the model would fetch them."""
    pages = [await read(path, limit=limit)]
    while (start := pages[-1]["next_start"]) is not None:
        pages.append(await read(path, start=start, limit=limit))
    return pages


def made(folder: Path, name: str, data: bytes | str) -> Path:
    """Write a file."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


async def test_a_text_comes_whole(tmp_path: Path) -> None:
    """A short file has no note and nothing after it."""
    assert await read(made(tmp_path, "a.txt", "one\r\ntwo\n")) == {
        "name": "a.txt",
        "kind": "text",
        "encoding": "utf-8",
        "size_bytes": 9,
        "start": 0,
        "next_start": None,
        "text": "one\ntwo\n",
    }


async def test_a_long_text_says_how_to_read_on(tmp_path: Path) -> None:
    """The cut is at the end of a line, and the note has the next call."""
    found = await read(made(tmp_path, "a.txt", "0123456\n" * 2_000 + "end"))

    assert len(found["text"]) == PAGE_CHARS
    assert found["note"] == (
        "Cut before character 8000. To read on, call read_file again with start=8000."
    )


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(max_size=300),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    limit=st.integers(1, 120),
)
def test_the_pages_are_the_whole_text(text: str, encoding: str, limit: int) -> None:
    """Nothing is lost or repeated between pages, whatever the encoding and the page size."""
    assume(
        encoding != "utf-16" or not text.startswith("\0")
    )  # its mark and a NUL are the mark of UTF-32
    data = text.encode(encoding)
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder), "a.txt", data)
        try:
            pages = asyncio.run(read_all(path, limit))
        except ToolFailure as failure:
            if "is not text" not in failure.reason:
                raise
            return
    # The file's own first mark tells its encoding, here as in any editor.
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    assert "".join(page["text"] for page in pages) == clean(plain)


CELLS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cf"]) | st.sampled_from(',";\n'),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=12),
    limit=st.none() | st.integers(1, 5),
)
def test_the_pages_are_all_rows(rows: list[list[str]], limit: int | None) -> None:
    """Every row comes once, in order, with its cells as the CSV writer was given them."""
    text = io.StringIO()
    csv.writer(text, delimiter="\t", quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    with tempfile.TemporaryDirectory() as folder:
        pages = asyncio.run(read_all(made(Path(folder), "a.tsv", text.getvalue()), limit))

    assert [row for page in pages for row in page["rows"]] == rows
    assert {page["row_count"] for page in pages} == {len(rows)}


async def test_a_table_is_described(tmp_path: Path) -> None:
    """Columns with types, the number of rows, and the first rows."""
    path = made(
        tmp_path,
        "t.csv",
        "id;price;day;ok;who;gap\n1;2.5;2024-01-31;true;Ann;\n2;-3;2024-02-01;no;7;\n",
    )

    found = await read(path, limit=1)

    assert [(c["name"], c["type"]) for c in found["columns"]] == [
        ("id", "integer"),
        ("price", "number"),
        ("day", "date"),
        ("ok", "boolean"),
        ("who", "text"),
        ("gap", "empty"),
    ]
    assert found["rows"] == [["1", "2.5", "2024-01-31", "true", "Ann", ""]]
    assert (found["row_count"], found["next_start"], found["header"]) == (2, 1, True)
    assert found["note"].startswith("Cut before row 1.")


async def test_a_table_without_header_keeps_its_first_row(tmp_path: Path) -> None:
    """A first line of numbers is data."""
    found = await read(made(tmp_path, "t.csv", "1,2\n3,4\n"))

    assert found["rows"] == [["1", "2"], ["3", "4"]]
    assert [c["name"] for c in found["columns"]] == ["column_1", "column_2"]


async def test_wide_rows_and_cells_are_cut(tmp_path: Path) -> None:
    """No row can make the answer longer than a page, and reading on always gets past it."""
    wide = ",".join(["x" * 5_000] * 20)
    pages = await read_all(made(tmp_path, "t.csv", f"h\n{wide}\nlast\n"), None)

    assert [len(page["rows"]) for page in pages] == [1, 1]
    assert all(len(json.dumps(page)) < 2 * PAGE_CHARS for page in pages)
    assert pages[-1]["rows"] == [["last"]]


@pytest.mark.parametrize("text", ["a," * 500, 'a,b\n1,"' + "x" * 200_000])
async def test_what_is_no_table_is_shown_as_text(tmp_path: Path, text: str) -> None:
    """The name alone does not make it one."""
    found = await read(made(tmp_path, "t.csv", text))

    assert found["kind"] == "text"
    assert "does not read as a table" in found["note"]


@pytest.mark.parametrize(
    ("text", "outline"),
    [
        ('{"a": 1, "b": []}', {"type": "object", "key_count": 2, "keys": ["a", "b"]}),
        ("[1, {}]", {"type": "array", "length": 2, "item_types": ["dict", "int"]}),
        ("3", {"type": "int"}),
    ],
)
async def test_json_has_an_outline(tmp_path: Path, text: str, outline: Any) -> None:
    """What is at the top, beside the text itself."""
    found = await read(made(tmp_path, "a.json", text))

    assert (found["kind"], found["outline"], found["text"]) == ("json", outline, text)


@pytest.mark.parametrize("text", ["{nope", "[" * 100_000, "1" * 5_000])
async def test_broken_json_is_text_with_a_reason(tmp_path: Path, text: str) -> None:
    """It is still readable."""
    found = await read(made(tmp_path, "a.json", text))

    assert found["outline"].startswith("not valid JSON: ")
    assert found["text"] == text[:PAGE_CHARS]


async def test_latin_1_is_noted(tmp_path: Path) -> None:
    """What is not UTF-8 is read all the same, with a warning."""
    found = await read(made(tmp_path, "a.txt", "caf\xe9".encode("latin-1")))

    assert (found["text"], found["encoding"]) == ("café", "latin-1")
    assert "not UTF-8" in found["note"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x1f\x8b text", "gzip data"),
        (b"\xd0\xcf\x11\xe0", "an Office document of the old kind"),
        (b"a\0b", "binary data"),
        (bytes(range(1, 30)), "binary data"),
    ],
)
async def test_a_binary_file_says_so(tmp_path: Path, data: bytes, kind: str) -> None:
    """With its kind, and what may help."""
    with pytest.raises(ToolFailure, match=f"not text but {kind}.*/data/a.bin"):
        await read(made(tmp_path, "a.bin", data))


async def test_hidden_characters_are_dropped(tmp_path: Path) -> None:
    """Terminal escapes, right-to-left marks and invisible tags do not reach the model."""
    found = await read(made(tmp_path, "a.txt", "a\x1b[31m\u202eb\U000e0041\tc\n"))

    assert found["text"] == "a[31mb\tc\n"


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "..", "a.txt/../../secret", "A.TXT", "x\0y"]
)
async def test_a_name_is_looked_up_and_never_opened(tmp_path: Path, name: str) -> None:
    """Only names of the task's files work; the failure lists them."""
    files = {"a.txt": made(tmp_path, "a.txt", "a"), "b.txt": tmp_path / "b.txt"}

    with pytest.raises(ToolFailure, match=r"The files are: 'a\.txt', 'b\.txt'\.$"):
        await read_file(name, files=files)


async def test_without_files_the_failure_says_so() -> None:
    """An empty list would puzzle the model."""
    with pytest.raises(ToolFailure, match="none: the task came without files"):
        await read_file("a", files={})


async def test_data_prefix_is_understood(tmp_path: Path) -> None:
    """The name that a script would use works here too."""
    found: Any = await read_file("/data/a", files={"a": made(tmp_path, "a", "hi")})

    assert (found["name"], found["text"]) == ("a", "hi")


async def test_what_cannot_be_opened_is_a_tool_failure(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe, which would block for ever."""
    os.mkfifo(tmp_path / "pipe")
    for name, reason in [("gone", "No such file"), (".", "not a regular"), ("pipe", "not a regu")]:
        with pytest.raises(ToolFailure, match=reason):
            await read_file("f", files={"f": tmp_path / name})


async def test_reading_past_the_end_says_so(tmp_path: Path) -> None:
    """Neither an error nor silence."""
    found = await read(made(tmp_path, "a.txt", "abc"), start=10)

    assert (found["text"], found["note"]) == ("", "The file ends before character 10.")


async def test_a_huge_file_is_read_in_part(tmp_path: Path) -> None:
    """200 MB, sparse: neither its size nor a far page costs memory."""
    path = made(tmp_path, "a.txt", "x" * (64 << 10))
    with path.open("r+b") as file:
        file.truncate(200 << 20)
    tracemalloc.start()

    near, far = await read(path, limit=5), await read(path, start=100 << 20, limit=5)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (near["size_bytes"], near["text"], far["text"]) == (200 << 20, "xxxxx", "")
    assert far["next_start"] == (100 << 20) + 5
    assert peak < 40 << 20
