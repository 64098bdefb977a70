"""Packages of tools: read from the header, made into an environment outside the box, shown read-only in it."""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mem2evolve.errors import SandboxUnavailable
from mem2evolve.sandbox import BubblewrapSandbox, Environments, Outcome, UnsafeSubprocess, screen
from mem2evolve.sandbox._uv import pip_options, uv_environment
from mem2evolve.sandbox.header import Header, asked, header_text, package_name, read_header
from mem2evolve.sandbox.packages import FOLDER, MARKER, key_of

from ..wheels import add_wheel

ALLOWED: Final = ("tiny-sums", "other", "only-source", "missing")
FIRST: Final = ("tiny-sums",)


def header(*dependencies: str) -> str:
    """A PEP 723 header."""
    return f"# /// script\n# dependencies = {json.dumps(dependencies)}\n# ///\n"


USES: Final = (
    header("tiny-sums") + "from tiny_sums import add\ndef f(a, b):\n    return add(a, b)\n"
)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all the world's packages."""
    folder = tmp_path / "wheels"
    add_wheel(folder, "tiny_sums", {"tiny_sums/__init__.py": "def add(a, b):\n    return a + b\n"})
    add_wheel(folder, "other", {"other_name.py": "WHO = 'other'\n", "json.py": "WHO = 'a thief'\n"})
    for variable in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


@pytest.fixture
def environments(wheels: Path, tmp_path: Path) -> Environments:
    """None made yet."""
    return Environments(allowed=ALLOWED, root=tmp_path / "environments")


@pytest.fixture
async def packed(environments: Environments) -> AsyncIterator[BubblewrapSandbox]:
    """A box whose tools may use them."""
    made = BubblewrapSandbox(environments)
    yield made
    await made.close()


async def f(box: BubblewrapSandbox, source: str, **args: object) -> Outcome:
    """Call `f` of a source."""
    return await box.call(source, "f", args)


# The header


def test_a_header_is_read() -> None:
    """Names in one spelling, in order, each once."""
    source = header("Tiny_Sums >= 1, < 2", "other", "other") + "x = 1\n"
    assert read_header(source, ALLOWED) == Header(("other", "tiny-sums<2,>=1"))
    assert read_header("x = 1\n", ()) == Header()
    assert read_header("# /// script\n# requires-python = '>=3.11'\n# ///\n", ()) == Header()


@pytest.mark.parametrize(
    "name",
    [
        "../x", "/x", "./x.whl", "x.whl/", "x @ http://127.0.0.1/x.whl", "x@http://h", "-r file", "--index-url=x",
        "-e .", "x[extra]", "x; python_version > '3'", "x --no-deps", "x\\n--pre", "git+https://h/x", "", " ",
        "x=1", "x===1", "x>=1 --hash", "x>=$HOME", "é", "file:x", "x,y",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    """Also where everything is allowed: no address, path, option or extra comes to uv."""
    found = read_header(header("other", name), {"other", "x", name})
    assert found.dependencies == ()
    assert found.problems[0].line in {1, 2}  # the header's, where the text is written with escapes
    assert "is no package" in found.problems[0].reason


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("x = 1\n# /// script\n# dependencies = []\n", 2, "has no end"),
        ("# /// script\n# a = 1\nb = 2\n# ///\n", 3, "each line begins"),
        ("# /// script\n# a = 1\n#b = 2\n# ///\n", 3, "each line begins"),
        ("# /// script\n# a = 1\n# b = \n# ///\n", 3, "not TOML"),
        ("# /// script\n# dependencies = 'other'\n# ///\n", 1, "no list of texts"),
        ("# /// script\n# dependencies = [1]\n# ///\n", 1, "no list of texts"),
        (header("other") + header("other"), 4, "second script header"),
        (header(*(f"p{n}" for n in range(21))), 1, "At most 20"),
        (header("other", "numpy"), 2, "'numpy' may not be used: allowed are missing, only-source"),
    ],
)
def test_a_malformed_header_is_a_problem_with_its_line(source: str, line: int, reason: str) -> None:
    """Told by the screen like any other."""
    problem = next(p for p in screen(source, packages=ALLOWED) if reason in p.reason)
    assert problem.line == line


