"""What the SMs moved over the link to the host's memory, and the most that the link can move.

Only L2 counters of accesses by SMs are used. The counters of PCIe itself see the whole chip: about
40 kB of the profiler's own writes are in every launch, which is 10 GB/s in one of 4 us.
"""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.rates import SECTOR, Peak, first, measured, per_second
from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity

_READ = "l2_sysmem_read_misses"
_WRITTEN = ("l2_sysmem_write_sectors", "l2_sysmem_write_misses")
_ALL = "l2_sysmem_misses"

_PCIE = {
    "6.0": "3.0",
    "6.1": "3.0",
    "7.0": "3.0",
    "7.5": "3.0",
    "8.0": "4.0",
    "8.6": "4.0",
    "8.9": "4.0",
    "9.0": "5.0",
    "10.0": "5.0",
    "12.0": "5.0",
}
"""The PCIe generation of the GPUs of a compute capability, by NVIDIA's data sheets."""
_PCIE_RATE = {"3.0": 15.754e9, "4.0": 31.508e9, "5.0": 63.015e9}
"""Bytes per second and direction of 16 lanes: 8, 16 and 32 GT/s with 128b/130b encoding."""
_C2C_RATE = 450e9
"""Bytes per second and direction of NVLink-C2C (GH200 data sheet: 900 GB/s in both)."""


class HostTraffic(NamedTuple):
    """Bytes per second between SMs and the host's memory."""

    read: Evidence | None
    """Both directions together where the report does not tell them apart; see `is_split`."""
    written: Evidence | None
    is_split: bool
    peak: Peak | None
    """Of one direction; None: neither the report nor documentation knows it."""


def uses_host_link(launch: Launch) -> bool | None:
    """Whether SMs accessed the host's memory over a link; None: not measured.

    A GPU that shares its memory with the host has no such link.
    """
    integrated = launch.get("device_integrated")
    if integrated is not None and integrated.value:
        return None
    found = [launch.get(metric_id) for metric_id in (_READ, *_WRITTEN, _ALL)]
    known = [float(quantity.value) for quantity in found if quantity is not None]
    return any(value > 0 for value in known) if known else None


def host_traffic(ledger: Ledger) -> HostTraffic:
    """For a launch that uses the link."""
    read, written = measured(ledger, _READ), first(ledger, *_WRITTEN)
    is_split = read is not None
    if read is None:
        read, written = measured(ledger, _ALL), None
    label = "read from host memory" if is_split else "read from and written to host memory"
    return HostTraffic(
        _rate(ledger, "host_link.read", label, read),
        _rate(ledger, "host_link.written", "written to host memory", written),
        is_split,
        _peak(ledger),
    )


def _rate(ledger: Ledger, name: str, label: str, sectors: Evidence | None) -> Evidence | None:
    if sectors is None:
        return None
    amount = ledger.derived(
        f"{name}.bytes", Quantity(sectors.value * SECTOR, "byte"), label, sectors
    )
    return per_second(ledger, f"{name}.rate", f"{label}, per second", amount)


def _peak(ledger: Ledger) -> Peak | None:
    """The fastest link that the GPU supports: the slot may have fewer lanes or be older."""
    coupled = ledger.launch.get("c2c_present")
    if coupled is not None and coupled.value:
        return _assumed(ledger, _C2C_RATE, "NVLink-C2C")
    generation = _PCIE.get(ledger.launch.device.compute_capability or "")
    if generation is None:
        return None
    return _assumed(ledger, _PCIE_RATE[generation], f"PCIe {generation} x16")


def _assumed(ledger: Ledger, rate: float, link: str) -> Peak:
    quantity = Quantity(rate, "byte/s")
    label = f"peak of {link} per direction (assumed)"
    evidence = ledger.derived("host_link.peak", quantity, label)
    return Peak(evidence, f"documentation: {link}, assumed; the slot may be slower")
