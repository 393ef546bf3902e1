"""Iterates over all launches of a report without keeping all of them decoded in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.profile.launch import Launch
from keet.progress import counted

MAX_DECODED = 400
"""Launches that may stay decoded, about 60 kB each. Of a longer sequence, each is released after
use. Few reports have more."""


def iterate_launches(launches: Sequence[Launch], what: str) -> Iterator[Launch]:
    """Each launch in turn; in a long sequence, each is released before the next one.

    `what`: text for the progress line, such as "reading launches".
    """
    many = len(launches) > MAX_DECODED
    for launch in counted(launches, what):
        yield launch
        if many:
            launch.keep_summary()
            launch.release()
