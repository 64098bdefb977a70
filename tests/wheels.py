"""Tiny packages, made on the spot."""

import zipfile
from pathlib import Path


def add_wheel(folder: Path, name: str, files: dict[str, str], version: str = "1.0") -> Path:
    """Write a wheel of pure Python."""
    info = f"{name}-{version}.dist-info"
    body = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*body, f"{info}/RECORD"))
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for inner, text in {**body, f"{info}/RECORD": record}.items():
            file.writestr(inner, text)
    return path
