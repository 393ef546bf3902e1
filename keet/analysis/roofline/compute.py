"""The compute ceilings: arithmetic of each type against the peak of that type.

A multiply-add is two operations. Thread instructions count if their predicate was on. FP16
instructions of the FMA pipes work on pairs, even if ncu counts them differently (2024.1 counts
half).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from keet.analysis.hardware.ceilings import (
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
from keet.analysis.ledger import LaunchLedger
from keet.analysis.parameters import NEGLIGIBLE
from keet.analysis.roofline.tensor import (
    LABELS,
    TensorWork,
    has_pipe_alone,
    ledger_value,
    path_share,
    real_share,
    tensor_work,
)
from keet.catalog import throughputs
from keet.evidence import Evidence, Sentence, constant
from keet.profile import Absent
from keet.units import Quantity


class _Scalar(NamedTuple):
    """Arithmetic outside the tensor cores: the metrics that count it, and FLOP per instruction."""

    id: str
    label: str
    letter: str
    """First letter of its opcodes: DADD, FADD, HADD."""
    values: int
    """Values that an instruction works on."""
    section: str
    pipe: str
    """The unit that executes it; it also executes other instructions than multiply-adds."""


_SCALARS = (
    _Scalar("fp64", "FP64", "d", 1, "SpeedOfLight_RooflineChart", "FP64"),
    _Scalar("fp32", "FP32", "f", 1, "SpeedOfLight_RooflineChart", "FMA"),
    _Scalar("fp16", "FP16", "h", 2, "SpeedOfLight_HierarchicalHalfRooflineChart", "FP16"),
)

_OPERATIONS = {"add": 1, "mul": 1, "fma": 2}

Found = tuple[list[Ceiling], dict[str, Absent]]


def compute_ceilings(ledger: LaunchLedger, units: Ceilings) -> Found:
    """The ceilings whose work and peak are known, and why others are not."""
    ceilings: dict[str, Ceiling | Absent] = {
        scalar.id: _scalar_ceiling(ledger, units, scalar) for scalar in _SCALARS
    }
    works = tensor_work(ledger)
    if isinstance(works, Absent):
        return known_and_absent({**ceilings, "tensor": works}.items())
    is_alone = len(works) == 1 and has_pipe_alone(ledger.launch)
    for work in works:
        ceilings[f"tensor_{work.type}"] = _tensor_ceiling(ledger, work, is_alone=is_alone)
    return known_and_absent(ceilings.items())


def _scalar_ceiling(ledger: LaunchLedger, units: Ceilings, scalar: _Scalar) -> Ceiling | Absent:
    remedy = f"profile with: ncu --section {scalar.section}"
    achieved, label = _scalar_rate(ledger, scalar), scalar.label
    if achieved is None:
        return Absent(f"{label} operations were not collected", remedy)
    peak = _scalar_peak(ledger, scalar)
    if peak is None:
        return Absent(f"the {label} peak is in neither the report nor keet's catalog", remedy)
    stage = units.stage(scalar.pipe)
    return ceiling_of_rate(ledger, scalar.id, label, achieved, peak, kind="compute", stage=stage)


def _scalar_rate(ledger: LaunchLedger, scalar: _Scalar) -> Evidence | None:
    """FLOP per second: the rate per cycle times the clock, as ncu computes it; else the count over
    time."""
    speed = positive(ledger.measured("sm_clock"))
    rates = _parts(ledger, scalar, "per_cycle")
    label = f"{scalar.label} operations per second"
    if speed is not None and rates is not None:
        flop = _weighted(rates, scalar)
        rate = Quantity(flop * speed.value, "flop/s")
        return ledger.derived(f"roofline.{scalar.id}.achieved", rate, label, *rates.values(), speed)
    counts = _parts(ledger, scalar, "total")
    if counts is None:
        return None
    amount = ledger.derived(
        f"roofline.{scalar.id}.operations",
        Quantity(_weighted(counts, scalar), "flop"),
        f"{scalar.label} operations",
        *counts.values(),
    )
    return per_second(ledger, f"roofline.{scalar.id}.achieved", label, amount)


def counted_pipes(ledger: LaunchLedger) -> Iterator[Ceiling]:
    """How busy FP64 and FMA were at least: their counted instructions over the most that they can
    execute. They also execute others, such as conversions and integer multiplications."""
    for scalar in _SCALARS:
        rates = _parts(ledger, scalar, "per_cycle")
        peak = positive(ledger.measured(f"inst_{scalar.letter}fma_peak_per_cycle"))
        if scalar.id == "fp16" or rates is None or peak is None:
            continue
        executed = sum(float(rate.value) for rate in rates.values())
        if executed > 0:
            reached = ledger.derived(
                f"counted.{scalar.id}.reached",
                Quantity(100 * executed / peak.value, "%"),
                f"{scalar.pipe} pipe: share of peak, by its {scalar.label} instructions",
                *rates.values(),
                peak,
            )
            source = "report: counted instructions, at least"
            yield Ceiling(scalar.pipe.lower(), scalar.pipe, "compute", reached, source)


def loads_constants(ledger: LaunchLedger, units: Ceilings) -> bool:
    """Compilers load constants into registers with HFMA2, which counts as arithmetic."""
    parts = _parts(ledger, _SCALARS[-1], "per_cycle")
    if parts is None or not parts["fma"].value or parts["add"].value or parts["mul"].value:
        return False
    ceiling = _scalar_ceiling(ledger, units, _SCALARS[-1])
    return not isinstance(ceiling, Absent) and ceiling.reached.value < 100 * NEGLIGIBLE


def _parts(ledger: LaunchLedger, scalar: _Scalar, kind: str) -> Mapping[str, Evidence] | None:
    """Counts of additions, multiplications and multiply-adds; None unless all three are known."""
    if scalar.id == "fp16" and kind == "total":
        return None  # the catalog has no counts of its additions
    counts = ((op, ledger.measured(f"inst_{scalar.letter}{op}_{kind}")) for op in _OPERATIONS)
    measured = {op: evidence for op, evidence in counts if evidence is not None}
    return measured if len(measured) == len(_OPERATIONS) else None


def _weighted(parts: Mapping[str, Evidence], scalar: _Scalar) -> float:
    return sum(scalar.values * _OPERATIONS[op] * float(part.value) for op, part in parts.items())


def _scalar_peak(ledger: LaunchLedger, scalar: _Scalar) -> Peak | None:
    speed = clock(ledger)
    if speed is None:
        return None
    per_cycle = positive(ledger.measured(f"inst_{scalar.letter}fma_peak_per_cycle"))
    if per_cycle is None:
        return _catalog_peak(ledger, scalar.id, scalar.label, scalar.id, 1)
    rate = ledger.derived(
        f"roofline.{scalar.id}.peak",
        Quantity(2 * scalar.values * per_cycle.value * speed.value, "flop/s"),
        f"{scalar.label} peak at the clock of the launch",
        per_cycle,
        speed,
    )
    return Peak(rate, "report: peak per cycle x SM clock")


def _catalog_peak(
    ledger: LaunchLedger, ceiling_id: str, label: str, throughput: str, factor: float
) -> Peak | None:
    """From the results per cycle and SM that NVIDIA publishes, at the measured clock."""
    device = ledger.launch.device
    peaks = throughputs().get(device.compute_capability or "")
    results = peaks.per_cycle.get(throughput) if peaks else None
    speed = clock(ledger)
    if peaks is None or results is None or speed is None or not device.sm_count:
        return None
    unit = "op/s" if "int" in ceiling_id else "flop/s"
    rate = ledger.derived(
        f"roofline.{ceiling_id}.peak",
        Quantity(2 * results * factor * device.sm_count * speed.value, unit),
        f"{label} peak by the data sheet, at the clock of the launch",
        speed,
    )
    per_cycle = constant(results * factor, "", f"{label}: FMA per cycle and SM")
    source = "catalog: {per_cycle:g} FMA per cycle and SM x SMs x SM clock"
    return Peak(rate, Sentence(source, per_cycle=per_cycle))


def _tensor_ceiling(ledger: LaunchLedger, work: TensorWork, *, is_alone: bool) -> Ceiling | Absent:
    """`is_alone`: only work of this type uses the pipe."""
    ceiling_id, label = f"tensor_{work.type}", f"Tensor {LABELS[work.type]}"
    name, rate = f"roofline.{ceiling_id}.achieved", f"{label} operations per second"
    achieved = per_second(ledger, name, rate, work.operations)
    peak = _tensor_peak(ledger, work, achieved, alone=is_alone) if achieved else None
    if achieved is None or peak is None:
        return _NO_TENSOR_PEAK
    return ceiling_of_rate(ledger, ceiling_id, label, achieved, peak, kind="compute")


_NO_TENSOR_PEAK = Absent(
    "the peak of the tensor cores for this type is in neither the report nor keet's catalog",
    "profile with: ncu --section SpeedOfLight_HierarchicalTensorRooflineChart",
)

_INTEGERS = ("int8", "int4", "int1")
_PIPES = {"fp64": "pipe_tensor_dp_pct"} | dict.fromkeys(_INTEGERS, "pipe_tensor_int_pct")
"""By type; that of others is the pipe of floats."""
_CATALOG_FACTORS = {"fp16": 1.0, "bf16": 1.0, "tf32": 0.5, "fp8": 2.0, "int8": 2.0}
"""Rates relative to the dense FP16 rate, on 8.0 and 9.0; ncu's peaks on an H200 agree."""


