"""Hints that are printed once per user."""

from __future__ import annotations

import sys

from keet.files import cache_folder


def tell_once(name: str, line: str) -> None:
    """Print a hint on a terminal, unless this user has seen it.

    Logs and pipes get no hint. If it can't be recorded that the hint was seen (a read-only home),
    it is not printed; `keet doctor` prints the same information.
    """
    if sys.stderr.isatty() and _mark_as_seen(name):
        sys.stderr.write(f"keet: {line}\n")


def _mark_as_seen(name: str) -> bool:
    """Whether this call marked it; True in only one of several concurrent processes."""
    try:
        marker = cache_folder() / "hints" / name
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch(exist_ok=False)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return False
    return True
