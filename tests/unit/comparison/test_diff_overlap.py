"""Kernels that ran at the same time, and tables that do not tell whether they did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared import Kernel, check_cited, difference, gated, made, reasons
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import in_run, row

from keet.comparison.compare import Difference
from keet.comparison.sentences import basis_text
from keet.errors import NotComparable
from keet.profile import Profile
from keet.profile.run_table import RunTable
from keet.profile.timeline import Record, tabulate

_MS = 1_000_000


def _texts(found: Difference, reason: str) -> list[str]:
    return [each.text for each in found.all_caveats if each.id == reason]


def _summed(*spent: tuple[str, int, float], replay_ns: float = 1e6) -> Profile:
    """A report with one launch of each kernel, and a table of totals only."""
    report = made(*(Kernel(name, replay_ns) for name, *_ in spent), command_line="ncu -c 9 ./app")
    rows = [row(*each, overlapped_ns=None) for each in spent]
    return in_run(report, *rows, recorder="file")


def _recorded(*spans: tuple[str, int, int]) -> RunTable:
    records = [
        Record(f"_Z{name}", f"{name}(int)", (100, 1, 1), (256, 1, 1), start, end, order=n)
        for n, (name, start, end) in enumerate(spans)
    ]
    return tabulate(records, "cupti")


def _ran(*spans: tuple[str, int, int], profiled: str = "k") -> Profile:
    return replace(made(Kernel(profiled, 1e6)), run=_recorded(*spans))


def test_sums_of_durations_are_named_in_the_output(wording) -> None:
    found = difference(_summed(("k", 10, 1e7)), _summed(("k", 10, 1.2e7)))
    wording(found.verdict.headline, basis_text(found), _texts(found, "durations"))
    check_cited(found)


def test_launches_that_took_longer_than_alone_may_have_overlapped(wording) -> None:
    """Eight streams: durations grew from 10 to 18 ms, and the program got four times as fast."""
    found = difference(_summed(("k", 10, 1e7)), _summed(("k", 10, 1.8e7)))
    wording(found.verdict.headline)
    assert (found.timing.speedup, found.pairs[0].timing.speedup) == (None, None)
    assert found.pairs[0].attribution == ()
    wording(_texts(found, "overlap"))
    with pytest.raises(NotComparable, match="nothing was gated: kernels may have run at the same"):
        gated(found)


def test_a_small_undecided_kernel_does_not_affect_the_total() -> None:
    before = _summed(("k", 10, 1e7), ("small", 1, 1e5))
    after = _summed(("k", 10, 1.2e7), ("small", 1, 2e6))
    whole = difference(before, after)
    assert whole.timing.word == "inconclusive"  # a seventh of the time after
    short = difference(before, _summed(("k", 100, 1.2e8), ("small", 1, 2e6)))
    assert [pair.timing.undecided for pair in short.pairs] == [False, True]
    assert short.timing.word == "slower"


def test_busy_time_is_never_compared_with_a_sum_of_durations() -> None:
    """CUPTI before: two launches at once. A file after: one by one."""
    together = _ran(("k", 0, 2 * _MS), ("k", 0, 2 * _MS))
    apart = _summed(("k", 2, 2.2e6))
    for found in (difference(together, apart), difference(apart, together)):
        assert found.verdict.measure == "durations"
        assert sorted([found.timing.before or 0, found.timing.after or 0]) == [2.2e6, 4e6]
        assert found.timing.word == found.pairs[0].timing.word == "inconclusive"
    alone = difference(_ran(("k", 0, 2 * _MS), ("k", 2 * _MS, 4 * _MS)), apart)
    assert alone.timing.word == "faster"  # durations that are known not to overlap


def test_a_kernel_is_not_slower_because_an_overlapping_one_was_removed(wording) -> None:
    """A kernel polls a flag for as long as `k` runs; each launch of `k` takes as long after."""
    work = [("k", n * _MS, (n + 1) * _MS) for n in range(4)]
    found = difference(_ran(*work, ("poll", 0, 4 * _MS)), _ran(*work))
    said = "Unchanged in total: GPU time 4 ms → 4 ms in the run (noise 7.0%, assumed)."
    assert found.verdict.headline == said
    (pair,) = found.pairs
    wording(pair.verdict.headline)
    assert pair.attribution == ()
    wording(_texts(found, "overlap"))
    gate = gated(found)
    assert (gate.regressions, gate.total_gated) == ([], True)
    wording(gate.not_gated)


def test_a_kernel_that_overlaps_only_itself_gets_a_verdict_and_is_gated(wording) -> None:
    """Its busy time is exact: no other kernel has a part of it."""
    serial = _ran(("k", 0, _MS), ("k", _MS, 2 * _MS), ("other", 3 * _MS, 4 * _MS))
    spans = ("k", 0, int(1.2 * _MS)), ("k", 0, int(1.2 * _MS)), ("other", 3 * _MS, 4 * _MS)
    found = difference(_ran(*spans), serial)
    (pair,) = found.pairs
    wording(pair.verdict.headline)
    gate = gated(found)
    assert [each.kernel for each in gate.regressions] == [None, "k"]
    assert gate.not_gated == []


def test_kernels_that_overlap_each_other_get_no_verdict() -> None:
    serial = _ran(("k", 0, _MS), ("k", _MS, 2 * _MS), ("other", 3 * _MS, 4 * _MS))
    spans = ("k", 0, int(1.2 * _MS)), ("k", 0, int(1.2 * _MS)), ("other", _MS, 2 * _MS)
    (pair,) = difference(_ran(*spans), serial).pairs
    assert pair.timing.word == "inconclusive"


def test_unchanged_overlap_gets_a_verdict() -> None:
    before = _ran(("k", 0, _MS), ("k", 0, _MS))
    after = _ran(("k", 0, 2 * _MS), ("k", 0, 2 * _MS))
    (pair,) = difference(before, after).pairs
    assert (pair.timing.word, pair.timing.speedup) == ("slower", pytest.approx(0.5))


def _others_overlap(run: RunTable | None, kernel: str) -> bool:
    kernels = run.kernels if run else ()
    own = sum(each.busy_ns for each in kernels if each.short == kernel)
    others = sum(each.overlapped_ns or 0.0 for each in kernels if each.short != kernel)
    return others > 0.01 * own


_SPANS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5_000), st.integers(1_000, 5_000)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(one=_SPANS, other=_SPANS)
@pytest.mark.slow
def test_a_verdict_holds_for_durations_too(
    one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    """Where other kernels overlap: a kernel is called faster only if its launches took less."""
    sides = []
    for spans in (one, other):
        table = _recorded(*((name, start, start + ns) for name, start, ns in spans))
        names = sorted({name for name, *_ in spans})
        sides.append(replace(made(*(Kernel(n, 3_000.0) for n in names)), run=table))
    found = difference(*sides)
    for pair in found.pairs:
        spent = [sum(ns for name, _, ns in spans if name == pair.kernel) for spans in (one, other)]
        if not any(_others_overlap(each.run, pair.kernel) for each in sides):
            continue
        if pair.timing.word == "faster":
            assert spent[0] > spent[1]
        if pair.timing.word == "slower":
            assert spent[0] < spent[1]
    assert not found.timing.undecided
    check_cited(found)
    assert "durations" not in reasons(found)
