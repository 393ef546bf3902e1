"""The catalog: complete, without contradictions, and true to what ncu itself says."""

import csv
import json
import lzma
import re
from collections import Counter

import pytest
from docs_site.metrics_page import COMPILED, compiled_text

from keet import catalog
from keet.catalog import loading, metric_named, metrics, sections, stalls, unit_of
from keet.errors import UsageError
from keet.units import base_unit
from tests.conftest import TESTS
from tests.rows import each_row

UNITS_BY_NCU = TESTS / "data" / "metric_units.csv.xz"
SPECS = list(metrics().values())


def test_the_compiled_catalog_is_that_of_the_toml_files() -> None:
    assert COMPILED.read_text(encoding="utf-8") == compiled_text(), "run: make docs"


@each_row("name", ["dram_bytes_reads", "bogus", "lts__t_sectors.sum"])
def test_an_unknown_metric_name_raises_unknown_metric(name: str, wording) -> None:
    """Programs of users pass names, too: it is a `KeetError`, and a `KeyError` as for any table."""
    with pytest.raises(KeyError) as caught:
        catalog.metric_with_id(name)
    assert isinstance(caught.value, UsageError)
    wording(str(caught.value), case=name)


def test_every_metric_is_described_and_has_its_names_alone() -> None:
    assert len(SPECS) >= 250
    for spec in SPECS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", spec.id), spec.id
        assert spec.names, spec.id
        assert [metric_named(name) for name in spec.names] == [spec] * len(spec.names)
        assert spec.meaning.endswith("."), spec.id
        assert len(spec.meaning) <= 240, spec.id
        assert spec.section is None or spec.section in sections(), spec.id
        assert spec.instances in (None, "address", "opcode", "curve"), spec.id
    labels = Counter((spec.section, spec.label) for spec in SPECS)
    assert [label for label, count in labels.items() if count > 1] == []
    assert metric_named("no__such_metric.sum") is None


def ncu_units() -> dict[str, set[str]]:
    lines = lzma.decompress(UNITS_BY_NCU.read_bytes()).decode().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    units = {row["metric"]: row["units"].split(";") for row in rows}
    return {name: {base_unit(each) for each in given if each} for name, given in units.items()}


def test_derived_units_are_those_of_ncu() -> None:
    """For metrics without an entry, the name alone gives the unit that ncu gives, or rarely none."""
    known = {name: units for name, units in ncu_units().items() if units}
    wrong = {
        name: (unit_of(name), units)
        for name, units in known.items()
        if metric_named(name) is None
        and not name.startswith("regex:")  # a pattern of a user's section, not a metric
        and unit_of(name) not in units | {""}
    }
    assert wrong == {}
    assert sum(unit_of(name) == "" for name in known) < 0.01 * len(known)


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


def test_stalls_units_capabilities_and_gpus_are_described() -> None:
    for stall in stalls().values():
        assert stall.waits_for
        assert stall.meaning.endswith(".")
        assert stall.usual_causes or not stall.counts_as_stall
        assert stall.counts_as_stall == (stall.id not in ("selected", "not_selected"))
    for unit in catalog.hardware_units().values():
        assert unit.kind in ("memory", "compute", "issue", "link")
        assert unit.basis in ("elapsed", "active")
        assert {unit_of(name) for name in unit.share_of_peak} == {"%"}, unit.id
    for capability in catalog.capabilities().values():
        assert capability.section in sections()
        assert [metric for metric in capability.metrics if metric not in metrics()] == []
    assert len(catalog.gpus()) >= 40
    assert all(gpu.source and re.fullmatch(r"\d+\.\d", gpu.cc) for gpu in catalog.gpus())
    assert all(table.source and table.per_cycle for table in catalog.throughputs().values())


@each_row("name, cc, sms, match", [
    ("NVIDIA H200", "9.0", 132, "NVIDIA H200"),
    ("NVIDIA A100-SXM4-40GB", "8.0", 108, "A100-SXM4-40GB"),
    ("NVIDIA A100X", "8.0", 108, None),  # contains "NVIDIA A10", and is no A10
    ("NVIDIA GeForce RTX 3080 Laptop GPU", "8.6", 48, "RTX 3080 Laptop GPU"),
    ("NVIDIA GeForce RTX 4090", "8.9", 128, "RTX 4090"),
    ("Somebody's FPGA", None, None, None),
])  # fmt: skip
def test_which_row_a_device_is(name: str, cc: str, sms: int, match: str | None) -> None:
    found = catalog.gpu_named(name, cc, sms)
    assert (found is None) if match is None else (found is not None and match in found.match)


@each_row("name, cc, exists", [
    ("dram__bytes_read.sum", "9.0", True),
    ("dram__bytes_read.sum", "12.0", False),
    ("dram__bytes_op_read.sum.per_second", "12.0", True),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "7.0", True),
    ("dram__bytes_read.sum", "6.1", None),  # no list of that chip
    ("launch__grid_size", "9.0", None),  # no hardware counter
    ("pmsampling:smsp__warps_issue_stalled_wait.avg", "9.0", True),
])  # fmt: skip
def test_which_gpus_have_a_counter(name: str, cc: str, exists: bool | None) -> None:
    assert catalog.exists_on(name, cc) is exists


@pytest.mark.parametrize("rows", [metrics(), stalls()], ids=["metrics", "stalls"])
def test_rows_are_a_mapping(rows) -> None:
    assert len(rows) == len(list(rows)) == len(set(rows))
    assert [spec.id for spec in rows.values()] == list(rows)
    assert all(key in rows for key in rows)
    assert "no such id" not in rows
    assert rows.get("no such id") is None


def test_rows_of_the_compiled_catalog_are_cut_where_they_end_and_decoded_once(monkeypatch) -> None:
    tables = json.loads(COMPILED.read_text(encoding="utf-8"))
    assert {name: loading._table(name) for name in loading._texts()} == tables
    decoded = []
    monkeypatch.setattr(loading.json, "loads", lambda text: decoded.append(text) or {"n": text})
    rows = loading._Rows("metrics", lambda key, row: (key, row["n"]))
    assert "duration" in rows
    assert decoded == []
    assert rows["duration"] is rows["duration"]
    assert len(decoded) == 1
