"""Whether the report shows that a claimed cause is absent.

One check per finding: the evidence that it needs, and the limit beyond which the cause is absent.
The limits are those of the candidates. Missing data contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from keet.analysis.candidate import LEAST_PART, part_of
from keet.analysis.candidates.global_memory import WIDEST, access_width
from keet.analysis.candidates.instructions import OVERHEAD, TENSOR_IDLE
from keet.analysis.candidates.latency_hiding import USUAL, limiter_of
from keet.analysis.candidates.pipes import NEAR_BUSIEST
from keet.analysis.hardware.ceilings import HOST_LINK
from keet.analysis.kernel.grid_use import even_share, even_text, evenness, grid_shape, shortness
from keet.analysis.kernel.inactive_threads import WARP
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import DEVICE_WIDE, SKEW_FROM, TimeModel
from keet.evidence import Evidence
from keet.findings import Absence
from keet.units import Quantity

Check = Callable[[LaunchView, TimeModel], Absence | None]


def _least() -> float:
    """Share of work or waiting below which it is no cause: as little as any fix leaves."""
    return 1 - parameter("most_removed")


def _low_share(share: Evidence | None, least: float) -> TypeGuard[Evidence]:
    """Whether a share in percent is below `least` (0 to 1)."""
    return share is not None and float(share.value) < 100 * least


# --- memory


def _coalesced(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    sectors, ideal = view.get("src_l2_sectors_global"), view.get("src_l2_sectors_global_ideal")
    if sectors is None or ideal is None:
        return None
    if not sectors.value:
        return "The kernel does not access global memory.", (sectors,)
    used = view.percent("ideal_sectors_share", "ideal of all global sectors", ideal, sectors)
    if used is None or float(used.value) < 100 * (1 - _least()):
        return None
    text = f"Global accesses touch {sectors:.0f}s, and {used:.0f} of that is the ideal."
    return text, (sectors, used)


def _wide(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    width, executed = access_width(view), view.get("inst_executed")
    if width is None or executed is None or width < WIDEST:
        return None
    shown = view.ledger.derived(
        "access_width", Quantity(width, "byte"), "bytes per thread and access", executed
    )
    return f"A global access moves {shown:.1f}s per thread, as many as it can.", (shown,)


def _no_conflicts(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    kinds = ("load", "store")
    found = [view.get(f"bank_conflicts_{kind}") for kind in kinds]
    fronts = [view.get(f"shared_{kind}_wavefronts") for kind in kinds]
    every = [each for each in (*found, *fronts) if each is not None]
    if len(every) < 2 * len(kinds):
        return None
    conflicts = view.total("bank_conflicts", "shared-memory bank conflicts", *found)
    whole = view.total("shared_wavefronts", "shared-memory wavefronts", *fronts)
    if conflicts is None or whole is None or _is_matrix_load(view):
        return None
    if not whole.value:
        return "The kernel does not access shared memory.", (whole,)
    label = "shared wavefronts lost to bank conflicts"
    share = view.percent("bank_conflict_share", label, conflicts, whole)
    if not _low_share(share, _least()):
        return None
    return f"{share:.1f} of the wavefronts of shared memory are bank conflicts.", (share, whole)


def _is_matrix_load(view: LaunchView) -> bool:
    """Other accesses have other conflict counters."""
    others = ("ldmatrix", "ldgsts", "atomic")
    return any(view.value(f"bank_conflicts_{kind}") for kind in others)


def _no_local(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    parts = [view.get(f"local_{kind}_sectors") for kind in ("load", "store")]
    local = view.total("local_sectors", "local-memory sectors", *parts)
    if None in parts or local is None:
        return None
    world = [view.get(f"global_{kind}_sectors") for kind in ("load", "store")]
    rest = view.total("global_sectors", "global-memory sectors", *world)
    every = view.total("l1_sectors", "sectors that L1 serves", local, rest)
    if not local.value:
        return "The kernel does not access local memory.", (local,)
    if every is None or rest is None:
        return None
    share = view.percent("local_share", "local memory of L1 sectors", local, every)
    if not _low_share(share, _least()):
        return None
    return f"{share:.1f} of the sectors that L1 serves are local memory.", (share, local)


def _no_atomics(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    kinds = ("global_atomic", "global_cas", "global_reduction", "shared_atomic")
    counted = [view.get(f"{kind}_inst") for kind in kinds]
    known = [each for each in counted if each is not None]
    if view.opcodes:
        executed = view.executed("ATOM", "RED") - view.executed("REDUX")
        return None if executed > 0 else ("The kernel executes no atomics.", tuple(known))
    if len(known) < len(counted) or any(each.value for each in known):
        return None
    return "The kernel executes no atomics.", tuple(known)


def _even_slices(view: LaunchView, model: TimeModel) -> Absence | None:
    most, usual = view.get("l2_slice_sectors_max"), view.get("l2_slice_sectors_avg")
    if model.hot_line is not None or most is None or usual is None:
        return None
    skew = view.ratio("l2_slice_skew", "busiest L2 slice over the average", most, usual)
    if skew is None or float(skew.value) >= SKEW_FROM:
        return None
    return f"The busiest slice of L2 looks up {skew:.2f} times the average.", (skew, most, usual)


def _no_link(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    if view.ceilings.share(HOST_LINK) != 0.0 or view.ceilings.share("NVLink"):
        return None
    return "The kernel does not access memory of the host.", ()


# --- parallelism


def _full_grid(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    shape = grid_shape(view)
    if shape is None or shape.spread < 1 or shape.waves is None or shape.waves.value < 1:
        return None
    text = f"The grid has {shape.grid:.0f}s and fills all SMs: waves per SM {shape.waves:.2f}."
    return text, (shape.grid, shape.waves)


def _no_tail(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    shape, even = grid_shape(view), evenness(view)
    if shape is not None and shape.spread < 1:
        return f"The grid has {shape.grid:.0f}s: some SMs get none at all.", (shape.grid,)
    if even is None or float(even.value) < parameter("balanced"):
        return None
    share = even_share(view, even)
    return f"{_EVEN}: {even_text(share)}.", (share, even)


_EVEN = "SMs are active about equally long"


def _balanced(view: LaunchView, model: TimeModel) -> Absence | None:
    """Uneven warps of a block wait at barriers or exit early."""
    del model
    even, barrier = evenness(view), view.stalls.get("barrier", 0.0)
    reached, possible = view.get("achieved_occupancy_pct"), view.get("theoretical_occupancy_pct")
    if even is None or float(even.value) < parameter("balanced") or not view.stalls:
        return None
    if reached is None or possible is None or barrier >= _least():
        return None
    if reached.value < USUAL * float(possible.value):
        return None
    share = even_share(view, even)
    return f"{_EVEN}: {even_text(share)}.", (share, even, reached, possible)


def _covered(view: LaunchView, model: TimeModel) -> Absence | None:
    """Even without any waiting, the busiest unit would take nearly as long. L2 that passes on
    DRAM's data is not a limit of its own."""
    loads = dict(model.loads)
    if loads.get("DRAM", 0.0) >= parameter("passes_on"):
        loads.pop("L2", None)
    unit = max(loads, key=lambda name: loads[name], default="")
    busiest = view.ceilings.get(unit)
    if busiest is None or loads[unit] * (1 - model.fixed) + model.fixed < 1 / parameter("worth"):
        return None
    text = (
        f"Without any waiting, {busiest.spoken} would set the pace (busy: {busiest.reached:.0f})."
    )
    return text, (busiest.reached,)


