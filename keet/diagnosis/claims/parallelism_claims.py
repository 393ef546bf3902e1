"""Evaluates a model's claim that work can be spread better: its effect on time, or a refusal.

Over blocks, warps per SM, SMs with equal work, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keet.analysis.candidate import HIDEABLE, MAX_GAIN, covered_waits, kept_waits
from keet.analysis.decisions.uneven import evenness
from keet.analysis.kernel.grid_use import grid_shape, resident
from keet.analysis.kernel.work_per_warp import chain_share, working_part
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.claims.claim import WorkClaim
from keet.diagnosis.claims.claim_effect import (
    ClaimEffect,
    Refusal,
    claimed,
    claimed_share,
    in_unit,
    removable,
    share_problem,
)
from keet.units import Quantity

_ClaimFunction = Callable[[WorkClaim, LaunchView, TimeModel], ClaimEffect | Refusal]


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
    """More blocks, on more SMs or more per SM."""
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
        waits=kept_waits(model, HIDEABLE, 1 - max(on_each, 1 / MAX_GAIN) ** part),
        longest_sm=max(shape.spread / after, 1 / MAX_GAIN) ** part,
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
    if problem is not None:
        return problem
    even = evenness(view)
    if even is None:
        return Refusal("The report does not say how long each SM was active.")
    removed = removable(claim.removed or 0.0)
    share = claimed_share(view, "the difference between SMs", claim.removed or 0.0, even.ratio)
    longest = 1 - removed * (1 - min(1.0, float(even.ratio.value)))
    # An SM counts as active while one long block is left; other blocks could run there then.
    filled = resident(view) ** (1 - longest) if claim.finding == "load_imbalance" else 1.0
    text = (
        f"SMs have unequal work: {even.text}; by the model's reading of the source, "
        f"{share:.0f} of the difference can go."
    )
    del model
    return ClaimEffect(
        text,
        Effect(longest_sm=max(longest, 1 / MAX_GAIN), every_wait=filled),
        (even.share, even.ratio, share),
    )


_SPREADS: Mapping[str, _ClaimFunction] = {"blocks": _blocks, "warps": _warps, "balance": _balance}

# --- launches


def launch_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    """Removed launches, each with its start, its drain and the gap to the next."""
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
