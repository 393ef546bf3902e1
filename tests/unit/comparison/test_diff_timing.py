"""How much faster, and what chance makes of it."""

from __future__ import annotations

import math
import random

import pytest
from compared import DURATION, MIRRORED, Kernel, difference, made, pipeline, side
from hypothesis import given
from hypothesis import strategies as st

from keet.comparison.pairs import Pairing, pair_groups
from keet.comparison.same_kernel import Side, groups_of
from keet.comparison.timing.pair_timing import Timing, time_pair, total_timing
from tests.rows import each_row

_CAPTURES, _SHORT_NS = 0.025, 400.0
_SAME, _SAME_NS = 0.007, 250.0
"""What two captures of one program differ by, of two sessions and of one (docs/diff.md)."""


def _timed(before: Side, after: Side, doubt: float = 0.0) -> Timing:
    (pairing,) = pair_groups(*(groups_of(each.first.launches) for each in (before, after)))
    return time_pair(pairing, before, after, doubt)


def _runs(*times: float, days_apart: int = 0, hour: int = 8) -> Side:
    profiles = [
        made(Kernel("k", ns), created=f"2026-11-{1 + days_apart * n:02}T{hour:02}:00:00+00:00")
        for n, ns in enumerate(times)
    ]
    return side(*profiles)


@each_row(
    ("ns", "runs", "days_apart"),
    [(2e3, 1, 0), (2e3, 5, 2), (2e4, 3, 0), (2e4, 3, 2), (2e6, 1, 2), (2e6, 5, 0)],
)
@pytest.mark.slow
def test_chance_is_rarely_called_a_difference(ns: float, runs: int, days_apart: int) -> None:
    """1 in 20 is what two standard deviations promise."""
    draw = random.Random(f"{ns} {runs}")
    every = math.hypot(_CAPTURES, _SHORT_NS / ns) / math.sqrt(2)
    within = math.hypot(_SAME, _SAME_NS / ns) / math.sqrt(2)
    between = math.sqrt(every**2 - within**2)

    def captured(hour: int) -> Side:
        session = draw.gauss(0, between)
        times = []
        for _ in range(runs):
            session = draw.gauss(0, between) if days_apart else session
            times.append(ns * math.exp(session + draw.gauss(0, within)))
        return _runs(*times, days_apart=days_apart, hour=hour)

    words = [_timed(captured(8), captured(14)).word for _ in range(600)]
    false = sum(word in ("faster", "slower") for word in words) / len(words)
    assert 0.005 < false <= 0.075


@pytest.mark.parametrize("ns", [3_000.0, 300_000.0])
def test_noise_falls_with_more_runs(ns: float) -> None:
    def noises(days_apart: int) -> list[float]:
        counts = ([ns] * n for n in (1, 2, 3, 5, 10))
        sides = ([_runs(*c, days_apart=days_apart, hour=h) for h in (8, 14)] for c in counts)
        return [_timed(*each).noise for each in sides]

    for days_apart in (0, 2):
        found = noises(days_apart)
        assert found == sorted(found, reverse=True)
    assert noises(2)[0] > 2 * noises(2)[-1] > 0
    assert noises(0)[-1] > 0.045  # sessions differ, however often one profiles in one of them


def _at_minutes(minutes: range, ns: float = 1e6) -> Side:
    return side(*(made(Kernel("k", ns), created=f"2026-11-01T08:{n:02}:00+00:00") for n in minutes))


def test_runs_by_turns_are_held_against_each_other() -> None:
    """What is the same for both sides is no noise of their ratio; a few runs in a row are not
    taken by turns, nor is one of each."""
    turns = _timed(_at_minutes(range(0, 10, 2)), _at_minutes(range(1, 11, 2))).noise
    rows = _timed(_at_minutes(range(5)), _at_minutes(range(5, 10))).noise
    single = _timed(_at_minutes(range(1)), _at_minutes(range(1, 2))).noise
    assert turns < 0.015
    assert 0.045 < rows < single


def test_what_makes_a_time_noisier() -> None:
    calm = _timed(_runs(1e6, 1e6, 1e6), _runs(1e6, 1e6, 1e6))
    wild = _timed(_runs(8e5, 1e6, 1.2e6), _runs(1e6, 8e5, 1.2e6))
    assert wild.noise > 3 * calm.noise
    assert wild.word == "inconclusive"
    assert _timed(_runs(2e3), _runs(2e3)).noise > 0.3
    assert _timed(_runs(2e6), _runs(2e6)).noise == pytest.approx(0.05, rel=0.01)
    # 300 launches of 3 us are no launch of 900 us.
    before = side(made(Kernel("k", 3_000.0)), times=300)
    assert _timed(before, _runs(900_000.0)).noise > 0.15
    assert _timed(before, _runs(900_000.0)).speedup == pytest.approx(1)


def test_launches_that_differ() -> None:
    """The levels of a search: each is held against its like."""
    levels = [1e5, 1e6, 5e6, 2e5]
    same = made(*(Kernel("k", ns) for ns in levels))
    other = made(*(Kernel("k", ns * 1.2) for ns in levels))
    found = _timed(side(same), side(other))
    assert found.word == "slower"
    assert found.noise < 0.06
    few, many = ([Kernel("k", ns) for ns in (1e5, 5e6, 2e5, 3e6)[:n]] for n in (3, 4))
    assert _timed(side(made(*few)), side(made(*many))).noise > 1


