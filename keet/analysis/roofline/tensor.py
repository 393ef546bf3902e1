"""What the tensor cores computed, by type, and how near they came to the peak of the instructions
that ran.

Operations have two sources. Opcodes with all modifiers (`HMMA.16816.F32.BF16`) name the type and
the shape of one instruction; their counts times the shape are exact (on an H200 equal to the
hardware's own counters, and to the size of the matrices). If they do not show the shape, the
counters `sm__ops_path_tensor_*` of a full report are used.

The busy share of the tensor pipe counts each instruction at its fastest rate. GeForce GPUs run
matrix instructions that accumulate in FP32 at half of that rate, so the pipe shows at most 50 %
for them (8.6 and 8.9). Two sources give the real share: the counters of the path, which have the
peak of that path, and else the accumulators that the opcodes name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from keet.analysis.hardware.stages import SAME_STAGE, UnitStage
from keet.analysis.ledger import LaunchLedger
from keet.analysis.machine_code.instructions.opcodes import TENSOR
from keet.analysis.parameters import NEGLIGIBLE
from keet.evidence import Evidence
from keet.profile import Absent, Device, Launch
from keet.units import Quantity

_OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"

_MATRIX = re.compile(r"(?P<family>[HDIQBO]G?MMA)\.(?P<rest>[\w.]+)")
"""HFMA2.MMA is not a matrix instruction: the name has to begin with the family."""
_WARP_SHAPE = re.compile(r"(?P<m>8|16)(?P<n>8)(?P<k>4|8|16|32|64|128|256)")
_GROUP_SHAPE = re.compile(r"(?P<m>64)x(?P<n>\d+)x(?P<k>\d+)")

_TYPES = {
    "BF16": "bf16",
    "TF32": "tf32",
    "S8": "int8",
    "U8": "int8",
    "S4": "int4",
    "U4": "int4",
    "E4M3": "fp8",
    "E5M2": "fp8",
    "E3M2": "fp6",
    "E2M3": "fp6",
    "E2M1": "fp4",
}
"""Modifiers that name the type of the factors; without one, the family decides."""
_FAMILY_TYPES = {"H": "fp16", "D": "fp64", "I": "int8", "Q": "fp8", "O": "fp4", "B": "int1"}
LABELS = {
    type_id: type_id.upper()
    for type_id in ("fp64", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "int1")
}


class Matrix(NamedTuple):
    """One matrix instruction: the work of one warp in it."""

    family: str
    """`HMMA` is executed by one warp, `HGMMA` by four warps together."""
    type: str
    operations: float
    """Multiplications and additions per warp instruction."""


class TensorWork(NamedTuple):
    """The matrix operations of one type in a launch."""

    type: str
    families: tuple[str, ...]
    operations: Evidence


def parse_opcode(opcode: str) -> Matrix | None:
    """`HGMMA.64x256x16.F32.BF16`; None if the opcode does not show its shape.

    Four warps issue an HGMMA together and each is counted, so a warp does a quarter of the work.
    With 2:4 sparsity (`SP`), half of the products are known to be zero and are not computed.
    """
    match = _MATRIX.fullmatch(opcode)
    if match is None:
        return None
    family, parts = match["family"], match["rest"].split(".")
    shape = _shape(family, parts)
    if shape is None:
        return None
    warps = 4 if family[1] == "G" else 1
    skipped = 2 if "SP" in parts else 1
    named = (_TYPES[part] for part in reversed(parts) if part in _TYPES)
    factor_type = next(named, _FAMILY_TYPES[family[0]])
    return Matrix(family, factor_type, 2 * shape / warps / skipped)


def _shape(family: str, parts: list[str]) -> int | None:
    """m × n × k. Volta's HMMA.884 comes in steps whose number depends on the accumulator."""
    pattern = _GROUP_SHAPE if family[1] == "G" else _WARP_SHAPE
    if any(part.startswith("STEP") for part in parts):
        return None
    for part in parts:
        if match := pattern.fullmatch(part):
            return int(match["m"]) * int(match["n"]) * int(match["k"])
    return None


