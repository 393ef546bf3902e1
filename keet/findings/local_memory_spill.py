"""Local memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keet.analysis.archetype import runs_more
from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits, removed_part
from keet.analysis.hotspots.source_calls import beside, bounds_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import LOCAL
from keet.analysis.memory_work import local_cause, without_local
from keet.analysis.remedy_conditions import on_chip, origin
from keet.analysis.time_model import INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

FINDING = FindingSpec(
    id="local_memory_spill",
    family="memory",
    label="local memory",
    meaning="Registers spill, or an array is indexed at run time: values that could stay in "
    "registers go through L1 and beyond.",
    how="The sectors of local memory are compared with all sectors that L1 serves. L2 and DRAM "
    "only gain as far as L1 does not absorb local memory; the loads and stores themselves are "
    "instructions that go. Whether registers were spilled or an array is indexed at run time is "
    "decided by the number of spilling requests. Accesses of called routines such as malloc are "
    "left out.",
    credited_rules=("CPIStall", "MemoryCacheAccessPattern"),
    parameters=(INDIRECT,),
    claims=("bytes", "instructions"),
    rests_on=("local",),
    memory="local",
    unlike={
        "occupancy_limited_registers": "Fewer registers per thread raise the occupancy and may "
        "cause spills: the two fixes pull in opposite directions.",
        "redundant_traffic": "Global data that is read again is redundant traffic; only the "
        "kernel's own temporaries are local memory.",
    },
    remedies={
        when(origin.library_template): "Choose a smaller warp tile or more warps per block in the "
        "template arguments of {library}, so that a thread's results fit into registers.",
        when(origin.library): "Choose another algorithm, tile size or data type of {library} for "
        "this call: its registers can't be changed.",
        when(origin.triton): "Let a program handle fewer elements or use more warps "
        "(num_warps){here}, so that each thread holds fewer values; remove maxnreg where it is "
        "set.",
        when(on_chip.local_arrays, name="array"): "Keep the array in registers or shared "
        "memory{here}: indices known at compile time (unrolled loops), or one column per thread "
        "in shared memory. The compiler spilled nothing: more registers do not help.",
        when(on_chip.spills, on_chip.registers_at_limit, name="spill_at_limit"): "Each thread has "
        "the most registers that the GPU allows{here}: split the kernel, handle fewer items per "
        "thread, unroll less, or keep values that are rarely used in shared memory. Other launch "
        "bounds do not help.",
        when(on_chip.spills, name="spill", unless=(on_chip.registers_at_limit,)): "Let the values "
        "fit into registers{here}: fewer live values, fewer items per thread or more threads for "
        "them, launch bounds (or maxnreg) that allow more registers.",
        otherwise: "Keep the values in registers{here}: indices known at compile time, fewer live "
        "values; or lay the array out in shared memory, one column per thread.",
    },
    edit=Edit(
        "Keep per-thread arrays and spilled values out of local memory, in registers or shared",
        usual=4,
    ),
)

_CAUSES = {
    "spill": "registers that the compiler spilled",
    "array": "arrays that are indexed at run time (the compiler spilled no registers)",
    "": "spilled registers, or arrays that are indexed at run time",
}


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    local, every, share = _sectors(view)
    if local is None or every is None or share is None:
        return
    kernels_part = _own_part(view)
    wasted = share.value / 100 * kernels_part
    units = {unit: 1 - (1 - left) * kernels_part for unit, left in without_local(view).items()}
    cause = local_cause(view)
    waits = kept_waits(model, MEMORY_WAITS, wasted)
    gone = dict.fromkeys(_accesses(view), kernels_part)
    if cause == "array":
        gone |= _index_work(view)
    units |= {unit: 1 - removed_part(view, gone, unit) for unit in ("issue", "ALU", "FMA")}
    text = "{share:.0f} of the sectors that L1 serves belong to local memory: {cause}."
    yield Candidate(
        Sentence(text, share=share, cause=_CAUSES[cause]),
        Effect(units, waits),
        (share, local, every),
        partial(_places, view, cause),
        variant=cause,
    )


def _places(view: LaunchView, cause: str) -> tuple[Place, ...]:
    """The accesses; and the launch bounds, if they keep the compiler from using more registers."""
    places = view.column_places("local sectors", "src_l2_sectors_local")
    if cause != "spill" or on_chip.registers_at_limit.test(view):
        return places
    return beside(places, *bounds_of(view))


def _own_part(view: LaunchView) -> float:
    """Share of the accesses to local memory in the kernel's own code, 0 to 1: registers do not
    save those of called routines, such as malloc."""
    requests = view.sum_of("local_load_requests", "local_store_requests")
    if not requests or not view.opcodes or not runs_more(view):
        return 1.0
    return min(1.0, view.count("LDL", "STL") / requests)


_OF_INDICES = ("address", "control", "move")


def _accesses(view: LaunchView) -> list[int]:
    """Positions of the loads and stores of local memory: a value in a register needs none."""
    return view.code.with_opcodes(LOCAL) if view.code else []


def _index_work(view: LaunchView) -> dict[int, float]:
    """By position, the share that goes of the addresses, conditions and moves of loops that access
    local memory: with indices known at compile time, the loops are unrolled. Of conditions, no more
    go than there are instructions for addresses: the rest decides by the values."""
    if view.code is None:
        return {}
    flow = view.code.program.flow
    loops = {flow.loop_of.get(flow.block_of[position]) for position in _accesses(view)} - {None}
    of = {kind: view.code.for_purposes(kind) for kind in _OF_INDICES}
    for kind, positions in of.items():
        of[kind] = [at for at in positions if flow.loop_of.get(flow.block_of[at]) in loops]
    gone = {position: float(MOST_REMOVED) for positions in of.values() for position in positions}
    if conditions := view.code.share(of["control"]):
        part = min(1.0, view.code.share(of["address"]) / conditions)
        gone |= dict.fromkeys(of["control"], MOST_REMOVED * part)
    return gone


def _sectors(view: LaunchView) -> tuple[Evidence | None, Evidence | None, Evidence | None]:
    """Sectors of local memory, all that L1 serves, and the share; None: unknown, or no sectors."""
    local, world = (
        view.total(
            f"{of}_sectors", f"{of}-memory sectors", f"{of}_load_sectors", f"{of}_store_sectors"
        )
        for of in ("local", "global")
    )
    every = view.total("l1_sectors", "sectors that L1 serves", local, world)
    if local is None or every is None or not local.value:
        return local, every, None
    return local, every, view.percent("local_share", "local memory of L1 sectors", local, every)


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    local, _every, share = _sectors(view)
    if local is None or None in map(view.get, ("local_load_sectors", "local_store_sectors")):
        return None
    if share is None:
        return absence("The kernel does not access local memory.", local=local)
    if share.value >= 100 * (1 - MOST_REMOVED):
        return None
    text = "{share:.1f} of the sectors that L1 serves are local memory."
    return absence(text, share=share, local=local)
