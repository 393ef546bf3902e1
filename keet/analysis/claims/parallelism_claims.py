"""Claims on waiting, spread of the work, precision, redundant work and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keet.analysis.candidates.candidate import (
    HIDEABLE,
    MOST,
    is_matrix_product,
    kept_waits,
    part_of,
)
from keet.analysis.candidates.latency_hiding import covered_waits
from keet.analysis.candidates.parallelism import grid_shape, resident
from keet.analysis.candidates.precision import in_single_precision
from keet.analysis.claims.claim import WorkClaim
from keet.analysis.claims.claim_effect import (
    ClaimEffect,
    Refusal,
    claimed,
    claimed_share,
    in_unit,
    removable,
    share_problem,
)
from keet.analysis.kernel.work_per_warp import chain_share, working_part
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.catalog import stalls
from keet.units import Quantity

# --- waiting


def waiting_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    problem = share_problem(claim.removed)
    if problem is not None:
        return problem
    if not view.stalls:
        return Refusal("The report does not say what warps wait for.")
    state, removed = claim.of.strip().lower(), claim.removed or 0.0
    if state in ("all", ""):
        share = claimed_share(view, "all waiting", removed)
        text = f"By the model's reading of the source, {share:.0f} of all waiting can go."
        return ClaimEffect(text, Effect(every_wait=1 - _most_covered("", removed)), (share,))
    if state not in stalls():
        return Refusal(f"{claim.of!r} is no warp state; `all` is all of them.")
    waited = view.stall(state)
    if waited is None:
        return Refusal(f"No warp waited for {stalls()[state].waits_for}.")
    share = claimed_share(view, f"the waiting for {stalls()[state].label}", removed, waited)
    gone = _most_covered(state, removed)
    units = {"ADU": 1 - gone * parameter("indirect")} if state == "barrier" else {}
    return ClaimEffect(
        f"Warps wait {waited:.0f} of their time for {stalls()[state].waits_for}; by the model's "
        f"reading of the source, {share:.0f} of that can go.",
        Effect(units, kept_waits(model, (state,), gone)),
        (waited, share),
    )


def _most_covered(state: str, removed: float) -> float:
    """As much as keet expects of any fix: of barriers, and of waits that more warps cover."""
    if state == "barrier":
        return min(removed, parameter("barrier_waits"))
    if state in HIDEABLE or not state:
        return min(removed, 1 - 1 / parameter("most_occupancy"))
    return removable(removed)


# --- redundant work


def redundant_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    problem = share_problem(claim.removed)
    if problem is not None:
        return problem
    kept = 1 - removable(claim.removed or 0.0)
    share = claimed_share(view, "the launch's work", claim.removed or 0.0)
    text = f"By the model's reading of the source, {share:.0f} of what the launch does can go."
    units = dict.fromkeys(model.loads, kept)
    return ClaimEffect(text, Effect(units, every_wait=kept), (share,), model.busiest, kept)


# --- precision


def precision_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    enough = claim.of.strip().lower()
    if enough not in _PRECISIONS:
        return Refusal("A precision that suffices is FP32, FP16 or tensor.")
    return _PRECISIONS[enough](claim, view, model)


def _single(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    busy = view.ceilings.reached("FP64")
    if view.all_executed and not part_of(view, "DFMA", "DADD", "DMUL", "DSETP", "DMNMX"):
        return Refusal("The launch executes no FP64 arithmetic.")
    if busy is None:
        return Refusal("The report does not say how busy the FP64 pipe was.")
    slipped = claim.finding == "fp64_promotion"
    text = (
        f"The FP64 pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "single precision suffices."
    )
    effect = in_single_precision(view, model, slipped=slipped)
    return ClaimEffect(text, effect, (busy,), "FP64", effect.units["FP64"])


def _half(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """Two values per instruction."""
    del claim, model
    busy, part = view.ceilings.reached("FMA"), part_of(view, "FFMA", "FADD", "FMUL")
    if busy is None or not part:
        return Refusal("The report shows no single-precision arithmetic.")
    kept = parameter("indirect")
    text = (
        f"The FMA pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "half precision suffices."
    )
    units = {"FMA": kept, "issue": 1 - part * (1 - kept)}
    return ClaimEffect(text, Effect(units, every_wait=1 - part * (1 - kept)), (busy,), "FMA", kept)


def _tensor(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """A matrix product leaves little; of other code, what is no multiply-add stays."""
    del claim, model
    busy, part = view.ceilings.reached("FMA"), part_of(view, "FFMA", "HFMA")
    if busy is None or not part:
        return Refusal("The report shows no multiply-adds that tensor cores could do.")
    kept = parameter("tensor_work")
    around = kept if is_matrix_product(view) else 1 - part * (1 - kept)
    text = (
        f"The FMA pipe is busy for {busy:.0f} of the time; by the model's reading of the source, "
        "tensor cores can do its multiply-adds."
    )
    units = dict.fromkeys(("issue", "LSU", "L1", "ALU"), around) | {"FMA": kept}
    return ClaimEffect(text, Effect(units, every_wait=around), (busy,), "FMA", kept)


_Maker = Callable[[WorkClaim, LaunchView, TimeModel], ClaimEffect | Refusal]
_PRECISIONS: Mapping[str, _Maker] = {
    "fp32": _single,
    "fp16": _half,
    "bf16": _half,
    "tensor": _tensor,
    "tf32": _tensor,
}

# --- how the work is spread


def parallelism_claim(
    claim: WorkClaim, view: LaunchView, model: TimeModel
) -> ClaimEffect | Refusal:
    made = _SPREADS.get(claim.of.strip().lower())
    if made is None:
        return Refusal(f"Parallelism is claimed of {', '.join(_SPREADS)}; not of {claim.of!r}.")
    return made(claim, view, model)


def _stated(claim: WorkClaim, unit: str) -> Quantity | Refusal:
    if claim.needed is None:
        return Refusal(f"The claim needs the number of {unit}s that there could be.")
    return in_unit(claim.needed, unit)


def _blocks(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """More blocks on more SMs, or more of them on each."""
    needed = _stated(claim, "block")
    shape = grid_shape(view)
    if isinstance(needed, Refusal):
        return needed
    if shape is None:
        return Refusal("The report does not say how many blocks the grid has.")
    shown = claimed(view, "blocks", needed, shape.grid)
    if not shown.value > shape.grid.value:
        return Refusal(f"The grid has {shape.grid:.0f}s already.", (shape.grid, shown))
    times = float(shown.value) / float(shape.grid.value)
    after = min(1.0, shape.spread * times)
    waves = float(shape.waves.value) if shape.waves else shape.spread
    held, more = min(1.0, waves / shape.spread), min(1.0, waves * times / after)
    part = working_part(view)
    on_each = held / more if shape.spread < 1 else (held / more) ** parameter("partial_wave")
    effect = Effect(
        waits=kept_waits(model, HIDEABLE, 1 - max(on_each, 1 / MOST) ** part),
        longest_sm=max(shape.spread / after, 1 / MOST) ** part,
        least=chain_share(view),
    )
    text = (
        f"The grid has {shape.grid:.0f}s; by the model's reading of the source, {shown:.0f}s can "
    )
    return ClaimEffect(f"{text}share the work.", effect, (shape.grid, shown))


def _warps(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    needed = _stated(claim, "warp")
    now, most = view.get("achieved_warps_per_sm"), view.get("device_warps_per_sm")
    if isinstance(needed, Refusal):
        return needed
    if now is None or not now.value:
        return Refusal("The report does not say how many warps an SM held.")
    shown = claimed(view, "warps per SM", needed, now)
    if not shown.value > now.value:
        return Refusal(f"An SM holds {now:.1f}s already.", (now, shown))
    if most is not None and shown.value > most.value:
        return Refusal(f"An SM holds {most:.0f}s at the most.", (most, shown))
    waves = view.value("waves_per_sm") or parameter("most_occupancy")
    times = min(float(shown.value) / float(now.value), parameter("most_occupancy"), max(1.0, waves))
    text = f"An SM holds {now:.1f}s on average; as the model states, {shown:.0f}s can be on it."
    return ClaimEffect(text, Effect(waits=covered_waits(model, times)), (now, shown))


def _balance(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    problem = share_problem(claim.removed)
    usual, most = view.get("sm_active_cycles"), view.get("sm_active_cycles_max")
    if problem is not None:
        return problem
    label = "average over longest active SM"
    even = usual and most and view.ratio("sm_evenness", label, usual, most)
    if even is None:
        return Refusal("The report does not say how long each SM was active.")
    removed = removable(claim.removed or 0.0)
    share = claimed_share(view, "the difference between SMs", claim.removed or 0.0, even)
    longest = 1 - removed * (1 - min(1.0, float(even.value)))
    # An SM is active while a single long block is left: others come to it then.
    filled = resident(view) ** (1 - longest) if claim.finding == "load_imbalance" else 1.0
    text = (
        f"The average SM is active for {even:.2f} of the cycles of the longest one; by the model's "
        f"reading of the source, {share:.0f} of the difference can go."
    )
    del model
    return ClaimEffect(
        text, Effect(longest_sm=max(longest, 1 / MOST), every_wait=filled), (even, share)
    )


_SPREADS: Mapping[str, _Maker] = {"blocks": _blocks, "warps": _warps, "balance": _balance}

# --- launches


def launch_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """Launches that go, each with its start, its drain and the gap to the next."""
    problem = share_problem(claim.removed)
    duration = view.get("duration")
    if problem is not None:
        return problem
    if duration is None or not duration.value:
        return Refusal("The report does not say how long the launch took.")
    taken, gap = float(duration.value), parameter("launch_gap_ns")
    start = max(parameter("least_kernel_ns"), model.fixed * taken)
    saved = min((claim.removed or 0.0) * (start + gap), taken + gap - 0.2 * taken)
    share = claimed_share(view, "the launches", claim.removed or 0.0, duration)
    text = (
        f"The kernel takes {duration}, its start and end included; by the model's reading of the "
        f"source, {share:.0f} of the launches can go."
    )
    return ClaimEffect(text, (taken + gap) / (taken + gap - saved), (duration, share))