def rights(*permissions: str, more: str = "") -> str:
    """A header that asks for permissions."""
    return f"# /// script\n# [tool.mem2evolve]\n# permissions = {json.dumps(permissions)}\n{more}# ///\n"


def test_permissions_are_read() -> None:
    """In one spelling, with the writer's reason; `asked` names them with the packages, each with its line."""
    source = rights(
        "network:API.example.org:8080", "files", "files", more="# why = 'the\\trates'\n"
    )
    found = read_header(source.replace("\\t", " "), ())
    assert found == Header((), ("files", "network:api.example.org:8080"), "the rates")
    both = '# /// script\n# dependencies = ["Tiny_Sums>1"]\n' + rights("files").split("\n", 1)[1]
    assert asked(both) == {"package:tiny-sums": 2, "files": 4}


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ("network:", "names no host"), ("network:http://h.org", "names no host"), ("network:h.org/x", "names no host"),
        ("network:*.org", "names no host"), ("network:u@h.org", "names no host"), ("network:h.org:", "names no host"),
        ("network:-h.org", "names no host"), ("network:[::1]", "names no host"), ("network:a..b", "names no host"),
        ("network:" + "a" * 254, "names no host"), ("network:h.org h2.org", "names no host"),
        ("package:numpy", "belongs into dependencies"), ("sudo", "is no permission"),
        ("files:/etc", "is no permission"),
    ],
)  # fmt: skip
def test_what_is_no_permission_is_a_problem_with_its_line(wanted: str, word: str) -> None:
    """Then the header declares nothing."""
    found = read_header("x = 1\n" + rights("files", wanted), ())
    assert (found.permissions, found.problems[0].line) == ((), 4)
    assert word in found.problems[0].reason
    assert asked("x = 1\n" + rights("files", wanted)) == {}


def test_a_permission_that_was_not_given_is_a_problem() -> None:
    """Told by the screen, with its line; a permission that was given is none, and opens what it is for."""
    source = rights("files", "network:h.org") + (
        'def f(a: str) -> str:\n    """Read.\n\n    Args:\n        a: It.\n    """\n'
        "    return open(a).read() + fetch(a)\n"
    )
    problems = screen(source, permissions=["files"])
    assert [problem.line for problem in problems] == [3, 11]
    assert "'network:h.org' was not given" in problems[0].reason
    assert screen(source, permissions=["files", "network:h.org"]) == []
    assert (
        "has 'perm'"
        in read_header("# /// script\n# [tool.mem2evolve]\n# perm = 1\n# ///\n", ())
        .problems[0]
        .reason
    )


def test_a_header_is_cut_out_whole() -> None:
    """For code that is made from a source: without it that would have no packages."""
    assert header_text("x = 1\n" + header("other") + "y = 2\n") == header("other")
    assert header_text("x = 1\n# /// script\n") == header_text("x = 1\n") == ""


async def test_a_grant_is_for_its_source(environments: Environments) -> None:
    """A package off the list is there for the call that says so, and for no other."""
    box = BubblewrapSandbox(Environments(allowed=["other"], root=environments.root))
    granted = await box.call(USES, "f", {"a": 1, "b": 2}, allowed=["tiny-sums"])
    assert granted.value == 3
    assert (await box.provide(USES, ["tiny-sums"])).modules == ("tiny_sums",)
    assert (await f(box, USES, a=1, b=2)).status == "no_packages"
    await box.close()


def test_without_a_list_no_package_is_allowed() -> None:
    """The screen says which setting would."""
    reasons = [problem.reason for problem in screen(USES)]
    assert any("none is allowed (the setting MEM2EVOLVE_PACKAGES)" in reason for reason in reasons)


