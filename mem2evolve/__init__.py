"""mem2evolve: an agent that makes, tests and keeps its own tools, and learns from what it did."""
