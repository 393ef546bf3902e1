"""How busy units are on average over all SMs, and while an SM is active; and whose work L1 and L2
do: loads, stores, atomics, local memory and others.

A unit of an SM that is busy for 92 % of the time in which its SM has work looks idle on average if
few SMs have any.

L1's passes (wavefronts) are counted in total and for shared memory. The rest is known by
instruction only where it is a pass per line or per 128 bytes of data: the parts are given in passes
where they add up to the total, else in sectors, which every access to global and local memory has.

L1 writes through, so that all sectors of stores to local memory arrive in L2; of loads, those that
miss. L2's counters do not tell local from global memory, but they must agree with L1's: where they
do not, as where L1 joins stores of single bytes, the parts stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from keet.analysis.amounts.accesses import MemoryAccess, memory_accesses, uniform_accesses
from keet.analysis.hardware.ceilings import MEMORY_UNITS, WHOLE, Ceiling, spoken_unit
from keet.analysis.hardware.stages import sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.machine_code.instructions.opcodes import SURFACES, TEXTURES
from keet.analysis.parameters import NEGLIGIBLE, SAME_COUNT, Parameter
from keet.documents.amounts import UnitPartDocument, UnitUseDocument
from keet.evidence import Evidence, Sentence, finite

_LEAST_PCT = 1.0
_ELAPSED, _ACTIVE = "pct_of_peak_sustained_elapsed", "pct_of_peak_sustained_active"
_CLEARLY, _POINTS = 1.1, 2.0
"""The use while active is said too if it is more than the average by this factor and difference."""


@cached_per_view
def unit_uses(view: LaunchView) -> tuple[UnitUseDocument, ...]:
    """Those that reach a hundredth of their peak, on average or while active; the busiest first."""
    return tuple(_uses(view))


def _uses(view: LaunchView) -> Iterator[UnitUseDocument]:
    # The counter of the tensor pipe has a few per cent in kernels without such code, too.
    program = view.code.program if view.code is not None else None
    roles = {program.code[at].role.name for at in program.ran} if program else {"TENSOR"}
    for ceiling in sorted(view.ceilings.ranked, key=lambda ceiling: -ceiling.share):
        average, active = finite(ceiling.reached), _while_active(view, ceiling)
        most = max(average or 0.0, finite(active) or 0.0)
        is_unused = "tensor" in ceiling.id and "TENSOR" not in roles
        if average is None or most < _LEAST_PCT or is_unused:
            continue
        words = "{average:.0f} of its peak"
        if most >= _CLEARLY * average and most - average >= _POINTS:
            words += " on average, {active:.0f} while an SM is active"
        text = Sentence(words, average=ceiling.reached, active=active or "")
        yield UnitUseDocument(
            text=text,
            evidence=tuple(text.evidence.values()),
            unit=_name(ceiling),
            average_pct=average,
            active_pct=finite(active),
        )


def _name(ceiling: Ceiling) -> str:
    """`FP64 pipe`."""
    return spoken_unit(ceiling.name).removeprefix("the ").partition(" (")[0]


def _while_active(view: LaunchView, ceiling: Ceiling) -> Evidence | None:
    """As measured for the same counter, else from the cycles in which SMs are active; None for
    units outside of the SMs, and where the cycles are not known."""
    is_outside = ceiling.name in MEMORY_UNITS and ceiling.name != "L1"
    if is_outside or ceiling.kind == "link" or ceiling.name in WHOLE:
        return None
    label = f"{_name(ceiling)} busy while an SM is active"
    if ceiling.reached.metric.endswith(_ELAPSED):
        name = ceiling.reached.metric.replace(_ELAPSED, _ACTIVE)
        if (measured := view.ledger.named(name, label)) is not None:
            return measured
    active, cycles = view.get("sm_active_cycles"), cycles_of_all_sms(view)
    sms = view.launch.device.sm_count
    if active is None or cycles is None or not sms or not active.value or not cycles.value:
        return None
    part = min(1.0, float(active.value) * sms / float(cycles.value))
    share = min(100.0, float(ceiling.reached.value) / part)
    name = f"active.{ceiling.id}"
    return view.ledger.derived(name, share, label, ceiling.reached, active, cycles, unit="%")


def cycles_of_all_sms(view: LaunchView) -> Evidence | None:
    """Elapsed cycles, summed over the SMs, as they and their L1 caches count them. The GPCs count
    up to 6 % more or less in short launches."""
    label = "elapsed cycles, summed over the SMs"
    for name in ("sm__cycles_elapsed.sum", "l1tex__cycles_elapsed.sum"):
        if (counted := view.ledger.named(name, label)) is not None:
            return counted
    elapsed, sms = sm_elapsed_cycles(view.ledger), view.launch.device.sm_count
    if elapsed is None or not sms:
        return None
    cycles = sms * float(elapsed.value)
    return view.ledger.derived("elapsed_cycles_of_sms", cycles, label, elapsed, unit="cycle")


# --- whose work it is

Part = Literal[
    "loads",
    "gathers",
    "uniform loads",
    "stores",
    "atomics",
    "local memory",
    "shared memory",
    "textures",
    "other",
]
FEW_STORES = Parameter(
    0.05, "share of the passes up to which stores do not matter for their range", "judgement"
)
_EXACT_PART = 1e-6
_ONE_PER_CYCLE = (8, 0)
"""Compute capability from which 100 % of L1's data stage are a pass per cycle, in all reports
seen."""
_ONLY_SHARED = ("shared memory", "other")
"""Parts of L1's passes where the others are not known."""
_ADDRESSLESS = ("S2R", "SHFL")
"""Instructions that pass through L1's data stage without an address."""


