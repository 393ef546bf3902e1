"""The roofline of a launch: how near it came to each compute and memory ceiling.

Each ceiling alone gives a least time: operations over the peak of their type, or bytes over the
peak of their level. That time as a share of the launch's duration is the share of the peak that was
reached. The ceiling with the largest share is the nearest one. This is the roofline model: at the
arithmetic intensity of a level, the achieved rate over the attainable rate, min(peak, intensity x
bandwidth), is the larger share of the two.

A launch has reached a roofline from a share of the peak on. The issue slots have no roofline: they
limit the number of instructions, and many of these are no arithmetic on data. `issue_limited` tells
such launches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

from keet.analysis.hardware.ceilings import (
    HOST_LINK,
    NEAR_PEAK,
    WHOLE_SM,
    Ceiling,
    Ceilings,
    clock,
    nearest,
    positive,
)
from keet.analysis.hardware.stages import UnitStage, measured_stages
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import MAJORITY, NOTABLE_PART, Parameter
from keet.analysis.remedy_conditions.instructions import counted_divisions
from keet.analysis.roofline.compute import compute_ceilings, loads_constants
from keet.analysis.roofline.memory import memory_ceilings, slow_dram_clock
from keet.analysis.time_model import TimeModel, attainable
from keet.documents.charts import (
    BusiestDocument,
    CeilingDocument,
    IntensityDocument,
    RooflineLaunch,
)
from keet.documents.document import live
from keet.documents.shared_types import Skipped
from keet.evidence import Sentence, constant
from keet.formatting import uncapitalized
from keet.profile import Absent, Launch
from keet.units import Quantity

AT_CEILING = Parameter(
    0.8, "share of what a unit can do from which it is at its ceiling or roofline", "judgement"
)
COMPUTE = ("FMA", "tensor", "FP16", "FP64", "ALU", "XU")


def reached_roofline(model: TimeModel) -> Literal["compute", "DRAM"] | None:
    """That of the busier unit, if it does most of what it can do in the whole time of the launch:
    SMs that are idle for a part of the time are not at a roofline."""
    compute, dram = reached_share(model, *COMPUTE, WHOLE_SM), reached_share(model, "DRAM")
    # L2 may be full with what DRAM delivers: both tell how near DRAM is to its roofline.
    dram = max(dram, math.sqrt(dram * reached_share(model, "L2")))
    if max(compute, dram) < AT_CEILING or model.fixed >= MAJORITY:
        return None
    # Units that have no roofline of their own.
    if _load(model, "L1", "LSU", "ADU") > _load(model, *COMPUTE, WHOLE_SM, "DRAM", "L2"):
        return None
    if compute >= dram:
        return "compute" if _computes(model) else None
    return None if issue_limited(model) else "DRAM"


def issue_limited(model: TimeModel) -> bool:
    """Whether the issue slots are the busiest unit, and no arithmetic pipe is at its ceiling."""
    return model.busiest == "issue" and _load(model, *COMPUTE) < AT_CEILING


def instruction_limited(model: TimeModel) -> bool:
    """The same, or a pipe for floats or integers is the busiest unit and mostly works for addresses
    and conditions: fewer instructions help."""
    on_pipe = model.busiest in ("FMA", "ALU") and model.view.code is not None
    return issue_limited(model) or (on_pipe and not _computes(model))


def _load(model: TimeModel, *units: str) -> float:
    return max(model.loads.get(unit, 0.0) for unit in units)


def reached_share(model: TimeModel, *units: str) -> float:
    """Share of what the busiest of these units can do in the launch's time."""
    return max((model.view.ceilings.share(unit) or 0.0) / attainable(unit) for unit in units)


def _computes(model: TimeModel) -> bool:
    """Whether the busiest arithmetic pipe computes data, as far as the machine code shows it; else
    as far as opcodes do.

    Multiply-adds of addresses fill the FMA pipe too, and comparisons of indices the ALU.
    """
    pipe = max(COMPUTE, key=lambda unit: model.loads.get(unit, 0.0))
    if pipe == "tensor":
        return _delivers(model)
    if pipe not in ("FMA", "ALU"):
        return True
    code = model.view.code
    if code is None:
        return pipe == "FMA" or not counted_divisions(model.view) >= NOTABLE_PART
    return not code.mix or code.mix[0][0].value == "value"


