"""Integer and address arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from keet.analysis.candidate import Candidate, kept_waits_by, part_of, removed_part
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE
from keet.analysis.parallelism.register_tiles import loads_left, mostly_hits, part_of_memory
from keet.analysis.parameters import (
    HUGE_DIVISION,
    INTEGER_DIVISIONS,
    MAJORITY,
    NOTABLE_PART,
    Parameter,
)
from keet.analysis.remedy_conditions import instructions, origin
from keet.analysis.remedy_conditions.global_memory import WIDEST_ACCESS
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, SHARPNESS, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, amount_of, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

OVERHEAD_BASE = Parameter(
    0.4, "share of address and control instructions that every kernel needs", "fit"
)
OVERHEAD_REMOVED = Parameter(
    0.95, "share of the address and control instructions beyond it that a fix removes", "fit"
)
PER_LONG_DIVISION = Parameter(
    70, "instructions of a 64-bit division, which is left of one of 128 bits", "fit"
)
PER_DIVISION = Parameter(7.0, "instructions of an integer division per MUFU.RCP", "fit")

SEARCH = "search"

FINDING = FindingSpec(
    id="integer_overhead",
    family="instructions",
    label="integer and address arithmetic",
    meaning="Many of the issued instructions compute indices, addresses, conditions and "
    "conversions instead of results.",
    how="The share of executed instructions that compute addresses, conditions and conversions, "
    "from the machine code (from integer counters without it). What every kernel needs is "
    "subtracted. Integer divisions are counted with all their instructions, 64-bit arithmetic "
    "with those that 32 bits would not need, bytes taken out of words with their extraction and "
    "three of four instructions that compute with them, and what several neighbouring threads "
    "compute equally as far as one of them would do. If other threads load the same values, "
    "several results per thread also save loads. Steps on groups of values in shared memory: as "
    "many passes, with their loads, stores and addresses, as the values that a thread holds need.",
    credited_rules=("SOLBottleneck", "HighPipeUtilization"),
    parameters=(
        *(OVERHEAD_BASE, OVERHEAD_REMOVED, PER_DIVISION, PER_LONG_DIVISION),
        *(MOST_REMOVED, INDIRECT),
    ),
    claims=("instructions", "redundant"),
    rests_on=("instructions", "issue"),
    labels={SEARCH: "a loop that searches and seldom finds"},
    without_cases=(SEARCH, "curand"),
    unlike={
        "narrow_access": "Address arithmetic for many narrow accesses goes away with wider ones.",
        "pipe_saturated": "A pipe that is busy with the work itself.",
        "sfu_bound": "Special functions of the work itself, not of divisions.",
    },
    remedies={
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(origin.library): "Pass {library} contiguous inputs of few dimensions (merge "
        "dimensions that lie side by side), so that it can choose a kernel with simple indices.",
        when(origin.triton): "Make sizes and strides tl.constexpr{here}, advance pointers instead "
        "of computing them anew, and keep offsets in int32.",
        when(instructions.searches, name=SEARCH): "Do not go through the whole list{here}: find "
        "its entries at once (sorted, with an offset per key, or by a hash table), or start from "
        "the entries and scatter them with atomics. Else let each lane of a warp look at another "
        "entry, and collect the hits by a vote of the warp.",
        when(instructions.divides_for_trip_count, name="trip_count"): "The compiler divides to "
        "find the number of iterations of an unrolled loop{here}, because the step is only known "
        "at run time: make the step a constant of the compilation, let each thread handle one "
        "item without a loop, or turn unrolling off (#pragma nounroll).",
        when(instructions.divides_huge_integers, name="huge_division"): "Divide and multiply in "
        "64-bit integers{here} where the values fit: a 128-bit division takes three times as many "
        "instructions. Where the divisor stays the same, a precomputed reciprocal (the upper half "
        "of a product, and a shift) replaces the division.",
        when(instructions.divides_integers, name="division"): "Replace integer division and "
        "remainder{here}: use the block's and thread's own coordinates, divisors known at compile "
        "time (templates, powers of two), or a precomputed reciprocal (multiply and shift).",
        when(instructions.takes_bytes_apart, name="bytes"): "Work on four bytes at a time{here} "
        "instead of taking them out of words one by one: packed sums and differences (__vadd4, "
        "__dp4a), and masks with one multiplication for comparisons and digits.",
        when(instructions.repeats_in_neighbours, name="neighbours"): "Neighbouring threads compute "
        "the same{here}: let one thread take the items of all of them (with wide loads), or "
        "compute it in one lane and pass it on by shuffles.",
        when(instructions.computes_long_integers, name="long_values"): "Compute in the width of a "
        "register{here} where the values fit: int or unsigned instead of long long, int64_t or "
        "size_t. Split larger values once, for example into days and seconds, and go on with the "
        "parts.",
        when(instructions.repeats_invariant_work, name="invariant"): "A part of the work in the "
        "loop gives the same result every time{here}: compute it before the loop, and mark "
        "pointers __restrict__ so that the compiler may do it.",
        when(instructions.computes_wide_indices, name="wide"): "Compute indices in int instead of "
        "size_t or long{here} where they fit: let a pointer advance by a fixed step, or add a "
        "small offset to one base pointer.",
        when(instructions.exchanges_in_steps, name="steps"): "Do several steps on the values that "
        "a thread holds in registers{here}, before it exchanges them through shared memory: each "
        "step on groups of a few values loads, stores and addresses all of them again. A thread "
        "that takes other values together needs fewer passes, and fewer barriers.",
        when(
            instructions.loads_shared_values, instructions.runs_once, name="several_results"
        ): "Compute several neighbouring results per thread{here}, with wide loads (float4) or "
        "from values that neighbours have loaded (shuffles): addresses and conditions then serve "
        "several of them.",
        when(instructions.overhead_is_control, name="control"): "Spend fewer instructions on "
        "conditions and loops{here}: unroll, handle several items per iteration, treat borders "
        "outside of the inner loop, and replace short branches by selection.",
        when(instructions.overhead_is_conversions, name="conversions"): "Spend fewer instructions "
        "on conversions{here}: convert once instead of at every use, compute in the type of the "
        "data (half2), or unpack several values at a time (__byte_perm).",
        otherwise: "Take index arithmetic out of the loop{here}: pointers that advance, offsets "
        "in int, divisions replaced by precomputed reciprocals or by the block's own coordinates.",
    },
    edit=Edit(
        "Take index arithmetic out of the inner loop, with offsets that are worked out once",
        usual=14,
    ),
)

_PIPES = ("ALU", "FMA")
_OVERHEAD = ("address", "control", "conversion")
"""Purposes of instructions that compute no results."""


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    yield from _search(view, model)
    issue, divisions, code = view.ceilings.reached("issue"), _divisions(view), view.code
    counted = _counted(code) if code else {}
    share = _overhead_share(view)
    if share is None and instructions.divides_integers.test(view):  # by their opcodes alone
        share = divisions
    if issue is None or share is None:
        return
    special, integers = part_of(view, "MUFU"), part_of(view, "I2F", "F2I")
    smaller = _smaller(code) if code else {}
    divided = divisions.value / 100 - removed_part(view, smaller, "issue") if divisions else 0.0
    passes = _fewer_passes(view, code) if code and model.busiest not in ("L1", "LSU") else {}
    less = {**passes, **counted}
    unneeded = {unit: removed_part(view, less, unit) for unit in (*_PIPES, "issue")}
    certain = divided + unneeded["issue"]
    # What is counted can go as a whole; of the other instructions, every kernel needs some.
    rest, others = share.value / 100 - divided, list[int]()
    if code:
        counted_apart = {*code.expanded(*INTEGER_DIVISIONS), *counted}
        others = [position for position in _overhead(code) if position not in counted_apart]
        again = {position: passes[position] for position in others if position in passes}
        rest = code.share(others) - removed_part(view, again, "issue")
    beyond = max(0.0, rest - OVERHEAD_BASE * (1 - certain))
    removed = {
        unit: min(MOST_REMOVED, OVERHEAD_REMOVED * (beyond + divided + part))
        for unit, part in (*unneeded.items(), ("ADU", 0.0))
    }
    units = {unit: 1 - part for unit, part in removed.items()}
    if on_xu := integers + special + part_of(view, "F2F"):
        # Its work for integers: conversions, and the reciprocals between them.
        of_integers = (integers + min(special, integers / 2)) / on_xu
        units["XU"] = 1 - removed["ADU"] * of_integers
    of_overhead = min(1.0, removed["ADU"] / (share.value / 100)) if share.value else 0.0
    gone = dict.fromkeys(_overhead(code), of_overhead) if of_overhead and code else {}
    gone |= {position: OVERHEAD_REMOVED * part for position, part in counted.items()}
    gone |= {position: max(part, gone.get(position, 0.0)) for position, part in passes.items()}
    if passes and code:
        program = code.program
        accesses = [at for at in program.ran if program.code[at].memory is not None]
        units |= dict.fromkeys(("L1", "LSU"), 1 - code.part_gone(accesses, passes))
    gone |= {position: OVERHEAD_REMOVED * (1 - part) for position, part in smaller.items()}
    reloads = _reloads(view, code) if code else []
    if reloads and code and (left := loads_left(view)) is not None:
        # With several results per thread, one set of addresses and one load serve all of them. They
        # wait less as far as instructions are the limit.
        gone |= dict.fromkeys(reloads, (1 - left) * model.loads.get("issue", 0.0) ** SHARPNESS)
        units["issue"] -= (1 - left) * code.share(reloads)
    if instructions.repeats_in_neighbours.test(view) and code:
        # A thread that takes the items of several has their addresses once, and waits once.
        taken = code.part_gone([*code.lane_groups], code.lane_groups)
        gone = {**_wider_loads(code, taken), **dict.fromkeys(others, INDIRECT * taken), **gone}
        units |= {
            unit: min(units[unit], 1 - removed_part(view, gone, unit))
            for unit in (*_PIPES, "issue")
        }
    waits = kept_waits_by(view, model, gone, removed["issue"])
    text, shown = _shown(view, issue, share, divisions, with_steps=bool(passes))
    # Most of it is counted: only how the code looks without it is assumed.
    is_counted = code is not None and certain >= MAJORITY * (certain + beyond) > 0
    yield Candidate(
        text,
        Effect(units, waits),
        tuple(shown),
        partial(view.column_places, "executed instructions", "inst_executed"),
        basis="measured" if is_counted else "assumed",
        amount=partial(amount_of, view, None, "arithmetic"),
    )


def _wider_loads(code: MachineCode, taken: float) -> dict[int, float]:
    """By position of a load: the share that goes if a thread takes the items of several, `taken` of
    which go, with wide loads. Those at addresses that depend on data stay."""
    loads = [access for access in code.accesses if access.kind == "load" and not access.is_gather]
    return {load.position: min(taken, max(0.0, 1 - load.width / WIDEST_ACCESS)) for load in loads}


def _shown(
    view: LaunchView,
    issue: Evidence,
    share: Evidence,
    divisions: Evidence | None,
    *,
    with_steps: bool,
) -> tuple[Sentence, list[Evidence]]:
    """`with_steps`: also how many values of shared memory a thread holds between barriers."""
    # Divisions are counted for any purpose, as arithmetic on data, too: they are named where they
    # are a notable part.
    is_notable = divisions is not None and divisions.value / 100 >= NOTABLE_PART
    words = _WITH_DIVISIONS if is_notable else _OTHER_WORK
    words = "divide integers" if share is divisions else words
    said = "The schedulers issue in {issue:.0f} of the cycles, and {share:.0f} of the instructions "
    text = Sentence(said + "{words}.", issue=issue, share=share, words=words)
    shown = [share, issue]
    for part, also in ((divisions, _DIVIDES), *_named(view)):
        if part is not None and part is not share and part.value / 100 >= NOTABLE_PART:
            text = Sentence(f"{{text}} {also}", text=text, part=part)
            shown.append(part)
    steps = view.code.exchange_steps if view.code and with_steps else None
    executed = view.get("inst_executed")
    if steps is not None and executed is not None:
        label = "values of shared memory that a thread loads between two barriers"
        held = view.derived("held_values", steps.held, label, executed)
        label = "values that a thread combines with each other in a step"
        group = view.derived("combined_values", steps.group, label, executed)
        words = "{text} Between two barriers a thread loads {held:.0f} values from shared memory, "
        words += "and combines {group:.0f} at a time."
        text = Sentence(words, text=text, held=held, group=group)
        shown += [held, group]
    return text, shown


def _search(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Iterations that find nothing are not needed if the entries are found otherwise. Their counts
    show it."""
    code, executed = view.code, view.get("inst_executed")
    if code is None or executed is None or not code.search_loops:
        return
    loop = code.search_loops[0]
    gone = dict.fromkeys(loop.positions, float(MOST_REMOVED))
    units = {unit: 1 - removed_part(view, gone, unit) for unit in (*_PIPES, "issue")}
    accesses = code.with_opcodes(BY_PIPE["LSU"])
    if every := code.share(accesses):
        searching = code.share(position for position in accesses if position in gone)
        units |= dict.fromkeys(("LSU", "L1"), 1 - MOST_REMOVED * searching / every)
    part, hits = code.share(loop.positions), loop.finds / loop.iterations
    label = "of the executed instructions search"
    share = view.share("search_share", part, label, executed)
    label = "iterations of the search that find something"
    seldom = view.share("search_hits", hits, label, executed)
    words = "{share:.0f} of the executed instructions belong to a loop in which every warp looks "
    words += "at one entry at a time; {hits:.1f} of its iterations find something to do."
    text = Sentence(words, share=share, hits=seldom)
    effect = Effect(units, kept_waits_by(view, model, gone, MOST_REMOVED * part))
    executions = code.executions(loop.positions)
    yield Candidate(
        text,
        effect,
        (share, seldom),
        partial(view.places_by, "instructions of a search", executions),
        basis="assumed",
        variant=SEARCH,
        doubt=0.0,
    )