_WITH_LOCAL = ", local memory included"


class _Amount(NamedTuple):
    value: float
    sources: tuple[Evidence, ...] = ()
    note: str = ""
    off: float = 0.0
    """How far it may be off."""


@cached_per_view
def unit_parts(view: LaunchView) -> tuple[UnitPartDocument, ...]:
    """Of each unit the largest first; parts below a hundredth are in `other`."""
    passes = _l1_passes(view)
    sectors = _l1_sectors(view) if len(passes) <= len(_ONLY_SHARED) else {}
    return (
        *_rows(view, "L1", "wavefronts", passes),
        *_rows(view, "L1", "sectors", sectors),
        *_rows(view, "L2", "sectors", _l2_sectors(view)),
    )


def _rows(
    view: LaunchView, unit: Literal["L1", "L2"], of: str, parts: Mapping[Part, _Amount]
) -> Iterator[UnitPartDocument]:
    total = sum(amount.value for amount in parts.values())
    small = [name for name, amount in parts.items() if amount.value < NEGLIGIBLE * total]
    kept = {name: amount for name, amount in parts.items() if name not in small and name != "other"}
    rest = total - sum(amount.value for amount in kept.values())
    ranked: list[tuple[Part, _Amount]] = sorted(kept.items(), key=lambda pair: -pair[1].value)
    if rest > _EXACT_PART * total:
        off = sum(parts[name].off for name in small)
        ranked.append(("other", _Amount(rest, off=off)))
    derived = view.ledger.derived
    for name, amount in ranked if total else ():
        label, slug = f"{name} of {unit}", f"part.{unit}.{of}.{name}"
        value = derived(slug, amount.value, f"{label}, {of}", *amount.sources)
        share = derived(f"{slug}.pct", 100 * amount.value / total, label, value, unit="%")
        is_exact = amount.off <= SAME_COUNT * amount.value
        text = Sentence(
            "{about}{share:.0f} of the {of}, {value:count}{note}",
            about="" if is_exact else "about ",
            share=share,
            of=of,
            value=value,
            note=amount.note,
        )
        yield UnitPartDocument(
            text=text,
            evidence=tuple(text.evidence.values()),
            unit=unit,
            part=name,
            amount=float(value.value),
            basis="exact" if is_exact else "estimate",
            of=of,
            share_pct=float(share.value),
        )


# --- L1


def _counted(view: LaunchView, *metrics: str) -> _Amount | None:
    """The sum of counters; None if one is missing."""
    counters = tuple(filter(None, map(view.get, metrics)))
    if len(counters) < len(metrics):
        return None
    return _Amount(sum(float(counter.value) for counter in counters), counters)


_SURFACE_SECTORS = ("surface_load_sectors", "surface_store_sectors")


def _textures(view: LaunchView) -> _Amount | None:
    """Sectors of texture and surface accesses; None: not counted, and there may be some."""
    if view.get("texture_sectors") is not None:
        surfaces = (name for name in _SURFACE_SECTORS if view.get(name) is not None)
        return _counted(view, "texture_sectors", *surfaces)
    used = view.value("inst_pipe_tex_active_pct")
    if used is None and view.opcodes:
        used = view.count(*TEXTURES | SURFACES)
    return _Amount(0.0) if used == 0 else None


