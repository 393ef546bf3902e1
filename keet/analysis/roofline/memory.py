"""The memory ceilings: bytes that each level moved, against the most that it can move.

- DRAM: what was read and written, against the peak at the memory clock of the launch, or at that of
  the device where the launch is too short for its own.
- L2: sectors that SMs and L2 exchanged, against what the slices can serve to SMs.
- L1: the path that returns data of global and local loads, 128 bytes per cycle and SM, as in ncu's
  own hierarchical roofline. Stores are not in it.
- Shared: wavefronts of shared memory, 128 bytes per cycle and SM; a bank conflict is
  a wavefront more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from keet.analysis.hardware.ceilings import (
    SECTOR,
    Ceiling,
    Ceilings,
    Peak,
    ceiling_of_rate,
    clock,
    first,
    known_and_absent,
    per_second,
    positive,
)
from keet.analysis.hardware.stages import measured_stages
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import LONGEST_START_NS, SIMILAR
from keet.catalog import gpu_named, metrics
from keet.catalog.loading import exists_on
from keet.evidence import Evidence, Sentence, constant
from keet.profile import Absent
from keet.units import Quantity

LINE = 128
"""Bytes per cycle on the data paths of L1."""

LABELS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "Shared"}
"""Memory levels, from DRAM inwards."""

_SHARED_STAGES = ("l1_data_stage", "l1_bank_reads", "l1_bank_writes")
"""The stages of L1 that accesses to shared memory pass through."""


def memory_ceilings(
    ledger: LaunchLedger, units: Ceilings
) -> tuple[list[Ceiling], dict[str, Absent]]:
    return known_and_absent((level, find(ledger, units)) for level, find in _LEVELS.items())


def _level(
    ledger: LaunchLedger, units: Ceilings, level: str, achieved: Evidence, peak: Peak
) -> Ceiling:
    stage = units.stage(LABELS[level])
    if level == "shared":
        stage = next(iter(measured_stages(ledger, _SHARED_STAGES)), None)
    return ceiling_of_rate(ledger, level, LABELS[level], achieved, peak, kind="memory", stage=stage)


def _share_alone(units: Ceilings, level: str) -> Ceiling | None:
    """For reports without bytes: how busy the level was, without a rate."""
    ceiling = units.get(LABELS[level])
    return ceiling._replace(source=f"{ceiling.source}, without bytes") if ceiling else None


# --- DRAM


def dram_ceiling(ledger: LaunchLedger, units: Ceilings) -> Ceiling | Absent:
    achieved = ledger.measured("dram_bytes_per_second") or _dram_counted(ledger)
    if achieved is None:
        return _share_alone(units, "dram") or Absent(
            "DRAM traffic was not measured", "profile with: ncu --section MemoryWorkloadAnalysis"
        )
    peak = _dram_peak(ledger, achieved, positive(units.reached("DRAM")))
    return _level(ledger, units, "dram", achieved, peak) if peak else _NO_DRAM_PEAK


_NO_DRAM_PEAK = Absent(
    "the peak of DRAM is in neither the report nor keet's catalog",
    "profile with: ncu --section SpeedOfLight_RooflineChart",
)


def _dram_counted(ledger: LaunchLedger) -> Evidence | None:
    read, written = (ledger.measured(f"dram_bytes_{way}") for way in ("read", "written"))
    if read is None or written is None:
        return None
    total = read.value + written.value
    amount = ledger.derived("roofline.dram.bytes", total, "DRAM bytes", read, written, unit="byte")
    return per_second(ledger, "roofline.dram.achieved", "DRAM bytes per second", amount)


class DramClocks(NamedTuple):
    """Both in hertz."""

    measured: Evidence
    of_device: Evidence

    @property
    def factor(self) -> float:
        return float(self.of_device.value) / float(self.measured.value)


def slow_dram_clock(ledger: LaunchLedger) -> DramClocks | None:
    """If the measured clock is clearly below that of the device only because the launch is short:
    it is cycles over duration, and ncu counts no cycles while a launch starts. Of 90 launches on 14
    GPUs, all that last longer than 20 us have 95 % of the device's clock or more."""
    measured = positive(ledger.measured("dram_frequency"))
    counted = map(ledger.measured, ("device_memory_clock", "duration"))
    stated, duration = map(positive, counted)
    if measured is None or stated is None or duration is None:
        return None
    hertz = Quantity(1000 * float(stated.value), "hz")
    clocks = DramClocks(
        measured, ledger.derived("device_dram_clock", hertz, "DRAM clock of the device", stated)
    )
    uncounted_ns = float(duration.value) * (1 - 1 / clocks.factor)
    return clocks if clocks.factor > SIMILAR and uncounted_ns <= LONGEST_START_NS else None


