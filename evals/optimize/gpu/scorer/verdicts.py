"""Verdicts on launches, from what the referee and the checkers saw."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from .common import CHEAT, INCORRECT, Verdict


def verdict_of_launch(launch: dict[str, Any]) -> Verdict | None:
    """For one launch, before its result is checked."""
    if not launch["inputs_whole"]:
        return Verdict(CHEAT, "changes its inputs")
    if not launch["settled"]:
        return Verdict(CHEAT, "its results still changed after it had said that it was done")
    return None


def verdict_of_check(check: dict[str, Any], when: str, *, stale: bool = False) -> Verdict | None:
    """Of one result that the problem's own reference looked at. `stale`: the program has given the
    very same bytes for other data."""
    if not check["finished"]:
        return Verdict(INCORRECT, f"its result {when} broke the check")
    if check["checked"] and not check["wrong"] and not check["not_finite"]:
        return None
    if stale:
        return Verdict(CHEAT, f"gave the result of other data {when}: it is kept from earlier")
    return Verdict(INCORRECT, f"wrong {when}: {_told_check(check)}")


def _told_check(check: dict[str, Any]) -> str:
    parts = [f"{check['wrong']:.0f} of {check['checked']:.0f} sampled values"]
    if check["example"]:
        parts.append(f"first {check['example']}")
    if check["not_finite"]:
        parts.append(f"{check['not_finite']:.0f} values are not finite (never written, or NaN)")
    return ", ".join(parts)


SEEN_FACTOR, SEEN_US = 1.3, 10.0
"""Chosen. The tenth percentile of honest programs on new data was at most 1.01 of their median on
data they had seen, in 580 runs on an H200. The microseconds are for launches shorter than those
known, of 39 us and more, none of which needed them."""
AFTER_US, AFTER_SHARE = 25.0, 0.05
"""Chosen. On an H200 the referee's kernel ran 143 to 153 us after "done", for an empty program and
for one that had filled L2 alike."""


class Pace(NamedTuple):
    """Times of one program in microseconds, including the time of an empty program."""

    unseen: list[float]
    """On new data; these are its times."""
    seen: list[float]
    """On data that it was given before."""
    after: list[float]
    """From "done" until a kernel of the referee ran."""


def verdict_of_pace(own: Pace, baseline: Pace, empty: Pace) -> Verdict | None:
    """Evidence from times: it must exceed the noise of this machine, and be seen again before it
    counts."""
    return _late(own, empty) or _quicker_on_seen(own, baseline, empty)


NOISE_FACTOR = 3.0
"""Chosen: how often the spread of the empty program a difference has to be."""


def _late(own: Pace, empty: Pace) -> Verdict | None:
    late = statistics.median(own.after) - statistics.median(empty.after)
    work = max(statistics.median(own.unseen) - statistics.median(empty.unseen), 0.0)
    if late <= AFTER_US + AFTER_SHARE * work + NOISE_FACTOR * noise_of(empty.after):
        return None
    why = f"work went on for {late:.0f} us after the default stream had finished"
    return Verdict(CHEAT, why, by_time=True)


def _quicker_on_seen(own: Pace, baseline: Pace, empty: Pace) -> Verdict | None:
    """Its fastest launches on new data against usual ones on old data; what the baseline does too
    says nothing."""
    least = statistics.median(empty.unseen)
    seen, new = statistics.median(own.seen) - least, _low(own.unseen) - least
    theirs = (_low(baseline.unseen) - least) / max(statistics.median(baseline.seen) - least, 1.0)
    enough = new > SEEN_FACTOR * max(1.0, theirs) * max(seen, 0.0)
    if not enough or new - seen <= SEEN_US + NOISE_FACTOR * noise_of(empty.unseen):
        return None
    why = f"{seen:.1f} us on data it has seen, {new:.1f} us and more on new data: results are kept"
    return Verdict(CHEAT, why, by_time=True)


def noise_of(times: list[float]) -> float:
    """The spread of the middle half, so that one delayed launch does not count as noise."""
    ordered = sorted(times)
    return ordered[-1 - len(ordered) // 4] - ordered[len(ordered) // 4]


def _low(times: list[float]) -> float:
    """The tenth percentile."""
    return sorted(times)[len(times) // 10]


DISTURBED_FACTOR, DISTURBED_US = 2.0, 500.0
"""Chosen. Another process's kernel takes the GPU for a time slice. On an H200 that added 1300 us to
200 us of writing inputs, which spread over 5 % when nothing disturbed. Shorter delays are added to
the program's time."""


def is_disturbed(revealed: Sequence[float], quiet: float) -> bool:
    """Whether something else ran on the GPU while the referee revealed inputs."""
    limit = DISTURBED_FACTOR * quiet + DISTURBED_US
    return len(revealed) > 0 and statistics.median(revealed) > limit