def _l1_sectors(view: LaunchView) -> Mapping[Part, _Amount]:
    counts: dict[Part, _Amount | None] = {
        "loads": _counted(view, "global_load_sectors"),
        "stores": _counted(view, "global_store_sectors"),
        "atomics": _counted(view, "global_atomic_sectors", "global_reduction_sectors"),
        "local memory": _counted(view, "local_load_sectors", "local_store_sectors"),
        "textures": _textures(view),
    }
    parts = {part: amount for part, amount in counts.items() if amount is not None}
    if len(parts) < len(counts):
        return {}
    by_kind, loads = _sectors_of_loads(view), parts["loads"]
    if _are_close(sum(by_kind.values()), loads.value):
        parts |= {kind: _Amount(sectors, loads.sources) for kind, sectors in by_kind.items()}
    return parts


def _l1_passes(view: LaunchView) -> Mapping[Part, _Amount]:
    """Passes through L1's data stage by part; only shared memory and the rest, if those of single
    instructions do not add up to their counter."""
    share, cycles = view.get("l1_data_wavefronts_pct"), cycles_of_all_sms(view)
    if share is None or cycles is None or not share.value or view.capability < _ONE_PER_CYCLE:
        return {}
    total = float(share.value) / 100 * float(cycles.value)
    parts = _passes_of_instructions(view)
    if _are_close(sum(parts.values()), total):
        return {part: _Amount(value, (share, cycles)) for part, value in parts.items()}
    shared = view.get("src_shared_wavefronts") or view.get("shared_wavefronts")
    if shared is None or not NEGLIGIBLE * total <= shared.value <= (1 + SAME_COUNT) * total:
        return {}
    shared_part = _Amount(min(float(shared.value), total), (shared,))
    return {
        "shared memory": shared_part,
        "other": _Amount(total - shared_part.value, (share, cycles)),
    }


def _passes_of_instructions(view: LaunchView) -> Mapping[Part, float]:
    """Empty where they are not known: L1 takes several passes for atomics, by their data."""
    accesses = memory_accesses(view)
    if not view.opcodes or not accesses:
        return {}
    every = sum(access.cost for access in accesses)
    atomics_and_copies = (access for access in accesses if access.operation in ("atomic", "copy"))
    if sum(access.cost for access in atomics_and_copies) > NEGLIGIBLE * every:
        return {}
    off_chip = [access for access in accesses if access.memory != "shared"]
    loads = [x for x in off_chip if x.memory == "global" and x.operation == "load"]
    spread = sum(access.cost - access.wavefronts_of_data for access in loads)
    stores = sum(access.cost for access in off_chip if access.operation == "store")
    if spread > SAME_COUNT * every and stores > FEW_STORES * every:
        return {}  # two unknown numbers of passes could make up for each other
    parts: dict[Part, float] = {"other": float(view.count(*_ADDRESSLESS))}
    for kind, of_kind in _kinds_of_loads(view).items():
        parts[kind] = sum(access.cost for access in of_kind)
    for access in accesses:
        part: Part | None = "stores" if access.operation == "store" else None
        if access.memory != "global":
            part = "local memory" if access.memory == "local" else "shared memory"
        if part is not None:
            parts[part] = parts.get(part, 0.0) + access.cost
    return parts


@cached_per_view
def _kinds_of_loads(view: LaunchView) -> Mapping[Part, list[MemoryAccess]]:
    """Loads from global memory, asynchronous copies included, by what the machine code tells of
    their addresses. Gathers: threads access what loaded data choose."""
    loads = [
        access
        for access in memory_accesses(view)
        if access.memory == "global" and access.operation in ("load", "copy")
    ]
    uniform, gathered, code = uniform_accesses(view, loads), frozenset[int](), view.code
    if code is not None:
        from keet.analysis.machine_code.analyses.address_patterns import is_gather

        gathers = (access.position for access in code.accesses if is_gather(access))
        gathered = frozenset(code.addresses(gathers))
    by_kind: dict[Part, list[MemoryAccess]] = {"loads": [], "uniform loads": [], "gathers": []}
    for load in loads:
        kind: Part = "gathers" if load.address in gathered else "loads"
        by_kind["uniform loads" if uniform.get(load.address) else kind].append(load)
    return by_kind


