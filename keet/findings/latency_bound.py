"""Exposed latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.archetype import called_share
from keet.analysis.candidate import HIDEABLE, Candidate, a_unit_explains, kept_waits, needless_loads
from keet.analysis.decisions.saturated import while_active
from keet.analysis.hardware.ceilings import HOST_LINK, SECTOR, WHOLE, Ceiling, spoken_unit
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.occupancy import bytes_in_flight
from keet.analysis.parallelism.register_tiles import mostly_hits
from keet.analysis.parallelism.resident_warps import few_warps, serial_share
from keet.analysis.parameters import LIKELY, MAJORITY, Parameter
from keet.analysis.remedy_conditions import global_memory, grid, on_chip, origin, waits
from keet.analysis.time_model import ASLEEP, HOT_LINE, LEADS, PASSES_ON, WORTH, Effect, TimeModel
from keet.catalog import stalls
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

MORE_IN_FLIGHT = Parameter(
    1.8, "factor of independent operations in flight after loads are issued earlier", "fit"
)
MOST_ROUND_TRIPS = Parameter(
    8, "most loads in a row that can be issued together: they need registers", "judgement"
)
SEVERAL_TRIPS = Parameter(2, "loads waited for one after the other that are mentioned", "judgement")

FINDING = FindingSpec(
    id="latency_bound",
    family="parallelism",
    label="exposed latency",
    meaning="Too few independent operations are in flight to hide the latency of each.",
    how="Exposed latency is the waiting that no busy unit explains and that other warps do not "
    "hide. The gain is computed for a fixed factor more independent operations in flight. Waiting "
    "in the queue of a slow link or of one hot cache line is left out, and waiting for loads while "
    "as many bytes are on their way as keep DRAM busy. Without warp states, it is not reported "
    "where a unit limits the kernel.",
    rules=("CPIStall", "IssueSlotUtilization"),
    credited_rules=(
        "SOLBottleneck",
        "HighPipeUtilization",
        "IssueSlotUtilization",
        "CPIStall",
        "AchievedOccupancy",
    ),
    parameters=(MORE_IN_FLIGHT, LEADS),
    claims=("waiting", "instructions", "parallelism", "redundant"),
    rests_on=("waits", "issue", "occupancy"),
    labels={
        "blocks": "blocks may wait for each other",
        "sleep": "warps sleep",
        "calls": "time in called routines",
    },
    without_cases=("blocks", "sleep", "calls", "curand"),
    open_gains=("sleep",),
    is_general=True,
    unlike={
        "occupancy_limited_registers": "If registers limit the number of warps, more warps cover "
        "the same waiting; keet reports the fix that is expected to gain more.",
        "occupancy_limited_shared": "The same if shared memory limits the number of warps.",
        "barrier_bound": "Waiting at barriers is not covered by more loads in flight.",
        "at_dram_roofline": "A kernel with a unit near its peak waits because the unit is busy, "
        "not because of latency.",
    },
    remedies={
        when(origin.initialises_curand, name="curand"): origin.SKIPS_AHEAD,
        when(
            waits.calls_dominate, name="calls"
        ): "Find out which routines the kernel calls: malloc, "
        "free, new and delete in device code take a lock on the heap, and printf and assert are "
        "slow. Use arrays of a fixed size, or memory that is allocated before the launch, and take "
        "output out of the kernel.",
        when(origin.library_elementwise): "Fuse this operation with its neighbours "
        "(torch.compile), or give it more elements per call: what happens inside the kernel of "
        "{library} can't be changed.",
        when(origin.library_template): "Choose a smaller thread-block tile or split-K (stream-K) "
        "in the template arguments of {library}, so that several blocks share an SM, or more "
        "stages, so that more loads are on their way. Else give it larger or batched problems.",
        when(origin.library): "Give {library} more work per call (larger or batched problems), "
        "choose another algorithm or data type, or let independent calls overlap in several "
        "streams.",
        when(
            waits.warps_sleep, waits.sleeps_on_purpose, name="own_sleep"
        ): "The code asks for this "
        "sleep{here}: sleep for a shorter time or not at all. If the sleep is meant, nothing else "
        "makes this kernel faster, and its time says little about its other work.",
        when(waits.warps_sleep, name="sleep"): "Look for what warps sleep for{here}: a sleep, "
        "or a lock or a flag whose loop sleeps. Sleep for shorter times or not at all; let the "
        "result be published earlier, or split the steps into two kernels, so that nothing is "
        "waited for. If the sleep is deliberate, there is nothing to gain.",
        when(grid.blocks_may_wait, name="blocks"): "Look for code that makes blocks wait{here}: a "
        "loop that reads a flag of another block, a lock, a barrier over the grid, or data from "
        "the host. Let each block publish its own result before it needs another's, or split the "
        "steps into two kernels. If no block waits, shorten chains of dependent loads.",
        when(origin.triton, waits.waits_for_global_loads, name="triton_loads"): "Start loads "
        "earlier{here}: raise num_stages so that the loop is pipelined, raise num_warps, or let "
        "each program handle more elements.",
        when(origin.triton): "Have more independent work per program{here}: try other block "
        "sizes, num_warps and num_stages.",
        when(grid.cold_start, name="short"): "The kernel ends before its latencies can be hidden: "
        "do more work per launch, or let launches that do not depend on each other overlap in "
        "several streams.",
        when(waits.waits_for_arithmetic, waits.one_accumulator, name="accumulator"): "Each "
        "iteration waits for the result of the previous one{here}: keep several independent "
        "accumulators and add them after the loop, or interleave several items per thread.",
        when(waits.waits_for_arithmetic, name="arithmetic"): "Instructions wait for the results "
        "of previous ones{here}: interleave several independent items per thread, or unroll loops.",
        when(waits.waits_for_doubles, name="doubles"): "Warps wait for double-precision "
        "instructions{here}, of which this GPU executes few at a time: execute fewer of them "
        "(single precision, integers, or sums of two floats where the accuracy allows it).",
        when(waits.waits_for_special, name="special"): "Warps wait for special functions or "
        "conversions{here}: start several independent ones at a time (several items per thread), "
        "or replace them by arithmetic on the FMA pipe.",
        when(waits.waits_for_shared, name="shared"): "Warps wait for shared memory{here}: read "
        "the values of the next step into registers before the current one is computed, use fewer "
        "and wider reads (float4), or exchange by shuffles.",
        when(waits.waits_for_tensor, name="tensor"): "Keep more matrix instructions in "
        "flight{here}: larger tiles, more stages of operands, and wait only for the oldest group.",
        when(waits.waits_for_fences, name="fences"): "Warps wait for memory fences{here}: fence "
        "once per block instead of once per thread, and with the narrowest scope that suffices "
        "(cuda::thread_scope_block, or _device instead of _system).",
        when(waits.waits_for_constants, name="constants"): "Constants miss their cache{here}: "
        "keep tables that are large or indexed by thread in global or shared memory, and use "
        "__constant__ only for values that all threads of a warp read together.",
        when(waits.waits_for_branches, name="branches"): "Warps wait for branches{here}: unroll "
        "short loops, replace short branches by selection, and avoid calls and switch tables in "
        "the inner loop.",
        when(waits.waits_for_stores, name="stores"): "Warps wait for their stores to complete "
        "before they exit{here}: let fewer warps handle more items each (a grid-stride loop), so "
        "that the stores of one item overlap with the work on the next.",
        when(waits.waits_for_queue, name="queue", unless=(global_memory.accesses_wide,)): "The "
        "queue of memory instructions is full{here}: issue fewer and wider accesses (float4), and "
        "keep values that are used again in registers.",
        when(waits.waits_for_pipe, name="pipe"): "Warps wait for a busy arithmetic pipe{here}: "
        "execute fewer of its instructions, or move a part of them to another pipe.",
        when(waits.waits_for_instructions, name="instructions"): "Warps wait for "
        "instructions{here}: make the hot code smaller (unroll and inline less), so that it stays "
        "in the instruction cache.",
        when(waits.waits_for_local, name="local"): "Warps wait for local memory{here}: keep the "
        "values in registers, with indices known at compile time and fewer live values, or in "
        "shared memory.",
        when(waits.waits_for_textures, waits.chases_pointers, name="texture_chase"): "Each fetch "
        "from the texture needs what the previous one returned{here}, as in a search: search once "
        "for a whole block and share the result, let neighbouring items continue from the last "
        "place, or keep the first steps of the search in shared memory.",
        when(waits.waits_for_textures, name="textures"): "Warps wait for textures{here}: fetch "
        "the texels of several items before the first is used, or read them as plain global "
        "memory where no filtering is needed.",
        when(waits.waits_for_atomics, name="atomics"): "Warps wait for the old values that "
        "atomics return{here}: leave the result unused where it is not needed, or let one thread "
        "add for its warp.",
        when(waits.waits_for_global_loads, waits.stores_delay_loads, name="serial"): "Loads wait "
        "for each other{here}, because a store before them may write what they read: issue all "
        "loads before the first store, and mark pointers __restrict__ so that the compiler may do "
        "it.",
        when(waits.waits_for_global_loads, waits.volatile_delays_loads, name="volatile"): "Loads "
        "wait for each other because they are volatile or atomic{here}: issue them together before "
        "the first result is used, or load as plain data what no other thread writes meanwhile.",
        when(waits.waits_for_global_loads, waits.chases_pointers, name="chase"): "Each load needs "
        "the address that the previous one returned{here}: follow several chains per thread at a "
        "time, store side by side what is visited together, or replace links by indices that are "
        "known in advance.",
        when(waits.waits_for_global_loads, waits.load_ends_loop, name="marker"): "A load decides "
        "whether the loop goes on{here}, so that each iteration waits for the one before: store "
        "the number of iterations, or load the values of several iterations first and then test "
        "them.",
        when(waits.waits_for_global_loads, waits.branches_part_loads, name="parted"): "Branches to "
        "slow paths that never ran stand between these loads{here}: load the values of several "
        "iterations first, or avoid exact roots and divisions (rsqrtf, a product with the "
        "reciprocal, -prec-sqrt=false, -prec-div=false) where the accuracy allows it.",
        when(waits.waits_for_global_loads, waits.dependent_loads, name="dependent"): "These loads "
        "use indices that other loads return{here}, and wait for them: load the indices of "
        "several items, or of the next iteration, first, and then all of their values.",
        when(waits.waits_for_global_loads, on_chip.uses_async_copy, name="deeper"): "Asynchronous "
        "copies are already in use{here}: add stages or use larger tiles, so that more bytes are "
        "in flight, and wait only for the oldest stage.",
        when(
            waits.waits_for_global_loads,
            global_memory.loads_global,
            on_chip.stages_through_shared,
            origin.has_tma,
            name="hopper",
        ): "Copy tiles into shared memory asynchronously, in two or more stages{here}: TMA "
        "(cp.async.bulk.tensor) or cp.async, so that the next tile arrives while the current one "
        "is used.",
        when(
            waits.waits_for_global_loads,
            global_memory.loads_global,
            on_chip.stages_through_shared,
            origin.has_async_copy,
            name="stages",
        ): "Copy tiles into shared memory asynchronously, in two or more stages{here}: cp.async "
        "(cuda::memcpy_async), so that the next tile arrives while the current one is used.",
        when(waits.waits_for_global_loads, waits.branches_delay_loads, name="early"): "Loads that "
        "need no earlier result are issued after a branch{here}: issue them before it, together "
        "with the loads before.",
        when(
            waits.waits_for_global_loads,
            global_memory.loads_global,
            name="items",
            unless=(waits.loops_dominate, grid.fewer_blocks_than_sms),
        ): "Let each thread handle several items, and issue the loads of all of them before the "
        "first is used{here}.",
        when(
            waits.waits_for_global_loads,
            global_memory.loads_global,
            grid.fewer_blocks_than_sms,
            name="few_blocks",
        ): "Have more loads in flight at a time{here}: issue them before they are needed (prefetch "
        "into registers), or shorten chains of dependent loads. With several items per thread, "
        "even fewer SMs would have a block.",
        when(
            waits.waits_for_global_loads,
            global_memory.loads_global,
            on_chip.uses_shared,
            origin.has_async_copy,
            name="ampere",
        ): "Have more loads in flight at a time{here}: issue them before they are needed "
        "(prefetch into registers, or cp.async in several stages), work on several items per "
        "thread, or shorten chains of dependent loads.",
        when(waits.waits_for_global_loads, global_memory.loads_global, name="loads"): "Have more "
        "loads in flight at a time{here}: issue them before they are needed (prefetch into "
        "registers), work on several items per thread, or shorten chains of dependent loads.",
        otherwise: "Have more independent work in flight at a time{here}: several items per "
        "thread, or shorter chains of dependent instructions.",
    },
    edit=Edit(
        "Have more loads in flight: prefetch, pipeline stages, or shorter dependent chains", usual=3
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Waiting that no unit explains and that other warps do not hide."""
    issue, top = view.ceilings.reached("issue"), next(iter(view.ceilings.ranked), None)
    if view.ceilings.are_counted:  # at least that busy: no sign that warps wait
        top = None
    states = [state for state in view.stalls if stalls()[state].counts_as_stall]
    if (top is None and not states) or a_unit_explains(view, model):
        return
    sleeps = bool(waits.warps_sleep.test(view))
    trips = None if sleeps else _round_trips(view)
    flight = None if sleeps else bytes_in_flight(view)
    covered = kept_waits(model, (ASLEEP,), 1 - 1 / MORE_IN_FLIGHT)
    if not sleeps:  # nothing else shortens sleep
        covered = _covered(view, model, trips)
    longest = max(covered, key=lambda state: model.waiting[state], default="long_scoreboard")
    cited = trips if states and trips is not None and trips.value >= SEVERAL_TRIPS else None
    apart = None if sleeps else _why_apart(view, is_parted=trips is not None)
    cited = None if apart is not None and apart[1] else cited  # counted, not estimated
    busiest, possible = top.reached if top else None, view.get("theoretical_occupancy_pct")
    of_active = while_active(view, model)
    evidence = [issue, busiest, of_active, possible, view.stall(longest), cited]
    waited = _what_is_awaited(view, states, longest, cited)
    text = Sentence("{busy}, and {waits}.", busy=_busiest(view, model, top), waits=waited)
    shown = _shown(model, flight.shortage()) if flight and _come_from_dram(view) else 0.0
    if flight is not None and shown:
        text = Sentence(_LITTLE, text=text, held=flight.held, needed=flight.needed)
        evidence += [flight.held, flight.needed]
    if apart is not None:
        text = Sentence(" ").join((text, apart[0]))
        evidence += apart[1]
        shown = max(shown, _shown(model, 1.0))  # the code shows why they are not issued together
    if not sleeps and (few := few_warps(view)) is not None:
        text = Sentence(" ").join((text, few[0]))
        evidence += few[1]
    variant = "ampere" if view.capability >= (8, 0) else ""  # cp.async came with it
    held = view.get("achieved_occupancy_pct")
    is_serial = bool(grid.blocks_may_wait.test(view))
    if sleeps:
        is_serial, variant = not waits.sleeps_on_purpose.test(view), "sleep"
    elif is_serial and held is not None:
        more = "{text} SMs hold {held:.0f} of the warps that they can: blocks seem to wait for "
        more += "each other or for something outside the kernel."
        text = Sentence(more, text=text, held=held)
        variant, evidence = "blocks", [*evidence, held]
    called = called_share(view)
    if called is not None and waits.calls_dominate.test(view):
        words = "{part:.0f} of the samples are in routines that the kernel calls and that are not "
        words += "part of its code. {text}"
        text = Sentence(words, part=called, text=text)
        is_serial, variant, evidence = True, "calls", [called, *evidence]
    yield Candidate(
        text,
        Effect(waits=covered, least=serial_share(view)),
        tuple(piece for piece in evidence if piece is not None),
        lambda: waits.awaited_places(view, longest),
        basis="assumed",
        variant=variant,
        likelihood=1.0 if view.stalls and not is_serial else LIKELY,
        doubt=1 - shown,
        is_open=is_serial,
    )


