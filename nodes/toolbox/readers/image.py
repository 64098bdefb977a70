"""Reads what an image says of itself: format, size, colours and the texts of its EXIF block.

Run inside a box; the program never imports it. Standard library only; no pixel is decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

READ_BYTES: Final = 16 << 20
"""Of the file's beginning; what matters stands there, but for a GIF's later frames."""
MAX_STEPS: Final = 100_000
"""Chunks, segments or blocks of one image."""
TEXT_CHARS: Final = 300

PNG_MODES: Final = {0: "grey", 2: "RGB", 3: "palette", 4: "grey+alpha", 6: "RGBA"}
JPEG_MODES: Final = {1: "grey", 3: "YCbCr", 4: "CMYK"}
NOT_FRAMES: Final = {0xC4, 0xC8, 0xCC}
"""JPEG markers among those of frames that are none."""
EXIF_TEXTS: Final = {
    0x010E: "description",
    0x010F: "make",
    0x0110: "model",
    0x0131: "software",
    0x0132: "modified",
    0x013B: "artist",
    0x8298: "copyright",
    0x9003: "taken",
}
EXIF_ORIENTATION: Final = 0x0112
EXIF_MORE: Final = 0x8769
ASCII, SHORT, LONG = 2, 3, 4
MAX_TAGS: Final = 1_000


class Refused(Exception):
    """Why the file is not read; shown as it is."""


def read(path: str) -> dict[str, object]:
    """Describe an image."""
    with open(path, "rb") as file:  # noqa: PTH123 - a box need not load `pathlib`
        data = file.read(READ_BYTES)
    readers = {
        b"\x89PNG\r\n\x1a\n": _png,
        b"\xff\xd8\xff": _jpeg,
        b"GIF87a": _gif,
        b"GIF89a": _gif,
        b"RIFF": _webp,
        b"BM": _bmp,
        b"II*\x00": _tiff,
        b"MM\x00*": _tiff,
    }
    reader = next((one for magic, one in readers.items() if data.startswith(magic)), None)
    if reader is None:
        raise Refused("it begins like an image but is of no known kind")
    try:
        found = reader(data)
    except (struct.error, IndexError) as exc:
        raise Refused("it is cut off or damaged") from exc
    if not found.get("width") or not found.get("height"):
        raise Refused("it does not say its width and height")
    return {"kind": "image", **found}


def _png(data: bytes) -> dict[str, object]:
    length, kind, width, height, bits, colour = struct.unpack_from(">I4sIIBB", data, 8)
    if kind != b"IHDR" or length != 13:  # noqa: PLR2004 - the size of this chunk
        raise Refused("its first chunk is not the header")
    found = _size("PNG", width, height, PNG_MODES.get(colour, "unknown"), bits)
    place = 8
    for _ in range(MAX_STEPS):
        if place + 8 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"eXIf":
            found |= _exif(data[place + 8 : place + 8 + length])
        elif kind == b"acTL":
            found["frames"] = struct.unpack_from(">I", data, place + 8)[0]
        place += length + 12
    return found


def _jpeg(data: bytes) -> dict[str, object]:
    exif: dict[str, object] = {}
    place = 2
    for _ in range(MAX_STEPS):
        while data[place] != 0xFF or data[place + 1] == 0xFF:  # noqa: PLR2004 - filling
            place += 1
        marker = data[place + 1]
        (length,) = struct.unpack_from(">H", data, place + 2)
        body = data[place + 4 : place + 2 + length]
        if 0xC0 <= marker <= 0xCF and marker not in NOT_FRAMES:  # noqa: PLR2004 - of frames
            bits, height, width, parts = struct.unpack_from(">BHHB", body)
            found = _size("JPEG", width, height, JPEG_MODES.get(parts, "unknown"), bits)
            return found | exif
        if marker == 0xE1 and body.startswith(b"Exif\0\0"):  # noqa: PLR2004 - APP1
            exif = _exif(body[6:])
        if marker == 0xDA or length < 2:  # noqa: PLR2004 - the picture itself; a length holds itself
            break
        place += 2 + length
    raise Refused("it has no header of a frame")


def _gif(data: bytes) -> dict[str, object]:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    found = _size("GIF", width, height, "palette", (flags & 7) + 1 if flags & 0x80 else 8)
    frames, place = 0, 13 + _palette(flags)
    for _ in range(MAX_STEPS):
        if place + 10 > len(data) or data[place] == 0x3B:  # noqa: PLR2004 - the end
            break
        if data[place] == 0x2C:  # noqa: PLR2004 - a picture
            frames += 1
            place += 11 + _palette(data[place + 9])
        elif data[place] == 0x21:  # noqa: PLR2004 - an extension
            place += 2
        else:
            break
        while place < len(data) and data[place]:  # its blocks, up to an empty one
            place += 1 + data[place]
        place += 1
    return found | {"frames": frames}


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> dict[str, object]:
    if data[8:12] != b"WEBP":
        raise Refused("it is a RIFF file but no image")
    found: dict[str, object] = {}
    exif: dict[str, object] = {}
    place = 12
    for _ in range(MAX_STEPS):
        if place + 8 > len(data):
            break
        kind, length = struct.unpack_from("<4sI", data, place)
        body = data[place + 8 : place + 8 + length]
        if kind == b"VP8X":
            width, height = (int.from_bytes(body[i : i + 3], "little") + 1 for i in (4, 7))
            found = _size("WebP", width, height, "RGBA" if body[0] & 0x10 else "RGB", 8)
        elif kind == b"VP8 " and not found:
            width, height = struct.unpack_from("<HH", body, 6)
            found = _size("WebP", width & 0x3FFF, height & 0x3FFF, "YCbCr", 8)
        elif kind == b"VP8L" and not found:
            (packed,) = struct.unpack_from("<I", body, 1)
            width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
            found = _size("WebP", width, height, "RGBA" if packed >> 28 & 1 else "RGB", 8)
        elif kind == b"EXIF":
            exif = _exif(body.removeprefix(b"Exif\0\0"))
        place += 8 + length + length % 2
    return found | exif


def _bmp(data: bytes) -> dict[str, object]:
    width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
    mode = "palette" if bits <= 8 else "RGB"  # noqa: PLR2004 - more need no palette
    return _size("BMP", abs(width), abs(height), mode, bits)


def _tiff(data: bytes) -> dict[str, object]:
    numbers = {tag: value for tag, value in _tags(data) if isinstance(value, int)}
    width, height = numbers.get(0x0100, 0), numbers.get(0x0101, 0)
    found = _size("TIFF", width, height, "unknown", numbers.get(0x0102, 1))
    return found | _exif(data)


def _size(name: str, width: int, height: int, mode: str, bits: int) -> dict[str, object]:
    return {
        "format": name,
        "width": width,
        "height": height,
        "mode": mode,
        "bits": bits,
    }


def _exif(block: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    try:
        for tag, value in _tags(block):
            if tag in EXIF_TEXTS and isinstance(value, str) and value:
                found[EXIF_TEXTS[tag]] = value
            elif tag == EXIF_ORIENTATION and isinstance(value, int):
                found["orientation"] = value
    except (struct.error, IndexError):
        found["damaged"] = True
    return {"exif": found} if found else {}


def _tags(block: bytes) -> Iterator[tuple[int, int | str]]:
    """Yield the texts and whole numbers of the first folder and of the one it points to."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        return
    folders = [struct.unpack_from(f"{order}I", block, 4)[0]]
    for number, folder in enumerate(folders):
        (count,) = struct.unpack_from(f"{order}H", block, folder)
        for place in range(folder + 2, folder + 2 + 12 * min(count, MAX_TAGS), 12):
            tag, kind, size, value = struct.unpack_from(f"{order}HHII", block, place)
            if kind == ASCII:
                begin = place + 8 if size <= 4 else value  # noqa: PLR2004 - it fits into the tag
                text = block[begin : begin + min(size, TEXT_CHARS)].partition(b"\0")[0]
                yield tag, text.decode("utf-8", "replace").strip()
            elif kind == SHORT:
                yield tag, struct.unpack_from(f"{order}H", block, place + 8)[0]
            elif kind == LONG:
                if tag == EXIF_MORE and not number:
                    folders.append(value)
                yield tag, value
