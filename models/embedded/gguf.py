"""Reads the key/value header of a GGUF file, which may come from anywhere and be anything.

Only scalars and strings are kept; arrays (the vocabulary, mostly) are walked over. Format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final

from ...errors import ModelFileError

TEMPLATE_KEY: Final = "tokenizer.chat_template"

MAX_KEYS: Final = 10_000
MAX_KEPT_BYTES: Final = 8 * 1024 * 1024
"""Longest string kept. Chat templates have some thousand bytes."""
MAX_ITEMS: Final = 10_000_000
"""Array items walked over in one file; vocabularies have some hundred thousand."""

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i",
    6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip

Scalar = str | int | float | bool


def read_metadata(path: Path) -> dict[str, Scalar]:
    """Return the scalars and strings of a GGUF header.

    Raises:
        ModelFileError: If the file cannot be read, or its header is not a sound GGUF 2 or 3 header.
    """
    try:
        with path.open("rb") as stream:
            return _Reader(path, stream).metadata()
    except OSError as exc:
        raise ModelFileError(
            f"Model file {str(path)!r} cannot be read: {exc.strerror or exc}.",
            hint="Name a readable GGUF file, or unset MEM2EVOLVE_MODEL_FILE.",
        ) from exc


def check_header(path: Path) -> None:
    """Refuse a file that is no GGUF, without reading all of its header.

    Raises:
        ModelFileError: As `read_metadata`.
    """
    try:
        with path.open("rb") as stream:
            _Reader(path, stream).counts()
    except OSError as exc:
        raise ModelFileError(
            f"Model file {str(path)!r} cannot be read: {exc.strerror or exc}.",
            hint="Name a readable GGUF file, or unset MEM2EVOLVE_MODEL_FILE.",
        ) from exc


def chat_template(path: Path) -> str | None:
    """Return the chat template to serve a model with: the file's own, mended; None if it has none.

    Raises:
        ModelFileError: As `read_metadata`.
    """
    template = read_metadata(path).get(TEMPLATE_KEY)
    return mend_template(template) if isinstance(template, str) else None


def mend_template(template: str) -> str:
    """Undo the doubled braces that Qwen2.5-Coder's template shows around its tool-call example.

    The model copies what it is shown, and `{{"name": …}}` is not JSON: no call is ever recognised.
    """
    example = r"\"name\": <function-name>, \"arguments\": <args-json-object>"
    return template.replace("{{" + example + "}}", "{" + example + "}")


class _Reader:
    """A cursor over the header. Every length is checked against the file before it is used."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path = path
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self._items_left = MAX_ITEMS

    def counts(self) -> int:
        """Read the fixed part; return the number of key/value pairs."""
        if self._bytes(4) != _MAGIC:
            raise self._error("it does not begin with 'GGUF'")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise self._error(f"its format version is {version}, not 2 or 3")
        self._number("<Q")  # tensors: the server's business
        pairs = int(self._number("<Q"))
        if pairs > MAX_KEYS:
            raise self._error(f"it announces {pairs} keys, more than {MAX_KEYS}")
        return pairs

    def metadata(self) -> dict[str, Scalar]:
        """Read all pairs; arrays are skipped."""
        found: dict[str, Scalar] = {}
        for _ in range(self.counts()):
            key = self._string()
            if key in found:
                raise self._error(f"key {key!r} occurs twice")
            kind = int(self._number("<I"))
            if kind == _ARRAY:
                self._skip_array()
            elif kind == _STRING:
                found[key] = self._string()
            else:
                found[key] = self._number(self._scalar(kind))
        return found

    def _skip_array(self) -> None:
        kind, count = int(self._number("<I")), int(self._number("<Q"))
        self._items_left -= count
        if self._items_left < 0:
            raise self._error(f"its arrays have more than {MAX_ITEMS} items")
        if kind == _STRING:
            for _ in range(count):
                self._skip(int(self._number("<Q")))
        elif kind == _ARRAY:
            raise self._error("it holds an array of arrays")
        else:
            self._skip(count * struct.calcsize(self._scalar(kind)))

    def _scalar(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._error(f"value type {kind} is unknown")
        return _SCALARS[kind]

    def _string(self) -> str:
        length = int(self._number("<Q"))
        if length > MAX_KEPT_BYTES:
            raise self._error(f"a string of {length} bytes is longer than {MAX_KEPT_BYTES}")
        return self._bytes(length).decode("utf-8", errors="replace")

    def _number(self, layout: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(layout, self._bytes(struct.calcsize(layout)))[0]
        return value

    def _bytes(self, length: int) -> bytes:
        data = self._stream.read(length)
        if len(data) != length:
            raise self._error(f"it ends after {self._size} bytes, inside its header")
        return data

    def _skip(self, length: int) -> None:
        # Seeking past the end succeeds silently, so the length is compared first.
        if length > self._size - self._stream.tell():
            raise self._error(f"it ends after {self._size} bytes, inside its header")
        self._stream.seek(length, os.SEEK_CUR)

    def _error(self, reason: str) -> ModelFileError:
        return ModelFileError(
            f"Model file {str(self._path)!r} is not a usable GGUF file: {reason}.",
            hint="Download it again with `mem2evolve model pull`, or name another file.",
        )
