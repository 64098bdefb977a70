"""Where generated code runs: a box per call, or nothing at all."""

from ..settings import SandboxChoice
from .base import Finding, Isolation, Limits, Outcome, Report, Sandbox, Status
from .bubblewrap import BubblewrapSandbox
from .screen import Problem, normalise, screen
from .signature import docstring_summary, output_schema, signature_schema
from .unsafe import UnsafeSubprocess

__all__ = [
    "BubblewrapSandbox",
    "Finding",
    "Isolation",
    "Limits",
    "Outcome",
    "Problem",
    "Report",
    "Sandbox",
    "Status",
    "UnsafeSubprocess",
    "docstring_summary",
    "normalise",
    "open_sandbox",
    "output_schema",
    "screen",
    "signature_schema",
]


def open_sandbox(choice: SandboxChoice) -> Sandbox:
    """Return the sandbox of that name. Cheap: nothing is started before the first call."""
    return UnsafeSubprocess() if choice == "unsafe-subprocess" else BubblewrapSandbox()
