"""Every error this program raises on purpose.

Mem2EvolveError
├── ConfigError              a setting is missing or malformed
├── InputError               the task, or one of its files, cannot be used
├── NotFoundError            no record of that name or id
├── SandboxUnavailable       generated code cannot be run safely here     (transient)
├── StoreError               the memory cannot be opened, read or written
│   ├── StoreUnavailable     no answer from the store                     (transient)
│   ├── StoreBusy            another process holds the memory folder
│   ├── StoreMismatch        made with another embedding model or version
│   └── StoreDamaged         the files on disk cannot be read
├── ModelError               a chat or embedding model cannot be used
│   ├── ModelUnavailable     down, slow, rate-limited, out of quota       (transient)
│   ├── ModelRefused         wrong key, unknown model, bad request
│   ├── ModelReplyError      the reply did not have the agreed shape
│   └── ModelFileError       the embedded model's file is absent or wrong
├── RemoteError              a graph on a server cannot be run
└── BudgetExceeded           the run stops; partial results are kept      (transient)

`ToolFailure` stands apart: it is shown to the model, not to the operator. A *transient*
error says nothing about the task, a tool or a model's skill: no lesson is drawn from it.
"""

from typing import ClassVar


class Mem2EvolveError(RuntimeError):
    """Base of the errors that stop a run.

    A `RuntimeError`, because LangGraph's servers show clients the text of those and hide other types.

    Attributes:
        hint: What the reader can do about it, one line.
        transient: Whether the same call may well succeed later; never learned from.
    """

    transient: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, hint included."""
        return _rebuild, (type(self), str(self), self.hint)


def _rebuild(kind: type[Mem2EvolveError], message: str, hint: str) -> Mem2EvolveError:
    error = kind.__new__(kind)
    Mem2EvolveError.__init__(error, message, hint=hint)
    return error


class ConfigError(Mem2EvolveError):
    """A setting is missing or malformed; the operator must change it."""


class InputError(Mem2EvolveError):
    """The task, or a file given with it, cannot be used. Nothing was run."""


class NotFoundError(Mem2EvolveError):
    """No record of that name or id."""


class SandboxUnavailable(Mem2EvolveError):
    """Generated code cannot be run safely here. It is not the tool's fault."""

    transient = True


class StoreError(Mem2EvolveError):
    """The memory cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """The store did not answer. Nothing was written."""

    transient = True


class StoreBusy(StoreError):
    """Another process holds the memory folder."""


class StoreMismatch(StoreError):
    """The memory was made with another embedding model or by another version."""


class StoreDamaged(StoreError):
    """The memory's files cannot be read. They were left as they are."""


class ModelError(Mem2EvolveError):
    """A chat or embedding model cannot be used."""


class ModelUnavailable(ModelError):
    """Down, slow, rate-limited or out of quota."""

    transient = True


class ModelRefused(ModelError):
    """The provider refused the request: wrong key, unknown model, bad request."""


class ModelReplyError(ModelError):
    """The model answered, but not in the agreed shape, also after a repair."""


class ModelFileError(ModelError):
    """The embedded model's file is absent, incomplete or not the expected one."""


class RemoteError(Mem2EvolveError):
    """A server did not answer, or the run there failed. What was done there is kept there."""


class BudgetExceeded(Mem2EvolveError):
    """A limit of the run is used up. Partial results are kept."""

    transient = True


class ToolFailure(Exception):
    """A tool failed. The text goes back to the model as an observation.

    Attributes:
        tool: Name of the tool.
        reason: What went wrong, in words the model can act on.
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(tool, reason)
        self.tool = tool
        self.reason = reason

    def __str__(self) -> str:
        return f"Tool {self.tool!r} failed: {self.reason}"
