"""Checks whether keet contradicts itself: `keet verify` reads what the other commands print."""
