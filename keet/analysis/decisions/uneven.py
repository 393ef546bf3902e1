"""How evenly SMs were active: uneven because of the last wave, or of blocks of unequal length."""

from __future__ import annotations

from typing import NamedTuple

from keet.analysis.kernel.grid_use import BALANCED
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import Parameter
from keet.evidence import Evidence, Sentence
from keet.units import Quantity


class Evenness(NamedTuple):
    ratio: Evidence
    """Active cycles of the average SM over those of the SM that is active longest, 0 to 1."""
    share: Evidence
    """The same as a percentage, with an id of its own: texts print it, and models refer to it."""
    spread: float = 1.0
    """Share of the SMs that the two are about: 1, or those that get a block."""

    @property
    def text(self) -> Sentence:
        """`the average SM is active for 8% of the longest SM's cycles`."""
        words = "the average SM{some} is active for {share:.0f} of the longest SM's cycles"
        return Sentence(words, share=self.share, some=" with a block" if self.spread < 1 else "")

    @property
    def is_balanced(self) -> bool:
        return float(self.ratio.value) >= BALANCED


def evenness(view: LaunchView) -> Evenness | None:
    average, longest = view.get("sm_active_cycles"), view.get("sm_active_cycles_max")
    if average is None or longest is None:
        return None
    ratio = view.ratio("sm_evenness", "average over longest active SM", average, longest)
    if ratio is None:
        return None
    percent, label = Quantity(100 * float(ratio.value), "%"), "average of the longest active SM"
    return Evenness(ratio, view.ledger.derived("sm_evenness_pct", percent, label, ratio))


def among_those_with_blocks(view: LaunchView, even: Evenness, spread: float) -> Evenness:
    """The same without SMs that get no block, which a small grid explains. `spread`: the share of
    the SMs that get one."""
    if spread >= 1:
        return even
    part, label = min(1.0, float(even.ratio.value) / spread), "average SM with a block over longest"
    derived = view.ledger.derived
    ratio = derived("sm_evenness_with_blocks", Quantity(part, ""), label, even.ratio)
    share = derived("sm_evenness_with_blocks_pct", Quantity(100 * part, "%"), label, ratio)
    return Evenness(ratio, share, spread)


UNEVEN_INSTRUCTIONS = Parameter(
    0.4,
    "unevenness of executed instructions over that of active cycles, from which work is unequal",
    "judgement",
)
_INSTRUCTIONS = ("smsp__inst_executed.avg", "smsp__inst_executed.max")


def unequal_work(view: LaunchView, even: Evenness) -> float:
    """0 to 1: how far unequal work, not unequal speed, makes SMs active for different times; 1 if
    it is not known.

    SMs that execute as many instructions have the same work: those that are farther from memory,
    or share its bandwidth with more others, take longer, and other blocks would not change that.
    Long items may execute few instructions while they wait, so a part of the unevenness is enough.
    """
    counted = [view.ledger.named(name, "instructions of a scheduler") for name in _INSTRUCTIONS]
    average, most = counted
    if average is None or most is None or not most.value or even.ratio.value >= 1:
        return 1.0
    uneven = 1 - min(1.0, float(average.value) / float(most.value) / even.spread)
    return min(1.0, uneven / (1 - float(even.ratio.value)) / UNEVEN_INSTRUCTIONS)