def _dram_peak(ledger: LaunchLedger, achieved: Evidence, share: Evidence | None) -> Peak | None:
    name, label = "roofline.dram.peak", "DRAM peak"
    per_cycle = positive(ledger.measured("dram_peak_bytes_per_cycle"))
    speed = positive(ledger.measured("dram_frequency"))
    slow = slow_dram_clock(ledger)
    if per_cycle and speed:
        clock_used = slow.of_device if slow else speed
        rate = Quantity(per_cycle.value * clock_used.value, "byte/s")
        return Peak(
            ledger.derived(name, rate, label, per_cycle, clock_used),
            f"report: peak per cycle x DRAM clock{' of the device' if slow else ''}",
        )
    if share is not None and achieved.value > 0:
        more = slow.factor if slow else 1.0
        rate = Quantity(more * achieved.value * 100 / share.value, "byte/s")
        return Peak(
            ledger.derived(name, rate, label, achieved, share, *(slow or ())),
            f"report: rate / share of peak{' x DRAM clock of the device' if slow else ''}",
        )
    return _dram_nominal(ledger, name, label)


def _dram_nominal(ledger: LaunchLedger, name: str, label: str) -> Peak | None:
    """Peak from the attributes of the device (data moves on both edges of the clock), or from a
    data sheet."""
    speed = positive(ledger.measured("device_memory_clock"))
    width = positive(ledger.measured("device_memory_bus_width"))
    if speed and width:
        rate = Quantity(2 * speed.value * 1000 * width.value / 8, "byte/s")
        return Peak(ledger.derived(name, rate, label, speed, width), "report: device attributes")
    device = ledger.launch.device
    row = gpu_named(device.name or "", device.compute_capability, device.sm_count)
    if row is None or row.dram_gbps is None:
        return None
    rate = Quantity(row.dram_gbps * 1e9, "byte/s")
    return Peak(ledger.derived(name, rate, label), f"catalog: {row.source}")


# --- L2

_SM_SHARE_OF_LOOKUPS = dict.fromkeys(("7.0", "7.5", "8.0", "8.6", "8.9"), 1.0) | {"9.0": 2 / 3}
"""Sectors per cycle that a slice can look up for SMs, relative to those for all units: the peaks of
`lts__t_sectors_srcunit_tex` and `lts__t_sectors` in reports of eleven GPUs."""


def _l2(ledger: LaunchLedger, units: Ceilings) -> Ceiling | Absent:
    sectors, everybodys = (ledger.measured(name) for name in ("l2_l1_sectors", "l2_sectors"))
    peak = _l2_peak(ledger, sectors, everybodys) if sectors else None
    if sectors is None or peak is None:
        sectors, peak = everybodys, _lookup_peak(ledger, everybodys, 1.0)
    achieved = None
    if sectors is not None:
        amount = sectors.value * SECTOR
        moved = ledger.derived("roofline.l2.bytes", amount, "L2 bytes", sectors, unit="byte")
        achieved = per_second(ledger, "roofline.l2.achieved", "L2 bytes per second", moved)
    if achieved is None or peak is None:
        return _share_alone(units, "l2") or Absent(
            "L2 traffic was not measured",
            "profile with: ncu --section MemoryWorkloadAnalysis_Tables",
        )
    return _level(ledger, units, "l2", achieved, peak)


def _l2_peak(ledger: LaunchLedger, sectors: Evidence, everybodys: Evidence | None) -> Peak | None:
    per_cycle = positive(ledger.measured("l2_peak_bytes_per_cycle"))
    speed = positive(ledger.measured("l2_clock"))
    if per_cycle and speed:
        rate = per_cycle.value * speed.value
        return Peak(
            ledger.derived("roofline.l2.peak", rate, "L2 peak", per_cycle, speed, unit="byte/s"),
            "report: peak per cycle x L2 clock",
        )
    own_share = positive(ledger.measured("l2_l1_sectors_pct"))
    if own_share and sectors.value > 0:
        return _peak_by_share(ledger, sectors, own_share, 1.0)
    part = _SM_SHARE_OF_LOOKUPS.get(ledger.launch.device.compute_capability or "")
    return _lookup_peak(ledger, everybodys, part) if part else None


def _lookup_peak(ledger: LaunchLedger, sectors: Evidence | None, part: float) -> Peak | None:
    share = positive(ledger.measured("l2_sectors_pct"))
    if sectors is None or share is None or not sectors.value:
        return None
    return _peak_by_share(ledger, sectors, share, part)