def _covered(view: LaunchView, model: TimeModel, trips: Evidence | None) -> dict[str, float]:
    """What more independent operations in flight leave of the waiting."""
    # They do not hide the queue for a slow link or for one hot line.
    queued = max(model.loads.get(HOST_LINK, 0.0), model.loads.get(HOT_LINE, 0.0))
    covered = kept_waits(model, HIDEABLE, (1 - 1 / MORE_IN_FLIGHT) * (1 - queued))
    times = float(MORE_IN_FLIGHT)
    if trips is not None:  # issued together, they take one round trip
        times = max(times, min(float(trips.value), MOST_ROUND_TRIPS))
    if any(fact.test(view) for fact in _SERIAL):
        times = max(times, min(1 / (1 - _avoidable_part(view)), MOST_ROUND_TRIPS))
    removed = (1 - 1 / times) * (1 - queued) * (1 - needless_loads(model))
    return covered | kept_waits(model, ("long_scoreboard",), removed)


_SERIAL = (waits.stores_delay_loads, waits.branches_delay_loads, waits.volatile_delays_loads)


def _why_apart(
    view: LaunchView, *, is_parted: bool
) -> tuple[Sentence, tuple[Evidence, ...]] | None:
    """Why loads are not issued together, as the code shows it: they wait for each other without
    need; or branches part them (`is_parted`: whether that is known to matter)."""
    if is_parted and waits.branches_part_loads.test(view) and not _SERIAL[0].test(view):
        return Sentence(_PARTED), ()
    if not any(fact.test(view) for fact in _SERIAL):
        return None
    from keet.analysis.amounts.accesses import serial_loads  # needed with machine code only

    loads = serial_loads(view)
    if loads is None:
        return None
    return Sentence("Threads make {text}.", text=loads.summary), loads.evidence


