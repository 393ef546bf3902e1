"""A unit's inner stages (L2: tag lookups, data banks, ports) and how busy each was.

Each stage has its own peak; shares are over the elapsed cycles. The busiest stage limits the unit,
and shows what to change: tag lookups are limited by requests, data banks by bytes, the L1 data
stage by replayed wavefronts.

For reports that have no other numbers, PM sampling tells how busy units were. A PM sample is the
share of a unit's peak since the sample before it. The window of the samples is longer than the
launch, so the plain average that the report stores is too low, by a factor of 20 for a launch of
10 us. The sum over time, divided by the launch's duration, is what the ordinary counters show,
usually within 5 %, in public reports that have both. Two reports sampled other work as well, or
missed the launch; they are recognised by the SMs' active cycles. Samples of DRAM are 0 % to 50 %
below the counters, depending on the GPU: they only bound a gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import SIMILAR, Parameter
from keet.catalog import HardwareUnit, exists_on, hardware_units
from keet.evidence import Evidence
from keet.units import Quantity


class UnitStage(NamedTuple):
    """One stage of a unit, and its share of peak over the elapsed cycles in percent."""

    id: str
    """Id of the hardware unit in the catalog: `l2_tags`, `l1_data_stage`."""
    label: str
    busy: Evidence
    inferred: bool = False
    """Inferred: the report shows how busy the unit's busiest stage was but has no counter of that
    stage. Which stage it is follows from the other stages."""
    at_most: bool = False
    """The report has the share of the active cycles only: SMs that have a block count as active all
    the time."""

    @property
    def share(self) -> float:
        """0 to 1; counters of two passes can give a little more than 1."""
        return share_of(self.busy)


def share_of(percent: Evidence) -> float:
    """Never below 0: counters of two passes can give slightly negative values."""
    share = float(percent.value) / 100
    return share if share > 0.0 else 0.0


def measured_stage(ledger: LaunchLedger, unit_id: str) -> UnitStage | None:
    """None where the report has no share of the stage's peak."""
    unit, label = _known_unit(unit_id)
    for name in unit.share_of_peak:
        share = ledger.named(name, label)
        if share is not None:
            if unit.basis == "elapsed":
                return UnitStage(unit_id, unit.label, share)
            return _over_elapsed(ledger, unit_id, share)
    if unit_id == "issue_slots":
        return _issue_slots(ledger, unit)
    # ComputeWorkloadAnalysis has pipes over the active cycles only.
    for name in unit.share_of_peak if unit.basis == "elapsed" else ():
        if _PER_ELAPSED in name and name.startswith("sm__"):
            share = ledger.named(name.replace(_PER_ELAPSED, _PER_ACTIVE), f"{label} while active")
            if share is not None and (stage := _over_elapsed(ledger, unit_id, share)) is not None:
                return stage
    return None


_PER_ELAPSED, _PER_ACTIVE = "sustained_elapsed", "sustained_active"


@cache
def _known_unit(unit_id: str) -> tuple[HardwareUnit, str]:
    """With the label of its evidence."""
    unit = hardware_units()[unit_id]
    return unit, f"{unit.label} busy"


SCHEDULERS = 4
"""Schedulers per SM, each of which issues at most one instruction per cycle: all GPUs since
Volta."""
_ONE_PER_CYCLE = 7
"""Compute capability of Volta; schedulers before it issue up to two instructions per cycle."""


def _issue_slots(ledger: LaunchLedger, unit: HardwareUnit) -> UnitStage | None:
    """Share of issue slots from counts of instructions and cycles; else from the rate, if the set
    has only that."""
    generation = (ledger.launch.device.compute_capability or "").partition(".")[0]
    if not generation.isdecimal():
        return None
    ways = [_issued_per_slot, _executed_per_cycle, _executed_per_slot, _issued_while_active]
    if int(generation) < _ONE_PER_CYCLE:
        ways = [_issuing_while_active, _issued_while_active]
    issued = next(filter(None, (way(ledger) for way in ways)), None)
    if issued is None:
        return None
    label = f"{unit.label} busy{_IF_ACTIVE if issued.is_assumed else ''}"
    busy = ledger.derived("issue_slots_used", issued.part, label, *issued.sources, unit="%")
    return UnitStage("issue_slots", unit.label, busy, at_most=issued.is_assumed)


class _Share(NamedTuple):
    """What a stage or an SM was busy for, of all cycles."""

    part: float
    """0 to 1; in percent for the issue slots."""
    sources: tuple[Evidence, ...]
    is_assumed: bool = False


