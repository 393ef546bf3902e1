"""Finds the child processes of a process: programs start others, and ncu consists of several."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_OF_NCU = ("ncu", "TreeLauncherSub")
"""Names of the processes that ncu itself consists of, as the kernel cuts them."""


def descendants(process: int) -> list[int]:
    """Children, their children, and so on; empty if the system has no /proc."""
    return [number for number, chain in _chains().items() if process in chain]


def programs_below(ncu: int) -> list[int]:
    """What ncu started for the program, the program's own children among them."""
    names = _names()
    below: list[int] = []
    for number, chain in _chains().items():
        if ncu not in chain:
            continue
        inner = [number, *chain[: chain.index(ncu)]]
        if any(names.get(each) not in _OF_NCU for each in inner):
            below.append(number)
    return below


def _names() -> dict[int, str]:
    return {number: name for number, (name, _) in _processes().items()}


def _chains() -> dict[int, list[int]]:
    """Of each process its parent, the parent's parent, and so on."""
    parents = {number: parent for number, (_, parent) in _processes().items()}
    chains: dict[int, list[int]] = {}
    for number in parents:
        chain: list[int] = []
        while (parent := parents.get(chain[-1] if chain else number)) and parent not in chain:
            chain.append(parent)
        chains[number] = chain
    return chains


def _processes() -> dict[int, tuple[str, int]]:
    """Name and parent of each, from /proc."""
    found: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            head, _, rest = entry.read_text(errors="replace").rpartition(")")
            number, _, name = head.partition(" (")
            found[int(number)] = (name, int(rest.split()[1]))
    return found
