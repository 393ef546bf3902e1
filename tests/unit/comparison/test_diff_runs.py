"""Differences between whole runs: what the tables of both sides make of the reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared import (
    Kernel,
    check_cited,
    difference,
    gated,
    made,
    pipeline,
    reasons,
    resized,
    sample,
    side,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import in_run, ran, recorded, row, rows_of, sample_ran, table
from test_diff_samples import check_mirrored, check_numbers

from keet.comparison.compare import Difference, compare
from keet.comparison.same_kernel import Side, SideCapture
from keet.comparison.sentences import (
    basis_text,
    how_paired,
    not_profiled_text,
    span_text,
    unprofiled_text,
)
from keet.profile import Profile
from keet.profile.run_table import Migrations
from tests.rows import each_row


def test_launches_that_became_one_are_faster(wording) -> None:
    """400 launches of 1.1275 us became one of 61 us: under replay, each takes 11 us."""
    before = in_run(made(Kernel("smooth_step", 11_000.0)), row("smooth_step", 400, 451_000.0))
    after = in_run(made(Kernel("smooth_all", 61_000.0)), row("smooth_all", 1, 61_000.0))
    found = difference(before, after, guess=True)
    assert (found.timing.word, found.timing.speedup) == ("faster", pytest.approx(451 / 61))
    (pair,) = found.pairs
    wording(found.verdict.headline, basis_text(found), pair.verdict.headline)
    check_cited(found)
    assert not found.forbidden


@pytest.mark.parametrize("shapes", [False, True])
def test_fused_kernels_count_as_often_as_the_run_launches_them(*, shapes: bool) -> None:
    """A short kernel 100 times and a long one once; one launch of each was profiled."""
    short, long, fused = (
        Kernel(name, ns, source={"/a/step.cu": None})
        for name, ns in (("halo_step", 2e3), ("inner_step", 1e6), ("all_steps", 5e5))
    )

    def ran_often(*often: tuple[Kernel, int]) -> Profile:
        rows = (row(k.function, n, n * k.ns, shape=k if shapes else None) for k, n in often)
        return in_run(made(*(kernel for kernel, _ in often)), *rows)

    before, after = ran_often((short, 100), (long, 1)), ran_often((fused, 1))
    found = difference(before, after)
    check_mirrored(found, difference(after, before))
    (pair,) = found.pairs
    assert (pair.how, pair.launches.before) == ("fused", 101)
    assert found.timing[:2] == pair.timing[:2] == pytest.approx((1.2e6, 5e5))
    assert [each.time for each in pair.weighted[0]] == pytest.approx([2e5, 1e6])


def test_kernels_of_one_side(wording) -> None:
    before = ran(("hot", 10, 5e6), ("cold", 3, 3.1e6), profiled=["hot"])
    after = ran(("hot", 10, 4e6), ("cold", 3, 2.9e6), profiled=["hot"])
    found = difference(before, after)
    wording(not_profiled_text(found), found.verdict.headline)
    assert rows_of(found) == (found.timing.before, found.timing.after)
    found = difference(ran(("hot", 10, 5e6), ("extra", 30, 5e6)), ran(("hot", 10, 5e6)))
    assert (found.timing.word, found.timing.speedup) == ("faster", pytest.approx(2))
    gone = found.pairs[1]
    wording(gone.verdict.headline)
    assert reasons(found)["one_sided"] == "note"


def test_a_kernel_that_one_report_lacks_is_not_gone() -> None:
    """It is in the run of the other side, which was profiled by the share of time."""
    before = ran(("hot", 10, 5e6), ("warm", 3, 3e6))
    after = ran(("hot", 10, 4e6), ("warm", 6, 1e6), profiled=["hot"])
    for found, how in (
        (difference(before, after), "profiled only before"),
        (difference(after, before), "profiled only after"),
    ):
        (warm,) = [pair for pair in found.pairs if pair.kernel == "warm"]
        assert warm.on_both
        assert how_paired(warm) == how
        assert found.not_profiled is None
        assert "one_sided" not in reasons(found)
        assert {warm.launches.before, warm.launches.after} == {3, 6}
    assert warm.verdict.headline == "3.00x slower: 1 ms → 3 ms in the run (6 launches → 3)"


def test_a_kernel_that_the_table_lacks_has_no_known_time(wording) -> None:
    before = in_run(made(Kernel("a", 1e5), Kernel("b", 1e5)), row("a", 5, 5e5), row("x", 2, 4e5))
    found = difference(before, ran(("a", 5, 5e5), ("b", 5, 5e5)))
    assert reasons(found)["not_in_run"] == "note"
    assert found.pairs[1].launches.before is None
    times = found.timing.before, found.timing.after, found.timing.word
    assert times == (None, None, "inconclusive")
    assert not found.forbidden
    gate = gated(found)
    assert (gate.checked, gate.total_gated) == (1, False)  # `a`
    wording(found.pairs[1].verdict.headline, found.verdict.headline, gate.not_gated)
    assert found.not_profiled.before.value == 400
    check_cited(found)


@pytest.mark.parametrize(("after_launches", "forbidden"), [(1, []), (8, ["problem_size"])])
def test_larger_and_fewer_launches_are_the_same_problem(
    after_launches: int, forbidden: list[str]
) -> None:
    sides = []
    for profile, launches in ((sample("decay_ratios"), 8), (resized(8), after_launches)):
        full = profile.launches[0].name.full
        kernel = row(full, launches, 1e6)._replace(name=full, full=full)
        sides.append(replace(profile, run=table(kernel)))
    assert [reason.id for reason in difference(*sides).forbidden] == forbidden


def test_kernels_that_overlap_count_by_the_time_in_which_the_gpu_ran_them(wording) -> None:
    """Two streams: each launch takes longer, and all are done sooner."""
    runs = [("k", 0, 1_000_000), ("k", 1_000_000, 2_000_000)], [("k", 0, 1_200_000)] * 2
    alone, together = (replace(made(Kernel("k", 1e6)), run=recorded(*each)) for each in runs)
    found = difference(alone, together)
    assert found.timing.speedup == pytest.approx(2 / 1.2)
    wording(_named(found, "overlap"), basis_text(found) or "")
    assert "overlap" not in reasons(difference(alone, alone))


def _flip(before_us: float, after_us: float) -> Difference:
    sides = ("slow", before_us), ("fast", after_us)
    return difference(*(sample_ran("matrix_flip", (10, us, True), version=v) for v, us in sides))


def test_causes_are_shares_of_the_time_of_the_run() -> None:
    found = _flip(1020.0, 150.0)
    check_numbers(found)
    (pair,) = found.pairs
    assert pair.attribution[0].finding == "uncoalesced_global"
    assert sum(part.time.before.value for part in pair.account) == pytest.approx(10 * 1.02e6)
    (waits,) = [a for a in pair.attribution if a.unit == "L2" and a.kind == "account"]
    assert "L2 sectors 1,232,678,760 → 257,727,790" in waits.what  # ten launches


@each_row(("before", "after"), [(3000.0, 150.0), (1020.0, 20.0), (10.0, 1000.0)])
def test_no_causes_if_the_replay_differs_from_the_run(before: float, after: float, wording) -> None:
    """Both times are printed."""
    found = _flip(before, after)
    (pair,) = found.pairs
    assert pair.attribution == ()
    assert reasons(found)["replay_differs"] == "note"
    wording([c.text for c in found.all_caveats if c.id == "replay_differs"], case=before)
    assert found.timing.speedup == pytest.approx(before / after)
    check_cited(found)


def _chosen(profile: Profile, *numbers: int) -> Side:
    return Side((SideCapture(profile, tuple(profile.launches[n] for n in numbers)),))


def test_what_is_chosen(wording) -> None:
    before = ran(("a", 100, 1e6), ("b", 10, 5e6), ("c", 1, 1e6), profiled=["a", "b"])
    after = ran(("a", 50, 8e5), ("b", 10, 9e6), ("c", 1, 1e6), profiled=["a", "b"])
    found = compare(_chosen(before, 0), _chosen(after, 0))
    wording(found.verdict.headline, basis_text(found) or "")
    assert found.not_profiled is None
    # `keet explain --launch 0 --against BEFORE`
    profile = ran(("a", 100, 1e6), ("b", 10, 5e6))
    found = compare(side(profile), _chosen(ran(("a", 100, 5e5), ("b", 10, 5e6)), 0))
    assert (found.timing.before, found.timing.after) == (1e6, 5e5)
    assert "one_sided" not in reasons(found)
    whole = compare(_chosen(profile, 0), side(ran(("b", 10, 5e6))))
    assert (whole.timing.before, whole.timing.after) == (1e6, None)  # `a` is gone
    assert reasons(whole)["one_sided"] == "note"
    profile = in_run(made(Kernel("k", 1e5), Kernel("k", 3e5)), row("k", 10, 2e6))
    found = compare(_chosen(profile, 0), _chosen(profile, 1), guess=True)
    assert found.verdict.basis == "reports"
    assert found.timing.speedup == pytest.approx(1 / 3)
    assert reasons(found)["run_table"] == "note"


def test_a_report_against_itself_is_unchanged() -> None:
    profile = ran(("a", 100, 1e6), ("b", 10, 5e6), profiled=["a"])
    found = difference(profile, profile)
    assert (found.verdict.basis, found.timing.word, found.timing.noise) == ("run", "unchanged", 0)


def test_the_profilers_caches_and_clocks_have_no_part_in_the_run() -> None:
    sides = []
    for ns, line in ((1.3e6, "ncu -c 9 --cache-control none ./a"), (1e6, "ncu -c 9 ./a")):
        profile = ran(("a", 100, ns))
        sides.append(replace(profile, provenance=profile.provenance._replace(command_line=line)))
    found = difference(*sides)
    assert reasons(found)["cache_control"] == "note"
    assert found.timing.word == "faster"


def test_one_table_or_none_with_kernels() -> None:
    sides = ran(("a", 100, 1e6)), made(Kernel("a", 1e4))
    for found in (difference(*sides), difference(*reversed(sides))):
        assert (found.verdict.basis, found.timing.word) == ("reports", "unchanged")
        assert reasons(found)["run_table"] == "note"
        assert found.launches is None
    found = difference(in_run(made("a")), in_run(made("a")))
    assert (found.timing.word, found.time, found.not_profiled) == ("inconclusive", None, None)
    assert difference(in_run(made()), in_run(made())).timing.word == "inconclusive"


@pytest.mark.parametrize(("other", "severity"), [("ncu", "weakens"), ("nsys", "note")])
def test_times_by_other_recorders(other: str, severity: str) -> None:
    before, after = ran(("a", 100, 1.3e6)), ran(("a", 100, 1e6))
    found = difference(before, replace(after, run=after.run._replace(recorder=other)))  # type: ignore[arg-type]
    assert reasons(found)["recorders"] == severity
    assert found.timing.word == ("inconclusive" if severity == "weakens" else "faster")


def test_several_runs() -> None:
    def run(ns: float, sha: str) -> Profile:
        profile = ran(("a", 10, ns), ("b", 10, ns / 10), profiled=["a"])
        return replace(profile, provenance=profile.provenance._replace(sha256=sha))

    one = compare(side(run(1e6, "1"), run(1.2e6, "2")), side(run(1e6, "3")))
    assert one.pairs[0].timing.before == pytest.approx(1.1e6)
    assert (one.timing.before, one.timing.after) == pytest.approx((1.21e6, 1.1e6))
    assert rows_of(one) == pytest.approx((1.21e6, 1.1e6))
    alone = compare(side(run(1.1e6, "1")), side(run(1e6, "3")))
    assert one.timing.noise > alone.timing.noise  # the two differ by a fifth
    # What is profiled is chosen anew in each run.
    small, large = Kernel("a", 1e4, grid=(10, 1, 1)), Kernel("a", 9e4, grid=(90, 1, 1))
    rows = (row("a", 5, 5e4, shape=small), row("a", 5, 4.5e5, shape=large))
    first, second = (in_run(made(each), *rows) for each in (small, large))
    found = compare(side(first, second), side(first))
    assert found.pairs[0].timing.before == found.timing.before == 5e5
    assert not found.forbidden


def test_the_gate_judges_the_run() -> None:
    before = ran(("a", 400, 4.5e5), ("rest", 1, 1e5), profiled=["a"])
    after = ran(("a", 1, 6e4), ("rest", 1, 9e5), profiled=["a"])
    gate = gated(difference(before, after))
    assert [(each.kernel, each.metric) for each in gate.regressions] == [(None, "time in the run")]
    assert gate.total_gated
    assert gate.not_gated == []


_NAMES = ("alpha", "beta", "gamma", "delta")
_SPENT = st.dictionaries(
    st.sampled_from(_NAMES), st.tuples(st.integers(1, 1000), st.floats(1e4, 1e9)), min_size=1
)


@st.composite
def _runs(draw: st.DrawFn) -> Profile:
    spent = draw(_SPENT)
    profiled = draw(st.lists(st.sampled_from(sorted(spent)), min_size=1, unique=True))
    return ran(*((name, *numbers) for name, numbers in spent.items()), profiled=profiled)


@settings(max_examples=20, deadline=None)
@given(before=_runs(), after=_runs())
@pytest.mark.slow
def test_rows_add_up_and_swapped_sides_mirror(before: Profile, after: Profile) -> None:
    found, swapped = difference(before, after), difference(after, before)
    assert (found.timing.before, found.timing.after) == pytest.approx(rows_of(found))
    assert rows_of(found) == pytest.approx((before.run.busy_ns, after.run.busy_ns))
    check_mirrored(found, swapped)
    check_cited(found)


@pytest.mark.slow
def test_real_reports_with_tables_mirror() -> None:
    sides = []
    for profile in map(pipeline, ("before", "after")):
        names = dict.fromkeys(launch.name.full for launch in profile.launches)
        kernels = [row("k", 50, 1e6)._replace(name=name, full=name) for name in names]
        sides.append(replace(profile, run=table(*kernels, row("unseen", 3, 2e5))))
    found, swapped = difference(*sides), difference(*reversed(sides))
    check_mirrored(found, swapped)
    check_numbers(found)
    assert rows_of(found) == pytest.approx((found.timing.before, found.timing.after))


def test_a_run_that_was_cut_short_gives_no_total() -> None:
    """20 of 400 launches were recorded before the program crashed."""
    cut = ran(("step", 20, 24_000.0))
    found = difference(replace(cut, run=cut.run._replace(complete=False)), ran(("step", 1, 54e3)))
    assert found.verdict.basis != "run"
    assert any("lacks launches" in reason.text for reason in found.all_caveats)


def _spans(before: float | None, after: float | None, **fields: object) -> Difference:
    report = made(Kernel("k", 1e5))
    return difference(
        *(in_run(report, row("k", 10, 1e6), span_ns=ns, **fields) for ns in (before, after))
    )


@each_row(("before", "after", "text"), [
    (6.12e6, 1e6, "6.12 ms → 1 ms, 6.12x shorter."),
    (1e6, 6.12e6, "1 ms → 6.12 ms, 6.12x longer."),
    (4e6, 4.1e6, "4 ms → 4.10 ms."),
    (1.1e6, 1.2e6, None),  # busy for most of it
    (6.12e6, None, None),
])  # fmt: skip
def test_the_length_of_runs_with_much_idle_time_is_printed(
    before: float | None, after: float | None, text: str | None
) -> None:
    found = _spans(before, after)
    assert (span_text(found) or "None").rpartition(": ")[2] == str(text)
    assert found.verdict.word == "unchanged"
    check_cited(found)


def test_idle_time_of_two_gpus_and_one_launch() -> None:
    assert [span_text(_spans(ns, ns, gpus=2)) is None for ns in (6e5, 1e6)] == [True, False]
    found = difference(ran(("a", 1, 5e5)), ran(("a", 3, 5e5)))
    assert (basis_text(found) or "").endswith(": 1 launch before, 3 after.")


def test_tables_that_are_refused(wording) -> None:
    report, before = made(Kernel("a", 1e5)), ran(("a", 5, 5e5))
    found = difference(before, in_run(report, row("x", 2, 4e5), path="/tmp/other.csv"))
    assert found.timing.speedup is None
    zero = difference(before, in_run(report, row("a", 5, 0.0)))
    wording([(each.id, each.text) for each in (*found.forbidden, *zero.forbidden)])


def test_managed_memory_makes_a_difference_of_a_third_inconclusive(wording) -> None:
    report, moved = made(Kernel("k", 1e5)), Migrations(1, 1, 100)
    found = difference(*(in_run(report, row("k", 10, ns), migrations=moved) for ns in (1e6, 1.4e6)))
    assert found.timing.word == "inconclusive"
    wording(_named(found, "migrations"))
    assert found.timing.doubt == 0.4


def _named(found: Difference, reason: str) -> list[str]:
    return [each.text for each in found.all_caveats if each.id == reason]


def test_every_launch_whose_replay_differs_is_named(wording) -> None:
    report = made(*(Kernel("k", ns) for ns in (5e3, 6e3, 7e3, 8e3)))
    sides = (in_run(report, row("k", 4, ns, shape=Kernel("k"))) for ns in (4e6, 2.6e4))
    wording(_named(difference(*sides), "replay_differs"))


def test_a_short_launch_is_not_split_as_under_replay(wording) -> None:
    """2.30 us under replay and 1.20 us in the run: no gap, and no account of the time."""
    found = difference(*(sample_ran("ring_steps", (400, us, True)) for us in (1.2, 0.6)))
    (pair,) = found.pairs
    assert pair.timing.word == "faster"
    assert not {"account", "unit", "line"} & {each.kind for each in pair.attribution}
    assert _named(found, "replay_differs") == []
    texts = _named(found, "replay_not_scaled")
    assert len(texts) == 2
    wording(texts)


def test_what_to_do_next(wording) -> None:
    long, short = (sample_ran("matrix_flip", (10, us, True)) for us in (3000.0, 1020.0))
    gapped, plain = difference(short, long), difference(long, short)
    wording(gapped.next.text)
    assert gapped.next.share is None
    assert plain.next.share
    assert f" saves {plain.next.share:.0f} of the GPU" in plain.next.text
    check_cited(plain)
    before = ran(("hot", 10, 9e6), ("small", 1, 1e6), profiled=["small"])
    found = difference(before, before)
    wording(unprofiled_text(found))
    less = ran(("hot", 10, 4e6), ("small", 1, 6e6), profiled=["small"])
    assert unprofiled_text(difference(less, less)) is None
    check_cited(found)
