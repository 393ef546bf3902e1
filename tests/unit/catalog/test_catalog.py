"""The catalog: complete, without contradictions, and true to what ncu itself says."""

import csv
import lzma
import re
from collections import Counter
from pathlib import Path

import pytest
from docs_site.compiled_catalog import COMPILED, compiled_text

from keet.catalog import (
    capabilities,
    exists_on,
    gpu_named,
    gpus,
    hardware_units,
    metric_named,
    metric_with_id,
    metrics,
    sections,
    stalls,
    throughputs,
    unit_of,
)
from keet.errors import IngestError, UsageError
from keet.ingest import read_profile
from keet.units import base_unit
from tests.conftest import TESTS, corpus_files, needs_corpus
from tests.rows import each_row

UNITS_BY_NCU = TESTS / "data" / "metric_units.csv.xz"
SPECS = list(metrics().values())


def test_the_compiled_catalog_is_that_of_the_toml_files() -> None:
    assert COMPILED.read_text(encoding="utf-8") == compiled_text(), "run: make docs"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dram_bytes_reads", "did you mean dram_bytes_read or "),
        ("bogus", "docs/metrics.md lists them"),
        ("lts__t_sectors.sum", "that is ncu's name of l2_sectors"),
    ],
)
def test_an_unknown_metric_name_raises_unknown_metric(name: str, hint: str, wording) -> None:
    """Programs of users pass names, too: it is a `KeetError`, and a `KeyError` as for any table."""
    with pytest.raises(KeyError) as caught:
        metric_with_id(name)
    assert isinstance(caught.value, UsageError)
    wording(str(caught.value))


def test_there_are_enough_metrics_that_matter() -> None:
    assert len(SPECS) >= 250


def test_every_metric_is_described() -> None:
    for spec in SPECS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", spec.id), spec.id
        assert spec.names, spec.id
        assert spec.meaning.endswith("."), spec.id
        assert len(spec.meaning) <= 240, spec.id
        assert spec.section is None or spec.section in sections(), spec.id
        assert spec.instances in (None, "address", "opcode", "curve"), spec.id


def test_a_name_belongs_to_one_metric() -> None:
    names = Counter(name for spec in SPECS for name in spec.names)
    assert [name for name, count in names.items() if count > 1] == []


def test_a_label_stands_for_one_metric_of_its_section() -> None:
    labels = Counter((spec.section, spec.label) for spec in SPECS)
    assert [label for label, count in labels.items() if count > 1] == []


def ncu_units() -> dict[str, set[str]]:
    lines = [
        line
        for line in lzma.decompress(UNITS_BY_NCU.read_bytes()).decode().splitlines()
        if not line.startswith("#")
    ]
    return {
        row["metric"]: {base_unit(unit) for unit in row["units"].split(";") if unit}
        for row in csv.DictReader(lines)
    }


def test_derived_units_are_those_of_ncu() -> None:
    """For metrics without an entry, the name alone gives the unit that ncu gives, or none."""
    wrong = {
        name: (unit_of(name), units)
        for name, units in ncu_units().items()
        if units
        and metric_named(name) is None
        and not name.startswith("regex:")  # a pattern of a user's section, not a metric
        and unit_of(name) not in units | {""}
    }
    assert wrong == {}


def test_few_units_are_left_unknown() -> None:
    known = [name for name, units in ncu_units().items() if units]
    blank = [name for name in known if unit_of(name) == ""]
    assert len(blank) / len(known) < 0.01


TRUE_UNITS = {
    "derived__memory_l2_theoretical_sectors_global_excessive": "sector",  # ncu says byte
    "launch__block_dim_x": "",  # ncu says block
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard": "sample",  # ncu says warp
    "sm__warps_active.avg.per_cycle_active": "warp",
    "gpu__time_duration.sum": "ns",
    "dram__bytes.sum.per_second": "byte/s",
    "sm__cycles_elapsed.avg.per_second": "hz",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "%",
}


