"""Profiled launches that do not stand for what their kernel did in the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared import Kernel, check_cited, difference, gated, made, read, reasons, sample
from hypothesis import given
from hypothesis import strategies as st
from tables import in_run, row, table

from keet.comparison.compare import Difference
from keet.profile import Profile
from tests.conftest import TESTS

_RUNS = TESTS / "data/runs"


def _texts(found: Difference, reason: str) -> list[str]:
    return [each.text for each in found.all_caveats if each.id == reason]


def _flip(*rows: tuple[int, float, bool], version: str = "slow") -> Profile:
    """A sample in a run: launches, microseconds of each, and whether they have its shape."""
    profile = sample("matrix_flip", version)
    (launch,) = profile.launches
    kernels = []
    for launches, us, own in rows:
        kernel = row("flip", launches, launches * us * 1000)
        kernels.append(
            kernel._replace(
                name=launch.name.full,
                full=launch.name.full,
                grid=launch.grid if own else (7, 7, 7),
                block=launch.block,
                median_ns=us * 1000,
                shortest_ns=us * 1000,
                longest_ns=us * 1000,
            )
        )
    known = profile.provenance._replace(sha256=f"{rows}{version}")
    return replace(profile, run=table(*kernels), provenance=known)


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


@given(
    launches=st.integers(1, 50), others=st.integers(0, 50), us=st.sampled_from([5.0, 900.0, 9000.0])
)
@pytest.mark.slow
def test_the_next_step_never_saves_more_than_its_launches_took(
    launches: int, others: int, us: float
) -> None:
    after = _flip((launches, 1020.0, True), (others, us, False))
    step = difference(_flip((launches, 2000.0, True)), after).next
    if step.weighted.doubt is None:
        whole = launches * 1020 + others * us
        alike = launches * 1020 + (others * us if 510 <= us <= 2040 else 0)
        assert step.share.value <= 100 * alike / whole * (1 + 1e-9)
        assert alike >= 0.5 * whole * (1 - 1e-9)


def _shared(us: float, overlapped_ns: float | None = 0.0) -> Profile:
    """Two shapes of one kernel were profiled, and the table has one row for both."""
    large = Kernel("k", 60_000.0, grid=(800, 1, 1))
    report = made(Kernel("k", 20_000.0), large, command_line="ncu -c 9 ./app")
    return in_run(report, row("k", 100, 100 * us * 1000, overlapped_ns=overlapped_ns))


def test_launches_that_the_table_does_not_tell_apart_have_no_verdict(wording) -> None:
    found = difference(_shared(40.0), _shared(50.0))
    wording(found.verdict.headline)
    assert [pair.timing.word for pair in found.pairs] == ["inconclusive", "inconclusive"]
    assert [pair.attribution for pair in found.pairs] == [(), ()]
    apart = "No verdict on k: the run table does not distinguish the launches of this kernel"
    assert _texts(found, "mixed_launches") == [apart, apart]
    gate = gated(found)
    assert [each.kernel for each in gate.regressions] == [None]
    wording(gate.not_gated)


def test_the_average_under_replay_is_not_the_time_of_a_launch(wording) -> None:
    found = difference(_shared(400.0), _shared(50.0))
    both = "launches of k took 40 us under replay and 400 us in the BEFORE run, on average"
    said = f"{both}: their counters do not explain the difference, so no causes are given"
    assert _texts(found, "replay_differs") == [said, said]
    sums = difference(_shared(400.0, None), _shared(50.0, None))
    wording(_texts(sums, "overlap")[1])


def test_repeated_launches_of_one_shape_are_judged() -> None:
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
    found = difference(
        read(_RUNS / "streams_serial.ncu-repz"), read(_RUNS / "streams_together.ncu-repz")
    )
    assert found.next.reason is None
    wording(found.next.text)
    (pair,) = found.pairs
    assert (pair.timing.word, pair.timing.speedup) == ("faster", pytest.approx(4.22, abs=0.005))
