"""The tree of errors: what each one carries, and that it survives between processes."""

import copy
import pickle

import pytest

from mem2evolve import errors
from mem2evolve.errors import Mem2EvolveError, ToolFailure

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Mem2EvolveError)
]
TRANSIENT = {"SandboxUnavailable", "StoreUnavailable", "ModelUnavailable", "BudgetExceeded"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_pickles_with_its_hint(kind: type[Mem2EvolveError]) -> None:
    """Type, message and hint arrive in another process, and in a copy."""
    error = kind("Model 'x' is down.", hint="Start it.")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin), twin.hint) == (kind, "Model 'x' is down.", "Start it.")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_passing_trouble_is_transient(kind: type[Mem2EvolveError]) -> None:
    """No lesson is drawn from these, and from all the others one may be."""
    assert kind.transient is (kind.__name__ in TRANSIENT)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_drawn_tree_names_it(kind: type[Mem2EvolveError]) -> None:
    """The docstring shows every error, and says which ones are transient."""
    [line] = (
        [line for line in (errors.__doc__ or "").splitlines() if kind.__name__ in line.split()[:3]]
        if kind is not Mem2EvolveError
        else ["Mem2EvolveError"]
    )
    assert ("(transient)" in line) is kind.transient


def test_a_hint_is_demanded() -> None:
    """An error that says nothing about what to do cannot be made."""
    with pytest.raises(TypeError, match="hint"):
        Mem2EvolveError("It failed.")  # type: ignore[call-arg]


def test_a_tool_failure_is_for_the_model() -> None:
    """It stops no run, is no `Mem2EvolveError`, and pickles as well."""
    failure = pickle.loads(pickle.dumps(ToolFailure("add", "a is no number")))
    assert str(failure) == "Tool 'add' failed: a is no number"
    assert (failure.tool, failure.reason) == ("add", "a is no number")
    assert not isinstance(failure, Mem2EvolveError)
