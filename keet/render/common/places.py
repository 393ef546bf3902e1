"""The source lines of a finding as text: which share of the whole effect each line has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.documents.finding import Place
from keet.formatting import share_text

_DECLARED = {"launches": "launched here", "shared arrays": "declared here"}
"""Places that were found in the source text, without a counter."""
_MATTERS = 0.05
"""Smaller shares without a source line are not printed."""


_ENDS = {"waits for data": "the load", "warps that wait for data": "where warps wait for it"}
"""Waits have two lines: that of the load that is waited for, and the one where warps wait."""


def place_shares(places: Sequence[Place]) -> list[str]:
    """For example `41% of all samples`. If a list has both lines of waits, each text says which one
    it is: `the load: 94% of all waits for data`, `where warps wait for it: 72% of all waits for
    data`. Empty if nothing was measured."""
    has_both = {place.of for place in places} >= {*_ENDS}
    return [_share(place, _ENDS.get(place.of) if has_both else None) for place in places]


def _share(place: Place, end: str | None) -> str:
    if place.of in _DECLARED:
        return _DECLARED[place.of]
    if not place.share:  # a line that a model named
        return ""
    if end:
        return f"{end}: {share_text(place.share)} of all waits for data"
    return f"{share_text(place.share)} of all {place.of}"


def unplaced_shares(places: Sequence[Place]) -> Iterator[str]:
    """For example `26% of all samples`: the share without a source line, once per kind of share."""
    for of, share in {place.of: place.unplaced for place in places}.items():
        if share >= _MATTERS:
            yield f"{share_text(share)} of all {of}"
