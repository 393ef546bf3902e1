"""Facts about executed instructions and their pipes: yes/no tests that `remedy_choice` asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from keet.analysis.facts.fact import Answer, Fact, Test, fact, more_than
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.facts.thresholds import ABOUT_ONCE, MOST, PER_DIVISION, SOME
from keet.evidence import Evidence

TENSOR = (
    *("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "BGMMA", "QGMMA"),
    *("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTCMXQMMA"),
)
_DOUBLE = ("DFMA", "DADD", "DMUL", "DMMA")
_SINGLE = ("FFMA", "FFMA2", "FADD", "FADD2", "FMUL", "FMUL2")
_HALF = ("HFMA2", "HADD2", "HMUL2")
_CONVERSIONS = ("F2F", "F2I", "I2F", "FRND", "I2I")


@fact(
    "the kernel uses tensor cores",
    negated="the kernel does not use tensor cores",
    opcodes=(
        "HMMA",
        "IMMA",
        "DMMA",
        "QMMA",
        "OMMA",
        "HGMMA",
        "IGMMA",
        "QGMMA",
        "UTCHMMA",
        "UTCIMMA",
        "UTCQMMA",
        "UTCOMMA",
    ),
)
def tensor_cores_used(inputs: FactInputs) -> Answer:
    executed = inputs.count(*TENSOR)
    if executed is not None:
        return executed > 0
    return more_than(inputs.value("pipe_tensor_pct"), 0)


def _part_of_floats(inputs: FactInputs, opcodes: Collection[str]) -> float | None:
    every = inputs.count(*_DOUBLE, *_SINGLE, *_HALF)
    own = inputs.count(*opcodes)
    return inputs.ratio(own, every)


@fact(
    "most floating-point arithmetic is in double precision",
    opcodes=("DFMA", "DADD", "DMUL", "DMMA"),
)
def computes_in_double(inputs: FactInputs) -> Answer:
    return more_than(_part_of_floats(inputs, _DOUBLE), MOST)


@fact(
    "most floating-point arithmetic is in single precision",
    opcodes=("FFMA", "FFMA2", "FADD", "FMUL"),
)
def computes_in_single(inputs: FactInputs) -> Answer:
    return more_than(_part_of_floats(inputs, _SINGLE), MOST)


@fact(
    "the kernel computes with floating-point numbers",
    negated="the kernel does not compute with floating-point numbers",
    opcodes=("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "HFMA2", "HADD2", "HMUL2"),
)
def computes_floats(inputs: FactInputs) -> Answer:
    return more_than(inputs.count(*_DOUBLE, *_SINGLE, *_HALF), 0)


@fact(
    "the kernel exchanges values within warps by shuffles",
    negated="the kernel does not exchange values within warps by shuffles",
    opcodes=("SHFL", "REDUX"),
)
def uses_shuffles(inputs: FactInputs) -> Answer:
    return more_than(inputs.count("SHFL", "REDUX"), 0)


@fact("values are converted between single and double precision", opcodes=("F2F",))
def converts_to_double(inputs: FactInputs) -> Answer:
    converted = inputs.matching(r"F2F\.F(?:64\.F32|32\.F64)")
    return more_than(inputs.count("F2F") if converted is None else converted, 0)


@fact(
    "double-precision divisions, roots or functions are computed",
    metrics=("inst_by_opcode_all_modifiers",),
)
def double_functions(inputs: FactInputs) -> Answer:
    return more_than(inputs.matching(r"MUFU\.\w*64H"), 0)


# --- special functions


def _special(inputs: FactInputs) -> float | None:
    """Instructions of the XU pipe."""
    return inputs.count("MUFU", *_CONVERSIONS)


@fact(
    "most of the XU pipe's instructions convert between types",
    opcodes=("F2F", "F2I", "I2F", "FRND", "I2I"),
)
def mostly_conversions(inputs: FactInputs) -> Answer:
    converted, every = inputs.count(*_CONVERSIONS), _special(inputs)
    return None if converted is None or every is None else converted > MOST * every


def _mostly_functions(pattern: str) -> Test:
    def test(inputs: FactInputs) -> Answer:
        own, every = inputs.matching(pattern), _special(inputs)
        return None if own is None or every is None else own > MOST * every

    return test


mostly_sines = Fact(
    "mostly_sines",
    "most special functions are sines and cosines",
    _mostly_functions(r"MUFU\.(?:SIN|COS)"),
    metrics=("inst_by_opcode_all_modifiers",),
)
mostly_exponentials = Fact(
    "mostly_exponentials",
    "most special functions are exponentials and logarithms",
    _mostly_functions(r"MUFU\.(?:EX2|LG2|TANH)"),
    metrics=("inst_by_opcode_all_modifiers",),
)
mostly_reciprocals = Fact(
    "mostly_reciprocals",
    "most special functions are reciprocals and roots",
    _mostly_functions(r"MUFU\.(?:RCP|RSQ|SQRT)"),
    metrics=("inst_by_opcode_all_modifiers",),
)


# --- integers, control, code size


@fact(
    "integers are divided by values that are not known at compile time",
    metrics=("inst_by_opcode_all_modifiers",),
)
def divides_integers(inputs: FactInputs) -> Answer:
    """The compiler's integer division starts with a reciprocal of the converted divisor, rounded
    up."""
    divisions = inputs.matching(r"I2F(?:\.\w+)*\.RP\b")
    return None if divisions is None else divisions * PER_DIVISION >= SOME * inputs.executed > 0


@fact(
    "a notable part of the instructions is index arithmetic on pairs of registers",
    metrics=("inst_by_opcode_all_modifiers",),
)
def computes_wide_indices(inputs: FactInputs) -> Answer:
    """Shown by additions with carry, upper halves and comparisons of register pairs."""
    wide = inputs.matching(
        r"(?:U?IMAD|U?IADD3|LEA)\b(?:\.\w+)*\.X\b|SHF\.L\.U64|ISETP(?:\.\w+)*\.EX"
    )
    return None if wide is None else wide >= SOME * inputs.executed > 0


@fact("a notable part of the work in loops gives the same result in every iteration")
def repeats_invariant_work(inputs: FactInputs) -> Answer:
    code = inputs.code
    if code is None:
        return None
    found = code.invariants[0] if code.invariants else None
    if found is None or found.share < SOME:
        return False
    return [code.program.code[position].address for position in found.positions]


def _main_overhead(inputs: FactInputs) -> str | None:
    """The largest purpose among overhead instructions."""
    if inputs.code is None:
        return None
    shares = {purpose.value: share for purpose, share in inputs.code.mix}
    overhead = {each: shares.get(each, 0.0) for each in ("address", "control", "conversion")}
    return max(overhead, key=lambda each: overhead[each]) if any(overhead.values()) else None


def _is_mostly(purpose: str) -> Test:
    def test(inputs: FactInputs) -> Answer:
        found = _main_overhead(inputs)
        return None if found is None else found == purpose

    return test


overhead_is_control = Fact(
    "overhead_is_control",
    "conditions and loop control are the largest part of the overhead",
    _is_mostly("control"),
    metrics=("inst_executed",),
)
overhead_is_conversions = Fact(
    "overhead_is_conversions",
    "conversions between types are the largest part of the overhead",
    _is_mostly("conversion"),
    metrics=("inst_executed",),
)


@fact(
    "each instruction is executed about once per warp: the code has no loop that matters",
    metrics=("inst_executed_total",),
)
def runs_once(inputs: FactInputs) -> Answer:
    """No instruction runs much more often than the median one."""
    executed = inputs.view.table.executed
    ran = sorted(count for count in executed.values() if count) if executed else []
    return ran[-1] <= ABOUT_ONCE * ran[len(ran) // 2] if ran else None


@fact("most instructions of the FMA pipe are integer multiplications", opcodes=("IMAD",))
def multiplies_integers(inputs: FactInputs) -> Answer:
    integers, floats = inputs.count("IMAD"), inputs.count("FFMA", "FMUL", "FADD")
    return None if integers is None or floats is None else integers > floats


# --- pipes


def unit_of(inputs: FactInputs) -> str | None:
    """The unit that the finding is about or cites; else the one nearest to its peak."""
    ceilings = inputs.view.ceilings
    if inputs.finding.variant in ceilings:
        return inputs.finding.variant
    cited = {piece.metric for piece in inputs.finding.evidence}
    ranked = ceilings.ranked
    own = [each.name for each in ranked if each.reached.metric in cited]
    return own[0] if own else ranked[0].name if ranked else None


def _limited_by(name: str, words: str, *units: str) -> Fact:
    """That the finding is about one of these units of `Ceilings`."""

    def test(inputs: FactInputs) -> Answer:
        unit = unit_of(inputs)
        return None if unit is None else unit in units

    def reached(inputs: FactInputs) -> Iterable[Evidence]:
        unit = unit_of(inputs)
        peak = inputs.view.ceilings.reached(unit) if unit else None
        return () if peak is None else (peak,)

    return Fact(name, words, test, evidence=reached)


pipe_lsu = _limited_by(
    "pipe_lsu", "the unit at its limit is the load/store pipe or L1", "LSU", "L1"
)
pipe_fma = _limited_by("pipe_fma", "the unit at its limit is the FMA pipe", "FMA")
pipe_alu = _limited_by("pipe_alu", "the unit at its limit is the ALU pipe", "ALU")
pipe_xu = _limited_by("pipe_xu", "the unit at its limit is the XU pipe", "XU")
pipe_fp64 = _limited_by("pipe_fp64", "the unit at its limit is the FP64 pipe", "FP64")
pipe_fp16 = _limited_by("pipe_fp16", "the unit at its limit is the FP16 pipe", "FP16")
pipe_tensor = _limited_by("pipe_tensor", "the unit at its limit is the tensor cores", "tensor")
pipe_adu = _limited_by(
    "pipe_adu", "the unit at its limit is the ADU pipe (barriers, indexed constants)", "ADU"
)
pipe_issue = _limited_by("pipe_issue", "the schedulers' issue slots are the limit", "issue")
pipe_l2 = _limited_by("pipe_l2", "the unit at its limit is L2", "L2")
