"""Differences whose truth is known: the samples, in both directions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from compared import (
    MIRRORED,
    NAMES,
    check_cited,
    difference,
    is_healthy,
    reasons,
    report,
    sample_difference,
    truth,
)

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.compare import Difference, PairDifference
from tests.rows import each_row

_ROUNDING = 1e-3
_MISSED = {"blend_frames"}
"""Samples whose planted cause comes later than second."""


@each_row("name", NAMES, few=2)
def test_a_sample(name: str) -> None:
    """All checks of a sample in one test: workers of xdist share no differences."""
    found, swapped = sample_difference(name), sample_difference(name, swapped=True)
    _check_verdict(name, found)
    check_mirrored(found, swapped)
    for each in (found, swapped):
        check_numbers(each)
        check_account(each)


def test_the_planted_cause_is_rarely_missed() -> None:
    flawed = [name for name in NAMES if not is_healthy(name)]
    assert len(_MISSED) <= 0.1 * len(flawed)


def _check_verdict(name: str, found: Difference) -> None:
    assert found.timing.word == ("unchanged" if is_healthy(name) else "faster")
    assert not found.forbidden
    # Other code, another shape: that is what people do to the same problem.
    assert not {"problem_size", "work_per_launch", "launch_size"} & set(reasons(found))
    if not is_healthy(name) and name not in _MISSED:
        assert truth(name)["truth"]["dominant"] in _first_two(found)


def _first_two(found: Difference) -> list[str | None]:
    """Of the pair that changed most."""
    pair = max(found.pairs, key=lambda pair: abs(pair.timing.saved))
    return [each.finding for each in pair.attribution[:2]]


def check_numbers(found: Difference) -> None:
    check_cited(found)
    assert found.grounding.numbers > 3
    assert all(math.isfinite(each.value) for each in found.evidence.values())
    assert found.timing.noise >= 0
    assert len({each.id for each in found.evidence.values()}) == len(found.evidence)


def check_account(found: Difference) -> None:
    """The parts add up to the time, children to their part, hence differences to what was saved."""
    for pair in found.pairs:
        if not pair.account:
            assert _is_not_split(found, pair)
            continue
        for side, time in (("before", pair.timing.before), ("after", pair.timing.after)):
            _check_sum(pair.account, side, time)
            for part in pair.account:
                if part.children:
                    _check_sum(part.children, side, getattr(part.time, side).value, time)
        saved = sum(part.time.fell for part in pair.account)
        assert saved == pytest.approx(pair.timing.saved, abs=_ROUNDING * (pair.timing.before or 0))


def _is_not_split(found: Difference, pair: PairDifference) -> bool:
    """The times are not those of the counters, or nothing was explained."""
    unsplit = {"short_launches", "replay_differs", "replay_not_scaled", "launches_unlike"}
    return not all(pair.weighted) or bool(unsplit & set(reasons(found)))


def _check_sum(
    parts: Sequence[PartChange], side: str, whole: float | None, of: float | None = None
) -> None:
    """`of`: what is rounded; the account drops parts below 0.05 % of the launch's time."""
    total = sum(float(getattr(part.time, side).value) for part in parts)
    assert whole is not None
    assert total == pytest.approx(whole, abs=_ROUNDING * (of or whole))


def check_mirrored(one: Difference, other: Difference) -> None:
    assert other.timing.word == MIRRORED.get(one.timing.word, one.timing.word)
    assert _inverse(one.timing.speedup, other.timing.speedup)
    assert other.timing.noise == pytest.approx(one.timing.noise)
    assert {(r.id, r.severity) for r in one.all_caveats} == {
        (r.id, r.severity) for r in other.all_caveats
    }
    mirrored = {_ids(pair.pairing.after, pair.pairing.before): pair for pair in other.pairs}
    assert len(mirrored) == len(one.pairs)
    for pair in one.pairs:
        _check_pair(pair, mirrored[_ids(pair.pairing.before, pair.pairing.after)])


def _ids(*sides: object) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(sorted(launch.id for group in groups for launch in group.launches))  # type: ignore[attr-defined]
        for groups in sides
    )


def _inverse(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one * other, 1)


def _check_pair(one: PairDifference, other: PairDifference) -> None:
    assert other.how == MIRRORED.get(one.how, one.how)
    assert other.timing.word == MIRRORED.get(one.timing.word, one.timing.word)
    assert _inverse(one.timing.speedup, other.timing.speedup)
    assert set(one.fixed) == set(other.new)
    assert set(one.new) == set(other.fixed)
    assert set(one.remaining) == set(other.remaining)
    assert set(one.unknown) == set(other.unknown)
    assert _shares(one) == _shares(other)


def _shares(pair: PairDifference) -> list[tuple[str, str | None, str | None, float | None]]:
    return [
        (each.kind, each.unit, each.finding, each.share and round(each.share, 5))
        for each in pair.attribution
    ]


@each_row(
    ("before", "after"),
    [
        ("pipeline_before.ncu-repz", "pipeline_after.ncu-repz"),
        ("pipeline_before.ncu-repz", "pipeline_double.ncu-repz"),
        ("pipeline_before.ncu-repz", "pipeline_again.ncu-repz"),
        ("pipeline_warm.ncu-repz", "pipeline_after.ncu-repz"),
        ("tour_basic.ncu-repz", "tour_lines.ncu-repz"),
        ("tour_full.ncu-repz", "tour_nolines.ncu-repz"),
        ("processes.ncu-repz", "nvtx.ncu-repz"),
        ("range.ncu-rep", "graph.ncu-repz"),
    ],
)
@pytest.mark.slow
def test_other_reports_mirror(before: str, after: str) -> None:
    one, other = report(before), report(after)
    found, swapped = difference(one, other), difference(other, one)
    check_mirrored(found, swapped)
    check_account(found)
    check_cited(found)
    check_cited(swapped)