@given(st.text())
def test_any_text_after_the_opening_is_read_without_raising(text: str) -> None:
    """It is dependencies or problems, never both, and what passes is a plain requirement."""
    found = read_header(f"# /// script\n# dependencies = [{text!r}]\n# ///\n", {"other", text})
    assert not (found.dependencies and found.problems)
    for dependency in found.dependencies:
        assert dependency[0].isalnum()
        assert not set(dependency) & set("@/:;[]() \n$\\")


def test_names_have_one_spelling() -> None:
    """As indexes compare them."""
    assert package_name("Tiny__Sums.x") == "tiny-sums-x"
    with pytest.raises(ValueError, match="not the name"):
        package_name("-r")


# The environment


async def test_a_tool_uses_its_package(packed: BubblewrapSandbox) -> None:
    """In a box of its own, in one that waits, and again."""
    assert (await f(packed, USES, a=2, b=3)).value == 5
    assert (await f(packed, USES, a=2, b=4)).value == 6
    assert (await packed.call(USES, "f", {"a": 1, "b": 1}, fresh=True)).value == 2


async def test_it_works_without_a_box_too(environments: Environments) -> None:
    """Where the operator wants none."""
    bare = UnsafeSubprocess(environments)
    outcome = await bare.call(USES, "f", {"a": 2, "b": 3})
    await bare.close()
    assert (outcome.value, outcome.isolation) == (5, "none")


async def test_a_tool_without_a_header_sees_no_package(packed: BubblewrapSandbox) -> None:
    """Also when there is an environment for others."""
    await f(packed, USES, a=2, b=3)
    outcome = await f(packed, "def f():\n    import tiny_sums\n")
    assert outcome.error_type == "ModuleNotFoundError"


async def test_a_package_does_not_take_the_standard_library_s_place(
    packed: BubblewrapSandbox,
) -> None:
    """Its module `json` is never imported, nor allowed by the screen."""
    source = (
        header("other")
        + "import json, other_name\ndef f():\n    return [json.dumps(1), other_name.WHO]\n"
    )
    assert (await f(packed, source)).value == ["1", "other"]
    assert (await packed.provide(source)).modules == ("other_name",)


ATTACK: Final = (
    header("tiny-sums")
    + '''
def f(how: int) -> str:
    """Change the package for those who come after."""
    import os, tiny_sums
    place = tiny_sums.__file__
    folder = os.path.dirname(place)
    try:
        if how == 0:
            open(place, "w").write("def add(a, b): return 666")
        elif how == 1:
            open(folder + "/new.py", "w").close()
        elif how == 2:
            os.remove(place)
        elif how == 3:
            os.rename(folder, folder + "2")
        elif how == 4:
            os.chmod(place, 0o777)
        elif how == 5:
            os.symlink("/etc/passwd", "/packages/link")
        elif how == 6:
            os.utime(place)
        elif how == 7:
            os.remove("/packages/../environment.json")
        elif how == 8:
            tiny_sums.add = lambda a, b: 666
            return "patched"
    except OSError as exc:
        return type(exc).__name__
    return "done"
'''
)


def marks(folder: Path) -> list[tuple[str, int, int]]:
    """What would show that something in the environments was changed."""
    seen = ((path, path.lstat()) for path in folder.rglob("environments/*/packages/**/*"))
    return sorted((str(path), stat.st_mtime_ns, stat.st_mode) for path, stat in seen)


async def test_a_tool_cannot_change_its_packages(packed: BubblewrapSandbox, tmp_path: Path) -> None:
    """Not by writing, making, deleting, renaming, changing rights or times, nor for the next call."""
    await f(packed, USES, a=2, b=3)
    before = marks(tmp_path)
    told = [(await f(packed, ATTACK, how=how)).value for how in range(9)]
    # To set times is allowed for show: it changes nothing, anywhere.
    assert told == ["OSError"] * 6 + ["done", "OSError", "patched"]
    assert marks(tmp_path) == before
    assert (await f(packed, USES, a=2, b=3)).value == 5