@each_row("ns", [None, math.nan, math.inf, 0.0, -5.0, "unknown"])
def test_an_unmeasured_time_is_not_zero(ns: float | str | None) -> None:
    whole = made(Kernel("a", 1e5), Kernel("b", 1e5))
    part = made(Kernel("a", 1e5), Kernel("b", ns))
    for before, after in ((whole, part), (part, whole), (part, part)):
        found = difference(before, after)
        assert found.timing.word == "inconclusive"
        assert found.verdict.speedup is None
        for time in (found.time, found.pairs[1].time):  # it is not printed as zero
            assert time is None or min(time.before.value, time.after.value) > 0
        assert [pair.timing.word for pair in found.pairs] == ["unchanged", "inconclusive"]
        computed = [each for each in found.evidence.values() if each.metric != DURATION]
        assert all(math.isfinite(each.value) for each in computed)


def test_launches_that_are_missing() -> None:
    part = made(Kernel("a", 1e5), Kernel("a", None))
    assert _timed(side(part), side(made(Kernel("a", 1e5), Kernel("a", 1e5)))).word == "inconclusive"
    first, short = made(Kernel("a", 1e5), Kernel("a", 1e5)), made(Kernel("a", 1e5))
    assert _timed(side(first, short), side(first)).before == pytest.approx(2e5)
    assert total_timing([]).word == "inconclusive"


def test_each_kernel_of_a_pair_counts_with_its_own_weight() -> None:
    """A short kernel that is launched 100 times, and a long one that is launched once; in each
    capture, as the captures vary."""
    before = side(*(made(Kernel("a", ns), Kernel("b", 1e6)) for ns in (2e3, 4e3)))
    after = side(made(Kernel("ab", 5e5)))
    groups = [groups_of(each.first.launches) for each in (before, after)]
    fused, split = Pairing(*groups, "fused"), Pairing(*reversed(groups), "split")
    found = time_pair(fused, before, after, weights=([100.0, 1.0], [1.0]))
    assert found[:2] == pytest.approx((1.3e6, 5e5))
    found = time_pair(split, after, before, weights=([1.0], [100.0, 1.0]))
    assert found[:2] == pytest.approx((5e5, 1.3e6))
    equal = time_pair(fused, before, after)
    assert equal.before == pytest.approx(1.003e6)


def test_doubt_makes_a_small_difference_inconclusive() -> None:
    words = [
        _timed(_runs(ns), _runs(1e6), d).word for ns, d in ((1.2e6, 0), (1.2e6, 0.5), (3e6, 0.5))
    ]
    assert words == ["faster", "inconclusive", "faster"]


def test_the_total_of_fused_kernels_has_the_right_sign() -> None:
    """Each pair counts with its time, whatever became of it."""
    sides = pipeline("before"), pipeline("after")
    found = difference(*sides)
    times = [sum(launch.rank_time for launch in each.launches) for each in sides]
    assert found.timing.word == "faster"
    assert found.timing.speedup == pytest.approx(times[0] / times[1])


_WHOLE = "ncu --set full ./app"
"""Every launch was captured."""


@each_row("line", [_WHOLE, None, "ncu -c 1 ./app", "ncu -k keep ./app"])
def test_kernels_of_one_side_count_in_the_total(line: str | None) -> None:
    """If they may not have been captured, it is inconclusive."""
    before = made(Kernel("keep", 1e6), Kernel("drop", 1e6), command_line=_WHOLE)
    found = difference(before, made(Kernel("keep", 1e6), command_line=line))
    weak = [reason.id for reason in found.caveats if reason.severity == "weakens"]
    if line == _WHOLE:
        assert (found.timing.word, found.timing.speedup) == ("faster", pytest.approx(2))
    else:
        assert (found.timing.word, weak) == ("inconclusive", ["one_sided"])


def test_kernels_of_one_side_are_as_noisy_as_others() -> None:
    """What is gone and what came in its stead differ by chance too."""
    before = made(Kernel("keep", 1e3), Kernel("alpha", 1e6), command_line=_WHOLE)
    found = difference(
        before, made(Kernel("keep", 1e3), Kernel("omega", 1.02e6), command_line=_WHOLE)
    )
    assert [pair.how for pair in found.pairs] == ["same", "removed", "added"]
    assert found.timing.word == "unchanged"
    assert found.timing.noise == pytest.approx(0.05, rel=0.1)


_TIMES = st.lists(st.floats(1e3, 1e8), min_size=1, max_size=4)


@given(before=_TIMES, after=_TIMES)
def test_swapped_sides_mirror(before: list[float], after: list[float]) -> None:
    one, other = _timed(_runs(*before), _runs(*after)), _timed(_runs(*after), _runs(*before))
    assert other.word == MIRRORED.get(one.word, one.word)
    assert other.noise == pytest.approx(one.noise)
    assert other.saved == pytest.approx(-one.saved)
    assert 0 <= one.noise < math.inf
