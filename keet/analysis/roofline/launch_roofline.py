"""The roofline of a launch: how near it came to each compute and memory ceiling.

Each ceiling alone gives a least time: operations over the peak of their type, or bytes over the
peak of their level. That time as a share of the launch's duration is the share of the peak that was
reached. The ceiling with the largest share is the nearest one. This is the roofline model: at the
arithmetic intensity of a level, the achieved rate over the attainable rate, min(peak, intensity x
bandwidth), is the larger share of the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from keet.analysis.decisions.rooflines import AT_CEILING
from keet.analysis.hardware.ceilings import HOST_LINK, NEAR_PEAK, Ceiling, Ceilings, nearest
from keet.analysis.hardware.rates import clock
from keet.analysis.hardware.stages import UnitStage, measured_stages
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import Parameter
from keet.analysis.roofline.compute import compute_ceilings, loads_constants
from keet.analysis.roofline.memory import memory_ceilings
from keet.evidence import Evidence
from keet.formatting import uncapitalized
from keet.profile import Absent, Launch
from keet.units import Quantity

_UNCOUNTED = ("xu", "alu", "lsu", "adu", "cbu", "uniform", "tex", "issue_slots", "l2_atomics")

SHOWN_WORK = Parameter(0.05, "percent of a peak from which arithmetic gets a bar", "judgement")


@dataclass(frozen=True, slots=True)
class Intensity:
    """Arithmetic of one type over the bytes of one level."""

    arithmetic: str
    """Id of the compute ceiling."""
    level: str
    """Id of the memory ceiling."""
    value: Evidence
    """Operations per byte."""
    ridge: Evidence
    """The intensity above which the compute ceiling is the lower one."""
    attainable: Evidence
    """Operations per second that the two ceilings allow at this intensity."""

    @property
    def memory_bound(self) -> bool:
        return self.value.value < self.ridge.value


@dataclass(frozen=True, slots=True)
class Roofline:
    """The ceilings of one launch, and how near it came to each."""

    launch: Launch
    ledger: LaunchLedger
    ceilings: tuple[Ceiling, ...]
    """Compute ceilings, then memory from DRAM inwards."""
    intensities: tuple[Intensity, ...]
    nearest: tuple[Ceiling, ...]
    """The nearest ceiling, and those that tie with it."""
    lead: Ceiling | None
    """The nearest compute ceiling; None if nothing was computed."""
    absent: Mapping[str, Absent]
    """Why a ceiling is not known, by its id."""
    notes: tuple[str, ...]
    uncounted: UnitStage | None
    """The busiest unit whose work is neither FLOP nor bytes: special functions, integers, issue."""
    host_link: Ceiling | None
    """None where the link to the host carried nothing, or its peak is not known."""
    duration: Evidence | None
    sm_clock: Evidence | None

    def of_kind(self, kind: str) -> tuple[Ceiling, ...]:
        return tuple(ceiling for ceiling in self.ceilings if ceiling.kind == kind)

    def lead_intensities(self) -> tuple[Intensity, ...]:
        lead = self.lead.id if self.lead else None
        return tuple(entry for entry in self.intensities if entry.arithmetic == lead)

    @property
    def reading(self) -> str:
        return " ".join(_reading(self))


def find_roofline(launch: Launch, ledger: LaunchLedger | None = None) -> Roofline:
    """Computes the roofline; its numbers are entered into the ledger."""
    ledger = ledger or LaunchLedger(launch)
    units = Ceilings(ledger)
    compute, no_compute = compute_ceilings(ledger, units)
    memory, no_memory = memory_ceilings(ledger, units)
    constants = loads_constants(ledger, units)
    return Roofline(
        launch=launch,
        ledger=ledger,
        ceilings=(*compute, *memory),
        intensities=tuple(_intensities(ledger, compute, memory)),
        nearest=nearest(sorted([*compute, *memory], key=lambda ceiling: -ceiling.share)),
        lead=lead_of(compute, constants=constants),
        absent={**no_compute, **no_memory},
        notes=tuple(_notes(ledger, compute, memory, constants=constants)),
        uncounted=next(iter(measured_stages(ledger, _UNCOUNTED)), None),
        host_link=units.get(HOST_LINK),
        duration=ledger.measured("duration"),
        sm_clock=clock(ledger),
    )


def lead_of(compute: Sequence[Ceiling], *, constants: bool) -> Ceiling | None:
    """The compute ceiling that is nearest. `constants`: FP16 operations only load constants."""
    working = [c for c in compute if c.reached.value > 0 and not (c.id == "fp16" and constants)]
    return max(working, key=lambda ceiling: ceiling.share, default=None)


def _intensities(
    ledger: LaunchLedger, compute: Sequence[Ceiling], memory: Sequence[Ceiling]
) -> Iterator[Intensity]:
    for arithmetic in compute:
        for level in memory:
            found = _intensity(ledger, arithmetic, level)
            if found is not None:
                yield found


def _intensity(ledger: LaunchLedger, arithmetic: Ceiling, level: Ceiling) -> Intensity | None:
    """None if nothing was computed or moved: a logarithmic plot has no point for it."""
    done, moved = arithmetic.achieved, level.achieved
    peak, bandwidth = arithmetic.peak, level.peak
    if done is None or moved is None or peak is None or bandwidth is None:
        return None
    if not (done.value > 0 and moved.value > 0):
        return None
    stem = f"roofline.{arithmetic.id}.{level.id}"
    where = f"{arithmetic.name} over {level.name} bytes"
    unit = done.unit.removesuffix("/s")
    value = Quantity(done.value / moved.value, f"{unit}/byte")
    ridge = Quantity(peak.value / bandwidth.value, f"{unit}/byte")
    attainable = Quantity(min(peak.value, value.value * bandwidth.value), done.unit)
    intensity = ledger.derived(f"{stem}.intensity", value, where, done, moved)
    return Intensity(
        arithmetic.id,
        level.id,
        intensity,
        ledger.derived(f"{stem}.ridge", ridge, f"ridge of {where}", peak, bandwidth),
        ledger.derived(
            f"{stem}.attainable", attainable, f"attainable: {where}", peak, intensity, bandwidth
        ),
    )


def _notes(
    ledger: LaunchLedger, compute: Sequence[Ceiling], memory: Sequence[Ceiling], *, constants: bool
) -> Iterator[str]:
    """Notes about what the counters leave out."""
    groups = [c for c in compute if c.achieved and c.achieved.value > 0 and "GMMA" in c.source]
    if groups and any(level.id in ("l1", "shared") for level in memory):
        yield "HGMMA and TMA bypass the LSU: their L1 and shared memory traffic is not counted"
    warp_level = [c for c in compute if c.id.startswith("tensor_") and " HMMA" in c.source]
    if warp_level and ledger.launch.device.compute_capability == "9.0":
        yield "the ceiling is that of warp-level HMMA: HGMMA (wgmma) has 1.5 times its peak"
    if constants and any(c.id == "fp16" and c.reached.value >= SHOWN_WORK for c in compute):
        yield "the few FP16 operations are HFMA2 without HADD2 or HMUL2: they load constants"
    packed = ledger.measured("inst_fp32_packed_total")
    if packed is not None and packed.value > 0:
        yield "packed FP32 instructions (FFMA2) ran and are not counted: FP32 is a lower bound"


# --- one line in words


def _reading(roofline: Roofline) -> Iterator[str]:
    if not roofline.nearest:
        yield _NOTHING_DONE if roofline.ceilings else _NOTHING_KNOWN
        return
    top = roofline.nearest[0].reached.value
    names = _and([ceiling.name for ceiling in roofline.nearest])
    reached = _and([f"{ceiling.reached:.0f}" for ceiling in roofline.nearest])
    if top >= NEAR_PEAK:
        where = "At" if top >= 100 * AT_CEILING else "Near"
        yield f"{where} the ceiling of {names} ({reached}): {_way_out(roofline.nearest)}."
    else:
        come = "come" if len(roofline.nearest) > 1 else "comes"
        yield f"It is far from every ceiling; {names} {come} closest ({reached})."
    if top < 100 * AT_CEILING:
        yield from _what_else(roofline, top)
    yield from _side(roofline)


_NOTHING_KNOWN = "The report has no share of any peak; keet show REPORT prints what to capture"
_NOTHING_DONE = "The counters of arithmetic and memory traffic in the report are all zero."


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _way_out(nearest: Sequence[Ceiling]) -> str:
    kinds = {ceiling.kind for ceiling in nearest}
    if kinds == {"memory"}:
        known = all(ceiling.achieved for ceiling in nearest)
        return f"{'moving fewer bytes there' if known else 'fewer requests to it'} would help"
    if kinds == {"compute"}:
        return "fewer operations or a faster data type would help"
    return "bytes and operations are in balance, so both would have to be reduced"


def _what_else(roofline: Roofline, top: float) -> Iterator[str]:
    """A stage that is busier than its bytes explain, what was not measured, or where to look
    instead."""
    unknown = [name for ceiling_id, name in _UNSEEN.items() if ceiling_id in roofline.absent]
    stage, why = _pressed(roofline)
    if stage and stage.busy.value >= max(NEAR_PEAK, top):
        name = stage_name(stage)
        are = "are" if name.endswith("s") else "is"
        yield f"But {name} {are} {stage.busy:.0f} busy: {why}."
    elif top >= NEAR_PEAK:
        return
    elif (link := roofline.host_link) and link.reached.value > top:
        moved = f"{link.achieved} over {link.spoken}"
        yield f"But it moves {moved}, {link.reached:.0f} of the peak assumed for that link."
    elif unknown:
        yield f"Not measured: {_and(unknown)}; keet show REPORT prints the command for it."
    elif _has_few_blocks(roofline.launch):
        yield "The grid has fewer blocks than the GPU has SMs: see keet explain."
    else:
        yield "It is most likely latency-bound: keet hotspots shows where warps wait."


def _has_few_blocks(launch: Launch) -> bool:
    """Whether some SMs get no block; False if that is not known."""
    sms = launch.device.sm_count
    return launch.grid is not None and sms is not None and math.prod(launch.grid) < sms


def _pressed(roofline: Roofline) -> tuple[UnitStage | None, str]:
    """The busiest stage of any ceiling, or a unit that a roofline does not count, and why it is
    busy."""
    stages = [(stage, _WHY_BUSIER[c.kind]) for c in roofline.ceilings if (stage := c.busier_stage)]
    if roofline.uncounted:
        stages.append((roofline.uncounted, "work that the roofline does not count"))
    return max(stages, key=lambda pair: pair[0].busy.value, default=(None, ""))


def stage_name(stage: UnitStage) -> str:
    """Name of the stage as in a sentence. An inferred stage is not named."""
    if stage.id == "issue_slots":
        return "instruction issue"
    if stage.id == "l2_fabric" and stage.inferred:
        return "the busiest stage of L2"
    return f"the {uncapitalized(stage.label)}"


_WHY_BUSIER = {
    "memory": "more than its bytes suggest",
    "compute": "not everything that it executes is a multiply-add",
}

_UNSEEN = {"fp32": "arithmetic", "tensor": "tensor operations", "dram": "DRAM", "l2": "L2"}
"""Ceilings that must be known to say that none is near."""


def _side(roofline: Roofline) -> Iterator[str]:
    """On which side of the ridge with DRAM the launch's arithmetic is."""
    at_dram = [entry for entry in roofline.lead_intensities() if entry.level == "dram"]
    if not at_dram or roofline.lead is None:
        return
    entry = at_dram[0]
    side = "left" if entry.memory_bound else "right"
    yield (
        f"Arithmetic intensity of {roofline.lead.name} at DRAM: {entry.value}, {side} of the ridge "
        f"at {entry.ridge}."
    )