async def test_no_package_runs_in_process_1(packed: BubblewrapSandbox, wheels: Path) -> None:
    """It is imported by the child that waits for the call, under its filter and limits."""
    add_wheel(
        wheels,
        "tiny_sums",
        {"tiny_sums.py": "import os\nPID, BOX = os.getpid(), os.getppid()\n"},
        "2.0",
    )
    source = header("tiny-sums>=2") + (
        "import os, tiny_sums\ndef f():\n    return [tiny_sums.PID == os.getpid(), tiny_sums.BOX]\n"
    )
    assert [(await f(packed, source)).value for _ in range(2)] == [[True, 1]] * 2


@pytest.mark.parametrize("damage", ["edit", "delete", "add", "marker", "unmark", "link"])
async def test_a_damaged_environment_is_made_anew(
    environments: Environments, tmp_path: Path, damage: str
) -> None:
    """By the next process that uses it."""
    first = await asyncio.to_thread(environments.get, FIRST)
    module = first.folder / "tiny_sums" / "__init__.py"
    marker = first.folder.parent / MARKER
    match damage:
        case "edit":
            module.write_text("def add(a, b):\n    return 666\n")
        case "delete":
            module.unlink()
        case "add":
            (first.folder / "surprise.py").write_text("")
        case "marker":
            marker.write_text(marker.read_text()[:-5])
        case "unmark":
            marker.unlink()
        case "link":
            (first.folder / "out").symlink_to("/etc/passwd")
    later = BubblewrapSandbox(Environments(allowed=ALLOWED, root=environments.root))
    assert (await f(later, USES, a=2, b=3)).value == 5
    await later.close()
    assert sorted(p.name for p in first.folder.iterdir()) == [
        "tiny_sums",
        "tiny_sums-1.0.dist-info",
    ]


async def test_an_environment_made_anew_is_another_box(packed: BubblewrapSandbox) -> None:
    """A box that waits shows the old one."""
    await f(packed, USES, a=2, b=3)
    first = await asyncio.to_thread(packed._environments.get, FIRST)
    (first.folder.parent / MARKER).unlink()
    second = await asyncio.to_thread(packed._environments.get, FIRST)
    assert second.mark != first.mark
    assert (await f(packed, USES, a=2, b=3)).value == 5


def slow_install(dependencies: Sequence[str], folder: Path) -> None:
    """Say on disk that it was run, and take a while."""
    (folder.parent.parent / f"made-by-{os.getpid()}").touch()
    time.sleep(0.5)
    (folder / "tiny_sums.py").write_text("")


def make(root: Path) -> None:
    """What each of several processes does."""
    Environments(allowed=ALLOWED, root=root, install=slow_install).get(FIRST)


