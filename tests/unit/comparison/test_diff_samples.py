"""Differences of real reports: of the samples, whose truth is known, and of any two."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
from compared import (
    MIRRORED,
    NAMES,
    check_cited,
    difference,
    is_healthy,
    read,
    reasons,
    report,
    sample_difference,
    truth,
)

from keet.comparison.causes.account_changes import PartChange
from keet.comparison.compare import Difference, PairDifference
from keet.comparison.pairs import pair_groups
from keet.comparison.same_kernel import groups_of
from keet.comparison.sentences import check_comparable
from keet.errors import KeetError, NotComparable
from keet.profile import Profile
from tests.conftest import REPORTS, corpus_files, needs_corpus
from tests.rows import each_row

_ROUNDING = 1e-3
_MISSED = {"blend_frames"}
"""Samples whose planted cause comes later than second."""
_FIXED = {
    "blend_frames": "uncoalesced_global",
    "score_tiles": "shared_bank_conflict",
    "scan_rows": "barrier_bound",
    "sparse_apply": "load_imbalance",
    "phase_sum": "sfu_bound",
}
_LEADING = {"sparse_apply": "idle", "decay_ratios": "issuing", "scan_rows": "waiting"}
"""Parts of the account of which most was saved."""
_SWAPPED = {*NAMES[::5], *_FIXED}


@each_row("name", NAMES, few=3)
def test_a_sample(name: str) -> None:
    """All checks of a sample in one test: workers of xdist share no differences."""
    found = sample_difference(name)
    _check_verdict(name, found)
    _check_findings(name, found)
    both = [found]
    if name in _SWAPPED:
        both.append(sample_difference(name, swapped=True))
        check_mirrored(*both)
    for each in both:
        check_numbers(each)
        check_account(each)
        check_causes(each)


def _check_verdict(name: str, found: Difference) -> None:
    assert found.timing.word == ("unchanged" if is_healthy(name) else "faster")
    assert not found.forbidden
    # Other code, another shape: that is what people do to the same problem.
    assert not {"problem_size", "work_per_launch", "launch_size"} & set(reasons(found))
    if not is_healthy(name) and name not in _MISSED:
        assert truth(name)["truth"]["dominant"] in _first_two(found)


def _check_findings(name: str, found: Difference) -> None:
    """Mirrored pairs swap what is fixed and what is new."""
    fixed = {each for pair in found.pairs for each in pair.fixed}
    assert not is_healthy(name) or not fixed.union(*(pair.new for pair in found.pairs))
    assert name not in _FIXED or _FIXED[name] in fixed
    if name in _LEADING:
        leading = max(found.pairs[0].account, key=lambda part: part.time.fell)
        assert leading.id == _LEADING[name]
        assert name != "decay_ratios" or leading.children[0].id == "issuing.lanes_off"


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


def check_causes(found: Difference) -> None:
    """A finding is in one group only. The number of a cause is the first one of its finding, or what
    that was computed from; never the load of a unit."""
    for pair in found.pairs:
        told = [*pair.fixed, *pair.new, *pair.remaining, *pair.unknown]
        assert len(told) == len(set(told))
        explained = [part.explanation for side in pair.weighted for part in side]
        for each in pair.attribution:
            if each.finding is None or not each.numbers or " of " in each.what:
                continue
            raised = [
                f for e in explained for f in (*e.findings, *e.lesser) if f.id == each.finding
            ]
            shown = [finding.evidence[0] for finding in raised]
            own = {id_ for first in shown for id_ in (first.id, *(first.derived_from or ()))}
            assert own & {evidence.id for evidence in each.evidence}, each.what


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


@each_row(("before", "after"), [
    ("pipeline_before.ncu-repz", "pipeline_after.ncu-repz"),
    ("pipeline_before.ncu-repz", "pipeline_double.ncu-repz"),
    ("pipeline_warm.ncu-repz", "pipeline_after.ncu-repz"),
    ("processes.ncu-repz", "nvtx.ncu-repz"),
    ("range.ncu-rep", "graph.ncu-repz"),
])  # fmt: skip
@pytest.mark.slow
def test_other_reports_mirror(before: str, after: str) -> None:
    one, other = report(before), report(after)
    found, swapped = difference(one, other), difference(other, one)
    check_mirrored(found, swapped)
    for each in (found, swapped):
        check_account(each)
        check_causes(each)
        check_cited(each)


# --- any two reports, by anyone: no crash, no nonsense

_OF_NCU = (".ncu-rep", ".nsight-cuprof-report")
_SMALL = 3_000_000
"""Bytes: what can be read a dozen times within seconds."""
_KIN = {
    ("matmul", "matmul"), ("sgemm", "sgemm"), ("conv_forward", "conv_forward"),
    ("kernel", "kernel"), ("prefn_marker", "prefn_marker"),
    ("do_not_remove_this", "do_not_remove_this"),
}  # fmt: skip
"""Beginnings of names that an engineer would hold against each other across programs."""


def _readable(most: float = math.inf) -> dict[str, Profile]:
    """Files of at most so many bytes."""
    found = {}
    for path in corpus_files():
        with suppress(KeetError):
            if path.stat().st_size <= most:
                found[path.name] = read(path)
    return found


def _some_pairs(count: int) -> list[tuple[Path, Path]]:
    reports = (path for path in corpus_files() if path.suffix in _OF_NCU)
    pairs = list(combinations((path for path in reports if path.stat().st_size < _SMALL), 2))
    return random.Random(6).sample(pairs, min(count, len(pairs)))


@needs_corpus
@pytest.mark.slow
def test_unrelated_kernels_are_not_paired() -> None:
    """All pairs of files: what is paired was looked at, one by one."""
    profiles = _readable()
    assert len(profiles) > 25
    for (one, before), (other, after) in combinations(profiles.items(), 2):
        for pair in pair_groups(groups_of(before.launches), groups_of(after.launches)):
            if pair.before and pair.after:
                names = pair.before[0].kernel, pair.after[0].kernel
                kin = any(names[0].startswith(a) and names[1].startswith(b) for a, b in _KIN)
                assert kin, (one, other, names)


@needs_corpus
@pytest.mark.slow
@each_row(
    "paths", _some_pairs(6), ids=lambda pair: " ".join(p.name[:9] for p in pair), may_be_empty=True
)
def test_reports_of_unrelated_programs_are_not_paired(paths: tuple[Path, Path]) -> None:
    before, after = (read(path) for path in paths)
    one, other = difference(before, after, guess=True), difference(after, before, guess=True)
    check_mirrored(one, other)
    _check_sense(one, before, after)


@needs_corpus
@pytest.mark.slow
def test_each_report_against_itself() -> None:
    for name, profile in _readable(_SMALL / 10).items():
        found = difference(profile, profile)
        assert found.timing.word in ("unchanged", "inconclusive"), name
        assert found.timing.speedup in (1, None)
        assert {reason.id for reason in found.forbidden} <= {"no_times"}
        check_cited(found)


def _check_sense(found: Difference, before: Profile, after: Profile) -> None:
    check_cited(found)
    assert all(math.isfinite(each.value) for each in found.evidence.values() if each.derived_from)
    devices = [{launch.device.name for launch in each.launches} for each in (before, after)]
    if devices[0] != devices[1]:
        assert "device" in {reason.id for reason in found.forbidden}
    for pair in found.pairs:
        if pair.timing.unmeasured:
            assert pair.timing.word == "inconclusive"


@needs_corpus
@pytest.mark.slow
def test_every_reason_against_a_comparison_is_said() -> None:
    """Another program on another GPU: both in one message."""
    (path,) = (each for each in corpus_files() if each.name.startswith("suhithr"))
    found = difference(read(path), read(REPORTS / "tour_full.ncu-repz"))
    assert len(found.forbidden) == 2
    with pytest.raises(NotComparable) as refused:
        check_comparable(found, "--force")
    assert all(each.text in str(refused.value) for each in found.forbidden)