def tensor_work(ledger: LaunchLedger) -> tuple[TensorWork, ...] | Absent:
    """The matrix operations of a launch by type; empty where the tensor cores did nothing."""
    launch = ledger.launch
    opcodes = _matrix_opcodes(launch)
    if opcodes is not None:
        parsed = ((opcode, parse_opcode(opcode)) for opcode in opcodes)
        matrices = {opcode: matrix for opcode, matrix in parsed if matrix is not None}
        if len(matrices) == len(opcodes):
            return tuple(_from_opcodes(ledger, opcodes, matrices))
    if counted := _from_counters(ledger):
        return counted
    shares = [share for share in map(ledger.measured, _TENSOR_SHARES) if share is not None]
    if opcodes is None and shares and not any(share.value > 0 for share in shares):
        return ()
    for unknown in opcodes or ():
        if parse_opcode(unknown) is None:
            lacks = f"{unknown} does not tell the shape of its matrices"
            return Absent(lacks, "profile with: ncu --set full")
    lacks = "tensor operations were not collected by type"
    return Absent(lacks, "profile with: ncu --section InstructionStats")


def has_pipe_alone(launch: Launch) -> bool:
    """Whether only matrix instructions used the tensor pipe.

    HFMA2.MMA runs there too (two cycles each on an H200): if there are many, the pipe's busy share
    is not that of the matrices.
    """
    instances = launch.instances(_OPCODES)
    others = instances.by_name().get("HFMA2.MMA", 0) if instances else 0
    matrices = sum((_matrix_opcodes(launch) or {}).values())
    return others <= NEGLIGIBLE * matrices


_PIPE_TIME = {"fp16": 1.0, "bf16": 1.0, "tf32": 2.0}
"""Time of an operation in the pipe, relative to FP16."""


def fp32_accumulated(launch: Launch) -> float | None:
    """The part of the pipe's time, 0 to 1, for matrices that accumulate in FP32
    (`HMMA.16816.F32`); None: the opcodes do not tell it, or other types are among them."""
    opcodes = _matrix_opcodes(launch)
    if not opcodes or not has_pipe_alone(launch):
        return None
    times = {True: 0.0, False: 0.0}
    for opcode, count in opcodes.items():
        matrix = parse_opcode(opcode)
        if matrix is None or matrix.family != "HMMA" or matrix.type not in _PIPE_TIME:
            return None
        time = count * matrix.operations * _PIPE_TIME[matrix.type]
        times["F32" in opcode.split(".")] += time
    return times[True] / (times[True] + times[False])


def _matrix_opcodes(launch: Launch) -> Mapping[str, float] | None:
    """Executed tensor instructions by opcode (warp instructions); None: not collected."""
    instances = launch.instances(_OPCODES)
    if instances is None or instances.ids is None:
        return None
    return {
        opcode: float(count)
        for opcode, count in instances.by_name().items()
        if count > 0 and opcode.partition(".")[0] in TENSOR
    }


def _from_opcodes(
    ledger: LaunchLedger, counts: Mapping[str, float], matrices: Mapping[str, Matrix]
) -> Iterator[TensorWork]:
    executed = ledger.named(_OPCODES, "instructions executed, by opcode")
    for type_id in dict.fromkeys(matrix.type for matrix in matrices.values()):
        of_type = {o: matrix for o, matrix in matrices.items() if matrix.type == type_id}
        total = sum(counts[o] * matrix.operations for o, matrix in of_type.items())
        evidence = ledger.derived(
            f"roofline.tensor_{type_id}.operations",
            Quantity(total, _unit(type_id)),
            f"tensor operations, {LABELS[type_id]} ({', '.join(of_type)})",
            *([executed] if executed else []),
        )
        families = tuple(dict.fromkeys(matrix.family for matrix in of_type.values()))
        yield TensorWork(type_id, families, evidence)


def _unit(type_id: str) -> str:
    return "op" if type_id.startswith("int") else "flop"


_COUNTER = re.compile(
    r"sm__ops_path_tensor_(?:op_(?P<family>\w+?mma)_)?src_(?P<type>[a-z]+\d+)"
    r"(?:_dst_\w+?)?(?P<sparsity>_sparsity_(?:on|off))?\.sum"
)