def test_two_processes_make_one(tmp_path: Path) -> None:
    """The second waits for the first and uses its."""
    root = tmp_path / "environments"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=make, args=(root,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(list(root.glob("made-by-*"))) == 1
    assert (root / key_of(FIRST) / FOLDER / "tiny_sums.py").is_file()


async def test_two_calls_make_one(packed: BubblewrapSandbox) -> None:
    """Also within a process."""
    outcomes = await asyncio.gather(*(f(packed, USES, a=n, b=1) for n in range(3)))
    assert [outcome.value for outcome in outcomes] == [1, 2, 3]


def test_a_killed_making_leaves_nothing_that_is_used(environments: Environments) -> None:
    """What lies beside is not looked at, and deleted after a day."""
    assert environments.root is not None
    half = environments.root / f".{key_of(FIRST)}-12345678"
    (half / FOLDER).mkdir(parents=True)
    os.utime(half, (1, 1))
    assert environments.get(FIRST).modules == ("tiny_sums",)
    environments.prune()
    assert not half.exists()


def test_what_is_not_used_goes(environments: Environments) -> None:
    """By the time of its last use, not of its making."""
    old, used = environments.get(FIRST), environments.get(("other",))
    for one in (old, used):
        os.utime(one.folder.parent / MARKER, (1, 1))
    environments.get(("other",))
    assert environments.prune(max_age_days=30) == 1
    assert (old.folder.exists(), used.folder.exists()) == (False, True)


async def test_a_source_is_never_built(
    packed: BubblewrapSandbox, wheels: Path, tmp_path: Path
) -> None:
    """A package without a wheel cannot be had: building it would run its code outside of a box."""
    import tarfile  # noqa: PLC0415

    source = tmp_path / "only_source-1.0"
    source.mkdir()
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: only-source\nVersion: 1.0\n")
    (source / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with tarfile.open(wheels / "only_source-1.0.tar.gz", "w:gz") as file:
        file.add(source, source.name)
    found = await packed.provide(header("only-source"))
    assert "package only-source cannot be installed" in found.problems[0].reason
    assert not (tmp_path / "ran").exists()


async def test_what_does_not_exist_is_told(packed: BubblewrapSandbox) -> None:
    """To whoever wrote the tool, and nothing is run."""
    found = await packed.provide("x = 1\n" + header("missing"))
    assert found.problems[0].line == 2
    assert "package missing cannot be installed" in found.problems[0].reason
    outcome = await f(packed, header("missing") + "def f():\n    return 1\n")
    assert (outcome.status, outcome.value) == ("no_packages", None)
    assert "cannot be installed" in outcome.error


async def test_what_is_not_allowed_is_not_fetched(environments: Environments) -> None:
    """Also for a tool from memory, which no screen has seen under this list."""
    box = BubblewrapSandbox(Environments(allowed=["other"], root=environments.root))
    outcome = await f(box, USES, a=1, b=2)
    assert outcome.status == "no_packages"
    assert "MEM2EVOLVE_PACKAGES" in outcome.error
    assert environments.root is not None
    assert not environments.root.exists()


async def test_an_index_that_is_down_is_nobody_s_fault(
    packed: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error passes: nothing is learned from it."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(SandboxUnavailable, match="missing could not be fetched") as caught:
        await f(packed, header("missing") + "def f():\n    return 1\n")
    assert caught.value.transient
    assert "Check the network" in caught.value.hint


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(SandboxUnavailable, match="tiny-sums cannot be kept") as caught:
        Environments(allowed=ALLOWED, root=tmp_path / "file").get(FIRST)
    assert "MEM2EVOLVE_CACHE" in caught.value.hint


def test_uv_is_told_what_pip_is_told(tmp_path: Path) -> None:
    """From pip's files and variables; uv's own variables win, and none of them allows a build."""
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://one.test/simple\nextra-index-url = https://two.test/s\n"
        "  https://three.test/s\nfind-links = /a /b\n[install]\ncert = /file.pem\n"
    )
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": str(config)}
    told = uv_environment(plain, pip_options(plain))
    assert told["UV_DEFAULT_INDEX"] == "https://one.test/simple"
    assert told["UV_INDEX"] == "https://two.test/s https://three.test/s"
    assert told["UV_FIND_LINKS"] == "/a,/b"
    assert told["SSL_CERT_FILE"] == "/file.pem"
    assert (
        pip_options({**plain, "PIP_INDEX_URL": "https://v.test"})["index-url"] == "https://v.test"
    )
    own = {**plain, "UV_DEFAULT_INDEX": "https://own.test", "UV_NO_BINARY": "1"}
    assert uv_environment(own, pip_options(own))["UV_DEFAULT_INDEX"] == "https://own.test"
    assert "UV_NO_BINARY" not in uv_environment(own, pip_options(own))
