"""Bundles: a memory, or a part of one, as one file that may come from anybody. See `docs/design/memory.md`."""
