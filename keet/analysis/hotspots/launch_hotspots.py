"""The rows of `keet hotspots`, one launch at a time: a large report has more than memory holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.hotspots.examined import examined
from keet.analysis.hotspots.source_lines import Grouping, Hotspots, find_hotspots, rows_at
from keet.documents.hotspots import HotspotsLaunch
from keet.profile import Absent, Launch, Location, Profile
from keet.profile.launch_sequences import iterate_launches

FETCHED_AT_ONCE = 200
"""Launches whose machine code is fetched before the first is printed; the code of the others is
fetched when it is first needed."""


def ranked_launches(
    profile: Profile,
    launches: Sequence[Launch],
    by: Grouping | None,
    place: Location | None,
    *,
    has_sass: bool,
) -> Iterator[tuple[Launch, Hotspots | Absent]]:
    """`place`: only the rows of this line."""
    if has_sass:
        profile.prefetch_code(filter(_has_counts, launches[:FETCHED_AT_ONCE]))
    for launch in iterate_launches(launches, "looking for hotspots"):
        spots = find_hotspots(launch, by)
        yield launch, spots if place is None else rows_at(spots, place)


def examined_launches(
    ranked: Iterable[tuple[Launch, Hotspots | Absent]],
    top: int | None,
    place: Location | None,
    *,
    has_sass: bool,
) -> Iterator[HotspotsLaunch]:
    """With source text and machine code for the first `top` rows, and with all about the line
    `place`. The analysis of a launch is dropped after it is used."""
    for launch, spots in ranked:
        rows = examined(launch, spots, has_sass=has_sass, which=slice(top))
        if place is not None:
            from keet.analysis.hotspots.line_facts import with_line

            rows = with_line(rows, place)
        yield rows


def _has_counts(launch: Launch) -> bool:
    """Whether there may be values per instruction; without them no SASS text is needed."""
    return any(launch.find(metric) is not None for metric in ("inst_executed", "samples_total"))