_IF_ACTIVE = ", if the SMs are always active"


def _issued_per_slot(ledger: LaunchLedger) -> _Share | None:
    """From counts, which printed pages do not round."""
    issued, slots = map(ledger.measured, ("inst_issued_total", "smsp_elapsed_cycles_total"))
    if issued is None or slots is None or not slots.value:
        return None
    return _Share(100 * issued.value / slots.value, (issued, slots))


def _issuing_while_active(ledger: LaunchLedger) -> _Share | None:
    """From the cycles in which a scheduler issued, whether one instruction or two."""
    issuing = ledger.measured("one_or_more_eligible_pct")
    elapsed, active = map(ledger.measured, ("ipc_executed_elapsed", "ipc_executed_active"))
    if issuing is None or elapsed is None or active is None or not active.value:
        return None
    share = float(issuing.value) * min(1.0, float(elapsed.value) / float(active.value))
    return _Share(share, (issuing, elapsed, active))


_PRINTED_DECIMALS = 2
"""For a rounded rate on a printed page: 0.03 instructions per cycle may be 0.025 or 0.035."""


def _executed_per_cycle(ledger: LaunchLedger) -> _Share | None:
    rate = ledger.measured("ipc_executed_elapsed")
    if rate is None:
        return None
    share = 100 * float(rate.value) / SCHEDULERS
    if rate.value == round(rate.value, _PRINTED_DECIMALS):  # 0.01 per cycle is 0.25 % of the slots
        share = round(share, 1)
    return _Share(share, (rate,))


def _executed_per_slot(ledger: LaunchLedger) -> _Share | None:
    """From the instructions that the source counters count, and the elapsed cycles."""
    executed, elapsed = ledger.measured("inst_executed"), ledger.measured("elapsed_cycles")
    sms = ledger.launch.device.sm_count
    if executed is None or elapsed is None or not elapsed.value or not sms:
        return None
    share = 100 * float(executed.value) / (SCHEDULERS * sms * float(elapsed.value))
    return _Share(share, (executed, elapsed))


_ACTIVE_SHARE = "sm__issue_active.avg.pct_of_peak_sustained_active"


def _issued_while_active(ledger: LaunchLedger) -> _Share | None:
    """From the share of the active cycles. SMs without a block are not active; other idle time is
    not known here."""
    shares = (
        ledger.measured("issue_slots_busy_active_pct"),
        ledger.named(_ACTIVE_SHARE, "issue slots busy while active"),
        ledger.measured("one_or_more_eligible_pct"),
    )
    share, active = next(filter(None, shares), None), _active_part(ledger)
    if share is None or active is None:
        return None
    return _Share(float(share.value) * active.part, (share, *active.sources), active.is_assumed)


def _active_part(ledger: LaunchLedger) -> _Share | None:
    """Of all cycles of all SMs, those in which they are active. Without cycles, an SM counts as
    active if the grid has a block for it: other idle time is not known then."""
    active, elapsed = ledger.measured("sm_active_cycles"), ledger.measured("elapsed_cycles")
    if active is not None and elapsed is not None and elapsed.value:
        part = min(1.0, float(active.value) / float(elapsed.value))
        return _Share(part, (active, elapsed))
    blocks, sms = ledger.measured("grid_size"), ledger.launch.device.sm_count
    if blocks is None or not sms:
        return None
    return _Share(min(1.0, float(blocks.value) / sms), (blocks,), is_assumed=True)


def measured_stages(ledger: LaunchLedger, unit_ids: Iterable[str]) -> tuple[UnitStage, ...]:
    """Those that were measured, the busiest first."""
    stages = filter(None, [measured_stage(ledger, unit_id) for unit_id in unit_ids])
    return tuple(sorted(stages, key=lambda stage: -stage.busy.value))


def shared_wavefronts_stage(ledger: LaunchLedger) -> UnitStage | None:
    """The data stage of L1, from the wavefronts of shared memory that source counters count: it
    does one per cycle. At least this busy, since other accesses are not counted."""
    fronts, elapsed = ledger.measured("src_shared_wavefronts"), ledger.measured("elapsed_cycles")
    sms, unit = ledger.launch.device.sm_count, hardware_units()["l1_data_stage"]
    if fronts is None or not fronts.value or elapsed is None or not elapsed.value or not sms:
        return None
    share = 100 * float(fronts.value) / (sms * float(elapsed.value))
    label = "L1 busy with shared memory"
    busy = ledger.derived("shared_wavefronts_per_cycle", share, label, fronts, elapsed, unit="%")
    return UnitStage("l1_data_stage", unit.label, busy)