def _delivers(model: TimeModel) -> bool:
    """Whether the matrix operations per second are near the peak of these instructions.

    A tensor pipe can be busy without delivering, for example with small shapes. True where the
    report does not count operations.
    """
    ceilings, _ = compute_ceilings(model.view.ledger, model.view.ceilings)
    delivered = [ceiling.share for ceiling in ceilings if ceiling.id.startswith("tensor_")]
    return not delivered or model.load("tensor", sum(delivered)) >= AT_CEILING


_UNCOUNTED_UNITS = ("xu", "alu", "lsu", "adu", "cbu", "uniform", "tex", "issue_slots", "l2_atomics")

SHOWN_WORK = Parameter(0.05, "percent of a peak from which arithmetic gets a bar", "judgement")


class LaunchRoofline(RooflineLaunch):
    """One launch against its ceilings."""

    launch: Launch = live()
    host_link: Ceiling | None = live()
    """None where the link to the host carried nothing, or its peak is not known."""
    stages: tuple[UnitStage, ...] = live()
    """Of the ceilings, as far as they were measured, and the busiest unit whose work is neither
    FLOP nor bytes."""

    def __repr__(self) -> str:
        near = (f"{c.id} at {c.reached:.0f} of its peak" for c in self.nearest_ceilings)
        return (
            f"<LaunchRoofline #{self.id} {self.kernel}: {', '.join(near) or 'no ceiling is known'}>"
        )


def find_roofline(launch: Launch, ledger: LaunchLedger | None = None) -> LaunchRoofline:
    """Computes the roofline; its numbers are entered into the ledger."""
    ledger = ledger or LaunchLedger(launch)
    units = Ceilings(ledger)
    compute, no_compute = compute_ceilings(ledger, units)
    memory, no_memory = memory_ceilings(ledger, units)
    ceilings, absent = [*compute, *memory], {**no_compute, **no_memory}
    constants = loads_constants(ledger, units)
    near = nearest(sorted(ceilings, key=lambda ceiling: -ceiling.share))
    lead = lead_of(compute, constants=constants)
    intensities = tuple(_intensities(ledger, compute, memory))
    uncounted = next(iter(measured_stages(ledger, _UNCOUNTED_UNITS)), None)
    link, duration, sm_clock = units.get(HOST_LINK), ledger.measured("duration"), clock(ledger)
    side = [intensity for intensity in intensities if lead and intensity.arithmetic == lead.id]
    pressed = [(stage, _WHY_BUSIER[c.kind]) for c in ceilings if (stage := c.busier_stage)]
    if uncounted:
        pressed.append((uncounted, "work that the roofline does not count"))

    sentences = [
        *_nearest_text(near, is_known=bool(ceilings)),
        *(_what_else(launch, near, pressed, link, absent) if near else ()),
        *(_side(lead.name, side) if near and lead else ()),
    ]
    return LaunchRoofline(
        launch=launch,
        host_link=link,
        stages=tuple(filter(None, (*(ceiling.stage for ceiling in ceilings), uncounted))),
        id=launch.id,
        kernel=launch.kernel,
        duration=Quantity(duration.value, duration.unit) if duration else None,
        sm_clock=Quantity(sm_clock.value, sm_clock.unit) if sm_clock else None,
        nearest=tuple(ceiling.id for ceiling in near),
        lead=lead.id if lead else None,
        ceilings=tuple(map(_ceiling, ceilings)),
        intensities=intensities,
        uncounted=_busiest(uncounted),
        reading=Sentence(" ").join(sentences),
        notes=list(_notes(ledger, compute, memory, constants=constants)),
        skipped=[Skipped(check=c, reason=x.reason, remedy=x.remedy) for c, x in absent.items()],
        evidence={entry.id: entry for entry in ledger},
    )


