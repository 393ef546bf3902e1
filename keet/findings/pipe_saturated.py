"""Heavily used pipe."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.double_precision import double_precision
from keet.analysis.decisions.pipe_work import PipeWork, issue_candidate, pipe_work, work_places
from keet.analysis.decisions.saturated import (
    NEAR_BUSIEST,
    PIPE_WORK,
    SaturatedUnit,
    constant_places,
    conversions,
    indexed_constants,
    less_queueing,
    saturated,
    shown_constants,
    unit_places,
)
from keet.analysis.facts import global_memory, instructions, on_chip, origin
from keet.analysis.kernel.archetype import init_places, skipped_ahead_share
from keet.analysis.kernel.register_tiles import UNSHARED, less_work_likelihood
from keet.analysis.launch_view import LaunchView
from keet.analysis.limits import LIKELY, MAJORITY
from keet.analysis.roofline.launch_roofline import AT_CEILING
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
from keet.findings import Absence, Edit, FindingSpec, otherwise, when

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
        yield Candidate(FINDING.id, text, effect, (fp64,), places, "assumed", "FP64")
    if (issue := issue_candidate(FINDING.id, view, model)) is not None:
        yield issue
    constants = indexed_constants(view)
    if constants is not None and constants.removed:
        places, shown = partial(constant_places, view), shown_constants(model, constants)
        yield Candidate(FINDING.id, *shown, places, variant="ADU/constants")
    pipe = saturated(view, model)
    if pipe is None or pipe.work not in ("other", "conversions"):
        return
    if pipe.work == "conversions" and (converted := conversions(view)) is not None:
        found = pipe.candidate(FINDING.id, converted.why)
        if converted.times is not None:  # the repeats are counted
            evidence = (*found.evidence, converted.times)
            found = found._replace(evidence=evidence, basis="measured")
        yield found
        return
    work = pipe_work(view, model, pipe.unit)
    variant = f"{pipe.unit}/{work.kind}" if work.kind else pipe.unit
    also, cited = _constants_too(view, model, pipe)
    why = Sentence("{why}{also}", why=work.why, also=also)
    found = pipe.candidate(FINDING.id, why, *work.evidence, *cited)
    found = found._replace(variant=variant, places=lambda: _places(view, pipe, work))
    if work.left is not None and work.left < PIPE_WORK:
        removed = 1 - work.left
        units = {**pipe.effect.units, pipe.unit: work.left}
        found = found._replace(effect=Effect(units, less_queueing(model, pipe.unit, removed)))
    if work.left is None:
        found = found._replace(likelihood=less_work_likelihood(view))
    elif work.kind == "passes":  # of two causes, each with its own remedy
        found = found._replace(likelihood=LIKELY)
    yield found


def _places(view: LaunchView, pipe: SaturatedUnit, work: PipeWork) -> tuple[Place, ...]:
    """Lines of the accesses that the finding names; else those of the unit."""
    own = work_places(view, work.kind)
    return pipe.places() if own is None else own


def _constants_too(
    view: LaunchView, model: TimeModel, pipe: SaturatedUnit
) -> tuple[Sentence, tuple[Evidence, ...]]:
    """That loads of constants keep the ADU pipe nearly as busy as this unit, so that both limit;
    empty if they don't."""
    found, reached = indexed_constants(view), view.ceilings.reached("ADU")
    if found is None or reached is None or pipe.unit == "ADU" or found.part < MAJORITY:
        return Sentence(), ()
    if model.loads["ADU"] < NEAR_BUSIEST * model.pressure:
        return Sentence(), ()
    words = (
        ". The ADU pipe limits, too: it is busy for {reached:.0f}, mostly with loads of constants "
        "by an index{here} (their cache serves them for {busy:.0f} of the time)"
    )
    here = view.here(None, constant_places(view))
    return Sentence(words, reached=reached, busy=found.busy, here=here), (reached, found.busy)


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
    yield Candidate(FINDING.id, said, effect, (share,), places, "assumed", "curand")


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    """No unit of the SM is near to being the busiest one."""
    loads = {unit: load for unit, load in model.loads.items() if unit not in DEVICE_WIDE}
    pipe = max(loads, key=loads.__getitem__, default="")
    reached, busiest = view.ceilings.reached(pipe), view.ceilings.get(model.busiest or "")
    if reached is None or loads[pipe] >= NEAR_BUSIEST * model.pressure:
        return None
    text = Sentence("The busiest pipe is at {reached:.0f} of its peak", reached=reached)
    if busiest is None:
        return Sentence("{text}.", text=text), (reached,)
    unit, at = busiest.spoken, busiest.reached
    return Sentence("{text}, and {unit} at {at:.0f}.", text=text, unit=unit, at=at), (reached, at)
