"""Accesses that take many passes through L1: bank conflicts, or scattered global addresses."""

from __future__ import annotations

from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, kept_waits
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.analysis.time_model import INDIRECT, Effect, TimeModel
from keet.evidence import Evidence, Sentence
from keet.records import NamedTuple

REPLAYED = Parameter(
    2.0, "largest ratio of L1 busy to LSU busy for accesses without replays", "judgement"
)


class Replays(NamedTuple):
    uses_shared: bool
    """Whether the kernel has shared memory of its own, so that bank conflicts are likely."""
    shown: tuple[Sentence, Effect, tuple[Evidence, ...]]
    """Text, effect and evidence of the candidate."""


def replays(view: LaunchView, model: TimeModel) -> Replays | None:
    """L1 is busy much longer than the instructions require, and no counter shows why."""
    stage, asked = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    measured = ("src_l2_sectors_global", "bank_conflicts_load", "global_load_sectors")
    if stage is None or asked is None or any(view.get(metric) for metric in measured):
        return None
    if model.busiest not in ("L1", "L2"):
        return None
    if model.loads.get("DRAM", 0.0) > model.pressure * INDIRECT:
        return None  # L2 only passes on DRAM's bytes
    shared = view.value("shared_memory_per_block") or 0.0
    uses_shared = shared > (view.value("shared_memory_driver") or 0.0)
    times = view.ratio("l1_passes", "L1 busy over LSU busy", stage, asked)
    if times is None:
        return None
    kept = min(1.0, REPLAYED / max(float(times.value), 1.0))
    what = "scattered addresses or bank conflicts" if uses_shared else "scattered addresses"
    text = (
        "L1 is busy for {stage:.0f} of the time and the LSU pipe that feeds it for {asked:.0f}, "
        "{times:.1f} times less: an access takes many passes through L1, as with {what}."
    )
    sentence = Sentence(text, stage=stage, asked=asked, times=times, what=what)
    waits = kept_waits(model, (*MEMORY_WAITS, *MIO_WAITS), 1 - kept)
    effect = Effect({"L1": kept, "L2": kept}, waits)
    return Replays(uses_shared, (sentence, effect, (times, stage, asked)))
