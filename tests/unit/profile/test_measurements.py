"""Which numbers are valid measurements; others are unknown, never zero."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.catalog import metric_with_id
from keet.errors import DamagedReport
from keet.evidence import Evidence
from keet.profile import (
    Device,
    Instances,
    KernelName,
    Launch,
    Metric,
    RawMetric,
    Value,
    Workload,
    is_measurement,
)
from keet.profile.metric import LARGEST, SMALLEST
from keet.report import read_profile
from keet.report.ncu_rep.reader import Report
from keet.report.protobuf import Malformed
from keet.report.snapshot import InMemoryLaunch
from keet.units import Quantity
from tests import encode
from tests.conftest import REPORTS, Keet
from tests.rows import each_row

NO_MEASUREMENTS = (math.nan, math.inf, -math.inf, -1, -0.07, 5e-324, 1e-300, 1e20, 1e300, 10**21)
any_number = st.one_of(st.floats(), st.integers(-(2**70), 2**70))
a_measurement = st.one_of(st.just(0), st.floats(SMALLEST, LARGEST), st.integers(0, 2**64))
any_value = st.one_of(any_number, st.none(), st.text(max_size=3))
DURATION, READ = "gpu__time_duration.sum", "dram__bytes_read.sum"


def launch_with(
    metrics: dict[str, Value],
    instances: Instances | None = None,
    shape: tuple[int, int, int] = (1, 1, 1),
) -> Launch:
    parts = {} if instances is None else {"inst_executed": instances}
    return Launch(
        number=0,
        name=KernelName("k", "k()", "_Z1kv"),
        workload=Workload.KERNEL,
        grid=shape,
        block=shape,
        data=InMemoryLaunch(
            Device("GPU", "9.0", 132), {n: RawMetric(v) for n, v in metrics.items()}, parts
        ),
    )


def test_numbers_that_no_counter_can_have_are_not_measurements() -> None:
    assert [value for value in (*NO_MEASUREMENTS, None, "12") if is_measurement(value)] == []
    kept = (0, 0.0, -0.0, 1, 1.8e16, 2**64 - 1, LARGEST, SMALLEST, 1e-9)
    assert [value for value in kept if not is_measurement(value)] == []


@given(st.lists(a_measurement, min_size=15, max_size=15), a_measurement.filter(bool))
def test_products_of_fifteen_and_quotients_of_two_are_finite(
    values: list[float], by: float
) -> None:
    assert math.isfinite(math.prod(map(float, values)))
    assert math.isfinite(values[0] / by)


@given(any_value)
def test_evidence_has_measurements_only(value: Value) -> None:
    launch = launch_with({READ: value})
    ledger = LaunchLedger(launch)
    found = ledger.measured("dram_bytes_read")
    assert (found is not None) == is_measurement(value)
    assert found is None or found.value == pytest.approx(value)
    refused = value is not None and not isinstance(value, str) and found is None
    assert ledger.refused == ({READ} if refused else set())
    assert (launch.reported("dram_bytes_read") is None) == (not isinstance(value, int | float))


@given(any_value)
def test_instances_that_are_not_measurements_are_left_out(value: Value) -> None:
    parts = Instances((1, value, 3.0), (16, 32, 48))
    known = {16: 1, 48: 3.0}
    if is_measurement(value):
        known[32] = value if value <= 2**53 else float(value)
    assert parts.by_address() == known
    assert dict(parts.measured()) == known
    assert LaunchView(launch_with({}, parts)).by_address("inst_executed") == known
    assert Instances((1, value), ("FADD", "MOV")).by_address() == {}


def test_columns_of_integers_are_checked_and_compared_as_doubles() -> None:
    """The fast path for such columns once skipped the check. 2**53 + 1 was larger than 2.0**53, and
    their difference as doubles was 0."""
    for value in (-1, 2**70):
        assert Instances((1, value), (16, 32)).by_address() == {16: 1}
    large = Metric(READ, 2**53 + 1, "byte").measured
    assert large is not None
    assert (large.value > 2.0**53) == (float(large.value) - 2.0**53 > 0)
    ((_, part),) = Instances((2**53 + 1,), (16,)).measured()
    assert part == float(part)


@each_row("value", [0, 0.0, -0.0])
def test_zero_is_not_a_measurement_of_what_every_launch_has(value: float) -> None:
    never = (
        *(DURATION, "gpc__cycles_elapsed.max", "gpc__cycles_elapsed.avg.per_second"),
        *("sm__cycles_active.avg", "sm__inst_executed.sum.peak_sustained", "launch__grid_size"),
        *("launch__block_size", "launch__waves_per_multiprocessor"),
        *(
            f"device__attribute_{x}"
            for x in ("multiprocessor_count", "max_warps_per_multiprocessor")
        ),
    )
    assert [name for name in never if Metric(name, value, "").measured] == []
    may = (READ, "sm__cycles_active.min", "dram__cycles_active.avg", "launch__cluster_dim_x")
    may += ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "device__attribute_device_index")
    assert [name for name in may if not Metric(name, value, "").measured] == []


def test_of_several_names_one_with_a_measurement_is_preferred() -> None:
    """A metric has several names: one of them may have a number, and another NaN."""
    first, second = metric_with_id("sm_frequency").names[:2]
    launch = launch_with({first: math.nan, second: 1e9})
    assert launch.get("sm_frequency") == Quantity(1e9, "hz")
    assert launch_with({first: math.nan}).get("sm_frequency") is None


@given(a_measurement, a_measurement)
def test_shares_of_zero_are_unknown(part: float, whole: float) -> None:
    view = LaunchView(launch_with({}))
    one, all_ = (Evidence("x#0", "x", value, "", "x") for value in (part, whole))
    ratio, percent = view.ratio("r", "r", one, all_), view.percent("p", "p", one, all_)
    assert (ratio is None) == (percent is None) == (whole == 0)
    assert ratio is None or ratio.value == part / whole


def test_what_is_printed_of_numbers_that_are_no_measurements(
    tmp_path: Path, keet: Keet, wording
) -> None:
    """The explanation says how many values are left out; other commands print what the report has."""
    path = tmp_path / "bad.ncu-rep"
    for metrics in ({READ: -1.0, DURATION: 5.0}, {DURATION: math.nan, READ: math.inf}):
        path.write_bytes(encode.report([encode.Kernel("k", metrics)]))
        lines = keet("explain", path, width=200).out.splitlines()
        wording([line for line in lines if "measurement" in line])
    assert "n/a" in keet("show", path).out
    assert "inf" in keet("metrics", path, "dram__bytes_read").out


@given(any_number, st.sampled_from(["", "%", "ns", "byte", "byte/s", "hz", "inst", "Gbyte/s"]))
def test_any_number_can_be_displayed(value: float, unit: str) -> None:
    assert str(Quantity(value, unit))


def test_an_address_has_64_bits(tmp_path: Path) -> None:
    """1e300 became a whole number of 301 digits, which no format takes."""
    path = tmp_path / "x.ncu-rep"
    parts: list[tuple[encode.Scalar, encode.Scalar]] = [(1e300, 1), (16.0, 2), (-16.0, 3)]
    path.write_bytes(encode.report([encode.Kernel("k", {}, {"inst_executed": parts})]))
    found = read_profile(path).launches[0].instances("inst_executed")
    assert found is not None
    assert found.by_address() == {16: 2}


@each_row("count", [0.0, -1.0, math.nan, math.inf, 1e300, "many", None])
def test_a_gpu_without_sms_has_an_unknown_count(count: encode.Scalar, tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    metrics = {"device__attribute_multiprocessor_count": count}
    path.write_bytes(encode.report([encode.Kernel("k", metrics)]))
    assert read_profile(path).launches[0].device.sm_count is None


def test_a_launch_without_threads_has_no_shape_and_a_gpu_no_sms_below_one() -> None:
    """Whatever reader they come from."""
    for shape in ((0, 1, 1), (32, 1, 0), (-1, 1, 1)):
        made = launch_with({}, shape=shape)
        assert (made.grid, made.block) == (None, None)
    assert [Device("a", "9.0", count).sm_count for count in (-1, 0, 1, 132)] == [None, None, 1, 132]


def test_unreadable_notes_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were built outside of what turns damage into a message."""

    def fail(_: Report) -> tuple[str, ...]:
        raise Malformed("a field runs over the end")

    monkeypatch.setattr(Report, "notes", property(fail))
    with pytest.raises(DamagedReport, match="runs over the end"):
        read_profile(REPORTS / "range.ncu-rep")


@each_row("name", ["lts__t_sector_hit_rate.pct", "l1tex__t_sector_hit_rate.pct"])
def test_more_cannot_hit_than_all(name: str) -> None:
    """Nowhere: not in the figures, the memory chart, or what models are told."""
    rates = {value: Metric(name, value, "%").number for value in (0.0, 99.0, 100.2, 120.0)}
    assert rates == {0.0: 0.0, 99.0: 99.0, 100.2: 100.2, 120.0: None}
    assert Metric(name, 120.0, "%").quantity == Quantity(120.0, "%")
    assert Metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 120.0, "%").number == 120.0
