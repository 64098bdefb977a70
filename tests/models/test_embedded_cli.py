"""`mem2evolve model …`, without a model."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mem2evolve.cli.model import describe, model, terminal_confirm
from mem2evolve.errors import ModelFileError
from mem2evolve.models import embedded
from mem2evolve.models.embedded import Progress


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache."""
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MEM2EVOLVE_MODEL_FILE", raising=False)
    monkeypatch.delenv("MEM2EVOLVE_YES", raising=False)
    return tmp_path / "cache"


def test_status_of_nothing(cache: Path) -> None:
    """An empty cache is a state, not an error."""
    result = CliRunner().invoke(model, ["status"])

    assert result.exit_code == 0
    assert result.stdout == (
        "model   qwen2.5-coder-1.5b-instruct: absent "
        f"({cache}/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf)\n"
        "server  none runs\n"
    )


def test_status_as_json() -> None:
    """One line that a program can read."""
    result = CliRunner().invoke(model, ["status", "--json"])
    data = json.loads(result.stdout)

    assert data["model"]["status"] == "absent"
    assert data["model"]["bytes"] == 1_117_320_768
    assert data["servers"] == []


def test_stop_when_nothing_runs() -> None:
    """It says so and succeeds."""
    result = CliRunner().invoke(model, ["stop"])

    assert (result.exit_code, result.stdout) == (0, "no server ran\n")


def test_pull_without_a_terminal_needs_yes() -> None:
    """Nobody could be asked, so nothing is downloaded, and the hint says how to agree."""
    result = CliRunner().invoke(model, ["pull"])

    assert isinstance(result.exception, ModelFileError)
    assert "mem2evolve model pull --yes" in result.exception.hint


def test_pull_prints_the_path_and_nothing_else_on_stdout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is downloaded is announced, with progress, on standard error."""
    monkeypatch.setenv("MEM2EVOLVE_YES", "1")

    def pull(*, report: embedded.Report, **_: object) -> Path:
        report(Progress(0, 10**9, "hub"))
        report(Progress(10**9, 10**9, "hub"))
        return tmp_path / "m.gguf"

    monkeypatch.setattr(embedded, "pull", lambda _model, **more: pull(**more))
    result = CliRunner().invoke(model, ["pull"])

    assert result.exit_code == 0, result.exception
    assert result.stdout == f"{tmp_path}/m.gguf\n"
    assert "1.00 of 1.00 GB, 100%" in result.stderr


def test_a_wrong_file_from_the_user_is_refused(tmp_path: Path) -> None:
    """`--from` is checked against the catalogue."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    result = CliRunner().invoke(model, ["pull", "--from", str(mine)])

    assert isinstance(result.exception, ModelFileError)
    assert "SHA-256" in str(result.exception)


def test_yes_answers_for_the_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an option or in the environment; the text is still shown."""
    assert terminal_confirm(yes=False) is None
    monkeypatch.setenv("MEM2EVOLVE_YES", "1")
    confirm = terminal_confirm(yes=False)

    assert confirm is not None
    assert confirm("1 GB")
    assert capsys.readouterr().err == "1 GB\n"


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(5 * 10**8, 10**9, "hub"), "downloading the model (hub): 0.50 of 1.00 GB, 50%"),
        (Progress(10**9, 10**9, "checking"), "checking the model: 1.00 of 1.00 GB, 100%"),
        (Progress(0, 10**9, "waiting"), "waiting for another pull of the model"),
        (Progress(0, 0, "file"), "copying the model: 0.00 of 0.00 GB, 100%"),
    ],
)
def test_progress_is_one_line(progress: Progress, text: str) -> None:
    """Gigabytes done and in all, and the share."""
    assert describe(progress) == text