def _avoidable_part(view: LaunchView) -> float:
    """The share of waits for loads that loads wait for each other without need, 0 to below 1."""
    if view.code is None:
        return 0.0
    from keet.analysis.amounts.accesses import avoidable_loads

    region = avoidable_loads(view)
    if region is None:
        return 0.0
    long = ("long_scoreboard", "long_scoreboard_pipe_l1tex")
    every = sum(wait.samples for wait in view.code.waits if wait.reason in long)
    return min(region.avoidable_samples / every, 1 - 1 / MOST_ROUND_TRIPS) if every else 0.0


def _busiest(view: LaunchView, model: TimeModel, top: Ceiling | None) -> Sentence:
    """How busy the units are, as the first part of a sentence. Where few SMs work, the units of
    those."""
    if top is None:
        return Sentence("The report does not say how busy the units were")
    if (while_busy := while_active(view, model)) is not None:
        text = "While SMs are active, the busiest unit is {unit} at {busy:.0f} of its peak"
        if model.busiest == "issue":
            text = "While SMs are active, schedulers issue in {busy:.0f} of the cycles: no unit is "
            text += "busier"
        return Sentence(text, unit=spoken_unit(model.busiest or ""), busy=while_busy)
    if top.name == "issue":
        used = Sentence("{busy:.0f} of which are used", busy=top.reached)
        none = "None of the measured units" if view.ceilings.unmeasured else "No unit"
        return Sentence("{none} is busier than the issue slots, {used}", none=none, used=used)
    if top.name in WHOLE:
        text = "No unit is busier than {unit}, at {busy:.0f} of its peak"
        return Sentence(text, unit=top.spoken, busy=top.reached)
    issue = view.ceilings.reached("issue")
    also = issue and Sentence("; {issue:.0f} of the issue slots are used", issue=issue)
    text = "The busiest unit is {unit} at {busy:.0f} of its peak{also}"
    return Sentence(text, unit=top.spoken, busy=top.reached, also=also or "")


