"""Heavily used pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.archetype import PURPOSES, init_places, opcode_mix, skipped_ahead_share
from keet.analysis.candidate import Candidate, kept_waits_by
from keet.analysis.decisions.double_precision import double_precision
from keet.analysis.decisions.replays import replays
from keet.analysis.decisions.saturated import (
    NEAR_BUSIEST,
    PIPE_WORK,
    SaturatedUnit,
    access_places,
    constant_places,
    conversions,
    indexed_constants,
    less_indexing,
    less_queueing,
    saturated,
    unit_places,
)
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import (
    FLOAT_ARITHMETIC,
    GLOBAL_ATOMICS,
    GLOBAL_LOADS,
    GLOBAL_STORES,
    LOCAL,
    SHARED,
    SHARED_STORES,
    TENSOR,
    TENSOR_OF_WARP,
)
from keet.analysis.parallelism.register_tiles import (
    UNSHARED,
    less_work_likelihood,
    loads_left,
    tiled,
)
from keet.analysis.parameters import LIKELY, MAJORITY, NOTABLE_PART, WIDEST, Parameter
from keet.analysis.remedy_conditions import global_memory, instructions, on_chip, origin
from keet.analysis.roofline.launch_roofline import AT_CEILING, instruction_limited
from keet.analysis.time_model import (
    DEVICE_WIDE,
    INDIRECT,
    MOST_REMOVED,
    SHARPNESS,
    Effect,
    TimeModel,
)
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when
from keet.formatting import capitalized

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

INTEGER_KERNEL = Parameter(
    0.5, "busiest pipe for floats over the ALU, below which integers are the data", "judgement"
)

FINDING = FindingSpec(
    id="pipe_saturated",
    family="instructions",
    label="heavily used pipe",
    labels={
        "issue": "many instructions beside the arithmetic",
        "curand": "setup of random numbers",
        "L1": "memory accesses keep L1 busy",
        "L1/sent": "scattered stores keep L1 busy",
        "L1/passes": "accesses that take many passes through L1",
        "L1/shared": "shared-memory accesses keep L1 busy",
        "L1/unread": "needless stores to shared memory",
        "L1/loads": "global loads keep L1 busy",
        "L1/stores": "global stores keep L1 busy",
        "L1/local": "local memory keeps L1 busy",
        "L1/atomics": "atomics keep L1 busy",
        "LSU": "memory accesses keep the LSU pipe busy",
        "LSU/shared": "shared-memory accesses keep the LSU pipe busy",
        "LSU/unread": "needless stores to shared memory",
        "LSU/loads": "global loads keep the LSU pipe busy",
        "LSU/stores": "global stores keep the LSU pipe busy",
        "LSU/local": "local memory keeps the LSU pipe busy",
        "LSU/atomics": "atomics keep the LSU pipe busy",
        "ALU": "integer and logic instructions keep the ALU pipe busy",
        "XU": "conversions between types keep the XU pipe busy",
        "ADU": "barriers and indexed constants keep the ADU pipe busy",
        "ADU/constants": "constants with an index per thread keep the ADU pipe busy",
        "FP64": "double precision keeps the FP64 pipe busy",
    },
    without_cases=(
        *("curand", "ADU", "ADU/constants", "FP64", "L1/sent", "L1/passes"),
        *("L1/unread", "L1/stores", "L1/local", "L1/atomics"),
        *("LSU/unread", "LSU/stores", "LSU/local", "LSU/atomics"),
    ),
    meaning="One unit of the SM is the busiest, and keet sees no waste in its work: only less "
    "work for it makes the kernel faster.",
    how="A unit of the SM has the largest load, or nearly the largest, and no other finding "
    "counts its work as waste. It is reported only if no more specific finding reduces the load "
    "of the same unit. The setup of cuRAND's generators is counted by the samples at its lines.",
    rules=("HighPipeUtilization", "SOLBottleneck"),
    credited_rules=("SOLBottleneck", "HighPipeUtilization", "CPIStall", "FPInstructions"),
    parameters=(PIPE_WORK, UNSHARED, SHARPNESS, INDIRECT, AT_CEILING),
    claims=("instructions", "bytes", "redundant"),
    rests_on=("pipes", "issue", "global", "shared"),
    is_last_resort=True,
    is_general=True,
    unlike={
        "at_compute_roofline": "Arithmetic pipes near their peak are a roofline. Issue slots are "
        "not: they limit the number of instructions.",
        "shared_bank_conflict": "Work of L1 that is repeats of conflicting accesses.",
        "integer_overhead": "Work of the ALU pipe that is addresses, conditions and conversions.",
    },
    remedies={
        when(origin.library_merge_sort): "Sort with cub::DeviceRadixSort, or call thrust::sort "
        "with a plain integer or floating-point key and thrust::less, which uses it: a merge sort "
        "compares every key once per level.",
        when(origin.library_elementwise): "Fuse this operation with its neighbours "
        "(torch.compile), use a cheaper function or a narrower type, or call it less often: only "
        "less work makes this kernel of {library} faster.",
        when(origin.library_template): "Choose a larger warp tile, wider alignments or a narrower "
        "type in the template arguments of {library}: each value that is loaded then serves more "
        "results.",
        when(origin.library): "Choose another algorithm, data type or layout of {library} for "
        "this call, or call it less often: only less work makes this kernel faster.",
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(instructions.scattered_stores, name="sent"): "Let neighbouring threads store to "
        "neighbouring addresses{here}: keep each field of a structure in an array of its own, "
        "store whole records with vector types, or collect the results in shared memory and store "
        "them in the order of memory.",
        when(instructions.many_passes, name="passes"): "Let neighbouring threads of a warp access "
        "neighbouring addresses of global memory and different banks of shared memory{here}: each "
        "access takes several passes through L1. First find out which of the two it is.",
        when(instructions.pipe_lsu, global_memory.replays, name="replays"): "Each memory "
        "instruction takes many wavefronts{here}: let neighbouring threads access neighbouring "
        "words of global memory and different banks of shared memory.",
        when(instructions.unread_stores, name="unread"): "Store to shared memory only what is read "
        "from it{here}: let one thread or warp write what all of them need (under a condition on "
        "threadIdx.x), and clear nothing that is overwritten.",
        when(
            instructions.pipe_lsu,
            origin.looks_like_gemm,
            name="product_untiled",
            unless=(on_chip.uses_shared,),
        ): "Load tiles of both operands into shared memory, and let each thread compute a block "
        "of several rows and columns in registers{here}, so that each value loaded serves several "
        "results; or call cuBLAS.",
        when(
            instructions.pipe_lsu,
            origin.looks_like_gemm,
            on_chip.uses_shared,
            name="product",
            unless=(instructions.tensor_cores_used,),
        ): "Let each thread compute a block of several rows and columns in registers{here}, so "
        "that each value read from shared memory serves several results; or call cuBLAS.",
        when(
            instructions.pipe_lsu,
            on_chip.mostly_shared,
            origin.looks_like_reduction,
            name="reduction",
        ): "Let each thread first combine several elements in a register, and combine the threads "
        "of a warp with shuffles (__shfl_down_sync){here}, so that only one value per warp goes "
        "through shared memory.",
        when(
            instructions.pipe_lsu,
            on_chip.mostly_shared,
            instructions.constants_too,
            name="shared_and_constants",
        ): "Read from shared and from constant memory less often{here}: keep a block of several "
        "results per thread in registers, so that each value read serves several of them, and "
        "unroll the loops with bounds that the compiler knows: a constant whose index it knows is "
        "an operand of the arithmetic, and no load.",
        when(instructions.pipe_lsu, on_chip.mostly_shared, name="shared"): "Read from shared "
        "memory less often{here}: keep a block of several results per thread in registers, so "
        "that each value read serves several of them, and read with wide accesses (float4).",
        when(instructions.pipe_lsu, global_memory.accesses_narrow, name="global"): "Issue fewer "
        "loads and stores{here}: compute several results per thread, so that values in registers "
        "serve several of them, and use wide accesses (float4, uint4) where a thread needs "
        "neighbouring elements.",
        when(instructions.pipe_lsu, global_memory.moves_data, name="global_wide"): "Issue fewer "
        "loads and stores{here}: reuse values from registers, by computing several results per "
        "thread.",
        when(
            instructions.pipe_fma, instructions.multiplies_integers, name="integer_products"
        ): "The FMA pipe is busy with integer multiplications{here}: use fewer of them (shifts "
        "and additions, pointers that advance instead of addresses computed anew), and move what "
        "repeats out of the loop.",
        when(instructions.pipe_fma, name="fma"): "Compute less{here}: factor out common terms, "
        "reuse results between threads or iterations, or use packed half2 arithmetic where the "
        "accuracy allows it.",
        when(
            instructions.pipe_alu,
            global_memory.accesses_tiny,
            name="alu_packed",
            unless=(instructions.tensor_cores_used, instructions.computes_floats),
        ): "Execute fewer comparisons, selections, shifts and logic{here}: the data are one or "
        "two bytes wide, so work on several packed values per instruction (__vadd4, __vmaxu4, "
        "__dp4a), and move what repeats out of the loop.",
        when(instructions.pipe_alu, name="alu"): "Execute fewer integer additions, comparisons, "
        "selections, shifts and logic{here}: move what repeats out of the loop, simplify indices "
        "and conditions, and unroll, so that they serve several items.",
        when(
            instructions.pipe_xu, instructions.mostly_conversions, name="conversions"
        ): "Convert less often{here}: once where a value is loaded or staged in shared memory, "
        "not at every use; keep counters and values in one type, and convert several small values "
        "at a time with bit operations (__byte_perm, half2).",
        when(instructions.pipe_xu, name="xu"): "Execute fewer special functions and "
        "conversions{here}: polynomials or recurrences on the FMA pipe, one reciprocal for "
        "several divisions, and one type for counters and values.",
        when(instructions.pipe_fp64, name="fp64"): "Execute fewer double-precision "
        "instructions{here}: single precision where the accuracy allows it, fewer divisions and "
        "roots, and common terms computed once.",
        when(instructions.pipe_fp16, name="fp16"): "Execute fewer half-precision "
        "instructions{here}: use half2 for two values at a time, and the tensor cores for "
        "products of matrices.",
        when(instructions.pipe_tensor, name="tensor"): "Only less matrix arithmetic helps{here}: "
        "skip blocks that are zero or masked, or use a narrower type where the accuracy allows it.",
        when(instructions.indexed_constants, name="constants"): "The threads of a warp load "
        "different entries of constant memory{here}, which serves one entry at a time: keep this "
        "table in global memory (const __restrict__) or copy it to shared memory, and use "
        "constant memory for what all threads of a warp read together.",
        when(instructions.pipe_adu, name="adu"): "Execute fewer barriers and loads from indexed "
        "constants{here}: keep tables that are indexed at run time in shared memory or registers, "
        "and synchronise less often.",
        when(
            instructions.pipe_issue, instructions.loads_shared_values, name="several_results"
        ): instructions.SEVERAL_RESULTS,
        when(instructions.pipe_issue, name="issue"): "Execute fewer instructions{here}: move what "
        "repeats out of the loop, use wider types and packed operations, and simplify addresses "
        "and conditions.",
        when(instructions.pipe_l2, name="l2"): "Send fewer requests to L2{here}: reuse data from "
        "registers, shared memory or L1, and let each warp access whole cache lines.",
        otherwise: "Give this unit less work{here}: reuse values from registers (several results "
        "per thread), and move what repeats out of the loop.",
    },
    edit=Edit(
        "Compute several results per thread, so that each shared-memory load feeds more of them",
        usual=12,
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    yield from _random_setup(view, model)
    fp64 = view.ceilings.reached("FP64")
    if double_precision(view) == "needed" and fp64 is not None and model.busiest == "FP64":
        words = "The FP64 pipe is the busiest unit: it is busy for {busy:.0f} of the time{why}."
        why = ", partly for divisions, reciprocals or roots (about ten FP64 instructions each)"
        text = Sentence(words, busy=fp64, why=why if view.executed("MUFU") else "")
        effect = Effect({"FP64": PIPE_WORK}, less_queueing(model, "FP64"))
        places = partial(unit_places, view, "FP64")
        yield Candidate(text, effect, (fp64,), places, basis="assumed", variant="FP64")
    yield from _issue_slots(view, model)
    constants = indexed_constants(view)
    if constants is not None and constants.removed:
        yield less_indexing(model, constants)
    unit = saturated(view, model)
    if unit is not None and unit.work == "other":
        yield _of_unit(view, model, unit)
    elif unit is not None and unit.work == "conversions" and (converted := conversions(view)):
        candidate = unit.candidate(converted.why)
        if converted.times is not None:  # the repeats are counted
            evidence = (*candidate.evidence, converted.times)
            candidate = candidate._replace(evidence=evidence, basis="measured")
        yield candidate


def _of_unit(view: LaunchView, model: TimeModel, unit: SaturatedUnit) -> Candidate:
    work = unit_work(view, model, unit.name)
    also, cited = _constants_too(view, model, unit)
    why = Sentence("{why}{also}", why=work.why, also=also)
    candidate = unit.candidate(why, *work.evidence, *cited)
    if work.kind:
        candidate = candidate._replace(variant=f"{unit.name}/{work.kind}")
    if accesses := _ACCESSES.get(work.kind):
        places = partial(access_places, view, accesses.places, accesses.opcodes)
        candidate = candidate._replace(places=places)
    if work.left is not None and work.left < PIPE_WORK:
        units = {**unit.effect.units, unit.name: work.left}
        waits = less_queueing(model, unit.name, 1 - work.left)
        candidate = candidate._replace(effect=Effect(units, waits))
    if work.left is None:
        candidate = candidate._replace(likelihood=less_work_likelihood(view))
    elif work.kind == "passes":  # of two causes, each with its own remedy
        candidate = candidate._replace(likelihood=LIKELY)
    return candidate


def _constants_too(
    view: LaunchView, model: TimeModel, unit: SaturatedUnit
) -> tuple[Sentence, tuple[Evidence, ...]]:
    """That loads of constants keep the ADU pipe nearly as busy as this unit, so that both limit;
    empty if they don't."""
    constants, reached = indexed_constants(view), view.ceilings.reached("ADU")
    if constants is None or reached is None or unit.name == "ADU" or constants.part < MAJORITY:
        return Sentence(), ()
    if model.loads["ADU"] < NEAR_BUSIEST * model.pressure:
        return Sentence(), ()
    words = (
        ". The ADU pipe limits, too: it is busy for {reached:.0f}, mostly with loads of constants "
        "by an index{here} (their cache serves them for {busy:.0f} of the time)"
    )
    here, shown = view.here(None, constant_places(view)), (reached, constants.busy)
    return Sentence(words, reached=reached, busy=constants.busy, here=here), shown