def gathered_share(view: LaunchView) -> float:
    """Of the sectors of loads from global memory, the part that gathers touch, from 0 to 1."""
    sectors = _sectors_of_loads(view)
    return sectors["gathers"] / (sum(sectors.values()) or 1.0)


def _sectors_of_loads(view: LaunchView) -> Mapping[Part, float]:
    by_kind = _kinds_of_loads(view).items()
    return {kind: sum(access.sectors or 0.0 for access in loads) for kind, loads in by_kind}


def _are_close(first: float, second: float) -> bool:
    return abs(first - second) <= SAME_COUNT * second


# --- L2


def _l2_sectors(view: LaunchView) -> Mapping[Part, _Amount]:
    """Sectors that L1 reads from and writes to L2."""
    reads, writes = _counted(view, "l2_l1_read_sectors"), _counted(view, "l2_l1_write_sectors")
    if reads is None or writes is None:
        return {}
    parts: dict[Part, _Amount] = {"loads": reads, "stores": writes}
    if (atomics := _l2_atomics(view)) is not None:
        parts["atomics"] = atomics
    whole = _counted(view, "l2_l1_sectors")
    counted = sum(amount.value for amount in parts.values())
    if whole is not None and whole.value > (1 + SAME_COUNT) * counted:
        parts["other"] = _Amount(whole.value - counted, whole.sources)
    if any(view.value(metric) for metric in ("local_load_sectors", "local_store_sectors")):
        parts |= dict(_local(view, reads, writes)) or {
            "loads": reads._replace(note=_WITH_LOCAL),
            "stores": writes._replace(note=_WITH_LOCAL),
        }
    parts |= dict(_gathered(view, parts["loads"]))
    return parts


def _l2_atomics(view: LaunchView) -> _Amount | None:
    """As L2 counts them, else as L1 does: each of them goes to L2."""
    kinds = ("reduction", "atomic")
    by_kind = [view.get(f"l2_{k}_sectors") or view.get(f"global_{k}_sectors") for k in kinds]
    counters = tuple(filter(None, by_kind))
    if len(counters) < len(kinds):
        return None
    return _Amount(sum(float(counter.value) for counter in counters), counters)


def _local(view: LaunchView, reads: _Amount, writes: _Amount) -> Iterator[tuple[Part, _Amount]]:
    """Local memory apart from loads and stores, where L1's counters account for L2's."""
    names = ("local_load_sectors", "local_store_sectors", "global_store_sectors")
    loads, stores, global_stores = (_counted(view, name) for name in names)
    if loads is None or stores is None or global_stores is None:
        return
    every_store = stores.value + global_stores.value
    if not _are_close(every_store, writes.value):
        return
    missed = _counted(view, "global_load_sectors_missed")
    hits = _counted(view, "local_load_hit_rate_pct")
    if hits is not None:
        least = most = min(loads.value * (1 - hits.value / 100), reads.value)
    elif missed is not None:  # L2 may answer one read for several SMs
        least, most = max(0.0, reads.value - missed.value), min(loads.value, reads.value)
    else:
        return
    if most - least > SAME_COUNT * (reads.value + writes.value):
        return
    back, gone = (least + most) / 2, stores.value / every_store * writes.value
    off, sources = (most - least) / 2, (*loads.sources, *stores.sources, *reads.sources)
    yield "local memory", _Amount(back + gone, sources, off=off)
    left = off + SAME_COUNT * reads.value  # a difference of counts of two passes
    yield "loads", _Amount(reads.value - back, reads.sources, off=left if back else 0.0)
    yield "stores", _Amount(writes.value - gone, writes.sources)


def _gathered(view: LaunchView, loads: _Amount) -> Iterator[tuple[Part, _Amount]]:
    """Gathers apart from other loads, where it is certain enough how many of either miss L1: if
    nearly all sectors of loads miss, or nearly all sectors are of one kind."""
    sectors = _sectors_of_loads(view)
    gathers, every = sectors["gathers"], sum(sectors.values())
    if not gathers:
        return
    most = min(gathers, loads.value)
    least = max(0.0, loads.value - (every - gathers))
    if most - least > SAME_COUNT * loads.value:
        return
    middle, off = (most + least) / 2, loads.off + (most - least) / 2
    yield "gathers", _Amount(middle, loads.sources, off=off)
    yield "loads", _Amount(loads.value - middle, loads.sources, off=off)
