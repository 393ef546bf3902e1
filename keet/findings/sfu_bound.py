"""Special functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import (
    LEAST_PART,
    Candidate,
    doubt_if_counted,
    kept_waits_by,
    part_of,
    removed_part,
)
from keet.analysis.decisions.saturated import (
    PIPE_WORK,
    conversions,
    float_functions,
    float_names,
    saturated,
    unit_places,
)
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.analysis.memory_work import without_local
from keet.analysis.parameters import LARGE_ANGLES, NOTABLE_PART, POWER, SLOW_DIVISION, Parameter
from keet.analysis.remedy_conditions import instructions, origin, waits
from keet.analysis.time_model import INDIRECT, MOST_LOAD, MOST_REMOVED, SHARPNESS, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

FAST_POWER = Parameter(9, "instructions of __powf, with scaling of denormals", "judgement")

SLOW = "slow_division"
_SLOW_PATHS = (LARGE_ANGLES, SLOW_DIVISION)

FINDING = FindingSpec(
    id="sfu_bound",
    family="instructions",
    label="special functions",
    meaning="Special functions keep the XU pipe busy, which runs at an eighth of the FP32 rate or "
    "less.",
    how="The XU pipe executes special functions, or is the busiest unit. A fixed part of its work "
    "is assumed to be left after a rewrite, and the instructions that go with each function are "
    "saved. The machine code shows the instructions of powf, of the slow paths of divisions and of "
    "sines and cosines for large angles, and of functions of multiples of one value, which follow "
    "from each other by products, as do quotients with one divisor. What all threads of a "
    "warp compute equally can be tabulated.",
    rules=("HighPipeUtilization",),
    credited_rules=("HighPipeUtilization", "CPIStall"),
    parameters=(PIPE_WORK, FAST_POWER, SHARPNESS, INDIRECT),
    claims=("instructions",),
    rests_on=("xu",),
    unlike={
        "integer_overhead": "Integer divisions and conversions use the XU pipe, too; they count "
        "as overhead.",
        "fp64_promotion": "Conversions between float and double use the XU pipe; they count as "
        "double precision.",
        "pipe_saturated": "Any other pipe of the SM that is the busiest unit, and the XU pipe if "
        "most of its work is conversions between types.",
    },
    remedies={
        when(origin.library): "Choose a cheaper function or a lower-precision variant of this "
        "operation in {library}, or fuse it with neighbours that wait for memory.",
        when(instructions.computes_powers, name="powers"): "The general power "
        "function takes many instructions{here}: multiply for small integer exponents, use sqrtf, "
        "rsqrtf or cbrtf for fractions, or exp2f(y * log2f(x)) (__powf) where the accuracy allows "
        "it.",
        when(instructions.divides_slowly, name=SLOW): "Divisions take their slow path{here}, which "
        "only operands that are infinite, not a number, or of extreme size need: check that these "
        "values are right. If they are, scale them, or use the fast division (__fdividef, "
        "-ftz=true) where the accuracy allows it.",
        when(instructions.reduces_large_angles, name="large_angles"): "Large angles take the slow "
        "path of sinf and cosf{here}, a product with many digits and an array in local memory: "
        "subtract whole turns before the call (rintf and fused multiply-adds), or keep the phase "
        "within a turn.",
        when(instructions.functions_of_multiples, name="multiples"): "Compute one function and "
        "get those of multiples of its argument by products{here}: powers of one exponential, "
        "rotations of one sine and cosine, or a recurrence from one iteration of a loop to the "
        "next.",
        when(instructions.divides_by_one_value, name="quotients"): "Divide once{here}: compute the "
        "reciprocal of the divisor and multiply by it; for a root as divisor, use rsqrtf. The last "
        "bit of the results may differ.",
        when(instructions.shares_functions, name="shared"): "All threads of a warp compute the "
        "same functions{here}: tabulate them, before the kernel or once per block with another "
        "value in each thread, and read them from shared memory.",
        when(instructions.mostly_sines, name="sines"): "Replace sines and cosines by a recurrence "
        "(rotate by a fixed angle), a table, or sincospif for both at once{here}, and move those "
        "that repeat out of the loop.",
        when(instructions.mostly_exponentials, name="exponentials"): "Compute fewer exponentials "
        "and logarithms{here}: combine factors into one exponent, use exp2f and log2f with the "
        "factor folded in, and evaluate a part of them by polynomials on the FMA pipe.",
        when(instructions.mostly_reciprocals, name="reciprocals"): "Compute fewer reciprocals and "
        "roots{here}: divide once and multiply by the reciprocal, combine several divisions into "
        "one, and use rsqrtf instead of a root and a division.",
        when(instructions.mostly_bit_counts, name="bits"): "Most of this pipe's work counts or "
        "searches bits{here} (__popc, __ffs, __clz, __brev): look up bytes in a table in shared "
        "memory, test several bits at a time with a mask, or count once and keep the result.",
        otherwise: "Replace special functions, divisions, conversions and searches for bits{here} "
        "(__ffs, __clz, __popc) by recurrences, polynomials, multiplications or a table, and move "
        "those that repeat out of the loop.",
    },
    labels={SLOW: "slow path of divisions"},
    edit=Edit(
        "Replace sines, exponentials and divisions by recurrences or a cheaper formula", usual=20
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    is_slow = view.code is not None and bool(view.code.expanded(*_SLOW_PATHS))
    if conversions(view) is not None and not is_slow:
        return
    if instructions.divides_slowly.test(view) and waits.inactive_in_routines.test(view):
        return  # a few threads of each warp take the slow path: warp_divergence names it
    busy, functions = view.ceilings.reached("XU"), part_of(view, "MUFU")
    parts = list(_parts(view))
    # One logf or sinf, all polynomial, is the work itself. powf has cheaper forms.
    is_power = bool(instructions.computes_powers.test(view))
    if busy is not None and (functions >= LEAST_PART or is_slow or is_power):
        words = "The XU pipe (special functions, conversions) is busy for {busy:.0f} of the time."
        text, shown = Sentence(words, busy=busy), [busy]
        for part in parts:
            if part.value / 100 >= NOTABLE_PART:
                more = "{text} {share:.0f} {what}."
                text = Sentence(more, text=text, share=part, what=part.label)
                shown.append(part)
        yield Candidate(
            text,
            _effect(view, model, functions),
            tuple(shown),
            partial(unit_places, view, "XU"),
            basis="assumed",
            variant=SLOW if instructions.divides_slowly.test(view) else "",
            doubt=doubt_if_counted(view),
        )
    pipe = saturated(view, model)
    if pipe is not None and pipe.work == "special functions":
        yield pipe.candidate()._replace(doubt=doubt_if_counted(view))


_PART_LABELS = {
    "related_share": "of the instructions compute exponentials, sines or cosines of multiples of "
    "one value, of which the first gives the others by products",
    "divided_share": "of the instructions are exact divisions by one value, of which the "
    "reciprocal is enough, or by a root, whose reciprocal is one instruction",
    "shared_function_share": "of the instructions are for special functions that all threads of a "
    "warp compute equally",
}


def _parts(view: LaunchView) -> Iterator[Evidence]:
    """Shares of the instructions that the machine code shows to be of functions."""
    executed, code = view.get("inst_executed"), view.code
    if executed is None or code is None:
        return
    names = float_names(code)
    label = f"of the instructions are the code of {' and '.join(sorted(names))}"
    parts: dict[str, tuple[Collection[int], str]] = {
        "expanded_share": (code.expanded(*names), label),
        "related_share": (code.multiples.gone, _PART_LABELS["related_share"]),
        "divided_share": (code.quotients.gone, _PART_LABELS["divided_share"]),
        "shared_function_share": (code.shared_functions, _PART_LABELS["shared_function_share"]),
    }
    for name, (positions, label) in parts.items():
        if positions:
            yield view.share(name, code.share(positions), label, executed)


def _effect(view: LaunchView, model: TimeModel, functions: float) -> Effect:
    """The code shows what goes of functions that have a fast version, or follow from others by
    products; of other functions, a part goes."""
    code = view.code
    on_xu = code.with_opcodes(BY_PIPE["XU"]) if code else []
    gone = _gone(code) if code else {}
    units = {"XU": min(PIPE_WORK, 1 - (code.part_gone(on_xu, gone) if code else 0.0))}
    for unit in ("issue", "FMA", "ALU"):
        units[unit] = 1 - max((1 - PIPE_WORK) * functions, removed_part(view, gone, unit))
    if code is not None and (code.multiples.gone or code.quotients.gone or code.shared_functions):
        added = code.multiples.products + code.quotients.products + _reads(code)
        added /= sum(code.program.counts)
        units["issue"] = 1 - removed_part(view, gone, "issue") + added
        on_fma = view.count(*BY_PIPE["FMA"]) / (view.all_executed or 1.0) or 1.0
        units["FMA"] = 1 - removed_part(view, gone, "FMA") + added / on_fma
    if code is not None and code.expanded(LARGE_ANGLES):
        units |= without_local(view)
    waits: dict[str, float] = {}
    if gone or (code is not None and code.stalls):  # without samples, waits for this pipe stay
        on_pipe = dict.fromkeys(on_xu, 1 - PIPE_WORK)
        waits = kept_waits_by(view, model, {**on_pipe, **gone}, 1 - units["issue"])
    more = {
        unit: min(MOST_LOAD, part * model.loads.get(unit, 0.0))
        for unit, part in units.items()
        if part > 1
    }
    return Effect({unit: min(1.0, part) for unit, part in units.items()}, waits, moved=more)


def _gone(code: MachineCode) -> dict[int, float]:
    """By position, the share that goes of the instructions of expanded functions, and of functions
    that follow from others. Of functions whose fast version only loses accuracy, a part."""
    # Also a fast power is more than its two special functions: scaling goes with them.
    gone = dict.fromkeys(code.fast_powers, 1 - PIPE_WORK)
    for expansion in code.expansions:
        part = 1 - PIPE_WORK
        if expansion.name in _SLOW_PATHS:
            part = 1.0
        elif expansion.name == POWER:
            executed = sum(code.program.counts[position] for position in expansion.positions)
            stepped = code.multiples.powers  # a product each
            left = FAST_POWER * max(0.0, expansion.calls - stepped) + stepped
            part = max(part, 1 - left / executed)
        if expansion.is_of_floats:
            gone |= dict.fromkeys(expansion.positions, part)
    return {**gone, **code.shared_functions, **code.quotients.gone, **code.multiples.gone}


def _reads(code: MachineCode) -> float:
    """Warp instructions that read the results of functions that a warp computes once."""
    reads, counts, shared = 0.0, code.program.counts, code.shared_functions.keys()
    for expansion in code.expansions:
        executed = sum(counts[position] for position in expansion.positions)
        if expansion.is_of_floats and executed:
            shared_runs = sum(counts[position] for position in shared & expansion.positions)
            reads += expansion.calls * shared_runs / executed
    plain = shared - set(float_functions(code))
    return reads + sum(counts[at] for at in plain.intersection(code.with_opcodes(["MUFU"])))


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("XU")
    if busy is None or model.loads.get("XU", 0.0) >= 1 - MOST_REMOVED:
        return None
    return absence("The XU pipe is busy for {busy:.1f} of the time.", busy=busy)


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines of slow divisions, or of functions that the compiler expands, if these are a notable
    part; else lines by instructions of the XU pipe."""
    functions = float_functions(code)
    slow = code.expanded(SLOW_DIVISION)
    if code.share(slow) >= NOTABLE_PART:  # the routine has no line of its own
        of = "slow divisions"
        positions = [position for position in slow if code.program.code[position].opcode == "CALL"]
    elif code.share(functions) >= NOTABLE_PART:
        of, positions = "instructions of expanded functions", functions
    else:
        of, positions = "special functions and conversions", code.with_opcodes(BY_PIPE["XU"])
    return LeadingLines.executed(of, code, positions)
