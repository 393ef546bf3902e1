"""Without tables of the runs: where a total may be given, and where not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from compared import (
    INSTRUCTIONS,
    LAUNCHED,
    Kernel,
    check_cited,
    difference,
    gated,
    made,
    reasons,
    sample,
    side,
)
from test_diff_samples import check_mirrored

from keet.comparison.compare import Difference, compare
from keet.comparison.gate import _not_gated
from keet.comparison.same_kernel import Side, SideCapture, all_captured
from keet.errors import NotComparable
from keet.profile import Profile
from kernels_samples.casebook.cases import Case, cases_of
from kernels_samples.casebook.family import load_families, load_split
from tests.rows import each_row

_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
_SOME = "ncu -k regex:. ./app"
_ALL = "ncu --set full ./app"


def _no_total(found: Difference) -> bool:
    """Nothing of a total is said."""
    refused = found.no_total is not None
    if refused:
        assert (found.timing.word, found.timing.speedup) == ("inconclusive", None)
        assert (found.time, found.verdict.speedup) == (None, None)
        assert found.verdict.basis == "per_launch"
        assert found.verdict.headline.startswith("No total ")
    bases = {pair.verdict.basis for pair in found.pairs}
    assert bases == {"per_launch" if refused else "reports"}
    check_cited(found)
    return refused


def _both(before: Profile, after: Profile) -> Difference:
    found = difference(before, after)
    check_mirrored(found, difference(after, before))
    return found


@pytest.mark.parametrize(("line", "refused"), [(_SOME, True), (None, True), (_ALL, False)])
def test_another_number_of_launches(line: str | None, *, refused: bool, wording) -> None:
    before = made(*[Kernel("step", 3e5)] * 10, command_line=line)
    after = made(*[Kernel("step", 1e5)] * 6, command_line=line)
    found = _both(before, after)
    assert _no_total(found) == refused
    (pair,) = found.pairs
    if refused:
        wording(pair.verdict.headline, found.verdict.headline)
    else:
        assert pair.verdict.headline == "5.00x faster: 3 ms → 600 us"
    assert (pair.launches.before, pair.launches.after) == (10, 6)


def test_what_a_total_needs() -> None:
    """Both sides have all launches, or somebody says how often they count."""
    some, others = (
        made(*[Kernel("step", ns)] * n, command_line=_SOME) for ns, n in ((3e5, 10), (1e5, 6))
    )
    found = compare(side(some, times=1), side(others, times=1))
    assert not _no_total(found)
    assert found.timing.before == 3e6
    before, after = (made(*[Kernel("step", 3e5)] * 10, command_line=_ALL) for _ in range(2))
    assert _no_total(_both(before, others))
    assert _no_total(compare(Side((SideCapture(before, before.launches[:4]),)), side(after)))
    assert not _no_total(compare(side(before), side(after)))
    rings = difference(sample("ring_steps"), sample("ring_steps", "fast"))
    assert "of the total" not in rings.next.text


@each_row(("before", "after", "how"), [
    (Kernel("smooth_step", 1e6), Kernel("smooth_step_fast", 4e5), "renamed"),
    (Kernel("k", 1e6), Kernel("k", 4e6, grid=(3000, 1, 1)), "reshaped"),
])  # fmt: skip
def test_without_instruction_counts_there_is_no_total(
    before: Kernel, after: Kernel, how: str
) -> None:
    found = _both(*(made(kernel, command_line=_SOME) for kernel in (before, after)))
    assert _no_total(found)
    assert (found.pairs[0].how, found.pairs[0].timing.word) == (how, "inconclusive")


@each_row(("line", "whole"), [
    ("ncu ./app", True),
    ("ncu --profile-from-start off ./app", False),
    ("ncu --devices 0 ./app", False),
    ("ncu --kernel-id ::regex:.:1 ./app", False),
    (None, False),
])  # fmt: skip
def test_whether_a_report_contains_all_launches(line: str | None, *, whole: bool) -> None:
    assert all_captured(made("a", command_line=line)) == whole


def test_fused_launches_with_other_work_are_inconclusive(wording) -> None:
    """Two kernels, each launched in a loop, became one with the loop in it."""
    source: Mapping[str, str | None] = {"/a/step.cu": None}

    def kernel(name: str, ns: float, work: float) -> Kernel:
        return Kernel(name, ns, source=source, metrics={INSTRUCTIONS: work})

    first = kernel("start", 1e5, 1e6)
    before = made(first, kernel("halo_step", 2e4, 1e6), kernel("inner_step", 3e4, 2e6))
    after = made(first, kernel("all_steps", 2.5e5, 1e8))
    found = _both(before, after)
    assert [pair.how for pair in found.pairs] == ["same", "fused"]
    assert _no_total(found)
    assert found.pairs[1].timing.word == "inconclusive"
    wording(found.pairs[1].verdict.headline)


@each_row(("short", "long", "fused"), [(100, 1, 1), (1, 4, 1), (100, 4, 3)])
def test_fused_kernels_launched_differently_often_count_once_each(
    short: int, long: int, fused: int
) -> None:
    """One launch of each, however many of them the report has."""
    source: Mapping[str, str | None] = {"/a/step.cu": None}
    halo, inner, both = (
        Kernel(name, ns, source=source, metrics={INSTRUCTIONS: 1e6})
        for name, ns in (("halo_step", 2e4), ("inner_step", 1e6), ("all_steps", 5e5))
    )
    before = made(*[halo] * short, *[inner] * long, command_line=_SOME)
    found = _both(before, made(*[both] * fused, command_line=_SOME))
    assert _no_total(found)
    (pair,) = found.pairs
    assert pair.how == "fused"
    assert pair.timing[:2] == pytest.approx((1.02e6, 5e5))
    # The explained launches represent the same time.
    assert [sum(each.time or 0 for each in side) for side in pair.weighted] == pytest.approx(
        pair.timing[:2]
    )


def test_kernels_of_one_report_only(wording) -> None:
    before = made(Kernel("keep", 1e6), Kernel("drop", 1e6), command_line=_SOME)
    after = made(Kernel("keep", 5e5), command_line=_SOME)
    found = _both(before, after)
    assert _no_total(found)
    wording([pair.verdict.headline for pair in found.pairs])
    assert reasons(found) == {"no_total": "note", "one_sided": "weakens"}


class _Edit(NamedTuple):
    """What an edit did to one launch, as factors."""

    threads: float
    work: float
    time: float
    requests: float = 1.0
    sectors: float = 1.0
    name: str = "k"

    def found(self, line: str | None = _SOME) -> Difference:
        sides = []
        for name, registers, on in (("k", 30, 0), (self.name, 31, 1)):
            metrics = {
                INSTRUCTIONS: 1e7 * self.work**on,
                _REQUESTS: 1e6 * self.requests**on,
                _SECTORS: 4e6 * self.sectors**on,
                "launch__registers_per_thread": registers,
            }
            blocks = round(4096 * self.threads**on)
            kernel = Kernel(name, 1e6 * self.time**on, grid=(blocks, 1, 1), metrics=metrics)
            sides.append(made(kernel, command_line=line))
        found = difference(*sides, guess=True)
        if self.requests * self.sectors != 1:  # fewer instructions for the same output: less waste
            check_mirrored(found, difference(*reversed(sides), guess=True))
        return found


@each_row("edit", [
    # 300 launches of a small grid became one of a large grid.
    _Edit(threads=300, work=300, time=20, requests=300, sectors=300),
    # Four launches became one that reads its matrix once (casebook: gemv/four_passes).
    _Edit(threads=1, work=2.04, time=1.57, requests=4, sectors=4),
    # A loop of 50 launches moved into the kernel, with the same grid and the same output.
    _Edit(threads=1, work=50, time=5),
    _Edit(threads=0.25, work=12, time=3),
    # The same with another name: less is needed to be suspected.
    _Edit(threads=1, work=5, time=2, name="k_all"),
])  # fmt: skip
def test_a_launch_that_may_do_the_work_of_many(edit: _Edit) -> None:
    found = edit.found()
    assert _no_total(found)
    (pair,) = found.pairs
    assert pair.timing.word == "inconclusive"
    assert pair.verdict.headline.startswith("inconclusive ")
    assert {"launch_work", "work_per_launch"} & set(reasons(found))
    assert not _no_total(edit.found(_ALL))


@each_row("edit", [
    _Edit(threads=16, work=0.6, time=0.5),  # more threads that share the same work
    _Edit(threads=61, work=1.5, time=0.3),
    _Edit(threads=0.0625, work=0.45, time=0.34),  # each thread does more of it
    _Edit(threads=0.125, work=0.125, time=0.32, requests=0.125),  # wider accesses
    _Edit(threads=1, work=1.9, time=0.15, sectors=0.125),  # coalesced stores
    _Edit(threads=0.05, work=0.05, time=0.1, name="k_warp"),  # trees over fewer threads
    _Edit(threads=1, work=0.16, time=0.24),  # a formula that costs less
    _Edit(threads=0.06, work=6.6, time=0.02),  # more instructions in less time
    _Edit(threads=1, work=1 / 14, time=1 / 8),  # a fourteenth of them for the same output
])  # fmt: skip
def test_edits_of_one_launch_keep_their_total(edit: _Edit) -> None:
    found = edit.found()
    assert not _no_total(found)
    assert found.timing.speedup == pytest.approx(1 / edit.time)
    assert found.timing.word == "faster"


def test_the_gate_without_a_total(wording) -> None:
    before = made(*[Kernel("step", 1e5)] * 10, Kernel("other", 1e5), command_line=_SOME)
    after = made(*[Kernel("step", 2e5)] * 6, Kernel("other", 1e5), command_line=_SOME)
    gate = gated(difference(before, after))
    assert [(each.kernel, each.metric) for each in gate.regressions] == [
        ("step", "time per launch")
    ]
    assert gate.checked == 2
    assert not gate.total_gated
    wording(gate.not_gated)
    found = _Edit(threads=1, work=50, time=5).found()
    with pytest.raises(NotComparable, match="nothing was gated"):
        gated(found)
    wording([*_not_gated(found)])


@pytest.mark.parametrize("name", ["cell_update", "lookup_records", "row_layers"])
@pytest.mark.slow
def test_fused_and_split_kernels_are_compared_one_launch_each(name: str) -> None:
    before, after = sample(name), sample(name, "fast")
    found = difference(before, after)
    assert _no_total(found)
    times = zip((before, after), LAUNCHED[name], strict=True)
    known = compare(*(side(profile, times=count) for profile, count in times))
    assert not _no_total(known)
    assert known.timing.word == found.pairs[0].timing.word == "faster"
    assert known.timing.speedup == pytest.approx(found.pairs[0].timing.speedup)


def _case(name: str) -> Case:
    family = next(each for each in load_families() if each.name == name.partition("/")[0])
    assert load_split()[family.name] == "work"
    return next(each for each in cases_of(family) if each.id == name)


@each_row("name", ["batched_gemm/groups", "gemv/four_passes", "heat_steps/a_pass_each_step"])
@pytest.mark.slow
def test_loops_of_launches_that_became_one(name: str) -> None:
    """Programs that became 2.5 to 8.8 times as fast; a launch of two takes up to 37 times as long
    after as before, because it does the work of up to 128."""
    case = _case(name)
    assert case.speedup > 2
    assert _no_total(difference(case.before_profile, case.after_profile))