def _random_setup(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Without skipping ahead, all of its work and waiting goes."""
    share = skipped_ahead_share(view)
    if share is None:
        return
    kept = 1 - min(MOST_REMOVED, share.value / 100)
    effect = Effect(dict.fromkeys(model.loads, kept), every_wait=kept)
    text = "{share:.0f} {what}: it sets up the states of random generators, not the numbers."
    said = Sentence(text, share=share, what=share.label)
    places = partial(init_places, view)
    yield Candidate(said, effect, (share,), places, basis="assumed", variant="curand")


# --- what the accesses are that keep L1 or the LSU pipe busy


class _Accesses(NamedTuple):
    """A kind of accesses: a variant of the finding, as in `LSU/shared`."""

    places: str
    """What the shares of source lines are of."""
    opcodes: frozenset[str]
    words: str = ""
    """What the memory instructions do, where most of them are of this kind."""
    metrics: tuple[str, ...] = ()
    """For reports that do not count opcodes, if ncu has such counters."""


_GLOBAL_STORES = _Accesses(
    "global stores", GLOBAL_STORES, "store to global memory", ("global_store_requests",)
)
_ACCESSES: Mapping[str, _Accesses] = {
    "shared": _Accesses(
        "accesses to shared memory",
        SHARED,
        "access shared memory",
        ("shared_load_inst", "shared_store_inst"),
    ),
    "loads": _Accesses(
        "global loads",
        GLOBAL_LOADS | {"LDGSTS"},
        "load from global memory",
        ("global_load_requests",),
    ),
    "stores": _GLOBAL_STORES,
    "local": _Accesses(
        "accesses to local memory",
        LOCAL,
        "access local memory",
        ("local_load_requests", "local_store_requests"),
    ),
    "atomics": _Accesses(
        "atomics on global memory", GLOBAL_ATOMICS, "are atomics on global memory"
    ),
    "unread": _Accesses("stores to shared memory", SHARED_STORES),
    "sent": _GLOBAL_STORES,
}
"""Opcodes of the LSU pipe, and so of L1. Loads of constants go through the ADU pipe. `unread`:
stores to shared memory of far more than is read from it. `sent`: stores that take many passes
through L1."""
_COUNTED = ("shared", "loads", "stores", "local", "atomics")
"""Kinds that have no instruction in common."""


class UnitWork(NamedTuple):
    """What keeps L1 or the LSU pipe busy."""

    kind: str = ""
    """Of `_ACCESSES`. `passes`: other accesses that take many passes through L1. Empty: not known,
    or of several kinds."""
    why: Sentence = Sentence()
    """Follows how busy the unit is."""
    evidence: tuple[Evidence, ...] = ()
    left: float | None = None
    """Share of the unit's work that the widest accesses without repeats would take; None: not
    known."""


def unit_work(view: LaunchView, model: TimeModel, unit: str) -> UnitWork:
    """Of units other than L1 and LSU, nothing is known."""
    if unit == "L1" and (work := _many_passes(view, model)):
        return work
    if unit not in ("L1", "LSU"):
        return UnitWork()
    counts = _executed_accesses(view)
    every = sum(counts.values())
    kind = max(counts, key=counts.__getitem__)
    fma = view.ceilings.reached("FMA") if not every and unit == "LSU" else None
    if fma is not None and origin.looks_like_gemm.test(view):
        beside = ", and the FMA pipe, which computes the products, for {fma:.0f}"
        return UnitWork("", Sentence(beside, fma=fma), (fma,))
    if counts[kind] <= MAJORITY * every:
        return _some_passes(view) if unit == "L1" else UnitWork()
    part, label = 100 * counts[kind] / every, "share of the memory instructions"
    share = view.derived("accesses_of_a_kind", part, label, unit="%")
    text = "; {share:.0f} of the memory instructions {kind}"
    work = UnitWork(kind, Sentence(text, share=share, kind=_ACCESSES[kind].words), (share,))
    if kind == "shared" and (unread := _unread(view, work, every)):
        return unread
    return work


def _executed_accesses(view: LaunchView) -> dict[str, float]:
    """Warp instructions by kind of access."""
    kinds = {kind: _ACCESSES[kind] for kind in _COUNTED}
    if view.opcodes:
        return {kind: view.count(*accesses.opcodes) for kind, accesses in kinds.items()}
    return {kind: view.sum_of(*accesses.metrics) for kind, accesses in kinds.items()}


_READ_OTHERWISE = ("LDSM", "ATOMS", "LD", "ATOM", "UTMASTG", "UBLKCP", "UBLKRED", "UTMAREDG")
"""Opcodes that read shared memory in amounts that are not counted here."""


def _unread(view: LaunchView, work: UnitWork, accesses: float) -> UnitWork | None:
    """Threads store more bytes to shared memory than they read: at least the rest is stored in
    vain. None: they do not, or something else may read it. `accesses`: executed ones of all
    kinds."""
    threads = view.table.column("thread_inst_executed") or view.table.threads
    if view.code is None or threads is None or view.count(*_READ_OTHERWISE):
        return None
    program, moved, stores = view.code.program, {"LDS": 0.0, "STS": 0.0}, 0.0
    for position in program.ran:
        instruction = program.code[position]
        if instruction.opcode in moved:
            moved[instruction.opcode] += instruction.width * threads.get(instruction.address, 0)
        elif instruction.opcode in TENSOR - TENSOR_OF_WARP:
            return None
        stores += program.counts[position] if instruction.opcode == "STS" else 0
    every = accesses + view.count("SHFL")
    if not moved["STS"] or not every:
        return None
    left = 1 - max(0.0, 1 - moved["LDS"] / moved["STS"]) * stores / every
    if left >= PIPE_WORK:
        return None
    label = "bytes stored to shared memory over bytes read from it"
    ratio = moved["STS"] / max(moved["LDS"], 1.0)
    times = view.derived("shared_stores_per_read", ratio, label)
    words = "{why}, and threads store {times:.1f} times the bytes there that they read"
    why = Sentence(words, why=work.why, times=times)
    return UnitWork("unread", why, (*work.evidence, times), left)


def _many_passes(view: LaunchView, model: TimeModel) -> UnitWork | None:
    """More passes through L1 than the widest access takes: scattered addresses or conflicts."""
    l1, lsu = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    replayed = replays(view, model)
    if l1 is None or lsu is None or WIDEST * lsu.value >= l1.value or replayed is None:
        return None
    textures = view.value("l1_tex_wavefronts_pct") or view.value("l1_tex_input_pct") or 0.0
    if textures > lsu.value or view.count("UTMALDG", "UBLKCP"):  # they pass the LSU pipe by
        return None
    passes = ", while the LSU pipe that feeds it is at {lsu:.0f}: {what}"
    left = WIDEST * float(lsu.value) / float(l1.value)
    sent, returned = view.get("l2_input_pct"), view.get("l2_output_pct")
    if sent and returned and not replayed.is_open and global_memory.sends_to_l2.test(view):
        text = "a store takes several passes through L1, as with scattered addresses (L2 receives "
        text += "data for {sent:.0f} of the time and sends for {returned:.0f})"
        why = Sentence(passes, lsu=lsu, what=Sentence(text, sent=sent, returned=returned))
        return UnitWork("sent", why, (lsu, sent, returned), left)
    what = Sentence(
        "an access takes several passes through L1, as with scattered global addresses or with "
        "bank conflicts in shared memory. The section MemoryWorkloadAnalysis_Tables shows which"
    )
    return UnitWork("passes", Sentence(passes, lsu=lsu, what=what), (lsu,), left)


def _some_passes(view: LaunchView) -> UnitWork:
    """Without counters of accesses: wide accesses and conflicts look the same."""
    l1, lsu = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    times = view.ratio("l1_passes", "L1 busy over LSU busy", l1, lsu) if l1 and lsu else None
    counted = view.get("bank_conflicts_load") or view.get("src_shared_wavefronts")
    if times is None or lsu is None or times.value <= 1 or counted:
        return UnitWork()
    text = (
        ", and the LSU pipe that feeds it for {lsu:.0f}: an access takes {times:.1f} passes "
        "through L1 on average. The report does not show whether these are wide accesses, bank "
        "conflicts or scattered addresses"
    )
    return UnitWork("", Sentence(text, lsu=lsu, times=times), (lsu, times))


# --- the issue slots

_ARITHMETIC = ("FMA", "tensor", "FP16", "FP64", "XU")
"""Pipes for arithmetic on data. The ALU mostly compares, selects and shifts."""
_NAMED_PURPOSES = 3
"""Purposes named in the sentence."""


def _issue_slots(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """The issue slots limit the number of instructions. Near their peak, fewer instructions beside
    the arithmetic help: addresses, conditions, conversions, moves, and loads that could be wider.
    If other threads load the same values, several results per thread take fewer loads, and less of
    everything that goes with a load.

    None unless they are the busiest unit, with no arithmetic pipe at its ceiling, or a pipe is that
    mostly works for addresses and conditions."""
    busiest, alu = view.ceilings.get(model.busiest or ""), view.ceilings.get("ALU")
    if busiest is None or not instruction_limited(model):
        return
    pipes = (view.ceilings.get(unit) for unit in _ARITHMETIC if unit != busiest.name)
    pipe = max(filter(None, pipes), key=lambda pipe: model.loads[pipe.name], default=None)
    mix = _mix_beside(view)
    beside = sum(part for part, _ in mix)
    if not mix:  # each instruction takes a slot and occupies its pipe for a cycle at least
        beside = max(0.0, 1 - pipe.share / busiest.share) if pipe and busiest.share else 1.0
    left = loads_left(view)
    if left is not None:
        effect = tiled(view, model, beside, left)
    else:
        # Loads bring the same data, and warps wait for them as before. Waiting for others decreases
        # as far as the slots are the limit.
        limit = model.pressure**SHARPNESS
        removed, gone = (1 - PIPE_WORK) * beside, (1 - PIPE_WORK) * limit
        others = _beside(view.code, "memory", "sync") if view.code else ()
        waits = kept_waits_by(view, model, dict.fromkeys(others, gone), removed * limit)
        effect = Effect(dict.fromkeys(("issue", "ALU", "ADU"), 1 - removed), waits)
    leads = all(ceiling.share <= busiest.share for ceiling in view.ceilings.ranked)
    rank, busy = "the busiest unit" if leads else "among the busiest units", busiest.reached
    text, unit = "{unit} {verb} {rank}: busy for {busy:.0f} of the time", busiest.spoken
    said = Sentence(text, unit=capitalized(unit), verb=busiest.verb, rank=rank, busy=busy)
    sources = [evidence for _, evidence in mix]
    shown = [busy, *sources]
    # A kernel that hardly uses the pipes for floats computes on integers.
    is_integer = pipe and alu and pipe.share < INTEGER_KERNEL * alu.share
    if (compared := alu if is_integer else pipe) is not None:
        reached, verb = compared.reached, compared.verb
        text = "{said}, while {pipe} {verb} at {reached:.0f} of peak"
        said = Sentence(text, said=said, pipe=compared.spoken, verb=verb, reached=reached)
        shown.append(reached)
    if mix:
        label = "of the executed instructions are not arithmetic on data"
        whole = view.share("instructions_beside", beside, label, *sources)
        named = sources[:_NAMED_PURPOSES]
        parts = (Sentence("{share:.0f} {purpose}", share=x, purpose=x.label) for x in named)
        text = "{said}. {whole:.0f} of the instructions are not arithmetic on data: {parts}."
        said = Sentence(text, said=said, whole=whole, parts=Sentence(", ").join(parts))
        shown.append(whole)
    else:
        text = "{said}. This limits the number of instructions, not the arithmetic. The report "
        text += "does not say what the instructions are for."
        said = Sentence(text, said=said)
    if left is not None and left <= 1 - NOTABLE_PART:
        said = Sentence("{said} Several threads load the same values.", said=said)
    yield Candidate(
        said,
        effect,
        tuple(shown),
        partial(_places_beside, view),
        basis="assumed",
        variant="issue",
        likelihood=less_work_likelihood(view),
    )


def _mix_beside(view: LaunchView) -> list[tuple[float, Evidence]]:
    """Shares of the purposes that are not arithmetic on data, largest first; by opcode without the
    machine code. Empty: not known."""
    executed = view.get("inst_executed")
    if executed is None:
        return []
    data: tuple[str, ...] = ("value", "unknown")
    if view.code is not None and any(view.code.program.counts):
        shares = [(kind.value, PURPOSES[kind.value], share) for kind, share in view.code.mix]
    elif view.opcodes:
        shares = opcode_mix(view)
        # Integers of a kernel that computes with floats are mostly indices.
        data += () if view.count(*FLOAT_ARITHMETIC) else ("integer",)
    else:
        return []
    return [
        (share, view.share(f"beside.{kind}", share, label, executed))
        for kind, label, share in shares
        if kind not in data
    ]


def _beside(code: MachineCode, *needed: str) -> list[int]:
    """Positions of the executed instructions that are not arithmetic on data, nor for one of these
    purposes."""
    return code.for_purposes(*({purpose.value for purpose, _ in code.mix} - {"value", *needed}))


def _places_beside(view: LaunchView) -> tuple[Place, ...]:
    if view.code is None:
        return view.column_places("executed instructions", "inst_executed")
    executed = view.code.executions(_beside(view.code))
    return view.places_by("instructions beside the arithmetic", executed)


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    """No unit of the SM is near to being the busiest one."""
    loads = {unit: load for unit, load in model.loads.items() if unit not in DEVICE_WIDE}
    pipe = max(loads, key=loads.__getitem__, default="")
    reached, busiest = view.ceilings.reached(pipe), view.ceilings.get(model.busiest or "")
    if reached is None or loads[pipe] >= NEAR_BUSIEST * model.pressure:
        return None
    if busiest is None:
        text = "The busiest pipe is at {reached:.0f} of its peak."
        return absence(text, reached=reached)
    text = "The busiest pipe is at {reached:.0f} of its peak, and {unit} at {at:.0f}."
    return absence(text, reached=reached, unit=busiest.spoken, at=busiest.reached)
