"""Rates (amounts per second) from the counters of one launch, peak rates, and the traffic of the
SMs over the link to host memory.

The counters of PCIe itself are not used, because they count the whole chip: about 40 kB of the
profiler's own writes are in every launch, which is 10 GB/s in a launch of 4 us.

If L2 counts the accesses of SMs by memory, those counts are used. Small sets have only the memory
from which L2's misses were filled, for all units: these fills count only if they are clearly more
than what other units cause.
"""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence
from keet.units import Quantity

SECTOR = 32
"""Bytes: the unit in which caches and memories exchange data."""


class Peak(NamedTuple):
    """The highest rate that the hardware allows."""

    rate: Evidence
    source: str
    """Where the number comes from: the report, keet's catalog or documentation."""


def first(ledger: LaunchLedger, *metric_ids: str) -> Evidence | None:
    return next(filter(None, (ledger.measured(metric_id) for metric_id in metric_ids)), None)


def positive(evidence: Evidence | None) -> Evidence | None:
    """The evidence if it is above 0, so that it can be divided by; else None."""
    return evidence if evidence is not None and evidence.value > 0 else None


def per_second(ledger: LaunchLedger, name: str, label: str, amount: Evidence) -> Evidence | None:
    """An amount of the launch over its duration."""
    duration = positive(ledger.measured("duration"))
    if duration is None:
        return None
    rate = Quantity(amount.value / (duration.value * 1e-9), f"{amount.unit}/s")
    return ledger.derived(name, rate, label, amount, duration)


def clock(ledger: LaunchLedger) -> Evidence | None:
    """The average SM clock of the launch."""
    return positive(first(ledger, "sm_clock", "sm_frequency"))


_READ_MISSES = "l2_sysmem_read_misses"
_WRITTEN_SECTORS = ("l2_sysmem_write_sectors", "l2_sysmem_write_misses")
_MISSES = "l2_sysmem_misses"
_FILLS, _OWN_FILLS = "sol_l2_fill_sysmem_pct", "l2_fill_device_pct"
_L2_CYCLES = "l2_elapsed_cycles_total"
"""An L2 slice fills at most one sector per cycle: on an H200, this gives the same number of sectors
as the count of misses."""
OTHER_FILLS_SHARE = Parameter(
    0.003, "share of the link's peak that other units fill; 0.001 was seen", "judgement"
)
OTHER_FILLS_BYTES = Parameter(40e3, "bytes per launch that other units fill", "judgement")

_PCIE = {
    **dict.fromkeys(("6.0", "6.1", "7.0", "7.5"), "3.0"),
    **dict.fromkeys(("8.0", "8.6", "8.9"), "4.0"),
    **dict.fromkeys(("9.0", "10.0", "12.0"), "5.0"),
}
"""PCIe generation by compute capability, from NVIDIA's data sheets."""
_PCIE_RATE = {"3.0": 15.754e9, "4.0": 31.508e9, "5.0": 63.015e9}
"""Bytes per second and direction of 16 lanes: 8, 16 and 32 GT/s with 128b/130b encoding."""
_C2C_RATE = 450e9
"""Bytes per second and direction of NVLink-C2C (GH200 data sheet: 900 GB/s in both)."""


class HostTraffic(NamedTuple):
    """Bytes per second between SMs and the host's memory."""

    read: Evidence | None
    """Both directions together if the report does not distinguish them; see `is_split`."""
    written: Evidence | None
    is_split: bool
    peak: Peak | None
    """Peak of one direction; None: not in the report nor in the documentation."""


def uses_host_link(ledger: LaunchLedger) -> bool | None:
    """Whether SMs accessed the host's memory over a link; None: not measured.

    A GPU that shares its memory with the host has no such link.
    """
    integrated = ledger.launch.get("device_integrated")
    if integrated is not None and integrated.value:
        return None
    counters = [
        ledger.launch.get(metric_id) for metric_id in (_READ_MISSES, *_WRITTEN_SECTORS, _MISSES)
    ]
    sectors = [float(quantity.value) for quantity in counters if quantity is not None]
    if sectors:
        return any(value > 0 for value in sectors)
    return True if _fills_from_host(ledger) else None  # writes are not in that counter


def _fills_from_host(ledger: LaunchLedger) -> bool:
    """Whether L2 fetched more from host memory than other units do."""
    share, cycles, duration = map(ledger.launch.get, (_FILLS, _L2_CYCLES, "duration"))
    if share is None or cycles is None or duration is None:
        return False
    moved = float(share.value) / 100 * float(cycles.value) * SECTOR
    seconds = float(duration.value) * 1e-9
    if not (moved >= OTHER_FILLS_BYTES and seconds > 0):  # NaN is no traffic
        return False
    peak = _peak(ledger)
    return peak is not None and moved / seconds >= OTHER_FILLS_SHARE * float(peak.rate.value)


def host_traffic(ledger: LaunchLedger) -> HostTraffic:
    """For a launch that uses the link."""
    read, written = ledger.measured(_READ_MISSES), first(ledger, *_WRITTEN_SECTORS)
    together = ledger.measured(_MISSES) if read is None else None
    label = "read from host memory"
    if together is not None:
        read, written, label = together, None, "read from and written to host memory"
    return HostTraffic(
        _rate(ledger, "host_link.read", label, _filled(ledger) if read is None else read),
        _rate(ledger, "host_link.written", "written to host memory", written),
        together is None,
        _peak(ledger),
    )


def _filled(ledger: LaunchLedger) -> Evidence | None:
    """Sectors that L2 fetched from host memory. Writes are not in this counter."""
    share, cycles = ledger.measured(_FILLS), ledger.measured(_L2_CYCLES)
    if share is None or cycles is None:
        return None
    sectors = Quantity(round(share.value / 100 * cycles.value), "sector")
    label = "sectors that L2 fetched from host memory"
    return ledger.derived("host_link.filled", sectors, label, share, cycles)


def from_host(ledger: LaunchLedger) -> Evidence | None:
    """Percent of the sectors that L2 fetches that come from host memory."""
    host, of_device = ledger.measured(_FILLS), ledger.measured(_OWN_FILLS)
    if host is None or of_device is None or host.value + of_device.value <= 0:
        return None
    share = Quantity(100 * host.value / (host.value + of_device.value), "%")
    return ledger.derived(
        "host_link.fills", share, "of L2's fills are from host memory", host, of_device
    )


def _rate(ledger: LaunchLedger, name: str, label: str, sectors: Evidence | None) -> Evidence | None:
    if sectors is None:
        return None
    amount = ledger.derived(
        f"{name}.bytes", Quantity(sectors.value * SECTOR, "byte"), label, sectors
    )
    return per_second(ledger, f"{name}.rate", f"{label}, per second", amount)


def _peak(ledger: LaunchLedger) -> Peak | None:
    """The fastest link that the GPU supports: the slot may have fewer lanes or be older."""
    coupled = ledger.launch.get("c2c_present")
    generation = _PCIE.get(ledger.launch.device.compute_capability or "")
    if coupled is not None and coupled.value:
        rate, link = _C2C_RATE, "NVLink-C2C"
    elif generation is not None:
        rate, link = _PCIE_RATE[generation], f"PCIe {generation} x16"
    else:
        return None
    label = f"peak of {link} per direction (assumed)"
    evidence = ledger.derived("host_link.peak", Quantity(rate, "byte/s"), label)
    return Peak(evidence, f"documentation: {link}, assumed; the slot may be slower")
