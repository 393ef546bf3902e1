"""Facts about executed instructions and their pipes: yes/no tests that `remedy_choice` asks."""

from __future__ import annotations

from collections.abc import Collection

from keet.analysis.advice.fact_inputs import FactInputs
from keet.analysis.advice.fact_tests import TESTS, Answer, Test, fact, more_than
from keet.analysis.advice.thresholds import ABOUT_ONCE, MOST, PER_DIVISION, SOME

TENSOR = (
    *("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "BGMMA", "QGMMA"),
    *("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTCMXQMMA"),
)
_DOUBLE = ("DFMA", "DADD", "DMUL", "DMMA")
_SINGLE = ("FFMA", "FFMA2", "FADD", "FADD2", "FMUL", "FMUL2")
_HALF = ("HFMA2", "HADD2", "HMUL2")
_CONVERSIONS = ("F2F", "F2I", "I2F", "FRND", "I2I")


@fact
def tensor_cores_used(inputs: FactInputs) -> Answer:
    executed = inputs.count(*TENSOR)
    if executed is not None:
        return executed > 0
    return more_than(inputs.value("pipe_tensor_pct"), 0)


def _part_of_floats(inputs: FactInputs, opcodes: Collection[str]) -> float | None:
    every = inputs.count(*_DOUBLE, *_SINGLE, *_HALF)
    own = inputs.count(*opcodes)
    return inputs.ratio(own, every)


@fact
def computes_in_double(inputs: FactInputs) -> Answer:
    return more_than(_part_of_floats(inputs, _DOUBLE), MOST)


@fact
def computes_in_single(inputs: FactInputs) -> Answer:
    return more_than(_part_of_floats(inputs, _SINGLE), MOST)


@fact
def computes_floats(inputs: FactInputs) -> Answer:
    return more_than(inputs.count(*_DOUBLE, *_SINGLE, *_HALF), 0)


@fact
def uses_shuffles(inputs: FactInputs) -> Answer:
    return more_than(inputs.count("SHFL", "REDUX"), 0)


@fact
def converts_to_double(inputs: FactInputs) -> Answer:
    converted = inputs.matching(r"F2F\.F(?:64\.F32|32\.F64)")
    return more_than(inputs.count("F2F") if converted is None else converted, 0)


@fact
def double_functions(inputs: FactInputs) -> Answer:
    return more_than(inputs.matching(r"MUFU\.\w*64H"), 0)


# --- special functions


def _special(inputs: FactInputs) -> float | None:
    """Instructions of the XU pipe."""
    return inputs.count("MUFU", *_CONVERSIONS)


@fact
def mostly_conversions(inputs: FactInputs) -> Answer:
    converted, every = inputs.count(*_CONVERSIONS), _special(inputs)
    return None if converted is None or every is None else converted > MOST * every


def _mostly_functions(pattern: str) -> Test:
    def test(inputs: FactInputs) -> Answer:
        own, every = inputs.matching(pattern), _special(inputs)
        return None if own is None or every is None else own > MOST * every

    return test


TESTS["mostly_sines"] = _mostly_functions(r"MUFU\.(?:SIN|COS)")
TESTS["mostly_exponentials"] = _mostly_functions(r"MUFU\.(?:EX2|LG2|TANH)")
TESTS["mostly_reciprocals"] = _mostly_functions(r"MUFU\.(?:RCP|RSQ|SQRT)")


# --- integers, control, code size


@fact
def divides_integers(inputs: FactInputs) -> Answer:
    """The compiler's integer division starts with a reciprocal of the converted divisor, rounded
    up."""
    divisions = inputs.matching(r"I2F(?:\.\w+)*\.RP\b")
    return None if divisions is None else divisions * PER_DIVISION >= SOME * inputs.executed > 0


@fact
def computes_wide_indices(inputs: FactInputs) -> Answer:
    """Shown by additions with carry, upper halves and comparisons of register pairs."""
    wide = inputs.matching(
        r"(?:U?IMAD|U?IADD3|LEA)\b(?:\.\w+)*\.X\b|SHF\.L\.U64|ISETP(?:\.\w+)*\.EX"
    )
    return None if wide is None else wide >= SOME * inputs.executed > 0


@fact
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


TESTS["overhead_is_control"] = _is_mostly("control")
TESTS["overhead_is_conversions"] = _is_mostly("conversion")


@fact
def runs_once(inputs: FactInputs) -> Answer:
    """No instruction runs much more often than the median one."""
    executed = inputs.view.table.executed
    ran = sorted(count for count in executed.values() if count) if executed else []
    return ran[-1] <= ABOUT_ONCE * ran[len(ran) // 2] if ran else None


@fact
def multiplies_integers(inputs: FactInputs) -> Answer:
    integers, floats = inputs.count("IMAD"), inputs.count("FFMA", "FMUL", "FADD")
    return None if integers is None or floats is None else integers > floats


# --- pipes

PIPES = {
    "pipe_lsu": ("LSU", "L1"),
    "pipe_fma": ("FMA",),
    "pipe_alu": ("ALU",),
    "pipe_xu": ("XU",),
    "pipe_fp64": ("FP64",),
    "pipe_fp16": ("FP16",),
    "pipe_tensor": ("tensor",),
    "pipe_adu": ("ADU",),
    "pipe_issue": ("issue",),
    "pipe_l2": ("L2",),
}
"""Facts and the units of `Ceilings` that each is about."""


def unit_of(inputs: FactInputs) -> str | None:
    """The unit that the finding is about or cites; else the one nearest to its peak."""
    ceilings = inputs.view.ceilings
    if inputs.finding.variant in ceilings:
        return inputs.finding.variant
    cited = {piece.metric for piece in inputs.finding.evidence}
    ranked = ceilings.ranked
    own = [each.name for each in ranked if each.reached.metric in cited]
    return own[0] if own else ranked[0].name if ranked else None


def _is_limited_by(units: Collection[str]) -> Test:
    def test(inputs: FactInputs) -> Answer:
        unit = unit_of(inputs)
        return None if unit is None else unit in units

    return test


for _name, _units in PIPES.items():
    TESTS[_name] = _is_limited_by(_units)
