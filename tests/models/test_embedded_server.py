"""Starting, sharing and ending model servers. The processes are real; llama.cpp is a stand-in."""

import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.cli.model import model
from mem2evolve.errors import ConfigError, ModelFileError, ModelUnavailable
from mem2evolve.models.embedded import (
    ServerState,
    client,
    ensure_running,
    launch,
    run_in_foreground,
    serve,
    start,
    state,
    status,
    stop,
)

FAKE_XLLAMACPP = '''
"""As much of xllamacpp as the server process uses. FAKE_XLLAMACPP says how to misbehave."""
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Bag:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Bag(), Bag(), Bag()

class Server:
    def __init__(self, params):
        mode = os.environ.get("FAKE_XLLAMACPP")
        if mode == "fail":
            raise RuntimeError("failed to load the model")
        if mode == "hang":
            time.sleep(60)
        alias, self.asked = next(iter(params.model_alias)), 0
        owner = self
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"data": [{"id": alias}]}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)
            def do_POST(self):
                owner.asked += 1
                self.do_GET()
        http = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % http.server_address[1]
        facts = {"omp": os.environ.get("OMP_WAIT_POLICY"), "template": params.chat_template}
        print("FACTS", json.dumps(facts), flush=True)

    def handle_metrics(self):
        return "# a comment\\nllamacpp:requests_processing 0\\n" \\
            "llamacpp:tokens_predicted_total %d\\n" % self.asked
'''


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """Write a GGUF file that holds a template and nothing else."""
    key, template = b"tokenizer.chat_template", b"{{ messages }}"
    header = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (1).to_bytes(8, "little")
    pair = len(key).to_bytes(8, "little") + key + (8).to_bytes(4, "little")
    path = tmp_path / "tiny-model.gguf"
    path.write_bytes(header + pair + len(template).to_bytes(8, "little") + template)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the test its own servers, on the stand-in, and end them."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "xllamacpp.py").write_text(FAKE_XLLAMACPP)
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.syspath_prepend(library)
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MEM2EVOLVE_MODEL_IDLE_MINUTES", raising=False)
    yield tmp_path / "cache"
    stop()


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def a_state(**changes: object) -> ServerState:
    """Return the state of a server that never was."""
    made = ServerState(
        pid=os.getpid(),
        port=9,
        model="m",
        model_file="m.gguf",
        instance="none",
        started=0.0,
        host=platform.node(),
        log="",
        idle_minutes=30.0,
    )
    return dataclasses.replace(made, **changes)


def test_one_server_is_shared(model_file: Path, cache: Path) -> None:
    """A second call finds the first one's server, and `stop` ends it."""
    first = ensure_running(model_file)
    second = ensure_running(model_file)
    (running,) = status()

    assert first == second
    assert first == (running.base_url, "tiny-model")
    assert stop() == [running]
    assert status() == []
    assert not list((cache / "server").glob("*.json"))


def test_the_server_gets_the_template_and_patient_threads(model_file: Path) -> None:
    """The file's template is served; keys of other services are not handed on."""
    ensure_running(model_file)
    (running,) = status()
    facts = json.loads(Path(running.log).read_text().split("FACTS ")[1].splitlines()[0])

    assert facts == {"omp": "passive", "template": "{{ messages }}"}
    kept = launch.serve_environment({"OPENAI_API_KEY": "k", "HF_TOKEN": "t", "PATH": "/bin"})
    assert set(kept) == {"PATH", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}


