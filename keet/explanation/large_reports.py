"""Chooses the launches of a large report that are explained.

A view prints the kernels by time and a few launches. It needs the explanation of one launch per
kernel and shape, and a few more to compare it with. Explaining 10,000 launches takes a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from keet.profile import Launch
from keet.profile.launch_iteration import MAX_DECODED
from keet.profile.repeated_launches import representative, sorted_by_duration

MOST_EXPLAINED = MAX_DECODED
"""Launches that a view explains at most. Smaller reports are explained completely."""


def launches_to_explain(groups: Sequence[Sequence[Launch]], most: int) -> list[Launch]:
    """At most `most` launches of these groups.

    `groups`: identical launches, the group that takes the most time first. The representative of
    each group comes first; the rest is shared among the groups, for launches of all durations.
    """
    groups = groups[:most]
    counts = fair_shares([len(group) for group in groups], most)
    return [
        launch
        for group, count in zip(groups, counts, strict=True)
        for launch in _of_all_durations(group, count)
    ]


def fair_shares(sizes: Sequence[int], most: int) -> list[int]:
    """How many launches of each group: the same number each; what small groups leave goes to larger
    ones. There are at most `most` groups, so each has at least one."""
    shares, left = [0] * len(sizes), most
    smallest_first = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for done, at in enumerate(smallest_first):
        shares[at] = min(sizes[at], left // (len(sizes) - done))
        left -= shares[at]
    return shares


def _of_all_durations(group: Sequence[Launch], count: int) -> list[Launch]:
    """The representative, the longest, the shortest, and others between them."""
    ranked = sorted_by_duration(group)
    last, steps = len(ranked) - 1, max(count - 2, 1)
    spread = [round(last * step / steps) for step in range(steps)]
    # Some of these may be the same launch: others fill up.
    places = dict.fromkeys(
        [ranked.index(representative(group)), last, *spread, *range(len(ranked))]
    )
    return [ranked[place] for place in islice(places, count)]
