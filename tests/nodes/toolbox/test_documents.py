"""`nodes/toolbox/documents.py` and its readers, in real boxes: workbooks, PDFs, images, attacks."""

import os
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import ToolFailure
from mem2evolve.nodes.toolbox import library
from mem2evolve.nodes.toolbox._shared import PAGE_CHARS
from mem2evolve.nodes.toolbox.builtin import BUILTINS, Bench
from mem2evolve.nodes.toolbox.files import read_file
from mem2evolve.nodes.toolbox.readers.cells import Rows, column_of
from mem2evolve.sandbox import BubblewrapSandbox, Outcome, Sandbox, UnsafeSubprocess

from .conftest import LookingSandbox
from .documents import (
    MAIN,
    OFFICE,
    exif,
    gif,
    jpeg,
    pdf,
    png,
    relations,
    row,
    sheet,
    workbook,
)


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    """A real one."""
    made = BubblewrapSandbox()
    yield made
    await made.close()


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache folder for all tests, and none of this user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEM2EVOLVE_CACHE", str(tmp_path_factory.mktemp("cache")))
        library.zipped.cache_clear()
        yield
    library.zipped.cache_clear()


async def read(path: Path, box: Sandbox, **options: Any) -> Any:
    """The answer for a file shown under its own name."""
    return await read_file(path.name, files={path.name: path}, sandbox=box, **options)


async def refusal(path: Path, box: Sandbox, **options: Any) -> str:
    """Why it was not read."""
    with pytest.raises(ToolFailure) as caught:
        await read(path, box, **options)
    return str(caught.value)


def written(path: Path, data: bytes) -> Path:
    """Write a file."""
    path.write_bytes(data)
    return path


async def test_a_sheet_reads_like_a_csv_file(tmp_path: Path, box: Sandbox) -> None:
    """Columns have types, blank rows are passed over, and the sheet's own row numbers are told."""
    rows = row(1, "name", "n") + row(2, "x", 1) + row(3) + row(5, "y", 2.5) + row(6, "z")
    path = workbook(tmp_path / "a.xlsx", {"One": sheet(rows), "Two": sheet("")})

    assert await read(path, box) == {
        "name": "a.xlsx",
        "size_bytes": path.stat().st_size,
        "kind": "xlsx",
        "sheets": ["One", "Two"],
        "sheet": "One",
        "header": True,
        "columns": [{"name": "name", "type": "text"}, {"name": "n", "type": "number"}],
        "row_count": 3,
        "row_count_complete": True,
        "start": 0,
        "next_start": None,
        "sheet_rows": "2, 5-6",
        "rows": [["x", 1], ["y", 2.5], ["z"]],
    }


CELLS: Mapping[str, tuple[str, Any]] = {
    "shared": ('<c t="s"><v>1</v></c>', "b & c"),
    "shared rich": ('<c t="s"><v>2</v></c>', "two runs"),
    "no such shared text": ('<c t="s"><v>9</v></c>', ""),
    "inline": ('<c t="inlineStr"><is><r><t>in</t></r><r><t>line</t></r></is></c>', "inline"),
    "escaped": ('<c t="inlineStr"><is><t>a_x000A_b</t></is></c>', "a\nb"),
    "value of a formula": ("<c><f>1+1</f><v>2</v></c>", 2),
    "text of a formula": ('<c t="str"><f>"a"</f><v>a</v></c>', "a"),
    "error": ('<c t="e"><v>#DIV/0!</v></c>', "#DIV/0!"),
    "boolean": ('<c t="b"><v>1</v></c>', True),
    "date": ('<c s="1"><v>45292</v></c>', "2024-01-01"),
    "date and time": ('<c s="2"><v>45292.75</v></c>', "2024-01-01T18:00:00"),
    "time": ('<c s="4"><v>0.5</v></c>', "12:00:00"),
    "number in a format with letters": ('<c s="3"><v>45292</v></c>', 45292),
    "before the false leap day": ('<c s="1"><v>59</v></c>', "1900-02-28"),
    "the false leap day": ('<c s="1"><v>60</v></c>', 60),
    "no day": ('<c s="1"><v>1e12</v></c>', 1e12),
    "ISO date": ('<c t="d"><v>2024-02-03</v></c>', "2024-02-03"),
    "exponent": ("<c><v>1.5E-3</v></c>", 0.0015),
    "infinite": ("<c><v>1e999</v></c>", "1e999"),
    "no number": ("<c><v>abc</v></c>", "abc"),
}