def test_start_serves_the_file_that_is_named(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call from nothing to an endpoint."""
    monkeypatch.setenv("MEM2EVOLVE_MODEL_FILE", str(model_file))

    endpoint = start()

    assert endpoint.model == "tiny-model"
    assert [running.base_url for running in status()] == [endpoint.base_url]


def test_the_commands_start_show_and_end_a_server(model_file: Path) -> None:
    """`serve` prints what a client needs, `status` what runs, `stop` what it ended."""
    runner = CliRunner()
    served = runner.invoke(model, ["serve", "--model-file", str(model_file)])
    (running,) = status()

    assert served.stdout == f"{running.base_url} tiny-model\n"
    shown = runner.invoke(model, ["status", "--json"]).stdout
    assert [entry["pid"] for entry in json.loads(shown)["servers"]] == [running.pid]
    assert f"(process {running.pid}, since " in runner.invoke(model, ["status"]).stdout
    ended = runner.invoke(model, ["stop"]).stdout
    assert ended == f"stopped {running.base_url} (process {running.pid})\n"


def test_callers_at_the_same_time_start_one_server(model_file: Path) -> None:
    """The second waits for the first one's start."""
    found: list[client.Endpoint] = []
    threads = [
        threading.Thread(target=lambda: found.append(ensure_running(model_file))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 3
    assert len(set(found)) == 1
    assert len(status()) == 1


def test_a_killed_server_is_replaced(model_file: Path) -> None:
    """Its state file names a process that is no more."""
    ensure_running(model_file)
    (first,) = status()
    os.kill(first.pid, signal.SIGKILL)
    assert eventually(lambda: not state.is_ours(first))
    assert status() == []

    ensure_running(model_file)
    (second,) = status()
    assert second.instance != first.instance


def test_a_stuck_server_is_replaced(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives and takes connections, but answers nothing."""
    monkeypatch.setattr(state, "HEALTH_SECONDS", 1.0)
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.4)
    monkeypatch.setattr(client, "STOP_SECONDS", 0.4)
    ensure_running(model_file)
    (first,) = status()
    os.kill(first.pid, signal.SIGSTOP)

    ensure_running(model_file)

    (second,) = status()
    assert second.instance != first.instance
    assert not state.is_ours(first)


def test_a_reused_process_id_is_never_signalled(model_file: Path, cache: Path) -> None:
    """A state that points at some other process is stale: it is replaced, or removed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        path = state.state_file(state.server_key(model_file))
        path.parent.mkdir(parents=True)
        state.write_state(path, a_state(pid=bystander.pid))

        assert status() == []
        assert stop() == []
        ensure_running(model_file)
        assert len(status()) == 1
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def test_an_idle_server_ends_itself(model_file: Path, cache: Path) -> None:
    """Requests put it off; then it goes, its state file too."""
    ensure_running(model_file, idle_minutes=2 / 60)
    (running,) = status()

    for _ in range(9):  # more than the idle time in all
        time.sleep(0.25)
        ensure_running(model_file)
    assert status() == [running]
    assert eventually(lambda: not status())
    assert not list((cache / "server").glob("*.json"))


def test_a_server_that_lost_its_state_file_ends(model_file: Path) -> None:
    """Nobody could find it again."""
    ensure_running(model_file, idle_minutes=1 / 60)
    (running,) = status()
    state.state_file(state.server_key(model_file)).unlink()

    assert eventually(lambda: not state.is_ours(running))


def test_a_failed_start_is_told_with_the_log(
    model_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the server's log is in the error, and its path in the hint."""
    monkeypatch.setenv("FAKE_XLLAMACPP", "fail")

    with pytest.raises(ModelUnavailable, match=r"(?s)ended \(1\).*failed to load") as caught:
        ensure_running(model_file)

    assert str(cache) in caught.value.hint
    assert not list((cache / "server").glob("*.json"))


def test_a_start_that_takes_too_long_leaves_no_process(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the limit."""
    monkeypatch.setenv("FAKE_XLLAMACPP", "hang")
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def recording(*args: object, **more: object) -> subprocess.Popen[bytes]:
        started.append(real(*args, **more))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recording)
    with pytest.raises(ModelUnavailable, match=r"not ready after 0\.5 s"):
        ensure_running(model_file, start_seconds=0.5)

    (process,) = started
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_another_port_than_the_running_one_is_refused(model_file: Path) -> None:
    """The message names both."""
    ensure_running(model_file)
    (running,) = status()

    with pytest.raises(ConfigError, match=f"port {running.port} already, not on 1234"):
        ensure_running(model_file, port=1234)
    with pytest.raises(ConfigError, match="served already"):
        run_in_foreground(model_file)


def test_a_replaced_model_file_gets_a_server_of_its_own(model_file: Path) -> None:
    """The key is the file's identity, not only its name."""
    before = state.server_key(model_file)
    os.utime(model_file, (1, 1))

    assert state.server_key(model_file) != before


def test_the_catalogue_model_goes_by_its_catalogue_name(tmp_path: Path) -> None:
    """Any other file goes by its own."""
    official = tmp_path / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    command = launch.serve_command(official, "key", 0, 30, "instance")

    assert command[command.index("--alias") + 1] == "qwen2.5-coder-1.5b-instruct"


def test_without_the_library_the_hint_says_how_to_install_it(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ConfigError, match="xllamacpp") as caught:
        ensure_running(model_file)

    assert 'pip install "mem2evolve[local]"' in caught.value.hint


def test_a_file_that_is_no_model_starts_nothing(tmp_path: Path) -> None:
    """It is refused before a process is made."""
    path = tmp_path / "text.gguf"
    path.write_text("hello")

    with pytest.raises(ModelFileError, match="not a usable GGUF"):
        ensure_running(path)


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_wrong_idle_time_is_refused(text: str) -> None:
    """With the value and the default."""
    with pytest.raises(ConfigError, match=text) as caught:
        launch.idle_from_env({"MEM2EVOLVE_MODEL_IDLE_MINUTES": text})
    assert "30" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"pid": 1}', json.dumps(dataclasses.asdict(a_state(pid=0)))],
)
def test_a_damaged_state_file_is_no_server(cache: Path, content: str) -> None:
    """It is passed over, and `stop` clears it away."""
    path = cache / "server" / "key.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)

    assert state.read_state(path) is None
    assert status() == []
    assert stop() == []
    assert not path.exists()


def test_a_server_of_another_computer_is_left_alone(cache: Path) -> None:
    """Its process id means nothing here."""
    path = cache / "server" / "key.json"
    path.parent.mkdir(parents=True)
    state.write_state(path, a_state(host="elsewhere"))

    assert status() == []
    assert stop() == []
    assert path.exists()


def test_activity_is_what_the_counters_say(tmp_path: Path) -> None:
    """Running requests, new tokens and a touched state file each end idleness."""
    path = tmp_path / "state.json"
    path.write_text("{}")
    activity = serve.Activity(path, 0)
    quiet = "llamacpp:requests_processing 0\nllamacpp:tokens_predicted_total 5\n"

    assert activity.idle_seconds(quiet, 10) == 0
    assert activity.idle_seconds(quiet, 25) == 15
    assert activity.idle_seconds(quiet.replace("processing 0", "processing 1"), 30) == 0
    assert activity.idle_seconds(quiet, 40) == 10
    assert activity.idle_seconds(quiet.replace("5", "6"), 50) == 0
    os.utime(path, (1, 1))
    assert activity.idle_seconds(quiet.replace("5", "6"), 60) == 0
    assert activity.idle_seconds(quiet.replace("5", "6"), 61) == 1


@given(st.text())
def test_no_metrics_text_stops_the_watch(text: str) -> None:
    """Lines that are not understood are passed over."""
    assert all(isinstance(value, float) for value in serve.parse_metrics(text).values())


def test_a_log_that_grows_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that runs for weeks does not fill the disk; what it writes next is at the front."""
    monkeypatch.setattr(serve, "MAX_LOG_BYTES", 10)
    log = tmp_path / "server.log"
    with log.open("ab", buffering=0) as out:
        out.write(b"x" * 10)
        serve._cap(log)
        assert log.stat().st_size == 10
        out.write(b"x")
        serve._cap(log)
        out.write(b"next")
    assert log.read_bytes() == b"next"