def _ceiling(ceiling: Ceiling) -> CeilingDocument:
    achieved, peak = ceiling.achieved, ceiling.peak
    return CeilingDocument(
        id=ceiling.id,
        label=ceiling.name,
        kind="memory" if ceiling.kind == "memory" else "compute",
        reached_pct=float(ceiling.reached.value),
        achieved=Quantity(achieved.value, achieved.unit) if achieved else None,
        peak=Quantity(peak.value, peak.unit) if peak else None,
        source=ceiling.source,
        busiest=_busiest(ceiling.busier_stage),
        evidence=tuple(filter(None, (ceiling.reached, achieved, peak))),
    )


def _busiest(stage: UnitStage | None) -> BusiestDocument | None:
    if stage is None:
        return None
    part, busy = stage_name(stage), stage.busy
    return BusiestDocument(part=part, busy_pct=float(busy.value), evidence=busy)


def lead_of(compute: Sequence[Ceiling], *, constants: bool) -> Ceiling | None:
    """The compute ceiling that is nearest. `constants`: FP16 operations only load constants."""
    working = [c for c in compute if c.reached.value > 0 and not (c.id == "fp16" and constants)]
    return max(working, key=lambda ceiling: ceiling.share, default=None)


def _intensities(
    ledger: LaunchLedger, compute: Sequence[Ceiling], memory: Sequence[Ceiling]
) -> Iterator[IntensityDocument]:
    """Not where nothing was computed or moved: a logarithmic plot has no point for it."""
    for arithmetic, level in product(compute, memory):
        done, moved = positive(arithmetic.achieved), positive(level.achieved)
        peak, bandwidth = arithmetic.peak, level.peak
        if done is None or moved is None or peak is None or bandwidth is None:
            continue
        stem = f"roofline.{arithmetic.id}.{level.id}"
        where = f"{arithmetic.name} over {level.name} bytes"
        per_byte = f"{done.unit.removesuffix('/s')}/byte"
        value = Quantity(done.value / moved.value, per_byte)
        ridge = Quantity(peak.value / bandwidth.value, per_byte)
        attainable = Quantity(min(peak.value, value.value * bandwidth.value), done.unit)
        derived, label = ledger.derived, f"attainable: {where}"
        intensity = derived(f"{stem}.intensity", value, where, done, moved)
        yield IntensityDocument(
            arithmetic=arithmetic.id,
            level=level.id,
            value=float(value.value),
            ridge=float(ridge.value),
            attainable=attainable,
            attained_pct=100 * done.value / attainable.value,
            evidence=(
                intensity,
                derived(f"{stem}.ridge", ridge, f"ridge of {where}", peak, bandwidth),
                derived(f"{stem}.attainable", attainable, label, peak, intensity, bandwidth),
            ),
        )


def _notes(
    ledger: LaunchLedger, compute: Sequence[Ceiling], memory: Sequence[Ceiling], *, constants: bool
) -> Iterator[str]:
    """Notes about what the counters leave out, and about a peak that is not that of its clock."""
    if (dram := slow_dram_clock(ledger)) and any(ceiling.id == "dram" for ceiling in memory):
        yield Sentence(
            "the peak of DRAM is that at the device's DRAM clock of {known}; the measured one, "
            "{counted}, is cycles over duration, which is too low for short launches",
            known=dram.of_device,
            counted=dram.measured,
        )
    groups = [c for c in compute if c.achieved and c.achieved.value > 0 and "GMMA" in c.source]
    if groups and any(level.id in ("l1", "shared") for level in memory):
        yield "HGMMA and TMA bypass the LSU: their L1 and shared memory traffic is not counted"
    warp_level = [c for c in compute if c.id.startswith("tensor_") and " HMMA" in c.source]
    if warp_level and ledger.launch.device.compute_capability == "9.0":
        yield Sentence(
            "the ceiling is that of warp-level HMMA: HGMMA (wgmma) has {times:.1f} times its peak",
            times=constant(1.5, "", "HGMMA's peak over HMMA's"),
        )
    if constants and any(c.id == "fp16" and c.reached.value >= SHOWN_WORK for c in compute):
        yield "the few FP16 operations are HFMA2 without HADD2 or HMUL2: they load constants"
    packed = ledger.measured("inst_fp32_packed_total")
    if packed is not None and packed.value > 0:
        yield "packed FP32 instructions (FFMA2) ran and are not counted: FP32 is a lower bound"


# --- the reading, in words


