"""No sandbox: a subprocess with limits. Only where the operator asked for it by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ..errors import SandboxUnavailable
from ._box import Launch
from ._layout import BOOTSTRAP, PYTHON_OPTIONS, interpreter
from ._pool import PooledSandbox
from .base import Finding, Isolation, Report


class UnsafeSubprocess(PooledSandbox):
    """Runs tools with the rights of this process: they can read, write and send what it can.

    Every outcome says `isolation="none"`. Time, CPU time, memory and file size are limited as far
    as the system lets us; the number of processes is not, and one that leaves its session lives on.
    """

    isolation: Isolation = "none"
    keeps_boxes: ClassVar[bool] = False

    async def probe(self) -> Report:
        """Run one call, and say that nothing protects this machine from it."""
        outcome = await self.call("def look() -> bool:\n    return True\n", "look", {})
        works = outcome.status == "ok"
        return Report(
            isolation=self.isolation,
            findings=(
                Finding(
                    name="subprocess",
                    ok=works,
                    detail="a call works" if works else f"a call failed: {outcome.error}",
                ),
                Finding(
                    name="isolation",
                    ok=True,
                    detail="none, as MEM2EVOLVE_SANDBOX=unsafe-subprocess asks: generated code "
                    "has all rights of this process",
                ),
            ),
        )

    def _launch(self, files: Mapping[str, Path], packages: Path | None) -> Launch:
        if files:
            raise SandboxUnavailable(
                "Files cannot be shown to a tool without a sandbox: there is no /data.",
                hint="Unset MEM2EVOLVE_SANDBOX to use bubblewrap.",
            )
        python = (interpreter(), *PYTHON_OPTIONS, str(BOOTSTRAP))
        return Launch(
            command=(*python, "{control}", "unsafe"),
            packages=str(packages or ""),
            explain=_explain,
            own_group=True,
        )


def _explain(said: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The subprocess for generated code could not be started: {said or 'it ended silently'}",
        hint=f"Check that {interpreter()} runs.",
    )
