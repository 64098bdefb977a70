"""`python -m mem2evolve.cli`."""

from . import main

main()
