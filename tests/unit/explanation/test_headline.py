"""The first sentence about a launch: never silent, never an empty claim, every number measured."""

from __future__ import annotations

import re
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
from keet.explanation.headline import (
    Verdict,
    distinct_units,
    leading_units,
    nearest_units,
    verdict_of,
)
from keet.pages.explain import without_code_text
from keet.profile import Launch
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


def _without_blocks() -> Launch:
    launch = made_up({"dram": 0.0}, duration=2000.0)
    launch.grid = (0, 1, 1)
    return launch


KEPT = ("gpc__cycles_elapsed.max", "launch__")
NOT_JUDGED = {
    "no blocks": _without_blocks,
    "no metrics": lambda: made_up({}),
    "no metrics of a report": lambda: changed(launch_of("matrix_flip"), lambda *_: None),
    "a duration alone": lambda: made_up({}, duration=1e6),
    "its cycles alone": lambda: changed(  # an edited snapshot; it did not fail
        launch_of("matrix_flip"), lambda name, value: value if name.startswith(KEPT) else None
    ),
}


@each_row("what", NOT_JUDGED)
def test_launches_that_failed_or_have_too_few_numbers(what: str, wording) -> None:
    _, verdict = judged(NOT_JUDGED[what]())
    wording(verdict.headline, case=what)
    assert verdict.not_judged or what == "its cycles alone"
    if what == "no blocks":
        assert (verdict.limiter, verdict.reached) == (None, None)


@each_row("name", ["tour_basic.ncu-repz", "tour_basic.live.csv"])
def test_a_report_of_the_basic_set_has_a_limiter(name: str) -> None:
    """A unit with its share, and a cause with what fixing it gains or that it gains little."""
    for launch in profile_of(REPORTS / name).launches[:3]:
        diagnosis, verdict = judged(launch)
        assert verdict.reached is not None
        assert f"{verdict.reached:.0f}" in verdict.headline
        told = "The report does not show whether a change would gain 10%."
        assert diagnosis.findings or told in verdict.headline


def test_at_a_ceiling_fewer_bytes_or_instructions_help(wording) -> None:
    launch = launch_of("field_axpy")
    unknown, known = judged(launch)[1], verdict_of(diagnose(launch))
    assert unknown.healthy == known.healthy == "at_dram_roofline"
    wording(unknown.headline, known.headline)
    assert _LEFT.search(unknown.headline)
    assert _LEFT.search(known.headline)
    _, compute = judged(launch_of("series_eval"))
    assert compute.healthy == "at_compute_roofline"
    wording(compute.headline)
    # How much is left follows from the share of the peak.
    for share, says in ((97.0, "no speed-up is left"), (91.0, "at most 1.1x is left")):
        assert says in judged(made_up({"fma": share}, duration=1e6))[1].headline


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


@each_row("name", ["graph.ncu-repz", "range.ncu-rep"])
def test_time_between_kernels_is_not_attributed_to_a_unit(name: str) -> None:
    """Several kernels were profiled as one: SMs are idle for most of it."""
    _, verdict = judged(profile_of(REPORTS / name).launches[0])
    assert verdict.limiter == "latency"
    assert verdict.headline.startswith("For 99.")


def test_units_are_named(wording) -> None:
    _, verdict = judged(made_up({"fma": 80.0, "alu": 78.0, "dram": 10.0}, duration=1e6, **ACTIVE))
    assert verdict.limiter == "FMA+ALU"
    some, memory = {"fma": 20.0, "alu": 18.0}, {"dram": 9.0, "l2": 9.0, "l1": 9.0}
    _, verdict = judged(made_up(some | memory, duration=1e6, **ACTIVE))
    assert verdict.limiter == "latency"
    wording(verdict.headline)
    _, verdict = judged(made_up(some, duration=1e6, **ACTIVE))
    wording(verdict.headline)
    # Without a counter of any pipe; memory units that idle are not what limits it.
    units = {"dram": 12.0, "l2": 16.0}
    diagnosis, verdict = judged(made_up(units, duration=1e6, sm_throughput_pct=86.0))
    assert verdict.limiter == "SM"
    assert diagnosis.healthy == "at_compute_roofline"
    wording(verdict.headline)
    # The unit that leads by load leads the headline: issue slots reach less of their peak than L1.
    diagnosis, verdict = judged(made_up({"l1": 86.0, "issue_slots": 84.0}, duration=1e6, **ACTIVE))
    assert diagnosis.model.busiest == "issue"
    assert verdict.limiter.split("+") == ["issue", "L1"]
    assert nearest_units(diagnosis)[0].name == "L1"


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


def test_made_up_launches(wording) -> None:
    """More goes to L2 than comes back; a sleep explains the idle units, unless it is short."""
    units = {"l2": 93.0, "sm_to_l2": 93.0, "l2_to_sm": 30.0, "dram": 10.0, "issue_slots": 20.0}
    launch = made_up(units, None, None, duration=1e6, l2_requests=5e6)
    diagnosis = diagnose(launch)
    assert not diagnosis.findings
    wording(verdict_of(diagnosis).headline)
    for asleep, is_named in ((4000.0, True), (5.0, False)):
        states = {"sleeping": asleep, "long_scoreboard": 20.0, "selected": 1.0}
        _, verdict = judged(made_up({"l2": 1.0, "issue_slots": 0.1}, states, duration=1e6))
        assert verdict.headline.startswith("Warps sleep") == is_named
        wording(verdict.headline)


def test_the_bound_is_that_of_the_unit_that_the_advice_is_about() -> None:
    """Made up: L1 is nearer to its peak, but can come nearer than its LSU pipe."""
    units = {"lsu": 84.0, "l1": 86.0, "l2": 20.0, "dram": 10.0, "issue_slots": 20.0}
    diagnosis = diagnose(made_up(units, None, None, duration=1e6))._replace(findings=(), minor=())
    assert (diagnosis.view.ceilings.ranked[0].name, diagnosis.model.busiest) == ("L1", "LSU")
    check(diagnosis, verdict_of(diagnosis))
    assert [piece.metric for piece in _ceilings_left(diagnosis)] == ["left.LSU"]
    # What good kernels reach of a peak is less: more could be left.
    diagnosis = diagnose(launch_of("quant_dense/row_by_row"), reads_code=False)
    assert not diagnosis.findings
    (first, *_) = diagnosis.view.ceilings.ranked
    said = f"With the same work of {first.spoken}, a speed-up of at most {1 / first.share:.1f}x is "
    assert said in verdict_of(diagnosis).headline


DRAM_SHARE = hardware_units()["dram"].share_of_peak[0]


@each_row("dram, said", [(30.0, False), (72.0, True)])
def test_the_unit_behind_a_busy_slice_of_l2_is_named(dram: float, said: bool, wording) -> None:
    """A report of ours, as if DRAM were as busy as that."""
    launch = changed(
        launch_of("vote_grid/peaks_in_one_line"),
        lambda name, value: dram if name == DRAM_SHARE else value,
    )
    _, verdict = judged(launch)
    assert verdict.headline.startswith("One slice of L2")
    assert (f"(DRAM is at {dram:.0f}%" in verdict.headline) == said
    wording(verdict.headline, case=dram)


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
