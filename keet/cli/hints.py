"""Hints that a user is given once, and not with every run."""

from __future__ import annotations

import sys

from keet.files import cache_folder


def tell_once(name: str, line: str) -> None:
    """Print a hint on a terminal, unless this user has seen it.

    A log or a pipe gets no hint, and it stays unseen. Where nothing can be recorded (a home that is
    read-only), nothing is printed: `keet doctor` says the same.
    """
    if sys.stderr.isatty() and _mark_as_seen(name):
        sys.stderr.write(f"keet: {line}\n")


def _mark_as_seen(name: str) -> bool:
    """Whether this call did it: of processes that run at the same time, one does."""
    try:
        marker = cache_folder() / "hints" / name
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch(exist_ok=False)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return False
    return True