def absent(view: LaunchView, _model: TimeModel) -> Absence | None:
    share = _overhead_share(view) if view.code is not None else None
    if view.code is None or share is None:
        return None
    if share.value / 100 + view.code.share(_counted(view.code)) >= 1 - MOST_REMOVED:
        return None
    text = "{share:.1f} of the instructions are for addresses and conditions."
    return absence(text, share=share)


_OTHER_WORK = "compute addresses, conditions and conversions"
_WITH_DIVISIONS = f"divide integers or {_OTHER_WORK}"


def _overhead_share(view: LaunchView) -> Evidence | None:
    """From the purpose of the executed instructions; from integer counters without the machine
    code."""
    executed = view.get("inst_executed")
    if executed is None:
        return None
    if view.code is not None:
        part = view.code.share(_overhead(view.code))
        label = f"of the executed instructions {_WITH_DIVISIONS}"
        return view.share("overhead_share", part, label, executed)
    integers = view.get("thread_inst_integer")
    parts = integers, view.get("thread_inst_fp32"), view.get("thread_inst_fp64")
    every = view.total("thread_insts", "arithmetic thread instructions", *parts)
    if integers is None or every is None or None in parts:  # a part that is missing is not zero
        return None
    return view.percent("integer_share", "of arithmetic is integer", integers, every)


