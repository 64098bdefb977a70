"""The GGUF header reader and the catalogue."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mem2evolve.errors import ConfigError, ModelFileError
from mem2evolve.models.embedded import gguf
from mem2evolve.models.embedded.catalogue import (
    CATALOGUE,
    HubSource,
    PackageSource,
    default_model,
    load_catalogue,
)

BROKEN = (
    r"<tool_call>\n{{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n</tool_call>"
)
MENDED = (
    r"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)


def text(value: str) -> bytes:
    """Encode a GGUF string."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def tiny_gguf(template: str = BROKEN) -> bytes:
    """Return a header with each kind of value, and the template last, as in real files."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("qwen2"),
        text("a.count") + struct.pack("<II", 4, 7),
        text("a.share") + struct.pack("<If", 6, 0.5),
        text("a.flag") + struct.pack("<I?", 7, True),
        text("a.numbers") + struct.pack("<IIQiii", 9, 5, 3, 1, -2, 3),
        text("a.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text(gguf.TEMPLATE_KEY) + struct.pack("<I", 8) + text(template),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def write(tmp_path: Path, data: bytes) -> Path:
    """Write a model file."""
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path


def test_scalars_and_strings_are_read(tmp_path: Path) -> None:
    """Arrays are walked over; what follows them is still found."""
    metadata = gguf.read_metadata(write(tmp_path, tiny_gguf()))

    assert metadata == {
        "general.architecture": "qwen2",
        "a.count": 7,
        "a.share": 0.5,
        "a.flag": True,
        gguf.TEMPLATE_KEY: BROKEN,
    }


def test_the_template_is_mended(tmp_path: Path) -> None:
    """The tool-call example is shown in single braces; the rest of the template is untouched."""
    template = "{%- if tools %}" + BROKEN + "{{- x }}{% endif %}"

    mended = gguf.chat_template(write(tmp_path, tiny_gguf(template)))

    assert mended == "{%- if tools %}" + MENDED + "{{- x }}{% endif %}"


def test_a_file_without_template_has_none(tmp_path: Path) -> None:
    """The server then uses its own default."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)

    assert gguf.chat_template(write(tmp_path, data)) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends after 0 bytes"),
        (b"<html>not found</html>", "does not begin with 'GGUF'"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version is 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version is 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "announces"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "longer than"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**62),
            "more than",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1),
            "array of arrays",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77), "type 77"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + (text("k") + struct.pack("<II", 4, 1)) * 2,
            "occurs twice",
        ),
    ],
)
def test_an_unsound_header_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """The error says what is wrong with which file, before anything big is allocated."""
    path = write(tmp_path, data)

    with pytest.raises(ModelFileError, match=reason) as caught:
        gguf.read_metadata(path)

    assert str(path) in str(caught.value)


def test_an_absent_file_is_a_model_file_error(tmp_path: Path) -> None:
    """Also a folder."""
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ModelFileError, match="cannot be read"):
            gguf.check_header(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    data=st.one_of(
        st.binary(max_size=400),
        st.binary(max_size=400).map(lambda tail: b"GGUF" + struct.pack("<IQ", 3, 0) + tail),
        st.integers(0, len(tiny_gguf())).map(lambda end: tiny_gguf()[:end]),
        st.tuples(st.integers(0, len(tiny_gguf()) - 1), st.integers(0, 255)).map(
            lambda at: tiny_gguf()[: at[0]] + bytes([at[1]]) + tiny_gguf()[at[0] + 1 :]
        ),
    )
)
def test_no_bytes_crash_the_reader(tmp_path: Path, data: bytes) -> None:
    """Whatever a file holds, it is read or refused with the one error."""
    path = write(tmp_path, data)
    try:
        metadata = gguf.read_metadata(path)
    except ModelFileError:
        return
    assert all(isinstance(value, str | int | float) for value in metadata.values())


def test_the_catalogue_names_the_official_file() -> None:
    """Hash, size, licence and sources are those that were attested."""
    model = default_model()

    assert model.name == "qwen2.5-coder-1.5b-instruct"
    assert model.bytes == 1_117_320_768
    assert model.sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    assert [type(source) for source in model.sources] == [HubSource, PackageSource]
    assert "Apache License" in (CATALOGUE.parent / model.licence_file).read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("part_bytes: 52428800", "part_bytes: 1000"),  # 22 of them do not make the file
        ("licence: Apache-2.0", "license: Apache-2.0"),  # unknown key
        ("file: qwen", "file: ../qwen"),  # leaves the folder
        ("kind: hub", "kind: carrier-pigeon"),
    ],
)
def test_a_wrong_catalogue_is_refused(tmp_path: Path, old: str, new: str) -> None:
    """A slip in the catalogue fails when it is read, not after a gigabyte."""
    source = CATALOGUE.read_text()
    assert old in source
    path = tmp_path / "catalogue.yaml"
    path.write_text(source.replace(old, new))

    with pytest.raises(ConfigError, match=r"catalogue\.yaml"):
        load_catalogue(path)


def test_an_empty_catalogue_is_refused(tmp_path: Path) -> None:
    """There must be a default."""
    path = tmp_path / "catalogue.yaml"
    path.write_text("")

    with pytest.raises(ConfigError, match="lists no model"):
        load_catalogue(path)