def _not_limited(finding: str) -> Check:
    def check(view: LaunchView, model: TimeModel) -> Absence | None:
        del model
        possible = view.get("theoretical_occupancy_pct")
        reached = view.get("achieved_occupancy_pct")
        if possible is None:
            return None
        if possible.value < 100:
            limiter = limiter_of(view)
            return _other_limiter(view, finding) if limiter else None
        short = reached is None or reached.value < USUAL * 100
        if finding == "occupancy_limited_block" and short:
            return None
        return f"Occupancy is not limited: {possible:.0f} is possible.", (possible,)

    return check


_LIMITS = {
    "occupancy_limited_registers": "block_limit_registers",
    "occupancy_limited_shared": "block_limit_shared_memory",
}


def _other_limiter(view: LaunchView, finding: str) -> Absence | None:
    """Another resource limits the blocks per SM. The block size always matters to its limit."""
    own = view.get(_LIMITS.get(finding, "")) if finding in _LIMITS else None
    names = ("registers", "shared_memory", "warps", "sm")
    limits = [view.get(f"block_limit_{name}") for name in names]
    known = [each for each in limits if each is not None and each.value]
    tightest = min(known, key=lambda each: each.value, default=None)
    if own is None or tightest is None or own.value <= tightest.value:
        return None
    text = f"{own.label} would be {own:.0f}, and {tightest.label} is {tightest:.0f}."
    return text, (own, tightest)


def _stalled(state: str, waits_for: str) -> Check:
    def check(view: LaunchView, model: TimeModel) -> Absence | None:
        del model
        share = view.stall(state)
        if not view.stalls or view.stalls.get(state, 0.0) >= _least():
            return None
        if share is None:
            return f"No warp waits {waits_for}.", ()
        return f"Warps spend {share:.1f} of their time waiting {waits_for}.", (share,)

    return check