def _from_counters(ledger: LaunchLedger) -> tuple[TensorWork, ...]:
    """From `sm__ops_path_tensor_*`: counters of single instructions, else counters of the type."""
    counters: dict[str, dict[str, re.Match[str]]] = {}
    for name in ledger.launch.metric_names():
        match = _COUNTER.fullmatch(name)
        if match and match["type"] in LABELS and (ledger_value(ledger, name) or 0) > 0:
            counters.setdefault(match["type"], {})[name] = match
    works = (_counted(ledger, type_id, names) for type_id, names in counters.items())
    return tuple(work for work in works if work)


def ledger_value(ledger: LaunchLedger, name: str) -> float | None:
    metric = ledger.launch.metric(name)
    number = metric.measured if metric else None
    return float(number.value) if number else None


def _counted(
    ledger: LaunchLedger, type_id: str, names: Mapping[str, re.Match[str]]
) -> TensorWork | None:
    """Counters of one type overlap: the most specific ones are added up."""
    single = {name: m for name, m in names.items() if m["family"]} or dict(names)
    parts = [ledger.named(name, f"tensor operations ({name})") for name in single]
    total = 0.0
    for (_, match), part in zip(single.items(), parts):
        # The counter of sparse work counts the products with zeros, which take no time.
        half = 2 if match["sparsity"] == "_sparsity_on" else 1
        total += float(part.value) / half if part else 0.0
        if not match["family"]:
            break  # `src_fp16` and `src_fp16_dst_fp32` are one in the other
    evidence = ledger.derived(
        f"roofline.tensor_{type_id}.operations",
        Quantity(total, _unit(type_id)),
        f"tensor operations, {LABELS[type_id]}",
        *[part for part in parts if part],
    )
    families = tuple(dict.fromkeys(m["family"].upper() for m in single.values() if m["family"]))
    return TensorWork(type_id, families, evidence) if total > 0 else None


_TENSOR_SHARES = (
    *("pipe_tensor_pct", "pipe_tensor_fp_pct", "pipe_tensor_int_pct", "pipe_tensor_dp_pct"),
    *("inst_pipe_tensor_fp_active_pct", "inst_pipe_tensor_int_active_pct"),
)


_PATH = re.compile(
    r"sm__ops_path_tensor_(?:op_\w+?mma_)?src_(?P<type>[a-z]+\d+)(?:_\w+)?"
    r"\.(?:avg|sum)\.pct_of_peak_sustained_elapsed"
)

_HALF_RATE = ("8.6", "8.9")
"""GeForce GPUs of these compute capabilities accumulate in FP32 at half rate, by NVIDIA's
whitepapers of the GA102 and AD102. Other product lines of the same chips do not. GeForce GPUs of
12.0 do, too, but their pipe counts the real time: it reaches 98 % with HMMA.16816.F32."""
_LARGEST_PERCENT = 100.0


def path_share(ledger: LaunchLedger, type_id: str | None = None) -> Evidence | None:
    """Percent of the peak of the busiest path of the tensor cores, of one type or of all; None: no
    path was measured, or none was used."""
    shares: dict[str, float] = {}
    for name in ledger.launch.metric_names():
        match = _PATH.fullmatch(name)
        if match is not None and type_id in (None, match["type"]):
            shares[name] = ledger_value(ledger, name) or 0.0
    busiest = max(shares, key=lambda name: shares[name], default="")
    return ledger.named(busiest, "Tensor path busy") if shares.get(busiest, 0.0) > 0 else None


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
    if not part or real > _LARGEST_PERCENT:  # above: the pipe does not count them at the full rate
        return busy
    label = "Tensor pipe busy, with FP32 accumulation at half rate"
    return ledger.derived("tensor_share_of_half_rate", real, label, busy, unit="%")


def with_real_share(ledger: LaunchLedger, stage: UnitStage) -> UnitStage:
    """The tensor pipe with its share of peak; with its busy share, which is the least that it can
    be, where the accumulators are not known."""
    share = real_share(ledger, stage.busy)
    return stage._replace(busy=share) if share else stage