def _divisions(view: LaunchView) -> Evidence | None:
    """Their share of the instructions; without the machine code, from the conversions in them."""
    executed = view.get("inst_executed")
    if executed is None:
        return None
    if view.code is not None:
        part = view.code.share(view.code.expanded(*INTEGER_DIVISIONS))
    else:
        of_conversions = min(part_of(view, "I2F"), part_of(view, "MUFU")) * PER_DIVISION
        part = instructions.counted_divisions(view) or of_conversions
    label = "of the executed instructions divide integers"
    return view.share("division_share", part, label, executed)


def _overhead(code: MachineCode) -> list[int]:
    """Positions of the instructions for addresses, conditions and conversions, and of divisions of
    integers for any purpose."""
    positions = {*code.for_purposes(*_OVERHEAD), *code.expanded(*INTEGER_DIVISIONS)}
    return [position for position in code.program.ran if position in positions]


def _fewer_passes(view: LaunchView, code: MachineCode) -> dict[int, float]:
    """By position, the share that goes if a thread does several steps on the values that it holds
    before it puts them back into shared memory: loads, stores, and as many of the addresses."""
    steps = code.exchange_steps
    if steps is None or steps.left >= 1:
        return {}
    exchanging = part_of_memory(view, lambda position: position in steps.positions)
    gone = dict.fromkeys(code.for_purposes("address"), exchanging * (1 - steps.left))
    return gone | dict.fromkeys(steps.positions, 1 - steps.left)


