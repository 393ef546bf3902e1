"""Launches by the time that they took: the definition of "longest" for all commands.

Ties keep the order of the report. A launch without a known duration counts as 0; of two such
launches, the one with more GPU cycles comes first. With a run table,
`Profile.by_run_time` sorts by the time in the run instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from keet.profile.launch import Launch


def longest_first(launches: Iterable[Launch]) -> list[Launch]:
    return sorted(launches, key=_descending_time)


def longest(launches: Iterable[Launch]) -> Launch:
    """The launch that takes the most time; the first one if no time is known."""
    return min(launches, key=_descending_time)


def _descending_time(launch: Launch) -> tuple[float, float]:
    return -launch.rank_time, -launch.rank_cycles
