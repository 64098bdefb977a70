"""Drawing inputs with hypothesis, outside a test: the same every time, and without a trace on disk.

Hypothesis' own source of choices mixes in constants that it finds in whatever modules the host program
has loaded, and keeps them in a folder below the working directory. `Choices` does neither.
Importing this module takes as long as importing hypothesis: import it where it is used.
"""

import random
import threading
import warnings
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import HypothesisDeprecationWarning
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

BACKEND: Final = "mem2evolve"
_ONE_AT_A_TIME: Final = threading.Lock()
"""Hypothesis keeps its state in globals: two threads that draw get in each other's way."""
OTHERS_DRAW: Final = "Do not use the `random` module inside strategies"
WIDEST: Final = 1 << 16
"""Stands for a bound that a strategy leaves open."""


class Choices(PrimitiveProvider):
    """A seeded source of choices, by hypothesis' interface for such."""

    lifetime = "test_function"

    def __init__(self, conjecturedata: Any, /) -> None:
        super().__init__(conjecturedata)
        self._random = random.Random(0)  # noqa: S311 - test inputs

    def draw_boolean(self, p: float = 0.5) -> bool:
        """True with this probability."""
        return self._random.random() < p

    def draw_integer(
        self, min_value: int | None = None, max_value: int | None = None, **_: Any
    ) -> int:
        """One from a range."""
        low = min_value if min_value is not None else min(-WIDEST, (max_value or 0) - WIDEST)
        high = max_value if max_value is not None else max(WIDEST, low + WIDEST)
        return self._random.randint(low, high)

    def draw_float(
        self, *, min_value: float = -WIDEST, max_value: float = WIDEST, **_: Any
    ) -> float:
        """One from a range."""
        low, high = max(min_value, -WIDEST), min(max_value, WIDEST)
        return self._random.uniform(low, high)

    def draw_string(self, intervals: Any, *, min_size: int = 0, max_size: int = 8) -> str:
        """One of these characters."""
        size = self._random.randint(min_size, max(min_size, min(max_size, min_size + 8)))
        return "".join(chr(self._random.choice(list(intervals))) for _ in range(size))

    def draw_bytes(self, min_size: int = 0, max_size: int = 8) -> bytes:
        """Some."""
        return self._random.randbytes(max(min_size, min(max_size, 8)))


def examples(strategy: SearchStrategy[T], number: int) -> list[T]:
    """Return what the strategy gives in `number` tries, repeats included; always the same."""
    AVAILABLE_PROVIDERS.setdefault(BACKEND, Choices)
    found: list[T] = []

    @settings(
        max_examples=number,
        backend=BACKEND,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    with _ONE_AT_A_TIME:
        # Said of us whenever another thread draws a random number meanwhile.
        warnings.filterwarnings("ignore", OTHERS_DRAW, HypothesisDeprecationWarning)
        collect()
    return found
