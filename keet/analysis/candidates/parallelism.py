"""Candidates in the distribution of work: launch cost, grid size, waves, balance."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import (
    HIDEABLE,
    MAX_GAIN,
    Basis,
    Candidate,
    is_matrix_product,
    kept_waits,
)
from keet.analysis.kernel.grid_use import (
    GridShape,
    even_share,
    even_text,
    evenness,
    grid_shape,
    least_kept,
    resident,
    shortness,
    start_ns,
)
from keet.analysis.kernel.work_per_warp import (
    FEW_INSTRUCTIONS,
    chain_share,
    instructions_per_warp,
    working_part,
)
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.time_model import Effect, TimeModel
from keet.evidence import Evidence
from keet.units import Quantity


def launch_cost(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """Starting and draining a grid and the gap to the next one, which one long kernel pays only
    once."""
    duration, short = view.get("duration"), shortness(view, model)
    each = instructions_per_warp(view)
    if duration is None or not short or (each is not None and each.value < _NOTHING):
        return
    taken, gap = float(duration.value), parameter("launch_gap_ns")
    # In one long kernel, a step costs only its work, not start, end and the gap to the next launch.
    times = (taken + gap) / max(taken - start_ns(view, model), 0.2 * taken)
    if (view.value("grid_size") or 0) <= 1:  # a marker or a last step: nothing to merge
        times = 1 + gap / taken
    text, evidence = _launch_text(view, duration, is_long=taken >= parameter("short_kernel_ns"))
    yield Candidate(
        "launch_bound",
        text,
        times**short,
        evidence,
        view.launch_places,
        "assumed",
    )


_NOTHING = 4.0
"""Instructions per warp up to which a kernel does no work that could be moved elsewhere."""


def _launch_text(
    view: LaunchView, duration: Evidence, *, is_long: bool
) -> tuple[str, tuple[Evidence, ...]]:
    most, elapsed = view.get("sm_active_cycles_max"), view.get("elapsed_cycles")
    if not is_long or most is None or elapsed is None or not elapsed.value:
        return f"The kernel takes {duration}: about as long as launching it.", (duration,)
    idle = Quantity(100 * max(0.0, 1 - float(most.value) / float(elapsed.value)), "%")
    share = view.ledger.derived("launch_share", idle, "no SM is active", most, elapsed)
    text = f"For {share:.0f} of the {duration} no SM is active: the grid starts and drains."
    each = instructions_per_warp(view)
    if each is None or each.value > FEW_INSTRUCTIONS:
        return text, (share, duration)
    text += f" A warp executes {each:.0f} instructions on average."
    return text, (share, duration, each)


def small_grid(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    shape = grid_shape(view)
    if shape is None:
        return
    waves = float(shape.waves.value) if shape.waves else 1.0
    if shape.spread < 1:
        within = max(min(1.0, waves / shape.spread), least_kept())
        if is_matrix_product(view):  # more blocks per SM have smaller tiles and reuse less
            within = 1.0
        part = working_part(view)  # more blocks need work that can be done at the same time
        effect = Effect(
            waits=kept_waits(model, HIDEABLE, 1 - within**part),
            longest_sm=max(shape.spread, 1 / MAX_GAIN) ** part,
            least=chain_share(view),
        )
        # The launch shows SMs without a block, but not whether a block's work can be split, or
        # whether more blocks on an SM would help.
        spread_alone = model.gain(effect._replace(waits={}))
        known = view.stalls and spread_alone**2 >= model.gain(effect)
        basis: Basis = "measured" if known else "assumed"
    elif waves < 1:  # every SM has a block and could hold more
        times = 1 / max(waves ** parameter("partial_wave"), least_kept())
        # Barriers stay, here and above: smaller blocks have as many of them.
        effect = Effect(waits=kept_waits(model, HIDEABLE, 1 - 1 / times), least=chain_share(view))
        basis = "assumed"
    else:
        return
    sms = view.ledger.derived("sm_count", Quantity(shape.sms, ""), "SMs of the GPU")
    yield Candidate(
        "small_grid",
        _small_text(shape, sms),
        effect,
        tuple(e for e in (shape.grid, sms, shape.waves) if e is not None),
        view.launch_places,
        basis,
        # A very short kernel mostly waits for its first data; more blocks would wait too.
        likelihood=(1 - parameter("indirect") * shortness(view, model))
        * _can_be_split(view, shape),
    )


def _can_be_split(view: LaunchView, shape: GridShape) -> float:
    """Likelihood that a block's work can be split over more blocks. Without warp states, a chain of
    dependent steps looks like a loop over independent items. Work that already uses a quarter of
    the SMs can be split further."""
    return 1.0 if view.stalls else max(parameter("indirect"), min(1.0, 4 * shape.spread))


def _small_text(shape: GridShape, sms: Evidence) -> str:
    blocks = f"{shape.grid:.0f}{'' if shape.grid.value == 1 else 's'}"
    waves = f" (waves per SM: {shape.waves:.2f})" if shape.waves else ""
    if shape.spread < 1:
        return f"A grid of {blocks} does not fill a GPU of {sms:.0f} SMs{waves}."
    return f"A grid of {blocks} is smaller than what {sms:.0f} SMs can hold at a time{waves}."


def uneven(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """SMs that are idle while others work: the last wave, or blocks of unequal length."""
    del model
    shape, usual = grid_shape(view), view.get("sm_active_cycles")
    most = view.get("sm_active_cycles_max")
    if most is None:
        yield from _uneven_at_all(view, usual)
        return
    even = evenness(view)
    if even is None:
        return
    share = even_share(view, even)
    expected = shape.expected if shape else 1.0
    if shape and shape.waves and shape.spread == 1 and shape.waves.value > 1:
        tail = min(1.0, max(float(even.value), expected) / parameter("balanced"))
        yield Candidate(
            "tail_effect",
            f"Waves per SM: {shape.waves:.2f}. The last wave leaves SMs idle: {even_text(share)}.",
            Effect(longest_sm=tail),
            (shape.waves, share, even),
            view.launch_places,
        )
    rest = min(1.0, float(even.value) / expected / parameter("balanced"))
    yield Candidate(
        "load_imbalance",
        f"SMs have unequal work: {even_text(share)}.",
        Effect(longest_sm=max(rest, 1 / MAX_GAIN), every_wait=resident(view) ** (1 - rest)),
        (share, even, *((shape.waves,) if shape and shape.waves else ())),
        view.sampled_places,
    )


def _uneven_at_all(view: LaunchView, usual: Evidence | None) -> Iterator[Candidate]:
    """For reports without a value per SM: only in long launches, where launch and drain do not
    matter."""
    elapsed, shape = view.get("elapsed_cycles"), grid_shape(view)
    duration = view.value("duration") or 0.0
    if usual is None or elapsed is None or not duration:
        return
    share = view.percent("sm_active_share", "of the time the average SM is active", usual, elapsed)
    if share is None:
        return
    start = parameter("short_kernel_ns") / duration
    expected = shape.expected if shape else 1.0
    rest = min(1.0, (float(share.value) / 100 + start) / expected / parameter("balanced"))
    yield Candidate(
        "load_imbalance",
        f"The average SM is active for {share:.0f} of the time, although every SM could have a "
        "block: probably few blocks do most of the work.",
        Effect(longest_sm=max(rest, 1 / MAX_GAIN)),
        (share, usual, elapsed),
        view.sampled_places,
        "assumed",
    )


MAKERS = (launch_cost, small_grid, uneven)
