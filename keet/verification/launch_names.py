"""The launches that a sentence names, by number or by kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.profile import Launch

_LAUNCH = re.compile(r"\b[Ll]aunch\s+#?(\d+)\b|(?<![\w&])#(\d+)\b")


class LaunchName(NamedTuple):
    """Launches that a sentence speaks of: several where one kernel ran several times."""

    start: int
    end: int
    launches: tuple[Launch, ...]


def find_launches(text: str, launches: Sequence[Launch]) -> list[LaunchName]:
    """Launches by number, and by the name of their kernel."""
    by_number: dict[int, tuple[Launch, ...]] = {}
    for launch in launches:  # those of two reports have the same numbers
        by_number[launch.id] = (*by_number.get(launch.id, ()), launch)
    found = [
        LaunchName(m.start(), m.end(), by_number[number])
        for m in _LAUNCH.finditer(text)
        if (number := int(m[1] or m[2])) in by_number
    ]
    for name, owners in _kernels(tuple(launches)).items():
        found += [
            LaunchName(m.start(), m.end(), owners)
            for m in re.finditer(rf"(?<![\w:]){re.escape(name)}(?!\w)", text)
            if not any(other.start <= m.start() < other.end for other in found)
        ]
    return sorted(found, key=lambda name: name.start)


@lru_cache(maxsize=4)
def _kernels(launches: tuple[Launch, ...]) -> dict[str, tuple[Launch, ...]]:
    """Names to launches, the longest first: `transpose_tiles` is part of others."""
    owners: dict[str, tuple[Launch, ...]] = {}
    for launch in launches:
        name = launch.name
        bare = name.short.split("<")[0]
        for form in {name.short, name.full, name.function, name.mangled, bare}:
            # A kernel called `add` or `kernel` is a word like any other.
            if len(form) > 3 and (not form.isalpha() or len(form) > 7):
                owners[form] = (*owners.get(form, ()), launch)
    return dict(sorted(owners.items(), key=lambda item: -len(item[0])))