async def test_cells_show_what_excel_shows(tmp_path: Path, box: Sandbox) -> None:
    """Values and not formulas, dates as dates, errors as their text."""
    shared = (
        "<si><t>unused</t></si>",
        "<si><t>b &amp; c</t><rPh><t>aloud</t></rPh></si>",
        "<si><r><t>two </t></r><r><t>runs</t></r></si>",
    )
    rows = row(1, "head") + "".join(f"<row>{text}</row>" for text, _ in CELLS.values())
    path = workbook(tmp_path / "a.xlsx", {"S": sheet(rows)}, shared=shared)

    found = await read(path, box)

    assert dict(zip(CELLS, (one[0] for one in found["rows"]), strict=True)) == {
        name: value for name, (_, value) in CELLS.items()
    }


async def test_the_epoch_of_1904(tmp_path: Path, box: Sandbox) -> None:
    """Workbooks made on old Macs count from another day."""
    rows = row(1, "day") + '<row r="2"><c r="A2" s="1"><v>0</v></c></row>'
    path = workbook(tmp_path / "a.xlsx", {"S": sheet(rows)}, era_1904=True)

    found = await read(path, box)

    assert (found["rows"], found["columns"][0]["type"]) == ([["1904-01-01"]], "date")


async def test_sheets_go_by_name_or_number(tmp_path: Path, box: Sandbox) -> None:
    """A name that is a number wins over the place."""
    sheets = {name: sheet(row(1, "h") + row(2, name)) for name in ("A", "3", "Sales 2")}
    path = workbook(tmp_path / "a.xlsx", sheets)

    shown = [(await read(path, box, sheet=one))["sheet"] for one in ("3", "2", "sales 2 ")]

    assert shown == ["3", "3", "Sales 2"]
    assert "no sheet 'B'; its sheets are: 'A', '3', 'Sales 2'." in await refusal(
        path, box, sheet="B"
    )


async def test_a_long_sheet_comes_in_pages(tmp_path: Path, box: Sandbox) -> None:
    """Every row comes once, no page is larger than allowed, the note has the next call."""
    rows = row(1, "n", "text") + "".join(row(i + 2, i, "x" * 50) for i in range(400))
    path = workbook(tmp_path / "a.xlsx", {"S": sheet(rows)})

    pages = [await read(path, box)]
    while (start := pages[-1]["next_start"]) is not None:
        pages.append(await read(path, box, start=start))

    assert [one[0] for page in pages for one in page["rows"]] == list(range(400))
    assert all(len(str(page["rows"])) < PAGE_CHARS * 1.1 for page in pages)
    following = pages[0]["next_start"]
    assert pages[0]["note"] == (
        f"Cut before row {following}. To read on, call read_file again with start={following}, "
        "sheet='S'."
    )


async def test_wide_and_unfinished_sheets_say_so(tmp_path: Path, box: Sandbox) -> None:
    """Columns that are left out and formulas that were never computed are noted."""
    rows = '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><f>A1</f></c><c r="XFD1"><v>2</v></c></row>'
    found = await read(workbook(tmp_path / "a.xlsx", {"S": sheet(rows)}), box)

    assert found["rows"] == [[1]]
    assert "Columns beyond the first 200 are left out." in found["note"]
    assert "shown as null" in found["note"]


@given(st.integers(0, 18_277), st.integers(1, 1_048_576), st.booleans())
def test_a_reference_names_its_column(column: int, number: int, absolute: bool) -> None:  # noqa: FBT001
    """From A1 to ZZZ1048576, with and without `$`, in any case."""
    letters, left = "", column
    while left >= 0:
        left, digit = divmod(left, 26)
        letters, left = chr(ord("A") + digit) + letters, left - 1
    mark = "$" if absolute else ""

    assert column_of(f"{mark}{letters}{mark}{number}") == column
    assert column_of(f"{letters.lower()}{number}") == column


@given(st.text(alphabet="A1$a:R[]-é", max_size=6).filter(lambda text: text[-1:] != "1"))
def test_what_is_no_reference_names_no_column(text: str) -> None:
    """The cell then follows the one before it."""
    assert column_of(text) is None