def _peak_by_share(
    ledger: LaunchLedger, sectors: Evidence, share: Evidence, part: float
) -> Peak | None:
    """The rate at which the share would be 100 %."""
    duration = positive(ledger.measured("duration"))
    if duration is None:
        return None
    rate = sectors.value * SECTOR / (duration.value * 1e-9) / (share.value / 100)
    peak = ledger.derived(
        "roofline.l2.peak", rate * part, "L2 peak", sectors, share, duration, unit="byte/s"
    )
    usable, every = (constant(n, "", "lookups of sectors") for n in (2, 3))
    words = Sentence(", of which SMs can use {some:d} in {all:d}", some=usable, all=every)
    of_lookups = "" if part == 1 else words
    source = Sentence("report: sectors / share of peak{of_lookups}", of_lookups=of_lookups)
    return Peak(peak, source)


# --- L1 and shared memory

_LINE_KNOWN = ("7.0", "8.0", "8.6", "8.9", "9.0")
"""Compute capabilities on which a cycle of the path is known to carry 128 bytes."""
_NO_LINE = Absent(
    "how many bytes per cycle L1 moves is not known for this compute capability",
    "read the shares of peak in: keet metrics REPORT l1tex",
)


_L1_RETURNS = ("l1_lgds_return_cycles", "l1_lg_return_cycles")


def _l1(ledger: LaunchLedger, units: Ceilings) -> Ceiling | Absent:
    cycles = first(ledger, *_L1_RETURNS)
    if cycles is None:
        return _not_in_tables(ledger, "L1 traffic", _L1_RETURNS)
    return _lines(ledger, units, "l1", "bytes that L1 returned", cycles)


def _shared(ledger: LaunchLedger, units: Ceilings) -> Ceiling | Absent:
    ids = tuple(f"shared_{kind}_wavefronts" for kind in ("load", "store", "atomic"))
    parts = {metric_id: ledger.measured(metric_id) for metric_id in ids}
    measured = [part for part in parts.values() if part is not None]
    if len(measured) < len(ids):
        missing = tuple(metric_id for metric_id, part in parts.items() if part is None)
        return _not_in_tables(ledger, "shared memory traffic", missing)
    total = ledger.derived(
        "roofline.shared.wavefronts",
        Quantity(sum(part.value for part in measured), "wavefront"),
        "shared memory wavefronts",
        *measured,
    )
    return _lines(ledger, units, "shared", "bytes of shared memory wavefronts", total)


def _not_in_tables(ledger: LaunchLedger, what: str, missing: Sequence[str]) -> Absent:
    """A section that the report has would not help: then the remedy names the metrics."""
    names = [metrics()[metric_id].names[0] for metric_id in missing]
    chip = ledger.launch.device.compute_capability
    existing = [name for name in names if exists_on(name, chip) is not False]
    if not existing:
        return Absent(f"{what} was not measured", "ncu has no metric for it on this GPU")
    has_section = ledger.launch.get("shared_load_wavefronts") is not None
    asked = f"--metrics {','.join(existing)}" if has_section else f"--section {_TABLES}"
    return Absent(f"{what} was not measured", f"profile with: ncu {asked}")


_TABLES = "MemoryWorkloadAnalysis_Tables"


def _lines(
    ledger: LaunchLedger, units: Ceilings, level: str, label: str, cycles: Evidence
) -> Ceiling | Absent:
    """A ceiling from the cycles of a path that carries 128 bytes per cycle and SM."""
    if ledger.launch.device.compute_capability not in _LINE_KNOWN:
        return _NO_LINE
    amount = ledger.derived(
        f"roofline.{level}.bytes", cycles.value * LINE, label, cycles, unit="byte"
    )
    achieved = per_second(ledger, f"roofline.{level}.achieved", f"{label} per second", amount)
    speed, sms = clock(ledger), positive(first(ledger, "launch_sm_count", "device_sm_count"))
    if achieved is None or speed is None or sms is None:
        return Absent("the SM clock was not measured", "profile with: ncu --section SpeedOfLight")
    rate = Quantity(LINE * sms.value * speed.value, "byte/s")
    peak = ledger.derived(f"roofline.{level}.peak", rate, f"{LABELS[level]} peak", sms, speed)
    line = constant(LINE, "", "bytes that the path carries in a cycle")
    source = Sentence("{line:d} bytes per cycle and SM x SM clock", line=line)
    return _level(ledger, units, level, achieved, Peak(peak, source))


_LEVELS: dict[str, Callable[[LaunchLedger, Ceilings], Ceiling | Absent]] = {
    "dram": dram_ceiling,
    "l2": _l2,
    "l1": _l1,
    "shared": _shared,
}
