"""The explanations of a sample's `slow` and `fast`, and their difference: the texts to check."""

from __future__ import annotations

from functools import cached_property

from keet.comparison.compare import Difference, compare_explanations
from keet.errors import NotAvailable
from keet.evidence import Evidence
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.report import read_profile
from keet.units import Quantity
from keet.verification.launch_values import ComputedValues
from keet.verification.verify import computed_values
from kernels_samples.samples import Sample

ASKED = (
    "duration",
    "dram_throughput_pct",
    "dram_bytes_read",
    "registers_per_thread",
    "achieved_occupancy_pct",
    "elapsed_cycles",
    "l2_hit_rate_pct",
    "dram_bytes_per_second",
    "ipc_executed_active",
    "sm_active_cycles",
    "no_eligible_pct",
    "dram_bytes_written",
    "l1tex_throughput_pct",
    "sm_frequency",
)
"""Metrics that an agent would look up, with all kinds of units."""
_TOP = 5


class SampleExplanations:
    """`slow` and `fast` of a sample, with evidence ids that are unique over both."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.slow, self.fast = (_explained(sample, variant) for variant in ("slow", "fast"))
        self.told, self.told_after = self._of_kernel(self.slow), self._of_kernel(self.fast)
        self.asked = _looked_up(self.told)
        self.asked_after = _looked_up(self.told_after)
        self.places = [
            self.told.view.ledger.derived(
                "samples_share",
                Quantity(100 * each.share, "%"),
                "share of the samples",
                line=each.where,
            )
            for each in self.told.view.sampled_places()
        ]
        """Shares of the samples of the hottest lines."""

    @property
    def name(self) -> str:
        return self.sample.name

    @cached_property
    def known(self) -> ComputedValues:
        """What keet computes about `slow`, as `keet verify` gets it."""
        return computed_values([self.slow.profile])

    @cached_property
    def difference(self) -> Difference:
        return compare_explanations(self.slow, self.fast)

    @cached_property
    def pieces(self) -> dict[str, Evidence]:
        """All evidence that may be cited about `slow`."""
        return {piece.id: piece for piece in self.told.view.ledger}

    def _of_kernel(self, explanation: Explanation) -> LaunchExplanation:
        for each in explanation.launches:
            if each.launch.name.function == self.sample.kernel:
                return each
        raise NotAvailable(f"{self.name} has no launch of {self.sample.kernel}; make samples")


def _explained(sample: Sample, variant: str) -> Explanation:
    profile = read_profile(sample.report(variant))
    return explain(profile, profile.launches, _TOP, report_scope=variant)


def _looked_up(told: LaunchExplanation) -> dict[str, Evidence]:
    """By catalog id; metrics that the report lacks are left out."""
    found = {name: told.view.get(name) for name in ASKED}
    return {name: piece for name, piece in found.items() if piece is not None}
