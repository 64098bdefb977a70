"""The repository's shape: which name each module has, what is installed, and who may import whom."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PYPROJECT: Final[dict[str, Any]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)
SETUPTOOLS: Final = PYPROJECT["tool"]["setuptools"]
FOLDERS: Final[dict[str, str]] = SETUPTOOLS["package-dir"]
"""Package to folder, as `mem2evolve.graph` to `graph`."""
NO_PACKAGES: Final = frozenset({"tests", "typings", "tools_generated", "docs", "examples"})

LAYERS: Final = (
    ("errors", "servers", "settings"),
    ("prompts", "models", "memory", "sandbox"),
    ("nodes",),
    ("graph",),
    ("api", "replay", "tasks"),
    ("agent", "remote", "result"),
    ("cli", "serve", "bench", ""),
)
"""From the bottom to the top; a module imports from its own layer or below. The empty name is `mem2evolve` itself."""
SHARED: Final = ("graph.state", "graph.context")
"""What nodes may import of the graph."""

BOXED: Final = (
    *("sandbox.bootstrap", "sandbox.harness", "sandbox.courier", "sandbox.conversion"),
    "nodes.toolbox.readers.",
)
"""Run inside a box only, where they lie side by side under bare names."""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield name below `mem2evolve` and file of each module that is installed."""
    for package in SETUPTOOLS["packages"]:
        for file in sorted(folder_of(package).glob("*.py")):
            parts = [package, *([file.stem] if file.stem != "__init__" else [])]
            yield ".".join(parts).removeprefix("mem2evolve").removeprefix("."), file


def folder_of(package: str) -> Path:
    """Return the folder of a package, by its nearest parent in `package-dir`."""
    root = max((name for name in FOLDERS if f"{package}.".startswith(f"{name}.")), key=len)
    return ROOT / FOLDERS[root] / package.removeprefix(root).replace(".", "/").lstrip("/")


MODULES: Final = dict(modules())


def imports(name: str, file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of what a module imports of ours, wherever in the file.

    An absolute import of ours is yielded with `!` in front.
    """
    own = name.split(".") if name else []
    package = own if file.stem == "__init__" else own[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{target}.{alias.name}".lstrip(".")
                yield node.lineno, inner if inner in MODULES else target
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = {*FOLDERS.values(), "mem2evolve"}
            yield from ((node.lineno, f"!{one}") for one in found if one.split(".")[0] in ours)


def layer_of(name: str) -> int:
    """Return the number of a module's layer, by the longest name that fits."""
    fits = {
        prefix: number
        for number, layer in enumerate(LAYERS)
        for prefix in layer
        if name == prefix or (prefix and name.startswith(f"{prefix}."))
    }
    assert fits, f"mem2evolve.{name} belongs to no layer"
    return fits[max(fits, key=len)]


@pytest.mark.parametrize("name", MODULES)
def test_dependencies_point_one_way(name: str) -> None:
    """A module imports, relatively, from its own layer or from below; nodes may also read the state."""
    for line, target in imports(name, MODULES[name]):
        where = f"{MODULES[name].relative_to(ROOT)}:{line} imports {target.lstrip('!')!r}"
        assert not target.startswith("!"), f"{where}, which is not a relative import"
        shared = name.startswith("nodes") and target in SHARED
        assert shared or layer_of(target) <= layer_of(name), f"{where}, which is above it"


def test_what_runs_in_a_box_is_not_imported() -> None:
    """The program shows those files to a box; only they import one another."""
    outside = [name for name in MODULES if not name.startswith(BOXED)]
    found = {(name, target) for name in outside for _, target in imports(name, MODULES[name])}

    assert [pair for pair in sorted(found) if pair[1].startswith(BOXED)] == []


@pytest.mark.parametrize("name", SHARED)
def test_what_nodes_share_with_the_graph_stands_alone(name: str) -> None:
    """Else nodes would import, through it, the graph that imports them."""
    assert {target for _, target in imports(name, MODULES[name])} <= {"errors"}


def test_every_package_is_installed() -> None:
    """A package that is missing from the list works in a checkout and is missing from the wheel."""
    tops = {file.parent for file in ROOT.glob("*/__init__.py")}
    tops = {folder for folder in tops if folder.name not in NO_PACKAGES}
    found = {file.parent for top in tops for file in top.rglob("__init__.py")}

    assert found == {folder_of(package) for package in SETUPTOOLS["packages"]}


def test_type_checkers_see_every_module() -> None:
    """`typings/mem2evolve/` shows the folders under the name they are imported by."""
    folders = {folder for folder in FOLDERS.values() if folder != "mem2evolve"}
    own = {
        path.name
        for path in (ROOT / "mem2evolve").iterdir()
        if not path.name.startswith("__pycache__")
    }
    shown = {path.name: path.resolve() for path in (ROOT / "typings" / "mem2evolve").iterdir()}

    assert set(shown) == folders | own
    assert all(path.exists() for path in shown.values())


IMPORT_ALL: Final = """
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
print(*sorted(name for name in sys.modules if name.split(".")[0] in {folders!r}))
"""


def test_no_module_has_a_bare_name() -> None:
    """Even from the repository's root, where `import graph` would work: one file, one module."""
    names = [
        ".".join(["mem2evolve", *([name] if name else [])])
        for name in MODULES
        if not name.endswith("__main__") and not name.startswith(BOXED)
    ]
    folders = {folder for folder in FOLDERS.values() if folder != "mem2evolve"}
    code = IMPORT_ALL.format(names=names, folders=folders)
    done = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")
