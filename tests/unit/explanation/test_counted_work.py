"""A report of the roofline section alone: the counted work is a lower bound of how busy units
were. The launches are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.analyst import explain
from keet.explanation.headline import verdict_of
from keet.profile import Device, Launch, Profile, Provenance, RawMetric
from tests.unit.analysis.made_up_launch import made_up

FEW_LANES = Device("NVIDIA GeForce RTX 4060 Laptop GPU", "8.9", 24)


def roofline_alone(dfma: float, dram: float, units: dict[str, float] | None = None) -> Launch:
    """`dfma`, `dram`: shares of the peak."""
    return made_up(
        units or {},
        device=FEW_LANES,
        duration=349_800.0,
        sm_clock=1.1e9,
        inst_dadd_per_cycle=0.5 * dfma * 48,
        inst_dmul_per_cycle=0.0,
        inst_dfma_per_cycle=0.5 * dfma * 48,
        inst_dfma_peak_per_cycle=48.0,
        inst_fadd_per_cycle=0.0,
        inst_fmul_per_cycle=0.0,
        inst_ffma_per_cycle=0.0,
        inst_ffma_peak_per_cycle=3072.0,
        dram_bytes_per_second=dram * 32 * 7e9,
        dram_peak_bytes_per_cycle=32.0,
        dram_frequency=7e9,
    )


def _told(launch: Launch) -> tuple[Diagnosis, str]:
    diagnosis = diagnose(launch, reads_code=False)
    headline = verdict_of(diagnosis).headline
    assert set(headline.ids) <= {piece.id for piece in diagnosis.view.ledger}
    return diagnosis, headline


def test_double_precision_with_few_lanes_is_a_possible_cause(wording) -> None:
    """An addition keeps the pipe as busy as a multiply-add, so 40 % of the instructions' peak are
    less of the peak of operations."""
    diagnosis, headline = _told(roofline_alone(0.4, 0.1))
    assert diagnosis.view.ceilings.share("FP64") == pytest.approx(0.4)
    assert diagnosis.view.ceilings.share("DRAM") == pytest.approx(0.1)
    (first,) = diagnosis.findings
    assert (first.id, first.cause_certainty) == ("low_precision_possible", "possible")
    assert "at least 40%" in first.text
    wording(headline)


def test_a_lower_bound_shows_no_waiting(wording) -> None:
    """Nothing else was measured, so other units may be at their peak."""
    diagnosis, headline = _told(roofline_alone(0.0, 0.3))
    assert not diagnosis.findings
    wording(headline)


def test_dram_near_its_peak_is_at_the_roofline(wording) -> None:
    diagnosis, headline = _told(roofline_alone(0.0, 0.93))
    assert diagnosis.healthy == "at_dram_roofline"
    wording(headline)


def test_measured_units_count_if_there_is_one() -> None:
    diagnosis, _ = _told(roofline_alone(0.4, 0.1, {"dram": 12.0, "fp64": 55.0}))
    assert not diagnosis.view.ceilings.are_counted
    assert diagnosis.view.ceilings.share("FP64") == pytest.approx(0.55)


def test_lone_counters_of_l2_are_shown(wording) -> None:
    """Without a peak they do not say where the time goes, but they are some memory traffic."""
    launch = made_up({}, duration=1e6)
    counters = {
        "lts__t_bytes.sum": 2e9,
        "lts__t_sectors_op_read_lookup_hit.sum": 75.0,
        "lts__t_sectors_op_read_lookup_miss.sum": 25.0,
    }
    metrics = {**launch.data.metrics, **{n: RawMetric(v) for n, v in counters.items()}}
    launch.data = replace(launch.data, metrics=metrics)
    told = explain(Profile((launch,), Provenance("made", "ncu-rep", 0, "0", "a test")), [launch], 5)
    (each,) = told.launches
    assert [str(figure.text) for figure in each.figures][:2] == ["L2 2 TB/s", "75% of L2 reads hit"]
    wording(each.verdict.headline)
    checks = [skipped.check for skipped in each.skipped]
    assert "most memory traffic" in checks
    assert "memory traffic" not in checks