def _over_elapsed(ledger: LaunchLedger, unit_id: str, busy: Evidence) -> UnitStage | None:
    """Converts a share of the SMs' active cycles to a share of all cycles."""
    active, unit = _active_part(ledger), hardware_units()[unit_id]
    if active is None:
        return None
    share = Quantity(float(busy.value) * active.part, "%")
    label = f"{unit.label.partition(' (')[0]} busy, of peak, over elapsed cycles"
    label += _IF_ACTIVE if active.is_assumed else ""
    busy_elapsed = ledger.derived(f"{busy.slug}_elapsed", share, label, busy, *active.sources)
    return UnitStage(unit_id, unit.label, busy_elapsed, at_most=active.is_assumed)


SAME_CLOCK = Parameter(
    0.9, "least ratio of an SM's elapsed cycles to the GPCs'; 0.97 was seen", "judgement"
)


def sm_elapsed_cycles(ledger: LaunchLedger) -> Evidence | None:
    """Elapsed cycles to compare the active cycles of an SM with; None: not measured.

    Printed pages have the sum over the SMs but not the active cycles of the longest SM. Other
    shares of the SMs are relative to that sum, and the GPCs count a few percent more.
    """
    elapsed = ledger.measured("elapsed_cycles")
    total, sms = ledger.measured("sm_elapsed_cycles_total"), ledger.launch.device.sm_count
    if elapsed is None or total is None or not sms or ledger.measured("sm_active_cycles_max"):
        return elapsed
    of_sm = float(total.value) / sms
    if not SAME_CLOCK * elapsed.value <= of_sm <= elapsed.value / SAME_CLOCK:
        return elapsed
    label = "elapsed cycles of an SM"
    return ledger.derived("sm_elapsed_cycles", of_sm, label, total, unit="cycle")


# --- the busiest stage of a unit

SAME_STAGE = Parameter(0.95, "least ratio of a stage to the unit that it explains", "judgement")
SAME_STAGE_POINTS = Parameter(0.5, "percentage points, in addition", "judgement")
_FABRIC_SECTORS = "lts__t_sectors_srcunit_ltcfabric"
"""A counter that only GPUs with two L2 partitions have."""


FABRIC_PER_SECTOR = Parameter(
    2.16,
    "share of the peak of L2's fabric over that of its sector lookups, where the fabric leads",
    "fit",
)
"""Half of the launches of the casebook whose L2 is above 70 % of peak are within 2.09 to 2.24."""
_BY_REQUEST = ("l2_tags", "sm_to_l2")
"""Stages of L2 whose work is requests; that of the others is sectors."""


def l2_share_by_sectors(ledger: LaunchLedger, stages: Iterable[UnitStage]) -> float | None:
    """Share of its peak, 0 to 1, that L2 would reach if requests took it no time, but only the
    sectors that it moves; None: not measured. `stages` include the leading one, which may be
    inferred."""
    shares = {stage.id: stage.share for stage in stages if stage.id not in _BY_REQUEST}
    sectors = shares.get("l2_sectors")
    if sectors is None:
        return None
    has_fabric = exists_on(_FABRIC_SECTORS, ledger.launch.device.compute_capability)
    return max(*shares.values(), FABRIC_PER_SECTOR * sectors if has_fabric else 0.0)


def leading_stage(
    ledger: LaunchLedger, name: str, whole: UnitStage | None, stages: tuple[UnitStage, ...]
) -> UnitStage | None:
    """The busiest stage of a unit, with the share of the unit; None: not measured.

    `whole` is the unit's own share, which ncu takes from its busiest stage, collected or not;
    `stages` are the measured ones, the busiest first.
    """
    busiest = stages[0] if stages else None
    if whole is None or (busiest and busiest.busy.value >= whole.busy.value):
        return busiest
    if busiest and busiest.busy.value >= SAME_STAGE * whole.busy.value - SAME_STAGE_POINTS:
        # A share that was converted is less exact than the stage's own.
        return busiest if whole.busy.derived_from else busiest._replace(busy=whole.busy)
    return _unseen(ledger, name, whole, stages)