def _smaller(code: MachineCode) -> dict[int, float]:
    """By position of 128-bit divisions, the share that 64-bit ones in their place would take."""
    for expansion in code.expansions:
        if expansion.name == HUGE_DIVISION:
            executed = sum(code.program.counts[position] for position in expansion.positions)
            part = min(1.0, PER_LONG_DIVISION * expansion.calls / executed)
            return dict.fromkeys(expansion.positions, part)
    return {}


_DIVIDES = "{part:.0f} are divisions or remainders of integers."


def _named(view: LaunchView) -> Iterator[tuple[Evidence, str]]:
    """What is counted beside divisions, with the sentences about it."""
    code, executed = view.code, view.get("inst_executed")
    if code is None or executed is None:
        return
    wide, single = code.wide_integers, code.packed_bytes.gone
    for name, positions, words in (
        ("wide_share", wide, "are for upper halves and carries of long integers"),
        ("single_byte_share", single, "take bytes out of words and compute with them one by one"),
        ("lane_group_share", code.lane_groups, "compute the same in several neighbouring threads"),
    ):
        label = f"of the executed instructions {words}"
        share = view.share(name, code.share(positions), label, executed)
        yield share, f"{{part:.0f}} {words}."


def _reloads(view: LaunchView, code: MachineCode) -> list[int]:
    """Positions of the global loads of values that other threads load, too; empty unless that is
    known. Addresses that come from data are no others' addresses."""
    if not mostly_hits(view) or instructions.divides_integers.test(view):
        return []  # without divisions, as many are loaded as before
    gathered = {access.position for access in code.accesses if access.is_gather}
    loads = code.with_opcodes(["LDG"])
    return [] if code.share(gathered) > MAJORITY * code.share(loads) else loads


