"""Evaluates a model's claims, one function per kind: bytes, instructions, precision, waiting,
redundant work, parallelism, launches.

A claim says how much work is needed or goes; the report says how much was done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.amounts.arrays import arrays
from keet.analysis.candidate import (
    HIDEABLE,
    MAX_GAIN,
    MEMORY_WAITS,
    MIO_WAITS,
    covered_waits,
    is_matrix_product,
    kept_waits,
    part_of,
)
from keet.analysis.decisions.double_precision import in_single_precision
from keet.analysis.decisions.replays import COALESCED_WAITS
from keet.analysis.hardware.ceilings import HOST_LINK, SECTOR, spoken_unit
from keet.analysis.launch_view import LaunchView
from keet.analysis.machine_code.instructions.opcodes import BY_PIPE, SINGLE
from keet.analysis.memory_work import global_part, less_shared
from keet.analysis.parallelism.resident_warps import (
    MOST_OCCUPANCY,
    chain_share,
    evenness,
    grid_shape,
    resident,
    working_part,
)
from keet.analysis.parameters import LEAST_KERNEL_NS, Parameter
from keet.analysis.several_launches.traffic import stored_bytes
from keet.analysis.time_model import ASLEEP, HOT_LINE, INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.catalog import stalls
from keet.diagnosis.claim import (
    ClaimEffect,
    Refused,
    WorkClaim,
    as_claimed,
    in_unit,
    removable,
    stated_amount,
    stated_share,
    warps_launched,
)
from keet.evidence import Evidence, Sentence
from keet.findings import FindingSpec
from keet.findings.barrier_bound import BARRIER_WAITS
from keet.findings.launch_bound import LAUNCH_GAP_NS, STEP_WORK
from keet.findings.no_tensor_core import TENSOR_WORK
from keet.findings.small_grid import PARTIAL_WAVE
from keet.formatting import capitalized
from keet.units import Number, Quantity

WAVEFRONT = 128
"""Most bytes that shared memory delivers per wavefront."""


class Level(NamedTuple):
    """A level of memory, and the counters of what it moved."""

    unit: str
    label: str
    read: str = ""
    written: str = ""
    """Catalog ids."""
    size: int = 1
    """Bytes per counted item."""


LEVELS: Mapping[str, Level] = {
    "dram": Level("DRAM", "DRAM", "dram_bytes_read", "dram_bytes_written"),
    "l2": Level("L2", "L2", "l2_l1_read_sectors", "l2_l1_write_sectors", SECTOR),
    "global": Level("L1", "L1", "global_load_sectors", "global_store_sectors", SECTOR),
    "shared": Level(
        "L1", "shared memory", "shared_load_wavefronts", "shared_store_wavefronts", WAVEFRONT
    ),
    "local": Level("L1", "local memory", "local_load_sectors", "local_store_sectors", SECTOR),
    HOST_LINK: Level(HOST_LINK, "the link to the host"),
    HOT_LINE.lower(): Level(HOT_LINE, "the busiest slice of L2", size=SECTOR),
}
_CHAIN = ("global", "l2", "dram")
"""Levels of global memory, from the threads outwards."""
_ALIASES = {"l1": "global", "host": HOST_LINK, "pcie": HOST_LINK, "hot line": HOT_LINE.lower()}
_DIRECTIONS = dict.fromkeys(("read", "reads", "load", "loads"), "read") | dict.fromkeys(
    ("written", "write", "writes", "store", "stores"), "written"
)


class _Traffic(NamedTuple):
    """What one level moved."""

    name: str
    level: Level
    moved: Evidence
    """Bytes, in the direction of the claim."""
    whole: float
    """Bytes in both directions."""
    direction: str
    """Of the claim: `read` or `written`; empty for both."""


def _traffic(model: TimeModel, name: str, direction: str = "") -> _Traffic | None:
    """`direction`: `read` or `written`; empty for both. None if the report does not say."""
    view, level = model.view, LEVELS[name]
    counted: dict[str, Evidence | None]
    if name == HOST_LINK:  # entered by the ceilings if the link was used
        used = ("read", "written") if view.ceilings.get(HOST_LINK) else ()
        counted = {key: view.ledger.entry_named(f"host_link.{key}.bytes") for key in used}
        counted = {key: entry for key, entry in counted.items() if entry is not None}
    elif level.unit == HOT_LINE:
        counted = {"read": model.hot_line.most if model.hot_line else None}
    else:
        counted = {"read": view.get(level.read), "written": view.get(level.written)}
    for key, count in counted.items():
        if count is not None and level.size > 1:
            what = "hot line" if level.unit == HOT_LINE else f"{name} {key}"
            counted[key] = _bytes(view, what, count.value * level.size, f"bytes {what}", count)
    wanted = [part for key, part in counted.items() if direction in ("", key)]
    measured = [part for part in wanted if part is not None]
    if not measured or len(measured) < len(wanted):
        return None
    whole = sum(float(part.value) for part in counted.values() if part is not None)
    label = f"{direction or 'moved'} by {level.label}"
    total = sum(part.value for part in measured)
    moved = _bytes(view, f"{name}.{direction or 'moved'}", total, label, *measured)
    return _Traffic(name, level, moved, whole, direction)


def _bytes(view: LaunchView, name: str, amount: Number, label: str, *sources: Evidence) -> Evidence:
    return view.derived(f"bytes.{name}", amount, label, *sources, unit="byte")


def _stated(  # noqa: PLR0913, PLR0917 - what is claimed, and of what
    claim: WorkClaim,
    view: LaunchView,
    what: str,
    needed: Quantity | None,
    did: Sentence,
    done: Evidence,
    least: float,
) -> tuple[Evidence, float, Sentence]:
    """The amount as evidence, the share of `done` that goes, and what is claimed in words. `least`:
    an amount that is surely too small."""
    if needed is None:
        share = stated_share(view, what, claim.share(), done)
        said = Sentence("{share:.0f} of them are not needed", share=share)
        return share, removable(claim.share()), said
    shown = stated_amount(view, what, needed, done)
    if not shown.value >= least:
        raise Refused("{shown} is less than one per warp of the launch.", shown=shown)
    if shown.value >= done.value:
        text = "{did}, and {shown} are said to be needed: nothing can be saved."
        raise Refused(text, did=did, done=done, shown=shown)
    gone = 1 - float(shown.value) / float(done.value)
    return shown, gone, Sentence("{shown} are needed", shown=shown)


def byte_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    words = claim.of.strip().lower().replace("_", " ")
    head, _, last = words.rpartition(" ")
    direction = _DIRECTIONS.get(last, "") if head else ""
    name = head if direction else words
    name = _ALIASES.get(name, name)
    if name not in LEVELS:
        levels = ", ".join(LEVELS)
        raise Refused("Bytes are claimed of {of}; not of {it}.", of=levels, it=repr(claim.of))
    view, level, traffic = model.view, LEVELS[name], _traffic(model, name, direction)
    if traffic is None:
        raise Refused("The report does not say how many bytes {it} moved.", it=level.label)
    begin, moved = capitalized(level.label), traffic.moved
    if not moved.value:
        raise Refused("{begin} moved nothing in this launch.", begin=begin, moved=moved)
    verb = {"read": "reads", "written": "writes"}.get(direction, "moves")
    did = Sentence("{begin} {verb} {moved}", begin=begin, verb=verb, moved=moved)
    amount = claim.needed and in_unit(claim.needed, "byte")
    # A fix can remove all of local memory, but not all of what a kernel reads and writes.
    least = 0.0 if traffic.name == "local" else max(1.0, warps_launched(view))
    shown, share, said = _stated(claim, view, f"bytes of {claim.of}", amount, did, moved, least)
    saved = share * float(moved.value)
    needed = float(moved.value) - saved
    is_doubted = _is_below_stored(claim.spec, view, traffic, needed, shown)
    removed = min(MOST_REMOVED, saved / traffic.whole) if traffic.whole else 0.0
    return ClaimEffect(
        as_claimed(did, said),
        _less_bytes(claim.spec, model, traffic, saved, removed),
        (moved, shown),
        level.unit,
        1 - removed,
        is_doubted=is_doubted,
    )


def _stored(view: LaunchView, traffic: _Traffic) -> Evidence | None:
    stored, arrived = stored_bytes(view.launch), view.value(traffic.level.written)
    if not stored or not arrived:
        return None
    amount = min(stored, arrived * traffic.level.size)
    return _bytes(view, f"{traffic.name}.stored", amount, "stored by the kernel")


def _is_below_stored(
    spec: FindingSpec, view: LaunchView, traffic: _Traffic, needed: float, shown: Evidence
) -> bool:
    """Raises Refused for what is surely too small: less than the distinct bytes, or than what is
    stored, as far as that reached the level. Where a fix may store less, it is only doubted. Values
    of a narrower type need fewer bytes."""
    if traffic.name not in _CHAIN:
        return False
    from keet.analysis.machine_code.streaming import REACHED_BOUND

    distinct = _distinct(view, traffic)
    narrowest = NARROWEST if spec.has_narrower_data else 1.0
    if distinct is not None and needed < REACHED_BOUND * narrowest * float(distinct.value):
        text = "The kernel accesses {distinct} of data, and {shown} are said to be needed."
        if shown.unit == "%":
            text = "The kernel accesses {distinct} of data: {shown:.0f} less would not hold it."
        raise Refused(text, distinct=distinct, shown=shown)
    stored = _stored(view, traffic) if not traffic.direction else None
    if stored is None or needed >= narrowest * float(stored.value):
        return False
    if not spec.may_drop_stores:
        below = "The kernel stores {stored}, more than is said to be needed in both directions."
        raise Refused(below, stored=stored, shown=shown)
    return True


NARROWEST = Parameter(0.25, "bytes of the narrowest type that suffices, over today's", "judgement")


def least_kept(model: TimeModel) -> Mapping[str, float]:
    """By unit of global memory: the share of its bytes that are distinct or stored, which no
    removal of redundant work removes. Units of which that is not known are left out."""
    least: dict[str, float] = {}
    for name in _CHAIN:
        traffic = _traffic(model, name)
        if traffic is None or not traffic.moved.value:
            continue
        amounts = (_distinct(model.view, traffic), _stored(model.view, traffic))
        needed = max((float(amount.value) for amount in amounts if amount), default=0.0)
        if needed:
            least[traffic.level.unit] = min(1.0, needed / float(traffic.moved.value))
    return least


def _distinct(view: LaunchView, traffic: _Traffic) -> Evidence | None:
    """Distinct bytes of the arrays that are surely known, and of DRAM only where it is shown that
    it read every byte once: other data may have been in L2 before. None if none is known."""
    streaming, direction = view.streaming, traffic.direction
    if traffic.name == "dram":
        is_known = streaming is not None and streaming.verdict == "once"
        distinct = float(streaming.distinct_bytes or 0) if streaming and is_known else 0.0
        distinct = 0.0 if direction == "written" else distinct
    else:
        exact = [array for array in arrays(view) if array.basis == "exact"]
        ours = [x for x in exact if not direction or x.access in (direction, "updated")]
        distinct = min(sum(x.distinct_bytes or 0.0 for x in ours), float(traffic.moved.value))
    if not distinct:
        return None
    name = f"{traffic.name}.{direction or 'both'}.distinct"
    return _bytes(view, name, distinct, "distinct bytes", traffic.moved)


def _less_bytes(
    spec: FindingSpec, model: TimeModel, traffic: _Traffic, saved: float, removed: float
) -> Effect:
    """`saved`: bytes. `removed`: as a share of what the level moves in both directions."""
    view, unit = model.view, traffic.level.unit
    if traffic.name in _CHAIN:
        return _less_global(spec, model, traffic, saved, removed)
    if traffic.name == "local":
        # Local memory as a share of what L1 serves; behind L1, what L1 does not hold.
        in_global, in_l2 = _traffic(model, "global"), _traffic(model, "l2")
        part = saved / (traffic.whole + (in_global.whole if in_global else 0.0))
        units = {"L1": 1 - part, "LSU": 1 - INDIRECT * part}
        if in_l2 is not None and in_global is not None and in_l2.whole:
            excess = max(0.0, in_l2.whole - in_global.whole) / in_l2.whole
            units |= dict.fromkeys(("L2", "DRAM"), 1 - min(part, excess))
        units["issue"] = 1 - part_of(model.view, "LDL", "STL") * saved / traffic.whole
        return Effect(units, kept_waits(model, MEMORY_WAITS, part))
    if traffic.name == "shared":
        effect = less_shared(model, removed)
        if spec.repeats == "shared":
            return effect
        accesses = {"LSU": effect.units["L1"], "issue": 1 - removed * part_of(view, "LDS", "STS")}
        return effect._replace(units={**effect.units, **accesses})
    waits = kept_waits(model, MEMORY_WAITS, removed * model.loads.get(unit, 0.0))
    return Effect({unit: 1 - removed}, waits)


def _less_global(
    spec: FindingSpec, model: TimeModel, traffic: _Traffic, saved: float, removed: float
) -> Effect:
    """A byte that DRAM does not read again does not pass L2 and L1 again either, and no level moves
    more than the level above it requests. Fewer bytes shorten waiting as far as units have queues
    for them."""
    view, units = model.view, {traffic.level.unit: 1 - removed}
    claimed_level = _CHAIN.index(traffic.name)
    for position, name in enumerate(_CHAIN):
        other = _traffic(model, name)
        if position == claimed_level or other is None or not other.whole:
            continue
        if position < claimed_level:
            units[other.level.unit] = 1 - min(removed, saved / other.whole)
        else:
            units[other.level.unit] = min(1.0, (traffic.whole - saved) / other.whole)
    units["L1"] = 1 - (1 - units.get("L1", 1.0)) * global_part(view)
    if spec.repeats != "global":  # loads that are removed also free LSU and issue slots
        fewer = 1 - units["L1"]
        units |= {"LSU": 1 - fewer, "issue": 1 - fewer * part_of(view, "LDG", "STG")}
    pressed = max(model.loads.get(unit, 0.0) for unit in units)
    if spec.repeats == "global":
        shorter = min(1.0, pressed * COALESCED_WAITS)
    else:  # loads that are removed completely are not waited for
        shorter = max(pressed, 1.0 if traffic.name == "global" else INDIRECT)
    return Effect(units, kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), removed * shorter))


# --- instructions

_PURPOSES = {
    "value": "arithmetic on data",
    "memory": "loads and stores",
    "address": "addresses and indices",
    "control": "conditions and loops",
    "conversion": "conversions",
    "move": "moves and shuffles",
    "sync": "synchronisation",
}
_PURPOSE_PIPES = {
    "value": ("FMA", "FP64", "FP16", "XU", "tensor"),
    "memory": ("LSU", "L1"),
    "sync": ("ADU",),
}
"""Units with mainly one purpose; the ALU and FMA pipes are shared."""
_WITHIN_SM = ("issue", "FMA", "ALU", "FP64", "XU", "FP16", "LSU", "ADU", "L1", "tensor")
_WAITS_OF_ALL = ("wait", "dispatch_stall", "branch_resolving", "no_instruction", "no_instructions")
"""Warp states that occur with every instruction."""
_OPERATIONS = {"inst": 1.0, "op": 32.0, "flop": 64.0}
"""Operations of threads per warp instruction, by unit of the amount."""


class _Class(NamedTuple):
    """A class of instructions."""

    name: str
    spoken: str
    executed: Evidence
    """Warp instructions."""
    part: float
    """Of all executed instructions, 0 to 1."""
    pipes: Mapping[str, float]
    """By unit: the share of its work that belongs to this class, 0 to 1."""


def instruction_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    view = model.view
    kind = _class_named(claim.of.strip(), view)
    executed = kind.executed
    if not executed.value:
        raise Refused("The launch executes no {of}.", of=kind.spoken, executed=executed)
    launch = Sentence("The launch executes {executed}", executed=executed)
    if kind.name != "all":
        launch = Sentence("{launch} ({of})", launch=launch, of=kind.spoken)
    least, base = warps_launched(view) if kind.name == "all" else 0.0, None
    if claim.needed is not None:
        base = in_unit(claim.needed, *_OPERATIONS)
        base = Quantity(float(base.value) / _OPERATIONS[base.unit], "inst")
    shown, share, said = _stated(claim, view, kind.spoken, base, launch, executed, least)
    removed = removable(share)
    unit = max(kind.pipes, key=lambda pipe: model.loads.get(pipe, 0.0), default="issue")
    reached = view.ceilings.reached(unit)
    return ClaimEffect(
        as_claimed(launch, said),
        _effect(model, kind, removed),
        (executed, shown, *((reached,) if reached else ())),
        unit,
        1 - removed * kind.pipes.get(unit, kind.part),
    )


def _class_named(name: str, view: LaunchView) -> _Class:
    """Finds the class by pipe, purpose or opcode."""
    lower = name.lower()
    if lower in ("all", ""):
        executed = view.get("inst_executed") or view.get("inst_executed_total")
        if executed is None:
            raise Refused("The report does not say how many instructions were executed.")
        return _Class("all", "instructions", executed, 1.0, dict.fromkeys(_WITHIN_SM, 1.0))
    if not view.all_executed:
        raise Refused("The report does not count instructions by opcode.")
    if lower in _PURPOSES:
        if view.code is None:
            raise Refused("What instructions are for is not known without the machine code.")
        part = sum(share for purpose, share in view.code.mix if purpose.value == lower)
        # On the integer pipes, in proportion to all that is executed.
        shared = dict.fromkeys(("ALU", "FMA"), part)
        pipes = dict.fromkeys(_PURPOSE_PIPES.get(lower, ()), 1.0) or shared
        spoken = f"instructions for {_PURPOSES[lower]}"
        executed = _count(view, f"for_{lower}", spoken, part * view.all_executed)
        return _Class(lower, spoken, executed, part, pipes)
    classes = {pipe.lower(): (pipe, f"instructions of {spoken_unit(pipe)}") for pipe in BY_PIPE}
    classes |= dict.fromkeys(("atomic", "atomics"), ("atomics", "atomic instructions"))
    if lower in classes:
        return _by_opcode(view, *classes[lower], ("ATOM", "RED"))
    if name.isupper() and view.executed(name):
        return _by_opcode(view, name, f"{name} instructions", (name,))
    names = ", ".join((*_PURPOSES, "atomics", *BY_PIPE))
    raise Refused("Instructions are claimed of all, an executed opcode, {names}.", names=names)


def _by_opcode(view: LaunchView, name: str, spoken: str, opcodes: tuple[str, ...]) -> _Class:
    """The opcodes of the pipe `name`, or these if it is no pipe."""
    by_pipe, every = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for opcode, count in view.opcodes.items():
        pipe = next((pipe for pipe, names in BY_PIPE.items() if opcode in names), None)
        every[pipe] += count
        if pipe == name or (name not in BY_PIPE and opcode.startswith(opcodes)):
            by_pipe[pipe] += count
    if name == "atomics":
        by_pipe = defaultdict(float, {"LSU": by_pipe["LSU"]})
    pipes = {pipe: count / every[pipe] for pipe, count in by_pipe.items() if pipe and count}
    if "LSU" in pipes:
        pipes["L1"] = pipes["LSU"]
    total = sum(by_pipe.values())
    executed = _count(view, name, spoken, total)
    return _Class(name, spoken, executed, min(1.0, total / view.all_executed), pipes)


def _count(view: LaunchView, name: str, spoken: str, count: float) -> Evidence:
    total = view.get("inst_by_opcode")
    label, sources = f"executed {spoken}", (total,) if total is not None else ()
    return view.derived(f"instructions.{name}", count, label, *sources, unit="inst")


def _effect(model: TimeModel, kind: _Class, removed: float) -> Effect:
    """Shortens the waiting that these instructions cause, and that every instruction causes."""
    if kind.name == "all":
        return Effect(dict.fromkeys(_WITHIN_SM, 1 - removed), every_wait=1 - removed)
    pipes = kind.pipes
    units = {pipe: 1 - removed * share for pipe, share in pipes.items()}
    units["issue"] = 1 - removed * kind.part
    waits = kept_waits(model, _WAITS_OF_ALL, removed * kind.part)
    if pipes.keys() & {"FMA", "ALU", "FP64", "FP16", "tensor"}:
        waits |= kept_waits(model, ("math_pipe_throttle",), removed * max(pipes.values()))
    if "XU" in pipes:  # it has a part of the MIO queues, by how busy it is
        loads = [model.loads.get(unit, 0.0) for unit in ("XU", "LSU", "L1")]
        part = loads[0] / max(*loads, 1e-9)
        waits |= kept_waits(model, MIO_WAITS, removed * pipes["XU"] * part)
    in_lsu = removed * pipes.get("LSU", 0.0)
    if in_lsu:
        waits |= kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), in_lsu)
    if kind.name == "atomics":  # atomics queue for few addresses
        units[HOT_LINE] = 1 - removed
        queued = removed * model.loads.get(HOT_LINE, 0.0)
        waits |= kept_waits(model, MEMORY_WAITS, max(queued, in_lsu))
    if kind.name in ("sync", "BAR"):
        waits |= kept_waits(model, ("barrier",), removed)
    return Effect(units, waits)


def precision_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """A lower precision suffices, or tensor cores can do the work."""
    enough = claim.of.strip().lower()
    if enough == "fp32":
        return _single_precision(claim, model)
    view = model.view
    if enough in ("fp16", "bf16"):  # two values per instruction
        part, kept = part_of(view, *SINGLE), INDIRECT
        work, said = "single-precision arithmetic", "half precision suffices"
        units = {"FMA": kept, "issue": 1 - part * (1 - kept)}
        every_wait = 1 - part * (1 - kept)
    elif enough in ("tensor", "tf32"):
        # A matrix product leaves little work; in other code, what is not a multiply-add stays.
        part, kept = part_of(view, "FFMA", "HFMA"), TENSOR_WORK
        work = "multiply-adds that tensor cores could do"
        said = "tensor cores can do its multiply-adds"
        every_wait = kept if is_matrix_product(view) else 1 - part * (1 - kept)
        units = dict.fromkeys(("issue", "LSU", "L1", "ALU"), every_wait) | {"FMA": kept}
    else:
        raise Refused("A precision that suffices is FP32, FP16 or tensor.")
    busy = view.ceilings.reached("FMA")
    if busy is None or not part:
        raise Refused("The report shows no {work}.", work=work)
    text = as_claimed(Sentence("The FMA pipe is busy for {n:.0f} of the time", n=busy), said)
    return ClaimEffect(text, Effect(units, every_wait=every_wait), (busy,), "FMA", kept)


def _single_precision(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    view = model.view
    busy = view.ceilings.reached("FP64")
    if view.all_executed and not part_of(view, *BY_PIPE["FP64"]):
        raise Refused("The launch executes no FP64 arithmetic.")
    if busy is None:
        raise Refused("The report does not say how busy the FP64 pipe was.")
    now = Sentence("The FP64 pipe is busy for {busy:.0f} of the time", busy=busy)
    effect = in_single_precision(view, model, is_unintended=claim.spec.is_unintended)
    text = as_claimed(now, "single precision suffices")
    return ClaimEffect(text, effect, (busy,), "FP64", effect.units["FP64"])


def waiting_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """For one stall reason or all. A share is limited to what keet expects of any fix: of barriers,
    and of waits that more warps hide."""
    view, removed = model.view, claim.share()
    if not view.stalls:
        raise Refused("The report does not say what warps wait for.")
    state = claim.of.strip().lower()
    hidden = min(removed, 1 - 1 / MOST_OCCUPANCY)
    if state in ("all", ""):
        share = stated_share(view, "all waiting", removed)
        text = "By the model's reading of the source, {share:.0f} of all waiting can go."
        return ClaimEffect(Sentence(text, share=share), Effect(every_wait=1 - hidden), (share,))
    if state not in stalls():
        raise Refused("{state} is no warp state; `all` is all of them.", state=repr(claim.of))
    waited = view.stall(state)
    if waited is None or not waited.value:
        raise Refused("No warp waited for {what}.", what=stalls()[state].waits_for)
    share = stated_share(view, f"the waiting for {stalls()[state].label}", removed, waited)
    units = {}
    if state == "barrier":
        gone = min(removed, BARRIER_WAITS)
        units["ADU"] = 1 - gone * INDIRECT
    else:
        gone = hidden if state in HIDEABLE else removable(removed)
    what = stalls()[state].waits_for
    now = Sentence("Warps wait {waited:.0f} of their time for {what}", waited=waited, what=what)
    text = as_claimed(now, Sentence("{share:.0f} of that can go", share=share))
    return ClaimEffect(text, Effect(units, kept_waits(model, (state,), gone)), (waited, share))


def redundant_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """Of everything that the launch does, but what it has to load and store."""
    kept = 1 - removable(claim.share())
    share = stated_share(model.view, "the launch's work", claim.share())
    text = "By the model's reading of the source, {share:.0f} of what the launch does can go."
    least = least_kept(model)
    units = {unit: max(kept, least.get(unit, 0.0)) for unit in model.loads}
    loads = max(kept, least.get("L1", 0.0))
    waits = dict.fromkeys(model.waiting, kept) | kept_waits(model, MEMORY_WAITS, 1 - loads)
    effect = Effect(units, {state: left for state, left in waits.items() if state != ASLEEP})
    left = units.get(model.busiest or "", kept)
    return ClaimEffect(Sentence(text, share=share), effect, (share,), model.busiest, left)


def parallelism_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """Work can be spread better: over blocks, warps per SM, or SMs with equal work."""
    spreads = {"blocks": _blocks, "warps": _warps, "balance": _balance}
    spread = spreads.get(claim.of.strip().lower())
    if spread is None:
        of, it = ", ".join(spreads), repr(claim.of)
        raise Refused("Parallelism is claimed of {of}; not of {it}.", of=of, it=it)
    return spread(claim, model)


def _needed(claim: WorkClaim, unit: str) -> Quantity:
    if claim.needed is None:
        raise Refused("The claim needs the number of {unit}s that there could be.", unit=unit)
    return in_unit(claim.needed, unit)


def _blocks(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """More blocks, on more SMs or more per SM."""
    view, needed = model.view, _needed(claim, "block")
    shape = grid_shape(view)
    if shape is None:
        raise Refused("The report does not say how many blocks the grid has.")
    shown = stated_amount(view, "blocks", needed, shape.grid)
    if not shown.value > shape.grid.value:
        raise Refused("The grid has {grid:.0f}s already.", grid=shape.grid, shown=shown)
    times = float(shown.value) / float(shape.grid.value)
    after = min(1.0, shape.spread * times)
    waves = float(shape.waves.value) if shape.waves else shape.spread
    held, more = min(1.0, waves / shape.spread), min(1.0, waves * times / after)
    part = working_part(view)
    on_each = (held / more) ** PARTIAL_WAVE
    effect = Effect(
        waits=covered_waits(model, max(on_each, 1 / MAX_GAIN) ** -part),
        longest_sm=max(shape.spread / after, 1 / MAX_GAIN) ** part,
        least=chain_share(view),
    )
    now = Sentence("The grid has {grid:.0f}s", grid=shape.grid)
    text = as_claimed(now, Sentence("{shown:.0f}s can share the work", shown=shown))
    return ClaimEffect(text, effect, (shape.grid, shown))


def _warps(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    view, needed = model.view, _needed(claim, "warp")
    now, most = view.get("achieved_warps_per_sm"), view.get("device_warps_per_sm")
    if now is None or not now.value:
        raise Refused("The report does not say how many warps an SM held.")
    shown = stated_amount(view, "warps per SM", needed, now)
    if not shown.value > now.value:
        raise Refused("An SM holds {now:.1f}s already.", now=now, shown=shown)
    if most is not None and shown.value > most.value:
        raise Refused("An SM holds {most:.0f}s at the most.", most=most, shown=shown)
    waves = view.value("waves_per_sm") or MOST_OCCUPANCY
    times = min(float(shown.value) / float(now.value), MOST_OCCUPANCY, max(1.0, waves))
    words = "An SM holds {now:.1f}s on average; as the model states, {shown:.0f}s can be on it."
    text, effect = Sentence(words, now=now, shown=shown), Effect(waits=covered_waits(model, times))
    return ClaimEffect(text, effect, (now, shown))


def _balance(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    view, removed = model.view, claim.share()
    even = evenness(view)
    if even is None:
        raise Refused("The report does not say how long each SM was active.")
    share = stated_share(view, "the difference between SMs", removed, even.ratio)
    longest = 1 - removable(removed) * (1 - min(1.0, float(even.ratio.value)))
    # Other blocks could run beside a long one that is left.
    filled = resident(view) ** (1 - longest) if claim.spec.has_long_blocks else 1.0
    now = Sentence("SMs have unequal work: {even}", even=even.text)
    text = as_claimed(now, Sentence("{share:.0f} of the difference can go", share=share))
    effect = Effect(longest_sm=max(longest, 1 / MAX_GAIN), every_wait=filled)
    return ClaimEffect(text, effect, (even.share, even.ratio, share))


def launch_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    """Removed launches, each with its start, its drain and the gap to the next."""
    removed, duration = claim.share(), model.view.get("duration")
    if duration is None or not duration.value:
        raise Refused("The report does not say how long the launch took.")
    taken, gap = float(duration.value), LAUNCH_GAP_NS
    start = max(LEAST_KERNEL_NS, model.fixed * taken)
    saved = min(removed * (start + gap), taken + gap - STEP_WORK * taken)
    share = stated_share(model.view, "the launches", removed, duration)
    now = Sentence("The kernel takes {time}, its start and end included", time=duration)
    text = as_claimed(now, Sentence("{share:.0f} of the launches can go", share=share))
    return ClaimEffect(text, (taken + gap) / (taken + gap - saved), (duration, share))
