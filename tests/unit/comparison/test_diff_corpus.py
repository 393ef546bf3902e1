"""Any two reports, by anyone: no crash, no nonsense."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
from compared import check_cited, difference, read
from test_diff_samples import check_mirrored

from keet.comparison.compare import Difference
from keet.comparison.pairs import pair_groups
from keet.comparison.sentences import check_comparable
from keet.comparison.sides import groups_of
from keet.errors import KeetError, NotComparable
from keet.profile import Profile
from tests.conftest import REPORTS, corpus_files, needs_corpus
from tests.rows import each_row

pytestmark = pytest.mark.slow

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
@each_row(
    "paths", _some_pairs(6), ids=lambda pair: " ".join(p.name[:9] for p in pair), may_be_empty=True
)
def test_reports_of_unrelated_programs_are_not_paired(paths: tuple[Path, Path]) -> None:
    before, after = (read(path) for path in paths)
    one, other = difference(before, after, guess=True), difference(after, before, guess=True)
    check_mirrored(one, other)
    _check_sense(one, before, after)


@needs_corpus
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
def test_every_reason_against_a_comparison_is_said() -> None:
    """Another program on another GPU: both in one message."""
    (path,) = (each for each in corpus_files() if each.name.startswith("suhithr"))
    found = difference(read(path), read(REPORTS / "tour_full.ncu-repz"))
    assert len(found.forbidden) == 2
    with pytest.raises(NotComparable) as refused:
        check_comparable(found, "--force")
    assert all(each.text in str(refused.value) for each in found.forbidden)