@each_row(("name", "unit"), TRUE_UNITS.items())
def test_units_that_matter(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_every_sampled_stall_reason_is_explained() -> None:
    """Whatever reason a report of ours or of strangers samples has an entry that claims it."""
    prefix = "smsp__pcsamp_warps_issue_stalled_"
    sampled = {name for name in ncu_units() if name.startswith(prefix)}
    claimed = {name for stall in stalls().values() for name in stall.metrics}
    assert len(sampled) > 30
    assert sampled - claimed == set()


@each_row("stall", stalls().values(), ids=lambda stall: stall.id)
def test_a_stall_says_what_it_waits_for(stall) -> None:
    assert stall.waits_for
    assert stall.meaning.endswith(".")
    assert stall.usual_causes or not stall.counts_as_stall
    assert stall.counts_as_stall == (stall.id not in ("selected", "not_selected"))


@each_row("unit", hardware_units().values(), ids=lambda unit: unit.id)
def test_a_hardware_unit_is_measured_in_percent(unit) -> None:
    assert unit.kind in ("memory", "compute", "issue", "link")
    assert unit.basis in ("elapsed", "active")
    assert {unit_of(name) for name in unit.share_of_peak} == {"%"}


def test_capabilities_name_metrics_and_sections_that_exist() -> None:
    for capability in capabilities().values():
        assert capability.section in sections()
        assert [metric for metric in capability.metrics if metric not in metrics()] == []


def test_gpu_peaks_have_sources() -> None:
    assert len(gpus()) >= 40
    assert all(gpu.source and re.fullmatch(r"\d+\.\d", gpu.cc) for gpu in gpus())
    assert all(table.source and table.per_cycle for table in throughputs().values())


@each_row(
    ("name", "cc", "sms", "match"),
    [
        ("NVIDIA H200", "9.0", 132, "NVIDIA H200"),
        ("NVIDIA A100-SXM4-40GB", "8.0", 108, "A100-SXM4-40GB"),
        ("NVIDIA A100X", "8.0", 108, None),  # contains "NVIDIA A10", and is no A10
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "8.6", 48, "RTX 3080 Laptop GPU"),
        ("NVIDIA GeForce RTX 4090", "8.9", 128, "RTX 4090"),
        ("Somebody's FPGA", None, None, None),
    ],
)
def test_which_row_a_device_is(name: str, cc: str, sms: int, match: str | None) -> None:
    found = gpu_named(name, cc, sms)
    assert (found is None) if match is None else (found is not None and match in found.match)


def test_files_stay_readable() -> None:
    folder = Path(COMPILED.parent)
    long = [p.name for p in folder.rglob("*.toml") if len(p.read_text().splitlines()) > 440]
    assert long == []


@each_row(
    ("name", "cc", "exists"),
    [
        ("dram__bytes_read.sum", "9.0", True),
        ("dram__bytes_read.sum", "12.0", False),
        ("dram__bytes_op_read.sum.per_second", "12.0", True),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "7.0", True),
        ("dram__bytes_read.sum", "6.1", None),  # no list of that chip
        ("launch__grid_size", "9.0", None),  # no hardware counter
        ("pmsampling:smsp__warps_issue_stalled_wait.avg", "9.0", True),
    ],
)
def test_which_gpus_have_a_counter(name: str, cc: str, exists: bool | None) -> None:
    assert exists_on(name, cc) is exists


@needs_corpus
@each_row("path", corpus_files(), ids=lambda path: path.name[:40], may_be_empty=True)
@pytest.mark.slow
def test_no_report_has_what_its_gpu_lacks(path: Path) -> None:
    try:
        profile = read_profile(path)
    except IngestError:
        pytest.skip("no report")
    for launch in profile.launches:
        cc = launch.device.compute_capability
        lacking = {name for name in launch.metric_names() if exists_on(name, cc) is False}
        measured = {name for name in lacking if launch.metric(name).value}
        # ncu 2024.2 writes 1 for the compression rate of a T4, which has no compression.
        assert measured <= {"lts__average_gcomp_input_sector_success_rate.pct"}
