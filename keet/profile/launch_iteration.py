"""Going through all launches of a report without holding all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.profile.launch import Launch
from keet.progress import counted

MAX_DECODED = 400
"""Launches whose decoded numbers are kept, about 60 kB each; of longer sequences none is. All but a
few reports have less."""


def iterate_launches(launches: Sequence[Launch], what: str) -> Iterator[Launch]:
    """Each launch in turn. Of many, each is released when the next one is asked for.

    `what`: the name of the work, for its progress: "reading launches".
    """
    many = len(launches) > MAX_DECODED
    for launch in counted(launches, what):
        yield launch
        if many:
            launch.keep_summary()
            launch.release()