def _tensor_peak(
    ledger: LaunchLedger, work: TensorWork, achieved: Evidence, *, alone: bool
) -> Peak | None:
    """The tensor peak, from the hardware's counters or else from how long the pipe was busy.

    The latter gives 4096 FLOP per cycle and SM for HGMMA and two thirds of that for HMMA on an
    H200, and 2048 for IMMA on an A40, as NVIDIA states. It requires that only one type uses the
    pipe.
    """
    if counted := _counter_peak(ledger, work):
        return counted
    busy = positive(first(ledger, _PIPES.get(work.type, "pipe_tensor_fp_pct"), "pipe_tensor_pct"))
    path = path_share(ledger, work.type)
    name, label = f"roofline.tensor_{work.type}.peak", f"Tensor {LABELS[work.type]} peak"
    family = " and ".join(work.families) or "the instructions used"
    share = real_share(ledger, busy, work.type) if busy is not None else path
    if busy is not None and share is None:
        return None
    if share is not None and (alone or share is path) and achieved.value > 0:
        rate = Quantity(achieved.value * 100 / share.value, achieved.unit)
        derived = ledger.derived(name, rate, f"{label} ({family})", achieved, share)
        basis = _PATH_SHARE if share is path else _PIPE_SHARE if share is busy else _HALF_SHARE
        return Peak(derived, f"report: {family} rate / {basis}")
    factor = _CATALOG_FACTORS.get(work.type)
    if factor is None or ledger.launch.device.compute_capability not in _HALF_RATES_KNOWN:
        return None
    return _catalog_peak(ledger, f"tensor_{work.type}", label, "tensor_fp16_fma", factor)