def _long_enough(view: LaunchView, model: TimeModel) -> Absence | None:
    duration = view.get("duration")
    if duration is None or duration.value <= 0 or shortness(view, model) > 0:
        return None
    return f"The kernel takes {duration}: launching it is a small part of that.", (duration,)


# --- instructions


def _full_warps(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    threads = view.get("active_threads_per_warp")
    if threads is None or float(threads.value) < WARP * (1 - _least()):
        return None
    return f"On average, {threads:.1f}s of a warp are active per instruction.", (threads,)


def _no_doubles(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    busy = view.ceilings.reached("FP64")
    doubles = part_of(view, "DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
    if view.all_executed and doubles < LEAST_PART:
        shown = (busy,) if busy is not None else ()
        return "The kernel executes no FP64 arithmetic to speak of.", shown
    if not view.all_executed and busy is not None and not busy.value:
        return f"The FP64 pipe is busy for {busy:.0f} of the time.", (busy,)
    return None


def _idle_xu(view: LaunchView, model: TimeModel) -> Absence | None:
    busy = view.ceilings.reached("XU")
    if busy is None or model.loads.get("XU", 0.0) >= _least():
        return None
    return f"The XU pipe is busy for {busy:.1f} of the time.", (busy,)


def _little_overhead(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    executed = view.get("inst_executed")
    if view.code is None or executed is None:
        return None
    part = sum(share for purpose, share in view.code.mix if purpose.value in OVERHEAD)
    if part >= _least():
        return None
    label = "of the executed instructions compute addresses, conditions and conversions"
    share = view.ledger.derived("overhead_share", Quantity(100 * part, "%"), label, executed)
    return f"{share:.1f} of the instructions are for addresses and conditions.", (share,)


def _tensor_in_use(view: LaunchView, model: TimeModel) -> Absence | None:
    del model
    busy = view.ceilings.reached("tensor")
    if busy is None or float(busy.value) <= 100 * TENSOR_IDLE:
        return None
    return f"The tensor cores are busy for {busy:.0f} of the time.", (busy,)


def _idle_pipes(view: LaunchView, model: TimeModel) -> Absence | None:
    """No unit of the SM is near to being the busiest one."""
    within = {unit: load for unit, load in model.loads.items() if unit not in DEVICE_WIDE}
    top = max(within, key=lambda unit: within[unit], default=None)
    reached = view.ceilings.get(top or "")
    if reached is None or within[top or ""] >= NEAR_BUSIEST * model.pressure:
        return None
    busiest = view.ceilings.get(model.busiest or "")
    text = f"The busiest pipe is at {reached.reached:.0f} of its peak"
    if busiest is None:
        return f"{text}.", (reached.reached,)
    text += f", and {busiest.spoken} at {busiest.reached:.0f}."
    return text, (reached.reached, busiest.reached)


# --- rooflines


def _below(units: tuple[str, ...], limit: str) -> Check:
    def check(view: LaunchView, model: TimeModel) -> Absence | None:
        known = [view.ceilings.get(unit) for unit in units]
        found = [each for each in known if each is not None]
        if not found or max(model.loads[each.name] for each in found) >= parameter(limit):
            return None
        top = max(found, key=lambda each: each.share)
        text = f"No unit of that roofline is near its peak ({top.spoken}: {top.reached:.0f})."
        return text, (top.reached,)

    return check


CHECKS: Mapping[str, Check] = {
    "uncoalesced_global": _coalesced,
    "narrow_access": _wide,
    "shared_bank_conflict": _no_conflicts,
    "local_memory_spill": _no_local,
    "atomic_contention": _no_atomics,
    "l2_partition_imbalance": _even_slices,
    "pcie_or_nvlink_traffic": _no_link,
    "small_grid": _full_grid,
    "tail_effect": _no_tail,
    "load_imbalance": _balanced,
    "latency_bound": _covered,
    "occupancy_limited_registers": _not_limited("occupancy_limited_registers"),
    "occupancy_limited_shared": _not_limited("occupancy_limited_shared"),
    "occupancy_limited_block": _not_limited("occupancy_limited_block"),
    "barrier_bound": _stalled("barrier", "at barriers"),
    "launch_bound": _long_enough,
    "warp_divergence": _full_warps,
    "fp64_promotion": _no_doubles,
    "sfu_bound": _idle_xu,
    "integer_overhead": _little_overhead,
    "no_tensor_core": _tensor_in_use,
    "instruction_fetch": _stalled("no_instruction", "for instructions to be fetched"),
    "pipe_saturated": _idle_pipes,
    "at_dram_roofline": _below(("DRAM",), "passes_on"),
    "at_compute_roofline": _below(("FMA", "tensor", "FP16", "FP64", "ALU", "XU", "issue"), "leads"),
}
"""By finding. Two have no check: no counter shows which precision suffices, and data that a launch
reads once may also be moved by other launches."""