def _what_is_awaited(
    view: LaunchView, states: Sequence[str], longest: str, trips: Evidence | None
) -> Sentence:
    """What warps wait for, as the second part of a sentence."""
    if not states:
        return Sentence("the report has no warp states that show what warps wait for")
    leads = max(states, key=lambda state: view.stalls[state]) == longest
    awaited = f"a warp {'mostly' if leads else 'also'} waits for {stalls()[longest].waits_for}"
    # A warp that waits after EXIT has no next instruction.
    awaited += "" if longest == "drain" else " before its next instruction"
    if trips is None:
        return Sentence(awaited)
    more = "{waits}; waits for loads are spread over about {trips:.0f} of them in a row"
    return Sentence(more, waits=awaited, trips=trips)


def _shown(model: TimeModel, shortage: float) -> float:
    """How far too few loads on their way explain more than half of the waiting, 0 to 0.5."""
    return max(0.0, shortage * model.waiting.get("long_scoreboard", 0.0) - MAJORITY)


_PARTED = "Branches to code that never ran stand between these loads, so that they are not issued "
_PARTED += "together."


def _come_from_dram(view: LaunchView) -> bool:
    """Whether most bytes that L1 reads come from DRAM, and few of the loads hit L1; also if that is
    not known. Loads that a cache serves wait for the cache: how much DRAM needs does not matter."""
    read, sectors = view.value("dram_bytes_read"), view.value("l2_l1_read_sectors")
    is_in_l2 = read is not None and sectors is not None and read < MAJORITY * sectors * SECTOR
    return not is_in_l2 and not mostly_hits(view)


