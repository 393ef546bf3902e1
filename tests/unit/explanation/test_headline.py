"""The first sentence about a launch: never silent, never an empty claim, every number measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from keet.analysis.hardware.ceilings import WHOLE_SM
from keet.analysis.time_model import BLOCK_STARTS, DEVICE_WIDE, HOT_LINE, LEADS
from keet.catalog import hardware_units
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.diagnosis.finding import Finding
from keet.explanation.analyst import explain
from keet.explanation.headline import Verdict, distinct_units, leading_units, verdict_of
from keet.pages.explain import without_code_text
from keet.profile import Device, Launch
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import ELAPSED, launches, made_up
from tests.unit.analysis.real_launches import (
    SAMPLES,
    changed,
    launch_of,
    profile_of,
    public_profile,
)

ACTIVE = dict.fromkeys(("elapsed_cycles", "sm_active_cycles", "sm_active_cycles_max"), ELAPSED)
BARE = ("healthy", "nothing to fix", "no waste", "not worth")
"""Claims that say nothing about the work itself."""
_LEFT = re.compile(r"at most (\d+\.\d)x is left")


def judged(launch: Launch) -> tuple[Diagnosis, Verdict]:
    diagnosis = diagnose(launch, reads_code=False)
    return diagnosis, verdict_of(diagnosis)


REAL = [
    *(path for path in sorted(REPORTS.iterdir()) if path.suffix != ".md"),
    *(sample.report(variant) for sample in SAMPLES.values() for variant in sample.variants),
]
"""Every report of the test data and of the samples."""


def check(diagnosis: Diagnosis, verdict: Verdict) -> None:
    """What holds for every headline."""
    text = verdict.headline
    assert text.endswith(".")
    assert text[0] == text[0].upper()
    assert "  " not in text
    assert not any(claim in text.lower() for claim in BARE)
    assert set(text.ids) <= {piece.id for piece in diagnosis.view.ledger}
    for said in _LEFT.findall(text):
        assert float(said) in [round(piece.value, 1) for piece in _ceilings_left(diagnosis)]
    if diagnosis.findings and not verdict.healthy:
        assert diagnosis.findings[0].title.lower() in text.lower()
    if verdict.healthy:
        assert re.search(r"is left|only .* helps?|only fewer", text.lower())


def _ceilings_left(diagnosis: Diagnosis) -> list:
    """Evidence of what the same work leaves to gain, derived from the share of a peak."""
    found = [piece for piece in diagnosis.view.ledger if piece.metric.startswith("left.")]
    assert all(piece.derived_from for piece in found)
    return found


@each_row("path", REAL[::2], ids=lambda path: f"{path.parent.name}/{path.name}", few=12)
def test_every_headline_of_a_real_report_is_grounded_and_says_something(path: Path) -> None:
    for launch in profile_of(path).launches[:2]:
        diagnosis, verdict = judged(launch)
        check(diagnosis, verdict)
        check_limiter(diagnosis)
        if diagnosis.findings and diagnosis.findings[0].cause_certainty == "possible":
            assert "main cause" not in verdict.headline


def check_limiter(diagnosis: Diagnosis) -> None:
    """It is the busiest unit of the model. Of DRAM and L2, which passes its bytes on, either may be."""
    leading, model = leading_units(diagnosis), diagnosis.model
    is_unit = model.is_measured and model.busiest != BLOCK_STARTS
    assert bool(leading) == (is_unit and model.pressure >= LEADS)
    if leading and model.busiest not in (HOT_LINE, WHOLE_SM):
        names = [each.name for each in leading]
        assert model.busiest in (names[:2] if names[0] in DEVICE_WIDE else names[:1])


@settings(max_examples=60)
@given(launches())
@pytest.mark.slow
def test_any_combination_of_counters_gives_a_headline(launch: Launch) -> None:
    diagnosis, verdict = judged(launch)
    check(diagnosis, verdict)
    is_known = diagnosis.model.is_measured or bool(diagnosis.findings)
    assert verdict.not_judged != is_known or launch.get("duration") is None


def made(units: dict[str, float], states: dict[str, float] | None = None, **more: float) -> Launch:
    return made_up(units, states, duration=1e6, **more)


def without_blocks() -> Launch:
    launch = made_up({"dram": 0.0}, duration=2000.0)
    launch.grid = (0, 1, 1)
    return launch


def slice_with_dram_at(percent: float) -> Launch:
    """A report of ours, as if DRAM were as busy as that."""
    (metric, *_) = hardware_units()["dram"].share_of_peak
    launch = launch_of("vote_grid/peaks_in_one_line")
    return changed(launch, lambda name, value: percent if name == metric else value)


def asleep(cycles: float) -> Launch:
    waits = {"sleeping": cycles, "long_scoreboard": 20.0, "selected": 1.0}
    return made({"l2": 1.0, "issue_slots": 0.1}, waits)


def roofline_alone(dfma: float, dram: float, units: dict[str, float] | None = None) -> Launch:
    """`dfma`, `dram`: shares of the peak."""
    per_cycle = dict.fromkeys(("dmul", "fadd", "fmul", "ffma"), 0.0)
    per_cycle |= dict.fromkeys(("dadd", "dfma"), 0.5 * dfma * 48)
    return made_up(
        units or {},
        device=Device("NVIDIA GeForce RTX 4060 Laptop GPU", "8.9", 24),  # with few FP64 lanes
        duration=349_800.0,
        sm_clock=1.1e9,
        **{f"inst_{name}_per_cycle": value for name, value in per_cycle.items()},
        inst_dfma_peak_per_cycle=48.0,
        inst_ffma_peak_per_cycle=3072.0,
        dram_bytes_per_second=dram * 32 * 7e9,
        dram_peak_bytes_per_cycle=32.0,
        dram_frequency=7e9,
    )


KEPT = ("gpc__cycles_elapsed.max", "launch__")


SOME, MEMORY = {"fma": 20.0, "alu": 18.0}, {"dram": 9.0, "l2": 9.0, "l1": 9.0}
ONE_WAY = {"l2": 93.0, "sm_to_l2": 93.0, "l2_to_sm": 30.0, "dram": 10.0, "issue_slots": 20.0}
LAUNCHES: dict[str, Callable[[], Launch]] = {
    "no blocks": without_blocks,
    "no metrics": lambda: made_up({}),
    "no metrics of a report": lambda: changed(launch_of("matrix_flip"), lambda *_: None),
    "a duration alone": lambda: made({}),
    "its cycles alone": lambda: changed(  # an edited snapshot; it did not fail
        launch_of("matrix_flip"), lambda name, value: value if name.startswith(KEPT) else None
    ),
    "two pipes": lambda: made({"fma": 80.0, "alu": 78.0, "dram": 10.0}, **ACTIVE),
    "no unit is busy": lambda: made(SOME | MEMORY, **ACTIVE),
    "memory was not measured": lambda: made(SOME, **ACTIVE),
    # Without a counter of any pipe; memory units that idle are not what limits it.
    "pipes were not measured": lambda: made({"dram": 12.0, "l2": 16.0}, sm_throughput_pct=86.0),
    # Issue slots reach less of their peak than L1 does.
    "a unit that leads by load": lambda: made({"l1": 86.0, "issue_slots": 84.0}, **ACTIVE),
    "nothing is left": lambda: made({"fma": 97.0}),
    "a tenth is left": lambda: made({"fma": 91.0}),
    "more goes to L2 than comes back": lambda: made(ONE_WAY, l2_requests=5e6),
    # The sleep explains the idle units, unless it is short.
    "warps sleep": lambda: asleep(4000.0),
    "warps sleep a little": lambda: asleep(5.0),
    "at the DRAM roofline": lambda: launch_of("field_axpy"),
    "at the compute roofline": lambda: launch_of("series_eval"),
    "row by row": lambda: launch_of("quant_dense/row_by_row"),
    # The unit behind a busy slice of L2.
    "a slice of L2": lambda: slice_with_dram_at(30.0),
    "a slice of L2, and DRAM": lambda: slice_with_dram_at(72.0),
    # An addition keeps the pipe as busy as a multiply-add, so 40 % of the instructions' peak are
    # less of the peak of operations.
    "few FP64 lanes": lambda: roofline_alone(0.4, 0.1),
    # Nothing else was measured, so other units may be at their peak.
    "a lower bound": lambda: roofline_alone(0.0, 0.3),
    "a lower bound near the peak": lambda: roofline_alone(0.0, 0.93),
    "measured units beside it": lambda: roofline_alone(0.4, 0.1, {"dram": 12.0, "fp64": 55.0}),
    # Several kernels were profiled as one: time between them is not attributed to a unit.
    "a graph": lambda: profile_of(REPORTS / "graph.ncu-repz").launches[0],
    "a range": lambda: profile_of(REPORTS / "range.ncu-rep").launches[0],
}


@each_row("case", LAUNCHES)
def test_headlines(case: str, wording) -> None:
    diagnosis, verdict = judged(LAUNCHES[case]())
    if not verdict.not_judged:
        check(diagnosis, verdict)
    state = "not judged" if verdict.not_judged else verdict.healthy
    left = [piece.metric for piece in _ceilings_left(diagnosis)]
    found = [f"{each.id}: {each.cause_certainty}" for each in diagnosis.findings]
    wording(f"{verdict.limiter} | {state} | {left} | {found}", verdict.headline, case=case)


def test_at_a_ceiling_only_fewer_bytes_help(wording) -> None:
    """With the machine code, keet knows whether bytes are read twice."""
    wording(verdict_of(diagnose(launch_of("field_axpy"))).headline)
    # What good kernels reach of a peak is less than all of it: more could be left.
    diagnosis, verdict = judged(launch_of("quant_dense/row_by_row"))
    (first, *_) = diagnosis.view.ceilings.ranked
    said = f"With the same work of {first.spoken}, a speed-up of at most {1 / first.share:.1f}x is "
    assert said in verdict.headline
    # Made up: L1 is nearer to its peak, but can come nearer than its LSU pipe.
    units = {"lsu": 84.0, "l1": 86.0, "l2": 20.0, "dram": 10.0, "issue_slots": 20.0}
    diagnosis = diagnose(made(units))._replace(findings=(), minor=())
    assert (diagnosis.view.ceilings.ranked[0].name, diagnosis.model.busiest) == ("L1", "LSU")
    check(diagnosis, verdict_of(diagnosis))
    assert [piece.metric for piece in _ceilings_left(diagnosis)] == ["left.LSU"]


@each_row("name", ["tour_basic.ncu-repz", "tour_basic.live.csv"])
def test_a_report_of_the_basic_set_has_a_limiter(name: str) -> None:
    """A unit with its share, and a cause with what fixing it gains or that it gains little."""
    for launch in profile_of(REPORTS / name).launches[:3]:
        diagnosis, verdict = judged(launch)
        assert verdict.reached is not None
        assert f"{verdict.reached:.0f}" in verdict.headline
        told = "The report does not show whether a change would gain 10%."
        assert diagnosis.findings or told in verdict.headline


def test_the_headline_has_the_idle_share_and_the_part_of_its_cause(wording) -> None:
    """The bar of the account has the whole: the headline must not tell another number."""
    halved = changed(
        launch_of("row_norms"),
        lambda name, value: value / 2 if name == "sm__cycles_active.avg" else value,  # type: ignore[operator]
    )
    diagnosis, verdict = judged(halved)
    idle, few = (diagnosis.account.part(name) for name in ("idle", "idle.small_grid"))
    assert diagnosis.findings[0].id == "small_grid"
    assert f"{few.percent:.0f}" != f"{idle.percent:.0f}"
    assert f" {idle.percent:.0f} of the time ({few.percent:.0f} " in verdict.headline
    wording(verdict.headline)


def test_the_place_is_named(wording) -> None:
    """Of the first finding; without one, the line with most samples."""
    diagnosis, verdict = judged(launch_of("matrix_flip"))
    first: Finding = diagnosis.findings[0]
    assert verdict.headline.endswith(f" at {first.locations[0].where}.")
    nowhere = diagnosis._replace(findings=(replace(first, locations=()),))
    assert verdict_of(nowhere).headline.endswith(f"{first.label}.")
    diagnosis = diagnose(launch_of("quant_dense/row_by_row"))
    assert not diagnosis.findings
    (first, *_) = diagnosis.view.sampled_places()
    said = re.search(
        r"The line with most samples is (\S+) \((\d+)%\): warps mostly wait for ",
        verdict_of(diagnosis).headline,
    )
    assert (said[1], int(said[2])) == (first.where, round(100 * first.share))
    # What most samples of a line wait for: of the first here, 41 % wait for data.
    wording(verdict_of(diagnose(launch_of("decimal_columns/three_kinds"))).headline)


def test_a_cause_that_is_more_often_not_there_is_called_that(wording) -> None:
    """With its gain, what shows it and what to do; it is no finding."""
    diagnosis = diagnose(launch_of("kv_dequant/convert_each_nibble"), reads_code=True)
    headline = str(verdict_of(diagnosis).headline)
    nearest = next(each for each in diagnosis.minor if each.forecast.likely >= 1.1)
    assert diagnosis.findings == ()
    assert f" {nearest.label}, {nearest.forecast.likely:.2f}x if it is. {nearest.text}" in headline
    wording(headline)


@needs_corpus
def test_two_units_with_one_counter_are_named_once() -> None:
    """l1tex__lsuin_requests is a stage of L1 and the LSU pipe: it was printed twice."""
    for launch in public_profile("hzchenxiaobin__").launches:
        diagnosis = diagnose(launch, reads_code=False)
        assert "L1" not in [each.name for each in distinct_units(diagnosis.view.ceilings.ranked)]
        assert verdict_of(diagnosis).limiter == "LSU"


_BASIC = profile_of(REPORTS / "tour_basic.ncu-repz")


def test_the_counts_lack_and_not_the_code(wording) -> None:
    told = explain(_BASIC, _BASIC.launches, 5)
    wording(told.capture_hints.lacking_text)
    assert without_code_text(told, told.launches) == ""
    for each in told.launches:
        assert "the machine code" not in each.verdict.headline
        for sass in (True, False):  # one launch is told the same as all of them
            alone = explain(_BASIC, [each.launch], 5, sass=sass)
            assert alone.capture_hints.lacking_text == told.capture_hints.lacking_text
    launch = launch_of("field_axpy")
    for reads_code in (False, True):
        diagnosis = diagnose(launch, reads_code=reads_code)
        assert not diagnosis.view.lacks_counts
        assert "counts per instruction" not in verdict_of(diagnosis).headline
    profile = profile_of(REPORTS / "tour_lines.csv")
    told = explain(profile, profile.launches, 5)
    assert not any(each.view.lacks_counts for each in told.launches)
    assert "counts per instruction" not in told.capture_hints.lacking_text
