"""Kernels that ran at the same time, and tables that do not tell whether they did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared import Kernel, check_cited, difference, gated, made, read, reasons
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import in_run, recorded, row, sample_ran

from keet.comparison.compare import Difference
from keet.comparison.sentences import basis_text
from keet.errors import NotComparable
from keet.profile import Profile
from keet.profile.run_table import RunTable
from tests.conftest import TESTS

_MS = 1_000_000


def _texts(found: Difference, reason: str) -> list[str]:
    return [each.text for each in found.all_caveats if each.id == reason]


def _summed(*spent: tuple[str, int, float], replay_ns: float = 1e6) -> Profile:
    """A report with one launch of each kernel, and a table of totals only."""
    report = made(*(Kernel(name, replay_ns) for name, *_ in spent), command_line="ncu -c 9 ./app")
    rows = [row(*each, overlapped_ns=None) for each in spent]
    return in_run(report, *rows, recorder="file")


def _ran(*spans: tuple[str, int, int], profiled: str = "k") -> Profile:
    return replace(made(Kernel(profiled, 1e6)), run=recorded(*spans))


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
    whole = difference(before, _summed(("k", 10, 1.2e7), ("small", 1, 2e6)))
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


def test_kernels_that_overlap_get_a_verdict_only_if_their_busy_time_is_exact(wording) -> None:
    """No other kernel has a part of it, or their overlap is unchanged."""
    serial = _ran(("k", 0, _MS), ("k", _MS, 2 * _MS), ("other", 3 * _MS, 4 * _MS))
    twice = [("k", 0, int(1.2 * _MS))] * 2
    found = difference(_ran(*twice, ("other", 3 * _MS, 4 * _MS)), serial)
    wording(found.pairs[0].verdict.headline)
    gate = gated(found)
    assert [each.kernel for each in gate.regressions] == [None, "k"]
    assert gate.not_gated == []
    (pair,) = difference(_ran(*twice, ("other", _MS, 2 * _MS)), serial).pairs
    assert pair.timing.word == "inconclusive"
    before, after = (_ran(*[("k", 0, n * _MS)] * 2) for n in (1, 2))
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


@settings(max_examples=20, deadline=None)
@given(one=_SPANS, other=_SPANS)
@pytest.mark.slow
def test_a_verdict_holds_for_durations_too(
    one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    """Where other kernels overlap: a kernel is called faster only if its launches took less."""
    sides = []
    for spans in (one, other):
        run = recorded(*((name, start, start + ns) for name, start, ns in spans))
        names = sorted({name for name, *_ in spans})
        sides.append(replace(made(*(Kernel(n, 3_000.0) for n in names)), run=run))
    found = difference(*sides)
    for pair in found.pairs:
        spent = [sum(ns for name, _, ns in spans if name == pair.kernel) for spans in (one, other)]
        if any(_others_overlap(each.run, pair.kernel) for each in sides):
            assert pair.timing.word != "faster" or spent[0] > spent[1]
            assert pair.timing.word != "slower" or spent[0] < spent[1]
    assert not found.timing.undecided
    check_cited(found)
    assert "durations" not in reasons(found)


_RUNS = TESTS / "data/runs"


def _flip(*rows: tuple[int, float, bool], version: str = "slow") -> Profile:
    return sample_ran("matrix_flip", *rows, version=version)


def test_launches_unlike_the_profiled_one_are_not_accounted_for(wording) -> None:
    """It once claimed 103 billion instructions of launches that nobody counted."""
    before, after = _flip((160, 1020.0, True)), _flip((160, 1020.0, True), (10, 5e5, False))
    found = difference(before, after)
    (pair,) = found.pairs
    assert pair.timing.word == "slower"
    assert pair.attribution == ()
    wording(_texts(found, "launches_unlike"))
    assert found.next.share is None
    wording(found.next.text)
    check_cited(found)
    (back,) = difference(after, before).pairs
    assert back.attribution == ()


def test_nothing_is_counted_for_launches_of_another_shape() -> None:
    """Most time is in launches about as long, so waits are told; instructions are not."""
    before = _flip((10, 1020.0, True))
    after = _flip((10, 140.0, True), (4, 150.0, False), version="fast")
    (pair,) = difference(before, after).pairs
    told = [each.what for each in pair.attribution]
    assert any(each.kind == "account" for each in pair.attribution)
    assert not [what for what in told if "L2 sectors" in what or "instructions" in what]


def test_the_next_step_counts_launches_like_the_profiled_one(wording) -> None:
    before = _flip((10, 2000.0, True))
    some = difference(before, _flip((10, 1020.0, True), (1, 5100.0, False))).next
    every = difference(before, _flip((10, 1020.0, True))).next
    # Two thirds of the time are in launches like the profiled one.
    assert some.share.value == pytest.approx(every.share.value * 2 / 3)
    assert f" {some.share:.0f} of the GPU" in some.text
    assert f" {every.share:.0f} of the GPU" in every.text
    wording(some.text, every.text)


def _shared(us: float, overlapped_ns: float | None = 0.0) -> Profile:
    """Two shapes of one kernel were profiled, and the table has one row for both."""
    large = Kernel("k", 60_000.0, grid=(800, 1, 1))
    report = made(Kernel("k", 20_000.0), large, command_line="ncu -c 9 ./app")
    return in_run(report, row("k", 100, 100 * us * 1000, overlapped_ns=overlapped_ns))


def test_the_average_under_replay_is_not_the_time_of_a_launch(wording) -> None:
    found, sums = (difference(_shared(400.0, ns), _shared(50.0, ns)) for ns in (0.0, None))
    wording(_texts(found, "replay_differs"), _texts(sums, "overlap")[1])


def test_launches_that_the_table_does_not_tell_apart_have_no_verdict(wording) -> None:
    """Repeated launches of one shape have one."""
    found = difference(_shared(40.0), _shared(50.0))
    assert [pair.timing.word for pair in found.pairs] == ["inconclusive", "inconclusive"]
    assert [pair.attribution for pair in found.pairs] == [(), ()]
    gate = gated(found)
    assert [each.kernel for each in gate.regressions] == [None]
    wording(found.verdict.headline, _texts(found, "mixed_launches"), gate.not_gated)
    report = made(Kernel("k", 20_000.0), Kernel("k", 30_000.0))
    found = difference(in_run(report, row("k", 9, 3e5)), in_run(report, row("k", 9, 2e5)))
    assert [pair.timing.word for pair in found.pairs] == ["faster"]
    assert "mixed_launches" not in reasons(found)


def test_the_next_step_names_the_likely_reason_for_a_gap(wording) -> None:
    managed = read(_RUNS / "managed.ncu-repz")
    found = difference(managed, managed)
    step = found.next
    assert (step.finding, step.reason) == (None, "managed_or_host_memory")
    wording(step.text, step.action)
    check_cited(found)


def test_kernels_that_share_the_gpu_are_nothing_to_fix(wording) -> None:
    sides = (read(_RUNS / f"streams_{how}.ncu-repz") for how in ("serial", "together"))
    found = difference(*sides)
    assert found.next.reason is None
    wording(found.next.text)
    (pair,) = found.pairs
    assert (pair.timing.word, pair.timing.speedup) == ("faster", pytest.approx(4.22, abs=0.005))