def rare_leaders(
    ledger: LaunchLedger, whole: UnitStage, unit_ids: Iterable[str]
) -> tuple[str, ...]:
    """Those of these stages that may be behind the unit's share; enters no evidence."""
    least = SAME_STAGE * whole.busy.value - SAME_STAGE_POINTS

    def share(unit_id: str) -> float:
        for metric in map(ledger.launch.metric, _known_unit(unit_id)[0].share_of_peak):
            if metric is not None and isinstance(metric.value, (int, float)):
                return float(metric.value)
        return -math.inf

    return tuple([unit_id for unit_id in unit_ids if share(unit_id) >= least])


def _unseen(
    ledger: LaunchLedger, name: str, whole: UnitStage, stages: tuple[UnitStage, ...]
) -> UnitStage:
    """The stage behind a unit's share that no measured stage explains.

    On GPUs with two L2 partitions, the fabric between them is part of ncu's L2 throughput, but no
    section contains its share.
    """
    if name == "L2" and exists_on(_FABRIC_SECTORS, ledger.launch.device.compute_capability):
        label = hardware_units()["l2_fabric"].label
        return UnitStage("l2_fabric", label, whole.busy, inferred=True)
    for stage in stages:
        distance = abs(2 * stage.busy.value - whole.busy.value)
        if stage.id in _STAGES_COUNTED_TWICE and distance <= (1 - SAME_STAGE) * whole.busy.value:
            return stage._replace(busy=whole.busy, inferred=True)
    return whole._replace(label=f"the busiest stage of {name}", inferred=True)


_STAGES_COUNTED_TWICE = ("l1_to_l2", "l1_data_stage")
"""Stages of L1 that ncu counts twice in L1's throughput: their own shares are of twice the peak.
Seen in reports of 7.0, 7.5, 8.6, 8.9 and 12.0 (the data stage on 7.5 only), not of 9.0."""


_SAMPLED_SHARE = "pmsampling:{}.avg.pct_of_peak_sustained_elapsed"
_SAMPLED_ACTIVE_CYCLES = "pmsampling:sm__cycles_active.avg"
_SAMPLED_UNITS = {
    "issue": ("issue_slots", "sm__inst_executed_realtime"),
    "ALU": ("alu", "sm__inst_executed_pipe_alu_realtime"),
    "XU": ("xu", "sm__inst_executed_pipe_xu_realtime"),
    "tensor": ("tensor", "sm__pipe_tensor_cycles_active_realtime"),
    "L1": ("l1_writeback", "l1tex__lsu_writeback_active"),
}
"""By unit: its stage in the catalog, and what is sampled."""


def sampled_stages(ledger: LaunchLedger) -> Iterator[tuple[str, UnitStage]]:
    """Units with the stage that was sampled; nothing where the samples do not fit the launch."""
    for unit, (stage_id, name) in _SAMPLED_UNITS.items():
        label = hardware_units()[stage_id].label
        share = _over_time(ledger, _SAMPLED_SHARE.format(name), f"{label} busy, by PM sampling")
        if share is not None:
            yield unit, UnitStage(stage_id, label, share)


def sampled_dram(ledger: LaunchLedger) -> float:
    """The least share of its peak that DRAM was busy for, 0 to 1; 0: not known."""
    share = _over_time(ledger, _SAMPLED_SHARE.format("dramc__throughput"), "DRAM busy at least")
    return float(share.value) / 100 if share else 0.0


def _fits(ledger: LaunchLedger) -> bool:
    """Whether the samples show this launch, and no other work."""
    active = ledger.named(_SAMPLED_ACTIVE_CYCLES, "active cycles by PM sampling")
    elapsed = ledger.measured("elapsed_cycles")
    return bool(active and elapsed and 0 < active.value <= SIMILAR * elapsed.value)


def _over_time(ledger: LaunchLedger, name: str, label: str) -> Evidence | None:
    """The sum of the samples over the launch's duration."""
    duration = ledger.measured("duration")
    if duration is None or not duration.value or not _fits(ledger):
        return None
    instances = ledger.launch.instances(name)
    samples = list(instances.measured()) if instances is not None else []
    times = [at for at, _ in samples if isinstance(at, int)]  # in nanoseconds
    values = [float(value) for _, value in samples]
    if len(times) != len(values) or len(times) < 2 or times[-1] <= times[0]:
        return None
    windows = zip(pairwise(times), values[1:])
    covered = sum(value * (now - before) for (before, now), value in windows)
    # Samples that were dropped at the end leave a window that is shorter than the launch.
    share = covered / min(float(duration.value), times[-1] - times[0])
    return ledger.derived(f"sampled.{name}", share, label, duration, unit="%")
