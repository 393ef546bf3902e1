"""Source lines of a finding in words: what share of the whole effect each has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.findings import Place

_DECLARED = {"launches": "launched here", "shared arrays": "declared here"}
"""Places that were found in the source text: nothing was counted there."""
_MATTERS = 0.05
"""A smaller share without a source line is not worth a row."""


def place_share(place: Place) -> str:
    """`41% of all samples`."""
    return _DECLARED.get(place.of) or f"{place.share:.0%} of all {place.of}"


def unplaced_shares(places: Sequence[Place]) -> Iterator[str]:
    """`26% of all samples`: what has no source line, once for each kind of share."""
    for of, share in {place.of: place.unplaced for place in places}.items():
        if share >= _MATTERS:
            yield f"{share:.0%} of all {of}"
