"""All attacks and forgeries."""

from typing import Final

from .attack import Attack
from .forgeries import FORGERIES, RIGHT
from .greedy import GREEDY
from .harness import HARNESS
from .inward import INWARD
from .outward import OUTWARD

__all__ = ["ATTACKS", "FORGERIES", "RIGHT"]

ATTACKS: Final[tuple[Attack, ...]] = OUTWARD + INWARD + GREEDY + HARNESS
