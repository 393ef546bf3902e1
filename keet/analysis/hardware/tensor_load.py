"""How near the tensor cores came to the peak of the instructions that ran.

The busy share of the tensor pipe counts each instruction at its fastest rate. GeForce GPUs run
matrix instructions that accumulate in FP32 at half of that rate, so the pipe shows at most 50 %
for them (8.6 and 8.9). Two sources give the real share: the counters of the path
(`sm__ops_path_tensor_*`), which have the peak of that path, and else the accumulators that the
opcodes name.
"""

from __future__ import annotations

import re

from keet.analysis.hardware.stages import SAME_STAGE, UnitStage
from keet.analysis.ledger import LaunchLedger
from keet.analysis.roofline.tensor import fp32_accumulated
from keet.evidence import Evidence
from keet.profile import Device
from keet.units import Quantity

_STEM = "sm__ops_path_tensor_"
_PATH = re.compile(
    r"sm__ops_path_tensor_(?:op_\w+?mma_)?src_(?P<type>[a-z]+\d+)(?:_\w+)?"
    r"\.(?:avg|sum)\.pct_of_peak_sustained_elapsed"
)

_HALF_RATE = ("8.6", "8.9")
"""GeForce GPUs of these compute capabilities accumulate in FP32 at half rate, by NVIDIA's
whitepapers of the GA102 and AD102. Other product lines of the same chips do not. GeForce GPUs of
12.0 do, too, but their pipe counts the real time: it reaches 98 % with HMMA.16816.F32."""
_MOST = 100.0


def path_share(ledger: LaunchLedger, type_id: str | None = None) -> Evidence | None:
    """Percent of the peak of the busiest path of the tensor cores, of one type or of all; None: no
    path was measured, or none was used."""
    found: tuple[float, str] | None = None
    for name in ledger.launch.metric_names():
        match = _PATH.fullmatch(name) if name.startswith(_STEM) else None
        if match is None or type_id not in (None, match["type"]):
            continue
        metric = ledger.launch.metric(name)
        number = metric.measured if metric else None
        if number and number.value > 0 and (found is None or number.value > found[0]):
            found = (float(number.value), name)
    return ledger.named(found[1], "Tensor path busy") if found else None


def halves_fp32_accumulation(device: Device) -> bool:
    return "GeForce" in (device.name or "") and device.compute_capability in _HALF_RATE


def real_share(ledger: LaunchLedger, busy: Evidence, type_id: str | None = None) -> Evidence | None:
    """The share of peak behind the busy share of the tensor pipe; the same evidence where that is
    the share of peak. None: it depends on the accumulators, which the report does not tell."""
    if not busy.value:
        return busy
    path = path_share(ledger, type_id)
    if path is not None:
        return path if SAME_STAGE * path.value > busy.value else busy
    if not halves_fp32_accumulation(ledger.launch.device):
        return busy
    part = fp32_accumulated(ledger.launch)
    if part is None:
        return None
    real = float(busy.value) * (1 + part)
    if not part or real > _MOST:  # above: the pipe does not count them at the full rate
        return busy
    share = Quantity(real, "%")
    label = "Tensor pipe busy, with FP32 accumulation at half rate"
    return ledger.derived("tensor_share_of_half_rate", share, label, busy)


def with_real_share(ledger: LaunchLedger, stage: UnitStage) -> UnitStage:
    """The tensor pipe with its share of peak; with its busy share, which is the least that it can
    be, where the accumulators are not known."""
    share = real_share(ledger, stage.busy)
    return stage._replace(busy=share) if share else stage
