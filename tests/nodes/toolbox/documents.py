"""Workbooks, PDF documents and images written by hand, for `test_documents.py`."""

import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm"/>'
    '<numFmt numFmtId="165" formatCode="[Red]0.0&quot;days&quot;"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>'
    '<xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="21"/></cellXfs></styleSheet>'
)
"""Styles: 0 general, 1 a date, 2 date and time, 3 a number that looks like one, 4 a time."""


def sheet(rows: str) -> str:
    """A sheet around its `row` elements."""
    return f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'


def row(number: int, *cells: object) -> str:
    """A row of numbers and inline texts; None leaves a cell out."""
    parts = []
    for place, cell in enumerate(cells):
        reference = f"{chr(ord('A') + place)}{number}"
        if isinstance(cell, str):
            parts.append(f'<c r="{reference}" t="inlineStr"><is><t>{cell}</t></is></c>')
        elif cell is not None:
            parts.append(f'<c r="{reference}"><v>{cell}</v></c>')
    return f'<row r="{number}">{"".join(parts)}</row>'


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """A part of relations, by id."""
    items = "".join(
        f'<Relationship Id="{one}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for one, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}">{items}</Relationships>'


def workbook(
    path: Path,
    sheets: Mapping[str, str],
    *,
    shared: Sequence[str] = (),
    era_1904: bool = False,
    more: Mapping[str, str] | None = None,
) -> Path:
    """An XLSX file; `shared` are `si` elements, `more` are parts put in place of ours."""
    names = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets)
    )
    book = f'<workbookPr date1904="{int(era_1904)}"/><sheets>{names}</sheets>'
    targets = {f"r{i}": ("worksheet", f"worksheets/s{i}.xml") for i in range(len(sheets))}
    targets |= {"a": ("styles", "/xl/styles.xml"), "b": ("sharedStrings", "sharedStrings.xml")}
    parts = {
        "_rels/.rels": relations({"m": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{book}</workbook>',
        "xl/_rels/workbook.xml.rels": relations(targets),
        "xl/styles.xml": STYLES,
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{"".join(shared)}</sst>',
        **{f"xl/worksheets/s{i}.xml": text for i, text in enumerate(sheets.values())},
        **(more or {}),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def pdf(path: Path, *pages: str, trailer: str = "") -> Path:
    """A PDF with one line of text on each page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj T*" for line in text.split("\n")) if text else ""
        content = f"BT /F1 12 Tf 14 TL 72 700 Td {lines} ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources "
            f"<< /Font << /F1 3 0 R >> >> /Contents {5 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    data = "%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    data += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R {trailer}>>\nstartxref\n{len(data)}\n%%EOF\n"
    )
    path.write_bytes(data.encode("latin-1"))
    return path


def png(width: int = 3, height: int = 2, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG of 8-bit RGBA; `more` are chunks after the header."""
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = [(b"IHDR", header), *more, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def exif(order: str = "<") -> bytes:
    """An EXIF block: make, orientation, and in the second folder when it was taken."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    make, taken = b"Camera & Co\0", b"2024:05:06 07:08:09\0"
    first, second = 8, 8 + 2 + 3 * 12 + 4
    texts = second + 2 + 12 + 4
    return b"".join(
        (
            mark + struct.pack(f"{order}I", first),
            struct.pack(f"{order}H", 3),
            struct.pack(f"{order}HHII", 0x010F, 2, len(make), texts),
            struct.pack(f"{order}HHIHH", 0x0112, 3, 1, 6, 0),
            struct.pack(f"{order}HHII", 0x8769, 4, 1, second),
            bytes(4),
            struct.pack(f"{order}H", 1),
            struct.pack(f"{order}HHII", 0x9003, 2, len(taken), texts + len(make)),
            bytes(4),
            make + taken,
        )
    )


def jpeg(width: int = 40, height: int = 30, block: bytes = b"") -> bytes:
    """The beginning of a JPEG, up to its frame."""
    segments = [(0xE0, b"JFIF\0" + bytes(9))]
    segments += [(0xE1, b"Exif\0\0" + block)] if block else []
    segments.append((0xC2, struct.pack(">BHHB", 8, height, width, 3) + bytes(9)))
    return b"\xff\xd8" + b"".join(
        struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body for marker, body in segments
    )


def gif(width: int = 5, height: int = 4, frames: int = 2) -> bytes:
    """A GIF of so many empty frames, with a palette of four colours."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x81, 0, 0) + bytes(12)
    frame = b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + bytes(8) + b"\0" + b"\x02" + b"\x02ab\0"
    return head + frame * frames + b"\x3b"
