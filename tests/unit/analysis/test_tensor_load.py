"""The share of the tensor peak, on made-up launches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from keet.analysis.hardware.ceilings import Ceilings, verb_of
from keet.analysis.ledger import LaunchLedger
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.analysis.roofline.tensor import fp32_accumulated
from keet.ingest.ncu_rep.container import blocks_of
from keet.ingest.ncu_rep.reader import Report
from keet.profile import Launch
from tests import encode
from tests.rows import each_row

OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
PATH = "sm__ops_path_tensor_src_{}_sparsity_{}.avg.pct_of_peak_sustained_elapsed"
GEFORCE = "NVIDIA GeForce RTX 4090"
FP32 = {"HMMA.16816.F32": 1000.0}
FP16 = {"HMMA.16816.F16": 1000.0}
TF32 = {"HMMA.1688.F32.TF32": 1000.0}


def made_up(
    opcodes: Mapping[str, float] | None,
    paths: Mapping[str, float] | None = None,
    *,
    name: str = GEFORCE,
    capability: tuple[int, int] = (8, 9),
) -> Launch:
    """A launch whose tensor pipe was busy for 43 % of the time."""
    metrics: dict[str, encode.Scalar] = {
        "gpu__time_duration.sum": 1000.0,
        "sm__cycles_elapsed.avg.per_second": 1e9,
        PIPE: 43.0,
        "device__attribute_compute_capability_major": capability[0],
        "device__attribute_compute_capability_minor": capability[1],
        "device__attribute_display_name": name,
        **(paths or {}),
    }
    instances = {OPCODES: list(opcodes.items())} if opcodes else {}
    data = encode.report([encode.Kernel("k", metrics, instances)])
    return Report(Path("x"), data, blocks_of(data, Path("x"))).launches()[0]


def shares(launch: Launch) -> tuple[float | None, dict[str, float]]:
    """Of the unit, and of the ceilings of the roofline, in percent."""
    unit = Ceilings(LaunchLedger(launch)).reached("tensor")
    ceilings = find_roofline(launch).ceilings
    found = {c.id: float(c.reached.value) for c in ceilings if c.id.startswith("tensor")}
    return float(unit.value) if unit else None, found


def test_the_path_that_ran_has_the_share() -> None:
    paths = {
        PATH.format("fp16_dst_fp32", "off"): 86.0,
        PATH.format("fp16_dst_fp16", "off"): 0.0,
        PATH.format("fp16_dst_fp32", "on"): 0.0,
    }
    unit, roofline = shares(made_up(FP32, paths, name="some GPU"))
    assert (unit, roofline) == (pytest.approx(86), {"tensor_fp16": pytest.approx(86)})


def test_a_path_below_the_busy_share_changes_nothing() -> None:
    """As of a peak with sparsity."""
    unit, roofline = shares(made_up(FP32, {PATH.format("fp16_dst_fp32", "on"): 21.5}))
    assert (unit, roofline) == (pytest.approx(43), {"tensor_fp16": pytest.approx(43)})


@each_row("opcodes, type_id, share", [
    (FP32, "fp16", 86.0),
    (FP16, "fp16", 43.0),
    (TF32, "tf32", 86.0),
    ({**FP32, **FP16}, "fp16", 64.5),
])  # fmt: skip
def test_geforce_accumulates_in_fp32_at_half_rate(opcodes, type_id, share) -> None:
    unit, roofline = shares(made_up(opcodes))
    assert (unit, roofline) == (pytest.approx(share), {f"tensor_{type_id}": pytest.approx(share)})


@each_row("name, capability", [
    ("NVIDIA A40", (8, 6)),
    (GEFORCE, (12, 0)),
    ("NVIDIA L4", (8, 9)),
    ("NVIDIA A100-SXM4-40GB", (8, 0)),
])  # fmt: skip
def test_other_gpus_do_not(name: str, capability: tuple[int, int]) -> None:
    unit, roofline = shares(made_up(FP32, name=name, capability=capability))
    assert (unit, roofline) == (pytest.approx(43), {"tensor_fp16": pytest.approx(43)})


def test_a_pipe_above_half_of_its_peak_counts_the_real_time() -> None:
    assert shares(made_up(FP32, {PIPE: 91.0}))[0] == pytest.approx(91)


def test_without_known_accumulators_there_is_no_share_of_peak() -> None:
    """The pipe's busy share stays, as the least that it can be."""
    assert fp32_accumulated(made_up(None)) is None
    opcodes = {**FP32, "IMMA.16832.S8.S8": 1000.0}
    unit, roofline = shares(made_up(opcodes))
    assert (unit, roofline) == (pytest.approx(43), {})


def test_the_tensor_cores_are_busy() -> None:
    assert (verb_of("tensor"), verb_of("DRAM")) == ("are", "is")
