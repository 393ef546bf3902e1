"""How busy units were by PM sampling, for reports that have no other numbers of it.

A PM sample is the share of a unit's peak since the sample before it. The window of the samples is
longer than the launch, so the plain average that the report stores is too low, by a factor of 20
for a launch of 10 us. The sum over time, divided by the launch's duration, is what the ordinary
counters show, usually within 5 %, in public reports that have both. Two reports sampled
other work as well, or missed the launch; they are recognised by the SMs' active cycles.

Samples of DRAM are 0 % to 50 % below the counters, depending on the GPU: they only bound a gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from keet.analysis.hardware.stages import UnitStage
from keet.analysis.ledger import LaunchLedger
from keet.analysis.limits import SIMILAR
from keet.catalog import hardware_units
from keet.evidence import Evidence
from keet.units import Quantity

_SHARE = "pmsampling:{}.avg.pct_of_peak_sustained_elapsed"
_ACTIVE = "pmsampling:sm__cycles_active.avg"
_SAMPLED = {
    "issue": ("issue_slots", "sm__inst_executed_realtime"),
    "ALU": ("alu", "sm__inst_executed_pipe_alu_realtime"),
    "XU": ("xu", "sm__inst_executed_pipe_xu_realtime"),
    "tensor": ("tensor", "sm__pipe_tensor_cycles_active_realtime"),
    "L1": ("l1_writeback", "l1tex__lsu_writeback_active"),
}
"""By unit: its stage in the catalog, and what is sampled."""


def sampled_stages(ledger: LaunchLedger) -> Iterator[tuple[str, UnitStage]]:
    """Units with the stage that was sampled; nothing where the samples do not fit the launch."""
    duration = ledger.measured("duration")
    if duration is None or not duration.value or not _fits(ledger):
        return
    for unit, (stage_id, name) in _SAMPLED.items():
        label = hardware_units()[stage_id].label
        share = _over_time(ledger, _SHARE.format(name), f"{label} busy, by PM sampling", duration)
        if share is not None:
            yield unit, UnitStage(stage_id, label, share)


def sampled_dram(ledger: LaunchLedger) -> float:
    """The least share of its peak that DRAM was busy for, 0 to 1; 0: not known."""
    duration = ledger.measured("duration")
    if duration is None or not duration.value or not _fits(ledger):
        return 0.0
    share = _over_time(ledger, _SHARE.format("dramc__throughput"), "DRAM busy at least", duration)
    return float(share.value) / 100 if share else 0.0


def _fits(ledger: LaunchLedger) -> bool:
    """Whether the samples show this launch, and no other work."""
    active = ledger.named(_ACTIVE, "active cycles by PM sampling")
    elapsed = ledger.measured("elapsed_cycles")
    return bool(active and elapsed and 0 < active.value <= SIMILAR * elapsed.value)


def _over_time(ledger: LaunchLedger, name: str, label: str, duration: Evidence) -> Evidence | None:
    found = ledger.launch.instances(name)
    samples = list(found.measured()) if found is not None else []
    times = [at for at, _ in samples if isinstance(at, int)]  # in nanoseconds
    values = [float(value) for _, value in samples]
    if len(times) != len(values) or len(times) < 2 or times[-1] <= times[0]:
        return None
    covered = sum(
        value * (now - before) for (before, now), value in zip(pairwise(times), values[1:])
    )
    # Samples that were dropped at the end leave a window that is shorter than the launch.
    share = Quantity(covered / min(float(duration.value), times[-1] - times[0]), "%")
    return ledger.derived(f"sampled.{name}", share, label, duration)
