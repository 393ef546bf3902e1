"""Checks with `keet verify` whether keet's commands contradict each other; runs commands like a
user."""
