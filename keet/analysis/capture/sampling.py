"""How much of a launch its warp samples cover.

The sampler of each SM takes one sample every interval while the SM is active, so samples times
interval over SMs times active cycles is 1. In 46 reports it is 0.98 to 1.06 for each launch with a
thousand samples or more, except where the sample buffer ran full: there it is 0.006 to 0.52, the
samples are those of the launch's beginning, and nothing else in the report says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.limits import NEARLY_ALL
from keet.analysis.parameters import Parameter
from keet.evidence import Sentence
from keet.profile import Launch
from keet.units import Quantity

FEWEST_SAMPLES = Parameter(1000, "with fewer samples, the buffer cannot be full", "judgement")
LEAST_SAMPLES = Parameter(
    20, "samples from which they name a place, or the states of warps", "judgement"
)
"""A half of 20 samples is off by 11 percentage points (one standard deviation)."""
_MAX_INTERVAL = 31


class PartialSampling(NamedTuple):
    """Samples that stop before the launch does."""

    share: float
    """Share of the launch that the samples cover, 0 to 1."""
    remedy: str
    launch: int

    def text_in(self, ledger: Ledger) -> Sentence:
        """With the share as evidence in this ledger."""
        share = Quantity(100 * self.share, "%")
        return Sentence(
            "the samples cover only the first {share:.1f} of the launch (the buffer was full)",
            share=ledger.derived("sampled_share", share, "part of the launch that samples cover"),
        )

    @property
    def text(self) -> Sentence:
        return self.text_in(Ledger(str(self.launch)))


def partial_sampling(launch: Launch, samples: int) -> PartialSampling | None:
    """Set if samples are missing; `None` if they are complete or it can't be determined."""
    interval = launch.get("sampling_interval_cycles")
    active = launch.get("sm_active_cycles")
    sms = launch.device.sm_count
    if interval is None or active is None or not sms or samples < FEWEST_SAMPLES:
        return None
    if not (interval.value > 0 and active.value > 0):
        return None
    share = samples * interval.value / (sms * active.value)
    if share >= NEARLY_ALL:
        return None
    # The option's value n stands for 2 ** (5 + n) cycles.
    setting = round(math.log2(interval.value)) - 5 + math.ceil(math.log2(1 / share))
    remedy = f"profile again with: ncu --warp-sampling-interval {min(setting, _MAX_INTERVAL)}"
    return PartialSampling(share, remedy, launch.id)