_PATH_SHARE = "share of peak of the tensor path"
_PIPE_SHARE = "busy share of the tensor pipe"
_HALF_SHARE = "busy share of the tensor pipe, FP32 accumulation at half rate (GeForce)"
_HALF_RATES_KNOWN = ("8.0", "9.0")


def _counter_peak(ledger: LaunchLedger, work: TensorWork) -> Peak | None:
    """From the dense peak per cycle of the instructions, if one family did all the work."""
    speed = positive(ledger.measured("sm_clock"))
    for name in _peak_names(work):
        value = ledger_value(ledger, name)
        per_cycle = ledger.named(name, f"Tensor {LABELS[work.type]} peak per cycle")
        if speed and per_cycle and value and value > 0:
            rate = Quantity(value * speed.value, f"{work.operations.unit}/s")
            label = f"Tensor {LABELS[work.type]} peak ({' and '.join(work.families)})"
            entry = f"roofline.tensor_{work.type}.peak"
            peak = ledger.derived(entry, rate, label, per_cycle, speed)
            return Peak(peak, "report: peak per cycle x SM clock")
    return None


def _peak_names(work: TensorWork) -> Iterator[str]:
    if len(work.families) > 1:
        return
    stem = "sm__ops_path_tensor_"
    for family in map(str.lower, work.families):
        for accumulator in ("", "_dst_fp32", "_dst_fp16"):
            yield f"{stem}op_{family}_src_{work.type}{accumulator}_sparsity_off.sum.peak_sustained"
    # Without `sparsity_off` the peak is the sparse one, except for types that have no sparsity.
    yield f"{stem}src_{work.type}_sparsity_off.sum.peak_sustained"
    if work.type in ("fp64", "int1"):
        yield f"{stem}src_{work.type}.sum.peak_sustained"
