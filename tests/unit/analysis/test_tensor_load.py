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


RAN = {
    PATH.format("fp16_dst_fp32", "off"): 86.0,
    PATH.format("fp16_dst_fp16", "off"): 0.0,
    PATH.format("fp16_dst_fp32", "on"): 0.0,
}


@each_row("launch, type_id, share", [
    (made_up(FP32, RAN, name="some GPU"), "fp16", 86.0),  # the path that ran has the share
    # A path below the busy share changes nothing, as of a peak with sparsity.
    (made_up(FP32, {PATH.format("fp16_dst_fp32", "on"): 21.5}), "fp16", 43.0),
    # GeForce accumulates in FP32 at half rate.
    (made_up(FP32), "fp16", 86.0),
    (made_up(FP16), "fp16", 43.0),
    (made_up(TF32), "tf32", 86.0),
    (made_up({**FP32, **FP16}), "fp16", 64.5),
    # Other GPUs do not.
    (made_up(FP32, name="NVIDIA A40", capability=(8, 6)), "fp16", 43.0),
    (made_up(FP32, name=GEFORCE, capability=(12, 0)), "fp16", 43.0),
    (made_up(FP32, name="NVIDIA L4", capability=(8, 9)), "fp16", 43.0),
    (made_up(FP32, name="NVIDIA A100-SXM4-40GB", capability=(8, 0)), "fp16", 43.0),
])  # fmt: skip
def test_the_share_of_the_tensor_peak(launch: Launch, type_id: str, share: float) -> None:
    unit, roofline = shares(launch)
    assert unit == pytest.approx(share)
    assert roofline == {f"tensor_{type_id}": pytest.approx(share)}


def test_without_known_accumulators_there_is_no_share_of_peak() -> None:
    """The pipe's busy share stays, as the least that it can be. Above half of its peak, a pipe
    counts the real time."""
    assert fp32_accumulated(made_up(None)) is None
    unit, roofline = shares(made_up({**FP32, "IMMA.16832.S8.S8": 1000.0}))
    assert (unit, roofline) == (pytest.approx(43), {})
    assert shares(made_up(FP32, {PIPE: 91.0}))[0] == pytest.approx(91)
    assert (verb_of("tensor"), verb_of("DRAM")) == ("are", "is")
