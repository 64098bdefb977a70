"""What cannot be used is refused before anything is spent: two lines, exit code 2, nothing left behind."""

import os
from pathlib import Path

import pytest

from .conftest import TASK, Cli, Say


@pytest.mark.parametrize(
    ("task", "stdin", "words"),
    [
        ("", b"", ("task is empty",)),
        (" \n\t ", b"", ("task is empty",)),
        ("-", b"", ("task is empty",)),
        ("-", b"a" * (1 << 20), ("1,048,576 characters", "--file")),
        ("-", "ä".encode() * (3 << 20), ("more than 4 MB", "--file")),
        ("-", b"\x00\xff\x01", ("byte 1 is 0xff", "--file")),
        ("-", b"a\x00b", (r"'\x00'", "--file")),
        ("\udcff\udcfe", b"", (r"'\udcff'", "--file")),
    ],
)
def test_a_task_that_is_no_text(
    say: Say, tmp_path: Path, task: str, stdin: bytes, words: tuple[str, ...]
) -> None:
    """Empty, endless and binary tasks are named as what they are."""
    say("run", task, stdin=stdin).refused(*words)

    assert not list(tmp_path.iterdir())


def test_arguments_that_are_no_utf8(cli: Cli) -> None:
    """Bytes of the command line that are no text are refused, not passed on."""
    cli("run", b"\xff\xfe abc").refused(r"'\udcff'", "--file")


def test_files_that_are_none(say: Say, tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and a huge file are told apart."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(200 << 20)

    say("run", TASK, "--file", "nope").refused("nope' does not exist")
    say("run", TASK, "--file", str(tmp_path)).refused("is a folder")
    say("run", TASK, "--file", "pipe").refused("pipe' is no regular file")
    say("run", TASK, "--file", "big").refused("210 MB", "at most 105 MB")
    say("run", TASK, "--file", "a\nb").refused(r"a\nb' does not exist")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", TASK, "--mode", "nosuch"), ("mode='nosuch'", "experience_only")),
        (("run", TASK, "--delta", "7"), ("delta=7.0", "from -1 to 1")),
        (("run", TASK, "--delta", "x"), ("'x' is not a valid float", "mem2evolve run --help")),
        (("run", TASK, "--namespace", ""), ("namespace is empty",)),
        (("run", TASK, "--nope"), ("No such option", "mem2evolve run --help")),
        (("run",), ("Give a TASK", "mem2evolve run --help")),
        (("run", "a", "b"), ("unexpected extra argument (b)",)),
        (("frobnicate",), ("No such command 'frobnicate'", "mem2evolve --help")),
        (("tools", "frob"), ("No such command 'frob'", "mem2evolve tools --help")),
        (("runs", "verdict", "x", "maybe"), ("'maybe'", "'right', 'wrong'")),
        (("tools", "show", "nothing"), ("no tool 'nothing'", "mem2evolve tools list")),
        (("agents", "show", "nothing"), ("no agent 'nothing'", "mem2evolve agents list")),
        (("memory", "show", "nothing"), ("no lesson 'nothing'", "mem2evolve memory list")),
        (("runs", "show", "nothing"), ("no run 'nothing'", "mem2evolve runs list")),
        (("runs", "verdict", "nothing", "right"), ("no run 'nothing'",)),
        (("run", TASK, "--model", "nosuch:thing"), ("'nosuch:thing'", "provider:model")),
        (("run", TASK, "--model", "gibberish"), ("'gibberish'", "provider:model")),
        (("run", TASK, "--model", "openai:"), ("'openai:'", "OPENAI_BASE_URL")),
        (("run", TASK, "--model", "openai:gpt-5"), ("needs a key", "OPENAI_API_KEY")),
        (("run", TASK), ("Nobody agreed", "mem2evolve model pull --yes")),
        (("run", TASK, "--model-file", "nope.gguf"), ("nope.gguf", "No such file")),
        (("run", TASK, "--model-file", "/"), ("'/'", "Is a directory")),
    ],
)
def test_arguments(say: Say, words: tuple[str, ...], said: tuple[str, ...]) -> None:
    """The value, the cause and the way out."""
    say(*words).refused(*said)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MEM2EVOLVE_SANDBOX", "docker", ("'docker'", "unsafe-subprocess")),
        ("MEM2EVOLVE_EMBEDDING", "nosuch", ("'nosuch'", "minilm")),
        ("OPENAI_BASE_URL", "nonsense", ("'nonsense'", "http://127.0.0.1:8000/v1")),
        ("OPENAI_BASE_URL", "http://127.0.0.1:99999/v1", ("99999", "OPENAI_BASE_URL")),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1", ("cannot be reached", "mem2evolve doctor")),
        ("QDRANT_URL", "http://127.0.0.1:9", ("does not answer", "QDRANT_URL")),
        ("MEM2EVOLVE_MODEL_FILE", "not.gguf", ("not.gguf", "does not begin with 'GGUF'")),
    ],
)
def test_environment(
    say: Say,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    said: tuple[str, ...],
) -> None:
    """Settings are checked before the run begins."""
    (tmp_path / "not.gguf").write_bytes(b"no model")
    monkeypatch.setenv(name, value)

    say("run", TASK).refused(*said)


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_timeout_is_a_number_of_seconds(
    say: Say, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """MEM2EVOLVE_MODEL_TIMEOUT is refused loudly."""
    monkeypatch.setenv("MEM2EVOLVE_MODEL_TIMEOUT", value)
    monkeypatch.setenv("OPENAI_API_KEY", "test")

    say("run", TASK).refused(f"MEM2EVOLVE_MODEL_TIMEOUT={value!r}", "120 seconds")


def test_proxy_that_cannot_be_used(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of a kind that needs another package is named; it is no fault of the program."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://example.invalid/v1")

    say("run", TASK).refused("ALL_PROXY", "NO_PROXY")


def test_a_file_in_place_of_the_home(say: Say, tmp_path: Path) -> None:
    """It is named and left alone."""
    (tmp_path / "home").write_text("precious")

    say("tools", "list").refused(str(tmp_path / "home"), "MEM2EVOLVE_HOME")
    assert (tmp_path / "home").read_text() == "precious"


def test_a_pulled_file_with_the_wrong_hash(say: Say, tmp_path: Path) -> None:
    """A file that is not the catalogue's model is not taken into the cache."""
    (tmp_path / "other.gguf").write_bytes(b"GGUF" + b"\0" * 1000)

    say("model", "pull", "--from", "other.gguf").refused("other.gguf")
    assert not list((tmp_path / "cache").rglob("*.gguf"))
