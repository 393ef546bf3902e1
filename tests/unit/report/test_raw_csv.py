"""Raw-page CSV exports, with other terminal output around the table."""

import math
from pathlib import Path

import pytest

from keet.catalog import metric_named
from keet.errors import DamagedReport, EmptyReport, UnknownFormat
from keet.report import read_profile
from tests.conftest import REPORTS
from tests.rows import each_row

HEADER = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
UNITS = '"","","","","","","","","","",""'
ROW = '"0","12","app","127.0.0.1","k<int, 4>(float *, int)","1","7","(32, 8, 1)","(64, 256, 1)","0","9.0"'


def export(*columns: tuple[str, str, str]) -> str:
    """A table with one launch and these metrics as (name, unit, cell)."""
    lines = [HEADER, UNITS, ROW]
    for index in range(3):
        lines[index] += "".join(f',"{column[index]}"' for column in columns)
    return "\n".join(lines) + "\n"


def read(folder: Path, text: str):
    path = folder / "export.csv"
    path.write_text(text, encoding="utf-8")
    return read_profile(path)


def test_a_table_in_a_log_has_the_values_of_the_report(profile_of) -> None:
    """With log lines, the program's own output and scaled units, the values are the report's."""
    table = read_profile(REPORTS / "tour_lines.csv")
    report = profile_of("tour_lines.ncu-repz")
    assert [launch.kernel for launch in table.launches] == [x.kernel for x in report.launches]
    assert len(table.launches[0].metric_names()) > 400
    compared = 0
    for ours, theirs in zip(table.launches, report.launches, strict=True):
        assert (ours.grid, ours.block, ours.device) == (theirs.grid, theirs.block, theirs.device)
        for name in theirs.metric_names():
            mine, other = ours.metric(name), theirs.metric(name)
            if mine is None or mine.quantity is None or other is None or other.quantity is None:
                continue
            spec = metric_named(name)
            if spec is not None and not spec.total:
                continue  # a sum that means nothing, which ncu scales the wrong way besides
            assert mine.unit == other.unit, name
            if not other.quantity.value >= 0:
                continue  # NaN; and differences of counters below zero, which ncu prints as 0
            # Two decimals of the scaled unit: 1.98 Ghz for 1980468750 hz.
            expected = pytest.approx(other.quantity.value, rel=6e-3, abs=0.006)
            assert mine.quantity.value == expected, name
            compared += 1
    assert compared > 1000


@each_row("name", ["tour_basic.live.csv", "nvtx.live.csv"])
def test_terminal_output_around_the_table_is_skipped(name: str) -> None:
    profile = read_profile(REPORTS / name)
    assert profile.provenance.format == "ncu-csv"
    assert "rounded" in profile.provenance.notes[0]
    assert all(launch.get("duration") for launch in profile.launches)
    assert profile.launches[0].device.name == "NVIDIA H200"


def test_nan_texts_commas_and_quotes_are_kept(tmp_path: Path) -> None:
    share = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    config = ("launch__func_cache_config", "", "CachePreferNone")
    launch = read(tmp_path, export((share, "%", "nan"), config)).launches[0]
    assert math.isnan(launch.reported("sm_throughput_pct").value)
    assert launch.get("sm_throughput_pct") is None
    assert launch.metric(config[0]).value == "CachePreferNone"
    assert launch.get("func_cache_config") is None
    assert (launch.name.full, launch.kernel) == ("k<int, 4>(float *, int)", "k<int, 4>")
    assert (launch.grid, launch.block) == ((64, 256, 1), (32, 8, 1))


EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"


@each_row("name, unit, cell, read_unit, value", [
    ("gpu__time_duration.sum", "us", "69.86", "ns", 69860),
    ("gpu__time_duration.sum", "ns", "1,234,567", "ns", 1234567),
    ("gpu__time_duration.sum", "ms", "0.50", "ns", 500000),
    ("gpu__time_duration.sum", "ns", "", "ns", None),
    ("gpu__time_duration.sum", "ns", "n/a", "ns", None),
    (EXCESS, "Kbyte", "3.67", "sector", 3670),  # sectors that ncu prints as bytes
])  # fmt: skip
def test_cells_are_parsed(
    name: str, unit: str, cell: str, read_unit: str, value: float | None, tmp_path: Path
) -> None:
    metric = read(tmp_path, export((name, unit, cell))).launches[0].metric(name)
    assert (metric.unit, metric.value) == (read_unit, value and pytest.approx(value))


ONE = export(("x__y.sum", "", "1"))


@each_row("text, error, says", [
    ("a,b\n1,2\n", UnknownFormat, "no ncu table"),
    (ONE.replace(UNITS, ROW, 1), DamagedReport, "no row of units"),
    (HEADER + "\n", DamagedReport, "no row of units"),
    (ONE.rsplit(",", 2)[0] + "\n", DamagedReport, "cells where"),
    ("\n".join([HEADER, UNITS.replace('""', '"%"', 2)]) + "\n", DamagedReport, "units"),
    ("==PROF== Connected\n  Section: Launch\n", UnknownFormat, "no table of a launch"),
    ("\n".join(ONE.splitlines()[:2]) + "\n", EmptyReport, None),
])  # fmt: skip
def test_other_text_is_refused(text: str, error: type, says: str | None, tmp_path: Path) -> None:
    with pytest.raises(error, match=says) as caught:
        read(tmp_path, text)
    assert says is None or "page raw" in str(caught.value)