def _counted(code: MachineCode) -> dict[int, float]:
    """By position, the share that goes of instructions that 64-bit integers need and 32-bit ones do
    not, of arithmetic on single bytes, and of what neighbouring threads compute equally. Divisions
    at run time are counted on their own."""
    gone = code.lane_groups | code.packed_bytes.gone | dict.fromkeys(code.wide_integers, 1.0)
    divisions = set(code.expanded(*INTEGER_DIVISIONS))
    return {position: part for position, part in gone.items() if position not in divisions}


def leading_lines(code: MachineCode) -> LeadingLines:
    """Lines of what is counted (a search, divisions and the like), whichever are more,
    if they are a notable part; else lines by executed instructions that compute addresses,
    conditions and conversions."""
    by_work = {
        "instructions of a search": [at for s in code.search_loops[:1] for at in s.positions],
        "divisions of integers": code.expanded(*INTEGER_DIVISIONS),
        "64-bit integers": sorted(code.wide_integers),
        "bytes taken out of words": sorted(code.packed_bytes.gone),
        "what several threads compute equally": sorted(code.lane_groups),
    }
    of = max(by_work, key=lambda name: code.share(by_work[name]))
    positions = by_work[of]
    if code.share(positions) < NOTABLE_PART:
        of = "work on addresses and conditions"
        positions = code.for_purposes(*_OVERHEAD)
    return LeadingLines.executed(of, code, positions)
