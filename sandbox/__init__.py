"""Where generated code runs: a box per call, or nothing at all."""

from collections.abc import Collection

from ..settings import SandboxChoice
from .base import (
    Finding,
    Isolation,
    Limits,
    Outcome,
    Packages,
    Problem,
    Report,
    Sandbox,
    Status,
)
from .bubblewrap import BubblewrapSandbox
from .fetching import Fetcher
from .header import read_header
from .packages import Environments
from .screen import normalise, screen
from .signature import docstring_summary, output_schema, signature_schema
from .unsafe import UnsafeSubprocess

__all__ = [
    "BubblewrapSandbox",
    "Environments",
    "Fetcher",
    "Finding",
    "Isolation",
    "Limits",
    "Outcome",
    "Packages",
    "Problem",
    "Report",
    "Sandbox",
    "Status",
    "UnsafeSubprocess",
    "docstring_summary",
    "normalise",
    "open_sandbox",
    "output_schema",
    "read_header",
    "screen",
    "signature_schema",
]


def open_sandbox(choice: SandboxChoice, packages: Collection[str] = ()) -> Sandbox:
    """Return the sandbox of that name. Cheap: nothing is started before the first call.

    Args:
        choice: Which one.
        packages: Names of the packages that tools may declare.
    """
    environments = Environments(allowed=packages)
    if choice == "unsafe-subprocess":
        return UnsafeSubprocess(environments)
    return BubblewrapSandbox(environments)