def _nearest_text(near: Sequence[Ceiling], *, is_known: bool) -> Iterator[Sentence]:
    if not near:
        yield Sentence(_NOTHING_DONE if is_known else _NOTHING_KNOWN)
        return
    top = near[0].reached.value
    names = _and([ceiling.name for ceiling in near])
    reached = _and([Sentence("{reached:.0f}", reached=ceiling.reached) for ceiling in near])
    if top >= NEAR_PEAK:
        yield Sentence(
            "{where} the ceiling of {names} ({reached}): {way_out}.",
            where="At" if top >= 100 * AT_CEILING else "Near",
            names=names,
            reached=reached,
            way_out=_way_out(near),
        )
    else:
        yield Sentence(
            "By bytes and operations per second, it is far from every ceiling; {names} {come} "
            "closest ({reached}).",
            names=names,
            come="come" if len(near) > 1 else "comes",
            reached=reached,
        )


_NOTHING_KNOWN = "The report has no share of any peak; keet show REPORT prints what to capture"
_NOTHING_DONE = "The counters of arithmetic and memory traffic in the report are all zero."


def _and(words: Sequence[str]) -> Sentence:
    first = [Sentence(", ").join(words[:-1])] if len(words) > 1 else []
    return Sentence(" and ").join([*first, words[-1]])


def _way_out(nearest: Sequence[Ceiling]) -> str:
    kinds = {ceiling.kind for ceiling in nearest}
    if kinds == {"memory"}:
        has_rates = all(ceiling.achieved for ceiling in nearest)
        return f"{'moving fewer bytes there' if has_rates else 'fewer requests to it'} would help"
    if kinds == {"compute"}:
        return "fewer operations or a faster data type would help"
    return "bytes and operations are in balance, so both would have to be reduced"


def _what_else(
    launch: Launch,
    near: Sequence[Ceiling],
    stages: Sequence[tuple[UnitStage, str]],
    link: Ceiling | None,
    absent: Mapping[str, Absent],
) -> Iterator[Sentence]:
    """A stage that is busier than its bytes explain, what was not measured, or where to look
    instead. `stages`: with why they are busy."""
    top, sms = near[0].reached.value, launch.device.sm_count
    unknown = [name for ceiling_id, name in _UNSEEN_CEILINGS.items() if ceiling_id in absent]
    if top >= 100 * AT_CEILING:
        return
    stage, why = max(stages, key=lambda pair: pair[0].busy.value, default=(None, ""))
    if stage and stage.busy.value >= max(NEAR_PEAK, top):
        name = stage_name(stage)
        are = "are" if name.endswith("s") else "is"
        text = "But {name} {are} {busy:.0f} busy: {why}."
        yield Sentence(text, name=name, are=are, busy=stage.busy, why=why)
    elif top >= NEAR_PEAK:
        return
    elif link and link.achieved and link.reached.value > top:
        yield Sentence(
            "But it moves {moved} over {link}, {reached:.0f} of the peak assumed for that link.",
            moved=link.achieved,
            link=link.spoken,
            reached=link.reached,
        )
    elif unknown:
        text = "Not measured: {unknown}; keet show REPORT prints the command for it."
        yield Sentence(text, unknown=_and(unknown))
    elif launch.grid is not None and sms is not None and math.prod(launch.grid) < sms:
        yield Sentence("The grid has fewer blocks than the GPU has SMs: see keet explain.")
    else:
        yield Sentence("It is most likely latency-bound: keet hotspots shows where warps wait.")


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

_UNSEEN_CEILINGS = {"fp32": "arithmetic", "tensor": "tensor operations", "dram": "DRAM", "l2": "L2"}
"""Ceilings that must be known to say that none is near."""


def _side(lead: str, intensities: Sequence[IntensityDocument]) -> Iterator[Sentence]:
    """On which side of the ridge with DRAM the launch's arithmetic is."""
    for entry in intensities:
        if entry.level == "dram":
            yield Sentence(
                "Arithmetic intensity of {lead} at DRAM: {value}, {side} of the ridge at {ridge}.",
                lead=lead,
                value=entry.evidence[0],
                side="left" if entry.value < entry.ridge else "right",
                ridge=entry.evidence[1],
            )