_LITTLE = (
    "{text} Loads have requested about {held:.0f}s per SM at a time; a DRAM that is always busy "
    "needs about {needed:.0f}s."
)


def _round_trips(view: LaunchView) -> Evidence | None:
    """How many loads a thread waits for one after the other: over how many instructions the waits
    for loads are spread; the iterations of a loop that a load ends. None: not known, or each needs
    what the one before it returned."""
    if view.code is None or waits.chases_pointers.test(view):
        return None
    label = "loads that are waited for one after the other"
    iterations, _ = waits.awaited_iterations(view.code)
    if not iterations and waits.branches_part_loads.test(view):
        iterations, _ = waits.parted_loads(view.code)
    if iterations:
        return view.derived("round_trips", iterations, label)
    if waits.dependent_loads.test(view):
        return None
    long = (wait for wait in view.code.waits if wait.reason == "long_scoreboard")
    samples = Counter({wait.position: wait.samples for wait in long})
    every = samples.total()
    alike = sum((part / every) ** 2 for part in samples.values())
    spread = 1 / alike / _chained(view.code, samples) if every else 0.0
    return view.derived("round_trips", spread, label) if spread >= 1 else None


def _chained(code: MachineCode, samples: Mapping[int, int]) -> float:
    """Loads in a row that choose the address of the next one, of the loop with most waits: they are
    never issued together."""
    from keet.analysis.machine_code.analyses.address_patterns import chooses_address

    flow, at = code.program.flow, Counter[int]()
    for position, count in samples.items():
        at[flow.loop_of.get(flow.block_of[position], -1)] += count
    most = max(at, key=at.__getitem__)
    chain = next((chains.load_chain for chains in code.chains if chains.loop == most), ())
    chosen = sum(chooses_address(code.program, load, chain[:n]) for n, load in enumerate(chain))
    return 1 + chosen


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    """Even without any waiting, the busiest unit would take nearly as long. L2 that passes on
    DRAM's data is not a limit of its own."""
    loads = dict(model.loads)
    if loads.get("DRAM", 0.0) >= PASSES_ON:
        loads.pop("L2", None)
    unit = max(loads, key=lambda name: loads[name], default="")
    busiest = view.ceilings.get(unit)
    if busiest is None or loads[unit] * (1 - model.fixed) + model.fixed < 1 / WORTH:
        return None
    text = "Without any waiting, {unit} would set the pace (busy: {busy:.0f})."
    return absence(text, unit=busiest.spoken, busy=busiest.reached)
