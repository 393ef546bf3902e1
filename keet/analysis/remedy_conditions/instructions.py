"""Facts about executed instructions and their pipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import (
    BY_PIPE,
    DOUBLE,
    FLOAT_ARITHMETIC,
    SINGLE,
    TENSOR,
)
from keet.analysis.parameters import (
    HUGE_DIVISION,
    INTEGER_DIVISIONS,
    LARGE_ANGLES,
    MAJORITY,
    NOTABLE_PART,
    POWER,
    SLOW_DIVISION,
    Parameter,
)
from keet.analysis.remedy_conditions.fact import Answer, Fact, RaisedFinding, fact, if_most_run
from keet.documents.finding import Place
from keet.evidence import Evidence

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

# --- floating-point numbers

_DOUBLE = DOUBLE | {"DMMA"}
_FLOATS = FLOAT_ARITHMETIC | _DOUBLE
"""Other matrix instructions do far more work than their number says."""

tensor_cores_used = Fact.executes(
    "the kernel uses tensor cores",
    *TENSOR,
    negated="the kernel does not use tensor cores",
    or_metrics=("pipe_tensor_pct",),
)
computes_in_double = Fact.mostly_executes(
    "most floating-point arithmetic is in double precision", _DOUBLE, _FLOATS
)
computes_in_single = Fact.mostly_executes(
    "most floating-point arithmetic is in single precision", SINGLE, _FLOATS
)
computes_floats = Fact.executes(
    "the kernel computes with floating-point numbers",
    *_FLOATS,
    negated="the kernel does not compute with floating-point numbers",
)
uses_shuffles = Fact.executes(
    "the kernel exchanges values within warps by shuffles",
    *("SHFL", "REDUX"),
    negated="the kernel does not exchange values within warps by shuffles",
)


@fact("values are converted between single and double precision", opcodes=("F2F",))
def converts_to_double(view: LaunchView) -> Answer:
    if not view.modified_opcodes:
        return view.count("F2F") > 0
    return view.matching(r"F2F\.F(?:64\.F32|32\.F64)") > 0


# --- special functions

_BY_MODIFIER = ("inst_by_opcode_all_modifiers",)
_BIT_COUNTS = frozenset(("POPC", "FLO", "BREV"))
_XU = BY_PIPE["XU"]
CONVERSIONS = _XU - _BIT_COUNTS - {"MUFU"}

double_functions = Fact(
    "double-precision divisions, roots or functions are computed",
    lambda view: view.matching(r"MUFU\.\w*64H") > 0,
    metrics=_BY_MODIFIER,
)
mostly_conversions = Fact.mostly_executes(
    "most of the XU pipe's instructions convert between types", CONVERSIONS, _XU
)
mostly_bit_counts = Fact.mostly_executes(
    "most of the XU pipe's instructions count or search bits", _BIT_COUNTS, _XU
)


def _mostly_functions(functions: str, modifiers: str) -> Fact:
    def test(view: LaunchView) -> Answer:
        return view.matching(rf"MUFU\.(?:{modifiers})") > MAJORITY * view.count(*_XU) > 0

    return Fact(f"most special functions are {functions}", test, metrics=_BY_MODIFIER)


mostly_sines = _mostly_functions("sines and cosines", "SIN|COS")
mostly_exponentials = _mostly_functions("exponentials and logarithms", "EX2|LG2|TANH")
mostly_reciprocals = _mostly_functions("reciprocals and roots", "RCP|RSQ|SQRT")

# --- integers, control, code size

DIVISION_LENGTH = Parameter(20, "least instructions of a division of integers", "judgement")


@fact("integers are divided by values that are not known at compile time", metrics=_BY_MODIFIER)
def divides_integers(view: LaunchView) -> Answer:
    """The compiler's integer division starts with a reciprocal of the converted divisor, rounded
    up. The machine code shows all of its instructions, also where the reciprocal was computed
    before a loop."""
    if view.code is not None:
        divisions = view.code.expanded(*INTEGER_DIVISIONS)
        return if_most_run(view.code, divisions, view.code.program.ran, NOTABLE_PART)
    return counted_divisions(view) >= NOTABLE_PART


@Fact.of_code("a notable part of the instructions divides integers of 128-bit width")
def divides_huge_integers(code: MachineCode) -> Answer:
    return if_most_run(code, code.expanded(HUGE_DIVISION), code.program.ran, NOTABLE_PART)


def counted_divisions(view: LaunchView) -> float:
    """Share of the executed instructions that divide integers, 0 to 1, by opcode: only divisions of
    integers round a converted divisor up. 0: none, or modifiers were not counted."""
    runs = view.matching(r"I2F(?:\.\w+)*\.RP\b") * DIVISION_LENGTH
    return min(1.0, runs / view.all_executed) if view.all_executed else 0.0


@Fact.of_code("a notable part of the instructions is for upper halves and carries of long integers")
def computes_long_integers(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.wide_integers), code.program.ran, NOTABLE_PART)


@Fact.of_code("words are taken apart into bytes for integer arithmetic")
def takes_bytes_apart(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.packed_bytes.gone), code.program.ran, NOTABLE_PART)


@Fact.of_code("several neighbouring threads compute the same integers")
def repeats_in_neighbours(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.lane_groups), code.program.ran, NOTABLE_PART)


@fact(
    "the compiler divides to count the iterations of an unrolled loop: the source line has no "
    "division",
    metrics=_BY_MODIFIER,
)
def divides_for_trip_count(view: LaunchView) -> Answer:
    """Only if the text of all lines of the divisions is known, and they are heads of loops: other
    lines may hide a division in a macro."""
    divisions = divides_integers.test(view)
    if not isinstance(divisions, Sequence):
        return False
    located = view.launch.locate(divisions)
    whole = {view.text_of(Place(*line, 0.0, "")) for line in located.values()}
    texts = {text.partition("//")[0] for text in whole}
    are_loops = bool(texts) and all(map(_LOOP.search, texts))
    return divisions if are_loops and not any(map(_DIVIDES.search, texts)) else False


_LOOP = re.compile(r"\b(?:for|while)\b")
_DIVIDES = re.compile(r"(?<!\*)/(?!\*)|%")
"""A division or remainder, not a comment."""


@Fact.of_code("powers are computed by the general function")
def computes_powers(code: MachineCode) -> Answer:
    return if_most_run(code, code.expanded(POWER), code.program.ran, NOTABLE_PART)


@Fact.of_code("large angles take the slow path of sines and cosines")
def reduces_large_angles(code: MachineCode) -> Answer:
    return if_most_run(code, code.expanded(LARGE_ANGLES), code.program.ran, NOTABLE_PART)


@Fact.of_code("warps take the slow path of divisions of floats")
def divides_slowly(code: MachineCode) -> Answer:
    return if_most_run(code, code.expanded(SLOW_DIVISION), code.program.ran, NOTABLE_PART)


@Fact.of_code("special functions of multiples of one value are computed one by one")
def functions_of_multiples(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.multiples.gone), code.program.ran, NOTABLE_PART)


@Fact.of_code("values are divided by the same value, or by a root")
def divides_by_one_value(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.quotients.gone), code.program.ran, NOTABLE_PART)


@Fact.of_code("all threads of a warp compute the same special functions")
def shares_functions(code: MachineCode) -> Answer:
    return if_most_run(code, sorted(code.shared_functions), code.program.ran, NOTABLE_PART)


@Fact.of_code("groups of a few values in shared memory are combined step by step")
def exchanges_in_steps(code: MachineCode) -> Answer:
    steps = code.exchange_steps
    if steps is None or steps.left >= 1:
        return False
    return sorted(code.program.code[position].address for position in steps.positions)


SEVERAL_RESULTS = (
    "Compute several neighbouring results per thread{here}: a value that is loaded once then "
    "serves several of them, and so do its address and the conditions."
)
"""The remedy of all findings about such a kernel: fewer instructions, and fewer loads."""


@fact(
    "several threads load the same values, and each arithmetic instruction has loads of its own",
    metrics=("inst_executed",),
)
def loads_shared_values(view: LaunchView) -> Answer:
    from keet.analysis.parallelism.register_tiles import loads_left

    left = loads_left(view)
    return left is not None and left <= 1 - NOTABLE_PART


@fact(
    "a notable part of the instructions is index arithmetic on pairs of registers",
    metrics=_BY_MODIFIER,
)
def computes_wide_indices(view: LaunchView) -> Answer:
    """Shown by additions with carry, upper halves and comparisons of register pairs."""
    wide = view.matching(r"(?:U?IMAD|U?IADD3|LEA)\b(?:\.\w+)*\.X\b|SHF\.L\.U64|ISETP(?:\.\w+)*\.EX")
    return wide >= NOTABLE_PART * view.all_executed > 0


@Fact.of_code("a notable part of the work in loops gives the same result in every iteration")
def repeats_invariant_work(code: MachineCode) -> Answer:
    if not code.invariants or code.invariants[0].share < NOTABLE_PART:
        return False
    return code.addresses(code.invariants[0].positions)


def _main_overhead(instructions: str, purpose: str) -> Fact:
    """That this is the largest purpose among overhead instructions."""

    @Fact.of_code(
        f"{instructions} are the largest part of the overhead", metrics=("inst_executed",)
    )
    def is_main(code: MachineCode) -> Answer:
        shares = {kind.value: share for kind, share in code.mix}
        overhead = {kind: shares.get(kind, 0.0) for kind in ("address", "control", "conversion")}
        largest = max(overhead, key=lambda kind: overhead[kind])
        return largest == purpose and overhead[largest] > 0

    return is_main


overhead_is_control = _main_overhead("conditions and loop control", "control")
overhead_is_conversions = _main_overhead("conversions between types", "conversion")

ABOUT_ONCE = Parameter(2, "largest over median executions: no loop matters", "judgement")


@fact(
    "each instruction is executed about once per warp: the code has no loop that matters",
    metrics=("inst_executed_total",),
)
def runs_once(view: LaunchView) -> Answer:
    ran = sorted(filter(None, (view.table.executed or {}).values()))
    return bool(ran) and ran[-1] <= ABOUT_ONCE * ran[len(ran) // 2]


multiplies_integers = Fact.mostly_executes(
    "most instructions of the FMA pipe are integer multiplications",
    ("IMAD",),
    ("IMAD", "FFMA", "FMUL", "FADD"),
)

# --- pipes


def _unit(view: LaunchView, finding: RaisedFinding) -> str | None:
    """The unit that the finding is about or cites; else the one nearest to its peak."""
    unit = finding.variant.partition("/")[0]  # `LSU/shared`: with what it is busy with
    if unit in view.ceilings:
        return unit
    cited = {piece.metric for piece in finding.evidence}
    ranked = view.ceilings.ranked
    named = [ceiling.name for ceiling in ranked if ceiling.reached.metric in cited]
    return named[0] if named else ranked[0].name if ranked else None


def _limited_by(words: str, *units: str) -> Fact:
    """That the finding is about one of these units of `Ceilings`."""

    def reached(view: LaunchView, finding: RaisedFinding) -> Iterable[Evidence]:
        share = view.ceilings.reached(_unit(view, finding) or "")
        return () if share is None else (share,)

    return Fact(words, of_finding=lambda *of: _unit(*of) in units, evidence=reached)


_AT_LIMIT = "the unit at its limit is"
pipe_lsu = _limited_by(f"{_AT_LIMIT} the load/store pipe or L1", "LSU", "L1")
pipe_fma = _limited_by(f"{_AT_LIMIT} the FMA pipe", "FMA")
pipe_alu = _limited_by(f"{_AT_LIMIT} the ALU pipe", "ALU")
pipe_xu = _limited_by(f"{_AT_LIMIT} the XU pipe", "XU")
pipe_fp64 = _limited_by(f"{_AT_LIMIT} the FP64 pipe", "FP64")
pipe_fp16 = _limited_by(f"{_AT_LIMIT} the FP16 pipe", "FP16")
pipe_tensor = _limited_by(f"{_AT_LIMIT} the tensor cores", "tensor")
pipe_adu = _limited_by(f"{_AT_LIMIT} the ADU pipe (barriers, indexed constants)", "ADU")
pipe_issue = _limited_by("the schedulers' issue slots are the limit", "issue")
pipe_l2 = _limited_by(f"{_AT_LIMIT} L2", "L2")


_CONSTANTS_SERVED = "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed"


scattered_stores = Fact.of_variant("stores take several passes through L1", "L1/sent")
many_passes = Fact.of_variant("accesses take several passes through L1", "L1/passes")
indexed_constants = Fact.of_variant(
    "threads of a warp load different entries of constant memory", "ADU/constants"
)
constants_too = Fact(
    "loads from constant memory keep the ADU pipe as busy",
    of_finding=lambda _, finding: any(
        piece.metric == _CONSTANTS_SERVED for piece in finding.evidence
    ),
)
unread_stores = Fact.of_variant(
    "threads store far more to shared memory than they read from it", "LSU/unread", "L1/unread"
)


@Fact.of_code("a loop looks at one entry after the other, and nearly all of them are not wanted")
def searches(code: MachineCode) -> Answer:
    loops = code.search_loops[:1]
    is_large = loops and code.share(loops[0].positions) >= NOTABLE_PART
    return code.addresses(loops[0].positions) if is_large else False
