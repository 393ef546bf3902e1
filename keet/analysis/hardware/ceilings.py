"""Ceilings: the peak rates of the hardware, and how near a launch came to each.

There are two kinds. The ceiling of a unit (`DRAM`, `L2`, `FMA`) is how busy its busiest stage was.
The ceilings of the roofline are rates of work (operations of a type, bytes of a memory level)
against the peak of that work; see `roofline`. Both are relative to the elapsed cycles of the
launch, idle SMs included, and both name the busiest stage of the hardware.

A unit that was busy for 60 % of the elapsed cycles needs 60 % of the launch's time for its work,
and proportionally less for less work.

Also rates (amounts per second) from the counters of one launch, and the traffic of the SMs over the
link to host memory. The counters of PCIe itself are not used, because they count the whole chip:
about 40 kB of the profiler's own writes are in every launch, which is 10 GB/s in a launch of 4 us.

If L2 counts the accesses of SMs by memory, those counts are used. Small sets have only the memory
from which L2's misses were filled, for all units: these fills count only if they are clearly more
than what other units cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Literal, NamedTuple

from keet.analysis.hardware.stages import (
    UnitStage,
    leading_stage,
    measured_stage,
    measured_stages,
    rare_leaders,
    sampled_stages,
    share_of,
    shared_wavefronts_stage,
)
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import Parameter
from keet.analysis.roofline.tensor import with_real_share
from keet.catalog import hardware_units
from keet.evidence import Evidence
from keet.profile import Absent
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
    rate = amount.value / (duration.value * 1e-9)
    return ledger.derived(name, rate, label, amount, duration, unit=f"{amount.unit}/s")


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
    if ledger.launch.number("device_integrated"):
        return None
    counters = map(ledger.launch.number, (_READ_MISSES, *_WRITTEN_SECTORS, _MISSES))
    if sectors := [count for count in counters if count is not None]:
        return any(count > 0 for count in sectors)
    return True if _fills_from_host(ledger) else None  # writes are not in that counter


def _fills_from_host(ledger: LaunchLedger) -> bool:
    """Whether L2 fetched more from host memory than other units do."""
    share, cycles, duration = map(ledger.launch.number, (_FILLS, _L2_CYCLES, "duration"))
    if share is None or cycles is None or duration is None:
        return False
    moved, seconds = share / 100 * cycles * SECTOR, duration * 1e-9
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
        written, label = None, "read from and written to host memory"
    return HostTraffic(
        _rate(ledger, "host_link.read", label, read or together or _filled(ledger)),
        _rate(ledger, "host_link.written", "written to host memory", written),
        together is None,
        _peak(ledger),
    )


def _filled(ledger: LaunchLedger) -> Evidence | None:
    """Sectors that L2 fetched from host memory. Writes are not in this counter."""
    share, cycles = ledger.measured(_FILLS), ledger.measured(_L2_CYCLES)
    if share is None or cycles is None:
        return None
    sectors = round(share.value / 100 * cycles.value)
    label = "sectors that L2 fetched from host memory"
    return ledger.derived("host_link.filled", sectors, label, share, cycles, unit="sector")


def from_host(ledger: LaunchLedger) -> Evidence | None:
    """Percent of the sectors that L2 fetches that come from host memory."""
    host, of_device = ledger.measured(_FILLS), ledger.measured(_OWN_FILLS)
    if host is None or of_device is None or host.value + of_device.value <= 0:
        return None
    share = 100 * host.value / (host.value + of_device.value)
    return ledger.derived(
        "host_link.fills", share, "of L2's fills are from host memory", host, of_device, unit="%"
    )


def _rate(ledger: LaunchLedger, name: str, label: str, sectors: Evidence | None) -> Evidence | None:
    if sectors is None:
        return None
    amount = ledger.derived(f"{name}.bytes", sectors.value * SECTOR, label, sectors, unit="byte")
    return per_second(ledger, f"{name}.rate", f"{label}, per second", amount)


def _peak(ledger: LaunchLedger) -> Peak | None:
    """The fastest link that the GPU supports: the slot may have fewer lanes or be older."""
    generation = _PCIE.get(ledger.launch.device.compute_capability or "")
    if ledger.launch.number("c2c_present"):
        rate, link = _C2C_RATE, "NVLink-C2C"
    elif generation is not None:
        rate, link = _PCIE_RATE[generation], f"PCIe {generation} x16"
    else:
        return None
    label = f"peak of {link} per direction (assumed)"
    evidence = ledger.derived("host_link.peak", rate, label, unit="byte/s")
    return Peak(evidence, f"documentation: {link}, assumed; the slot may be slower")


NEAR_PEAK = Parameter(60.0, "percent of its peak from which a unit explains the time", "judgement")
TIE = Parameter(5.0, "percentage points by which passes of one report differ", "judgement")

Kind = Literal["compute", "memory", "issue", "link"]


class Ceiling(NamedTuple):
    """One ceiling and how near the launch came to it."""

    id: str
    """`dram`, `l2`, `issue`; of the roofline also `fp32`, `tensor_bf16`."""
    name: str
    """As in a table: `DRAM`, `L2`, `Tensor BF16`."""
    kind: Kind
    reached: Evidence
    """Percent of the peak, over the elapsed cycles; slightly above 100 where passes differ."""
    source: str
    """Where the peak, or the share alone, comes from."""
    achieved: Evidence | None = None
    """Operations or bytes per second; None if the report has only the share."""
    peak: Evidence | None = None
    stage: UnitStage | None = None
    """The busiest stage of the hardware; None: no stage was measured."""

    @property
    def spoken(self) -> str:
        """As in a sentence."""
        stage = self.stage
        if (
            stage is not None
            and stage.id in _HEAVY_HALVES
            and stage.busy.value == self.reached.value
        ):
            return _HEAVY_HALVES[stage.id]
        return spoken_unit(self.name)

    @property
    def label(self) -> str:
        """As in a table, with the half of the pipe that is meant."""
        return f"{self.name} (heavy half)" if self.spoken in _HEAVY_HALVES.values() else self.name

    @property
    def verb(self) -> str:
        """`are` for units with a name in the plural."""
        return verb_of(self.name)

    @property
    def share(self) -> float:
        """0 to 1; slightly above 1 where passes differ."""
        return share_of(self.reached)

    @property
    def busier_stage(self) -> UnitStage | None:
        """The stage, if it is clearly busier than the amount of work suggests: replays, small
        requests."""
        stage = self.stage
        return stage if stage and stage.busy.value > self.reached.value + TIE else None


SAME_PIPE = Parameter(0.01, "difference to the whole SM's share that a pipe explains", "judgement")
DRAM_PASSED_ON = Parameter(0.75, "share of DRAM's peak: L2 passes on its bytes", "judgement")
L2_BEYOND_DRAM = Parameter(0.12, "largest lead of such an L2, as a share of peak", "judgement")
_JUST_BEHIND = 0.001
"""Share of the peak: places a unit behind the one whose work it passes on."""


def nearest(ranked: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """The first, and those that tie with it; empty if nothing was done. Nearest first."""
    top = ranked[0].share if ranked else 0.0
    least = top - min(TIE / 100, top / 2)
    return tuple(ceiling for ceiling in ranked if ceiling.share >= least) if top > 0 else ()


def ceiling_of_rate(  # noqa: PLR0913 - what such a ceiling is made of
    ledger: LaunchLedger,
    ceiling_id: str,
    name: str,
    achieved: Evidence,
    peak: Peak,
    *,
    kind: Kind,
    stage: UnitStage | None = None,
) -> Ceiling:
    """A rate of work against its peak."""
    reached = ledger.derived(
        f"roofline.{ceiling_id}.reached",
        Quantity(100 * achieved.value / peak.rate.value, "%"),
        f"{name}: share of peak",
        achieved,
        peak.rate,
    )
    return Ceiling(ceiling_id, name, kind, reached, peak.source, achieved, peak.rate, stage)


def known_and_absent(
    ceilings: Iterable[tuple[str, Ceiling | Absent]],
) -> tuple[list[Ceiling], dict[str, Absent]]:
    """Ceilings, and by id why others are not known."""
    rows = list(ceilings)
    return (
        [ceiling for _, ceiling in rows if isinstance(ceiling, Ceiling)],
        {name: absent for name, absent in rows if isinstance(absent, Absent)},
    )


# --- units


class _Unit(NamedTuple):
    """A unit as people name it, and the hardware units of the catalog that are its stages."""

    kind: Kind
    stages: tuple[str, ...]
    whole: tuple[str, ...] = ()
    """Units whose share is that of their busiest stage, even if that stage was not collected."""
    rare: tuple[str, ...] = ()
    """Stages that are rarely the busiest: their evidence is entered only if they are."""


_UNITS = {
    "DRAM": _Unit("memory", ("dram",)),
    "L2": _Unit(
        "memory",
        ("l2_tags", "l2_sectors", "l2_data_banks", "l2_to_sm", "sm_to_l2", "l2_fill_dram"),
        ("l2",),
        ("l2_atomics", "l2_fabric", "system_memory"),
    ),
    "L1": _Unit(
        "memory",
        (
            *("l1_data_stage", "l1_bank_reads", "l1_bank_writes", "l1_from_l2", "l1_to_l2"),
            *("lsu", "l1_writeback"),
        ),
        ("l1", "l1_while_active"),
        (
            *("shared_memory", "distributed_shared"),
            *("tex", "tex_data_stage", "tex_filter", "tex_writeback"),
        ),
    ),
    "LSU": _Unit("memory", ("lsu",)),
    "FMA": _Unit("compute", ("fma", "fmaheavy")),
    "ALU": _Unit("compute", ("alu", "aluheavy")),
    "FP64": _Unit("compute", ("fp64",)),
    "FP16": _Unit("compute", ("fp16",)),
    "XU": _Unit("compute", ("xu",)),
    "tensor": _Unit("compute", ("tensor", "tensor_fp64")),
    "ADU": _Unit("compute", ("adu",)),
    "issue": _Unit("issue", ("issue_slots",)),
    "NVLink": _Unit("link", ("nvlink_received", "nvlink_sent")),
}

MEMORY_UNITS = ("DRAM", "L2", "L1")
HOST_LINK = "host link"
WHOLE_SM = "SM"
WHOLE_MEMORY = "memory"
WHOLE = (WHOLE_SM, WHOLE_MEMORY)
"""Shares of the busiest of several units that the report does not tell apart."""
_WHOLE_MEMORY = ("memory_throughput_pct", "mem_busy_pct", "mem_max_bandwidth_pct")
PIPES = ("LSU", "FMA", "ALU", "FP64", "FP16", "XU", "tensor", "ADU")

_SPOKEN_UNITS = {
    "issue": "the issue slots",
    **{pipe: f"the {pipe} pipe" for pipe in ("LSU", "FMA", "ALU", "FP64", "FP16", "XU")},
    "tensor": "the tensor cores",
    "ADU": "the ADU pipe (barriers, constant loads)",
    HOST_LINK: "the link to the host",
    WHOLE_SM: "the busiest pipe of the SMs",
    WHOLE_MEMORY: "the busiest unit of the memory system",
}

_HEAVY_HALVES = {f"{p.lower()}heavy": f"the heavy half of the {p} pipe" for p in ("FMA", "ALU")}
"""Some instructions run on one half of a pipe only: integer multiplications on that of FMA."""
_PLURAL_UNITS = ("issue", "tensor")


def spoken_unit(name: str) -> str:
    """`the LSU pipe`: a unit as in a sentence."""
    return _SPOKEN_UNITS.get(name, name)


def verb_of(name: str) -> str:
    """`are` for units with a name in the plural."""
    return "are" if name in _PLURAL_UNITS else "is"


class Ceilings:
    """The ceilings of the units of one launch. A unit without a number is unknown, not zero."""

    def __init__(self, ledger: LaunchLedger) -> None:
        self._ledger = ledger
        self._by_name: dict[str, Ceiling] = {}
        self._idle: set[str] = set()
        """Links that were measured and carried nothing: they get no row in a table."""
        self._host: HostTraffic | None = None
        self.are_counted = False
        """Whether shares are lower bounds, from counted work; see `with_units`."""
        for name, unit in _UNITS.items():
            self._add(name, _unit_ceiling(ledger, name, unit))
        if "issue" not in self:  # small sets have only the share of the SM's busiest pipe
            self._add_whole(WHOLE_SM, "compute", ledger.measured("sm_throughput_pct"), PIPES)
        if self.unmeasured:  # others that of the busiest unit, but not that of L1 or L2
            busy = filter(None, map(ledger.measured, _WHOLE_MEMORY))
            busiest = max(busy, key=lambda share: float(share.value), default=None)
            self._add_whole(WHOLE_MEMORY, "memory", busiest, (*MEMORY_UNITS, "LSU"))
        self._add_host_link()

    def _add(self, name: str, ceiling: Ceiling | None) -> None:
        if ceiling is None:
            return
        if ceiling.kind == "link" and not ceiling.reached.value:
            self._idle.add(name)
        else:
            self._by_name[name] = ceiling

    def _add_whole(
        self, name: str, kind: Kind, busy: Evidence | None, units: Iterable[str]
    ) -> None:
        """The share of the busiest of several units, unless one that was measured explains it."""
        shares = (self._by_name[unit].share for unit in units if unit in self._by_name)
        if busy is not None and max(shares, default=0.0) < share_of(busy) - SAME_PIPE:
            self._add(name, Ceiling(name.lower(), name, kind, busy, f"report: {busy.metric}"))

    def _add_host_link(self) -> None:
        used = uses_host_link(self._ledger)
        if used:
            self._host = host_traffic(self._ledger)
            self._add(HOST_LINK, _host_ceiling(self._ledger, self._host))
        elif used is False:
            self._idle.add(HOST_LINK)

    def add_sampled(self) -> None:
        """Adds units whose load only PM samples show."""
        for name, stage in sampled_stages(self._ledger):
            source = f"report: {stage.busy.metric.removeprefix('sampled.')}"
            kind = _UNITS[name].kind
            self._add(name, Ceiling(name.lower(), name, kind, stage.busy, source, stage=stage))
        vars(self).pop("ranked", None)

    def with_units(self, counted: Iterable[Ceiling]) -> Ceilings:
        """The same with units whose load is known from the amount of their work alone: a lower
        bound. Others are unknown."""
        for ceiling in counted:
            self._add(ceiling.name, ceiling)
            self.are_counted = True
        vars(self).pop("ranked", None)
        return self

    def __contains__(self, name: str) -> bool:
        return name in self._by_name or name in self._idle

    def get(self, name: str) -> Ceiling | None:
        """None: not measured, or a link that carried nothing (see `share`)."""
        return self._by_name.get(name)

    def share(self, name: str) -> float | None:
        """0 to 1, as measured; slightly above 1 where passes differ. None: not measured."""
        ceiling = self._by_name.get(name)
        return ceiling.share if ceiling else 0.0 if name in self._idle else None

    def reached(self, name: str) -> Evidence | None:
        return self._by_name[name].reached if name in self._by_name else None

    def stage(self, name: str) -> UnitStage | None:
        """The busiest stage of a unit; it may be inferred from the unit's share."""
        return self._by_name[name].stage if name in self._by_name else None

    def stages(self, name: str) -> tuple[UnitStage, ...]:
        """All stages of a unit that were measured, the busiest first."""
        if name == HOST_LINK:
            return _host_stages(self._ledger, self._host) if self._host else ()
        unit = _UNITS.get(name)
        return measured_stages(self._ledger, (*unit.stages, *unit.rare)) if unit else ()

    def rate(self, name: str) -> Evidence | None:
        """Bytes per second over the link to the host, in its busier direction; also known without a
        peak. None for units without a rate in the report."""
        if name == HOST_LINK and self._host:
            rates = filter(None, (self._host.read, self._host.written))
            return max(rates, key=lambda rate: rate.value, default=None)
        return self._by_name[name].achieved if name in self._by_name else None

    @cached_property
    def ranked(self) -> tuple[Ceiling, ...]:
        return tuple(sorted(self._by_name.values(), key=lambda c: -self._nearness(c)))

    def _nearness(self, ceiling: Ceiling) -> float:
        """Share for ranking. A unit that only passes on the work of another is ranked just behind
        it.

        L2 passes on what DRAM delivers and is some points nearer its own peak, but DRAM is the
        limit. The LSU's requests are a stage of L1: if it is the busiest stage, the LSU is the
        limit.
        """
        if ceiling.name == "L2" and "DRAM" in self._by_name:
            dram = self._by_name["DRAM"].share
            if dram >= DRAM_PASSED_ON and 0 <= ceiling.share - dram <= L2_BEYOND_DRAM:
                return dram - _JUST_BEHIND
        is_lsu = ceiling.name == "L1" and ceiling.stage and ceiling.stage.id == "lsu"
        return ceiling.share - _JUST_BEHIND if is_lsu else ceiling.share

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The levels of memory whose load is unknown. They may be busy."""
        return tuple(name for name in MEMORY_UNITS if name not in self)

    @property
    def nearest(self) -> tuple[Ceiling, ...]:
        """The busiest unit, and those that tie with it."""
        return nearest(self.ranked) or self.ranked[:1]


def _unit_ceiling(ledger: LaunchLedger, name: str, unit: _Unit) -> Ceiling | None:
    whole = next(filter(None, map(partial(measured_stage, ledger), unit.whole)), None)
    leading = rare_leaders(ledger, whole, unit.rare) if whole and unit.rare else ()
    stages = measured_stages(ledger, (*unit.stages, *leading))
    stage = leading_stage(ledger, name, whole, stages)
    if stage is None and name == "L1":
        stage = measured_stage(ledger, "shared_memory") or shared_wavefronts_stage(ledger)
    if stage is None:
        return None
    if stage.id == "tensor":
        stage = with_real_share(ledger, stage)
    source = f"report: {stage.busy.metric}"
    return Ceiling(name.lower(), name, unit.kind, stage.busy, source, stage=stage)


# --- the link to the host


def _host_ceiling(ledger: LaunchLedger, traffic: HostTraffic) -> Ceiling | None:
    """None where the peak of the link is not known."""
    stages, peak = _host_stages(ledger, traffic), traffic.peak
    if not stages or peak is None:
        return None
    busiest = stages[0]
    rate = traffic.written if busiest.id == "host_writes" else traffic.read
    together = "" if traffic.is_split else "; both directions as if they were one"
    source = f"{peak.source}{together}"
    return Ceiling("host_link", HOST_LINK, "link", busiest.busy, source, rate, peak.rate, busiest)


def _host_stages(ledger: LaunchLedger, traffic: HostTraffic) -> tuple[UnitStage, ...]:
    """One per direction, the busier first."""
    stages = []
    for unit_id, rate in (("host_reads", traffic.read), ("host_writes", traffic.written)):
        if traffic.peak is not None and rate is not None:
            label, peak = hardware_units()[unit_id].label, traffic.peak.rate
            share = 100 * rate.value / peak.value
            name = f"host_link.{unit_id}.reached"
            busy = ledger.derived(name, share, f"{label} busy", rate, peak, unit="%")
            stages.append(UnitStage(unit_id, label, busy))
    return tuple(sorted(stages, key=lambda stage: -stage.busy.value))
