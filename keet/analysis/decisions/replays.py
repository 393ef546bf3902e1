"""Accesses that take many passes through L1: bank conflicts, or scattered global addresses.

Both keep L1 busy much longer than the instructions require. L2 tells them apart: a lookup for
packed addresses takes up to the four sectors of a line, one for scattered addresses takes one
sector. Bank conflicts do not reach L2. Where little of what passes through L1 reaches L2, its
lookups say nothing about the rest: scattered loads that hit L1 and bank conflicts look the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.candidate import MEMORY_WAITS, MIO_WAITS, kept_waits
from keet.analysis.hardware.stages import share_of, sm_elapsed_cycles
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import NOTABLE_PART, WIDEST, Parameter
from keet.analysis.time_model import SLICE_SECTORS, Effect, TimeModel, l2_cycles
from keet.evidence import Evidence, Sentence

REPLAYED = Parameter(
    2.0, "largest ratio of L1 busy to LSU busy for accesses without replays", "judgement"
)
COALESCED_WAITS = Parameter(
    1.3,
    "memory waiting that a fix removes, as a multiple of the load that it takes off a unit",
    "fit",
)
PACKED: Mapping[str, float] = {
    **dict.fromkeys(("7.0", "7.5", "8.6", "8.9", "12.0"), 4.0),
    "8.0": 2.0,
    "9.0": 3.1,
}
"""Sectors per lookup of L2 with packed addresses, by compute capability. A line has four; GPUs with
two L2 partitions look up more often. From launches whose counters show packed addresses."""
_LOOKUPS = "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed"
_SECTORS = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"
_PADDED_ROWS = (17, 33, 65, 129)
"""Words of a row of a padded tile."""
_WORD_BYTES = 4

Shown = tuple[Sentence, Effect, tuple[Evidence, ...]]
"""Text, effect and evidence of a candidate."""


class Replays(NamedTuple):
    scattered: Shown | None
    """As far as lookups of L2 take single sectors."""
    conflicts: Shown | None
    """As far as they take whole lines, and the kernel has shared memory that is not padded."""
    is_open: bool = False
    """L2 gets too little of what passes through L1 to tell the two apart."""


def replays(view: LaunchView, model: TimeModel) -> Replays | None:
    """L1 is busy much longer than the instructions require, and no counter shows why."""
    stage, asked = view.ceilings.reached("L1"), view.ceilings.reached("LSU")
    measured = ("src_l2_sectors_global", "bank_conflicts_load", "global_load_sectors")
    if stage is None or asked is None or any(view.get(metric) for metric in measured):
        return None
    times = view.ratio("l1_passes", "L1 busy over LSU busy", stage, asked)
    if times is None:
        return None
    passes = max(float(times.value), REPLAYED)
    repeated = (1 - REPLAYED / passes) * min(1.0, (passes - REPLAYED) / WIDEST)
    shared = view.value("shared_memory_per_block") or 0.0
    uses_shared = shared > (view.value("shared_memory_driver") or 0.0)
    if uses_shared and _part_in_l2(view, stage) < NOTABLE_PART:
        return Replays(None, None, is_open=True)
    sectors = sectors_per_lookup(view)
    single = single_sectors(view)
    if single is None:  # without shared memory there is only one explanation
        single = 0.0 if uses_shared else 1.0
    may_conflict = uses_shared and sectors is not None and not is_padded(view)
    evidence = tuple(filter(None, (times, stage, asked, sectors)))

    def shown(why: str, effect: Effect | None) -> Shown | None:
        return effect and (_text(why, stage, asked, times, sectors), effect, evidence)

    scattered = _effect(model, ("L1", "L2"), MEMORY_WAITS, repeated * single)
    conflicts = _effect(model, ("L1",), (), repeated * (1 - single)) if may_conflict else None
    return Replays(shown(_SCATTERED_TEXT, scattered), shown(_CONFLICTS_TEXT, conflicts))


def _part_in_l2(view: LaunchView, stage: Evidence) -> float:
    """Sectors that L2 looks up per pass through L1: an upper bound of the share of the passes whose
    sectors reach L2. 0: not known."""
    sectors = view.ledger.named(_SECTORS, "sectors that L2 looks up, of peak")
    peak = SLICE_SECTORS.get(view.launch.device.compute_capability or "")
    slices, l2 = view.value("device_l2_slices"), l2_cycles(view)
    cycles, sms = sm_elapsed_cycles(view.ledger), view.launch.device.sm_count
    if sectors is None or peak is None or not slices or not l2 or cycles is None or not sms:
        return 0.0
    passes = share_of(stage) * sms * float(cycles.value)
    return share_of(sectors) * peak * slices * l2 / passes if passes else 0.0


_SCATTERED_TEXT = ": the threads of a warp access scattered addresses"
_CONFLICTS_TEXT = (
    ": global accesses are packed, so the passes are repeats in shared memory, as with bank "
    "conflicts"
)


def _text(
    why: str, stage: Evidence, asked: Evidence, times: Evidence, sectors: Evidence | None
) -> Sentence:
    text = (
        "L1 is busy for {stage:.0f} of the time and the LSU pipe that feeds it for {asked:.0f}, "
        "{times:.1f} times less: an access takes many passes through L1{lookups}."
    )
    words = ". A lookup in L2 takes {sectors:.1f}s on average{why}"
    lookups = Sentence(words, sectors=sectors, why=why) if sectors else why
    return Sentence(text, stage=stage, asked=asked, times=times, lookups=lookups)


def _effect(
    model: TimeModel, units: tuple[str, ...], waits: tuple[str, ...], removed: float
) -> Effect | None:
    """Without the share `removed` of these units' work. Waiting decreases with the load that this
    takes off a unit: at little load, accesses do not wait for each other."""
    relief = removed * max(model.loads.get(unit, 0.0) for unit in units)
    if not relief:
        return None
    shorter = kept_waits(model, (*waits, *MIO_WAITS), min(1.0, relief * COALESCED_WAITS))
    return Effect(dict.fromkeys(units, 1 - removed), shorter)


@cached_per_view
def sectors_per_lookup(view: LaunchView) -> Evidence | None:
    """Sectors that a lookup of L2 takes, 1 to 4; None where the peaks of this GPU are not known."""
    sectors = view.ledger.named(_SECTORS, "sectors that L2 looks up, of peak")
    lookups = view.ledger.named(_LOOKUPS, "lookups of L2, of peak")
    peak = SLICE_SECTORS.get(view.launch.device.compute_capability or "")
    if sectors is None or lookups is None or not lookups.value or peak is None:
        return None
    times, label = float(sectors.value) / float(lookups.value) * peak, "sectors per lookup of L2"
    return view.derived("sectors_per_lookup", times, label, sectors, lookups, unit="sector")


def single_sectors(view: LaunchView) -> float | None:
    """Share of the lookups that take one sector, if the others take as many as packed addresses."""
    sectors = sectors_per_lookup(view)
    if sectors is None:
        return None
    packed = PACKED[view.launch.device.compute_capability or ""]
    return min(1.0, max(0.0, (packed - float(sectors.value)) / (packed - 1)))


def is_padded(view: LaunchView) -> bool:
    """Whether static shared memory has the size of tiles with padded rows: 32 x 33 words."""
    static = int(view.value("shared_memory_static") or 0)
    words, rest = divmod(static, _WORD_BYTES)
    return not rest and words > 0 and any(words % row == 0 for row in _PADDED_ROWS)