def test_counting_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the page is full, the rest is counted for a while only."""
    rows = Rows(0, 1, PAGE_CHARS)
    monkeypatch.setattr("mem2evolve.nodes.toolbox.readers.cells.COUNT_S", -1.0)

    assert not rows.enough()  # nothing to show yet
    rows.offer(1, [])
    rows.offer(2, [])
    rows.offer(3, [])
    assert rows.enough()
    assert not rows.described({})["row_count_complete"]


async def test_a_pdf_by_pages(tmp_path: Path, box: Sandbox) -> None:
    """Pages are numbered from 1; one without text is told apart."""
    path = pdf(tmp_path / "a.pdf", "Hello world\nsecond", "", "Third")

    whole, third = await read(path, box), await read(path, box, page=3)

    assert (whole["kind"], whole["page_count"], whole["next_page"]) == ("pdf", 3, None)
    assert whole["pages_without_text"] == [2]
    assert whole["text"].replace("\n", " ").replace("  ", " ") == (
        "[page 1] Hello world second [page 2] [page 3] Third "
    )
    assert third["text"].split() == ["[page", "3]", "Third"]
    assert "it has 3 pages, so there is no page 4." in await refusal(path, box, page=4)


async def test_a_long_page_is_cut(tmp_path: Path, box: Sandbox) -> None:
    """Reading on as the note says gives all of it, and then the next page."""
    path = pdf(tmp_path / "a.pdf", "\n".join(f"line {i:04d}" for i in range(1_500)), "the end")

    pages, at = [], {"page": 1, "start": 0}
    while at["page"]:
        pages.append(await read(path, box, **at))
        at = {"page": pages[-1]["next_page"], "start": pages[-1]["next_start"]}

    text = "".join(page["text"] for page in pages)
    assert all(f"line {i:04d}" in text for i in range(1_500))
    assert text.rstrip().endswith("the end")
    assert all(len(page["text"]) < PAGE_CHARS + 50 for page in pages)
    assert f"page=1, start={pages[0]['next_start']}." in pages[0]["note"]


IMAGES: Mapping[str, tuple[bytes, dict[str, Any]]] = {
    "png": (png(7, 5), {"format": "PNG", "width": 7, "height": 5, "mode": "RGBA", "bits": 8}),
    "jpeg": (jpeg(40, 30), {"format": "JPEG", "width": 40, "height": 30, "mode": "YCbCr"}),
    "gif": (gif(5, 4, 3), {"format": "GIF", "width": 5, "height": 4, "frames": 3, "bits": 2}),
    "webp": (
        b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\x63\0\0\x31\0\0",
        {"format": "WebP", "width": 100, "height": 50, "mode": "RGBA"},
    ),
    "bmp": (
        b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 9, -8, 1, 24),
        {"format": "BMP", "width": 9, "height": 8, "mode": "RGB", "bits": 24},
    ),
    "tiff": (
        b"II*\0\x08\0\0\0\x02\0"
        + struct.pack("<HHIIHHII", 0x0100, 4, 1, 11, 0x0101, 4, 1, 12)
        + bytes(4),
        {"format": "TIFF", "width": 11, "height": 12},
    ),
}


@pytest.mark.parametrize("kind", IMAGES)
async def test_an_image_says_its_size(tmp_path: Path, box: Sandbox, kind: str) -> None:
    """By its bytes, whatever its name is."""
    data, wanted = IMAGES[kind]
    found = await read(written(tmp_path / "picture.txt", data), box)

    assert found["kind"] == "image"
    assert found | wanted == found


@pytest.mark.parametrize("order", ["<", ">"])
async def test_texts_of_exif(tmp_path: Path, box: Sandbox, order: str) -> None:
    """Both byte orders, in JPEG as in PNG."""
    first = written(tmp_path / "a.jpg", jpeg(block=exif(order)))
    second = written(tmp_path / "a.png", png(3, 2, (b"eXIf", exif(order))))

    for path in (first, second):
        assert (await read(path, box))["exif"] == {
            "make": "Camera & Co",
            "orientation": 6,
            "taken": "2024:05:06 07:08:09",
        }


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
NO_SHEETS = f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"/>'
HOSTILE: Mapping[str, tuple[dict[str, str], str]] = {
    "entities": (
        {"xl/worksheets/s0.xml": f"{BOMB}{sheet('<row><c><v>&b;</v></c></row>')}"},
        "document type",
    ),
    "entities in texts": ({"xl/styles.xml": f"{BOMB}<a>&b;</a>"}, "document type"),
    "a file of the host": ({"xl/workbook.xml": f"{OUTSIDE}<a>&a;</a>"}, "document type"),
    "damaged XML": ({"xl/worksheets/s0.xml": "<worksheet><row>"}, "its XML is damaged"),
    "no sheets": ({"xl/workbook.xml": NO_SHEETS}, "no sheet with cells"),
    "a bomb": (
        {"xl/worksheets/s0.xml": sheet(row(1, "h") + " " * (40 << 20))},
        "it unpacks to more than 16 MB",
    ),
    "a path out of the archive": (
        {
            "xl/_rels/workbook.xml.rels": relations(
                {"r0": ("worksheet", "../../../../../../etc/passwd")}
            )
        },
        "its part 'etc/passwd' is missing",
    ),
    "a binary workbook": (
        {"_rels/.rels": relations({"m": ("officeDocument", "xl/workbook.bin")})},
        "XLSB",
    ),
}


@pytest.mark.parametrize("attack", HOSTILE)
async def test_a_hostile_workbook_is_refused(tmp_path: Path, box: Sandbox, attack: str) -> None:
    """With the reason, and with nothing expanded or read from outside."""
    parts, reason = HOSTILE[attack]
    path = workbook(tmp_path / "a.xlsx", {"S": sheet(row(1, "h"))}, more=parts)

    assert reason in await refusal(path, box)


async def test_names_of_parts_are_no_paths(tmp_path: Path, box: Sandbox) -> None:
    """A part that is named like a file elsewhere is neither written nor in the way."""
    target = tmp_path / "out" / "gone.txt"
    parts = {str(target): "x", "../../gone.txt": "x", "xl/..\\..\\gone.txt": "x"}
    path = workbook(tmp_path / "a.xlsx", {"S": sheet(row(1, "h") + row(2, 1))}, more=parts)

    assert (await read(path, box))["rows"] == [[1]]
    assert not target.exists()


async def test_a_password_is_asked_for(tmp_path: Path, box: Sandbox) -> None:
    """Parts that are marked as encrypted, and a PDF whose key we lack."""
    plain = workbook(tmp_path / "a.xlsx", {"S": sheet(row(1, "h"))}).read_bytes()
    marked = bytearray(plain)
    place = -1
    while (place := plain.find(b"PK\x01\x02", place + 1)) >= 0:
        marked[place + 8] |= 1
    key = "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{}> /U <{}> >> /ID [<00> <00>] "
    locked = pdf(tmp_path / "a.pdf", "x", trailer=key.format("11" * 32, "22" * 32))

    assert "protected by a password" in await refusal(
        written(tmp_path / "b.xlsx", bytes(marked)), box
    )
    assert "protected by a password" in await refusal(locked, box)


@pytest.mark.parametrize("kind", ["xlsx", "pdf", "png", "jpg", "webp"])
async def test_half_a_file_is_refused(tmp_path: Path, box: Sandbox, kind: str) -> None:
    """Cut off anywhere, it ends in a message, not in an error of ours."""
    whole = {
        "xlsx": workbook(tmp_path / "w", {"S": sheet(row(1, "h"))}).read_bytes(),
        "pdf": pdf(tmp_path / "p", "text").read_bytes(),
        "png": png(),
        "jpg": jpeg(),
        "webp": IMAGES["webp"][0],
    }[kind]
    keep = {"xlsx": len(whole) // 2, "pdf": 40}.get(kind, 18)

    said = await refusal(written(tmp_path / f"a.{kind}", whole[:keep]), box)

    assert f"'a.{kind}' cannot be read as " in said


async def test_an_archive_that_is_no_workbook(tmp_path: Path, box: Sandbox) -> None:
    """It is named for what it is, as it was before."""
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")

    assert "is not text but a ZIP archive or an Office document" in await refusal(path, box)


async def test_a_file_that_is_too_large(tmp_path: Path, box: Sandbox) -> None:
    """It is not even shown to a box."""
    path = written(tmp_path / "a.pdf", b"%PDF-1.4\n")
    os.truncate(path, 300 << 20)

    assert "314,572,800 bytes; a PDF document is read up to 268,435,456" in await refusal(path, box)


async def test_a_large_file_of_nothing(tmp_path: Path, box: Sandbox) -> None:
    """100 MB that only begin like a PDF end in a message."""
    path = written(tmp_path / "a.pdf", b"%PDF-1.4\n")
    os.truncate(path, 100 << 20)

    assert "cannot be read as a PDF document" in await refusal(path, box)


async def test_nothing_is_parsed_without_a_sandbox(tmp_path: Path) -> None:
    """A refusal with its cause, where there is no box and where none is asked for."""
    path = pdf(tmp_path / "a.pdf", "x")
    unsafe = UnsafeSubprocess()

    assert "only read in a sandbox that contains their parser" in await refusal(path, unsafe)
    with pytest.raises(ToolFailure, match=r"'a\.pdf' is a PDF document"):
        await read_file("a.pdf", files={"a.pdf": path})
    await unsafe.close()


async def test_what_a_box_answers_is_text_from_outside(
    tmp_path: Path, looking: type[LookingSandbox]
) -> None:
    """A reader that was taken over can neither hide characters nor flood the model."""
    path = written(tmp_path / "a.png", png())
    taken = looking(
        outcome=Outcome(status="ok", value={"kind": "image", "x": "a\x1b\u202e" * 9_999})
    )
    odd = looking(outcome=Outcome(status="ok", value=["no object"]))
    dead = looking(outcome=Outcome(status="timeout", error="late"))

    found = await read(path, taken)

    assert "\x1b" not in str(found)
    assert len(str(found)) < 3 * PAGE_CHARS
    assert (taken.asked[0]["fresh"], "document" in taken.asked[0]["files"]) == (True, True)
    assert "cannot be read as an image" in await refusal(path, odd)
    assert "reading it takes too long" in await refusal(path, dead)


async def test_the_tool_takes_sheet_and_page(tmp_path: Path, box: Sandbox) -> None:
    """As the model calls it; a number for a sheet is taken as well."""
    tool = next(one for one in BUILTINS if one.name == "read_file")
    book = workbook(tmp_path / "a.xlsx", {"A": sheet(""), "B": sheet(row(1, "h") + row(2, 7))})
    bench = Bench(sandbox=box, files={"a.xlsx": book, "a.pdf": pdf(tmp_path / "a.pdf", "x", "y")})

    second: Any = await tool.run({"name": "a.xlsx", "sheet": 2}, bench)
    page: Any = await tool.run({"name": "/data/a.pdf", "page": "2"}, bench)

    assert (second["sheet"], second["rows"], page["page"]) == ("B", [[7]], 2)


async def test_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box: Sandbox
) -> None:
    """Only PDF documents need it, and the message says what to set."""
    path = pdf(tmp_path / "a.pdf", "x")
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(path))
    library.zipped.cache_clear()

    assert "MEM2EVOLVE_CACHE" in await refusal(path, box)
    assert (await read(written(tmp_path / "a.png", png()), box))["kind"] == "image"


def test_a_damaged_library_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same content gives the same name, and half a file is not used."""
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path))
    make = library.zipped.__wrapped__
    path = make("pypdf")
    size = path.stat().st_size
    os.truncate(path, size // 2)

    assert make("pypdf") == path
    assert path.stat().st_size == size
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_a_stream_that_unpacks_without_end(tmp_path: Path, box: Sandbox) -> None:
    """A page of 300 MB in 300 kB costs that page, within the box's limits, and nothing else."""
    packed = zlib.compress(b" " * (300 << 20), 9)
    stream = f"/Filter /FlateDecode /Length {len(packed)} >>\nstream\n".encode()
    plain = pdf(tmp_path / "a.pdf", "x", "after").read_bytes()
    head, _, tail = plain.partition(b"/Length ")
    data = head + stream + packed + b"\nendstream" + tail.partition(b"endstream")[2]

    found = await read(written(tmp_path / "b.pdf", data), box)

    assert "[page 2]\nafter" in found["text"]
    assert found["pages_not_read"][0].startswith("1 (LimitReachedError")
