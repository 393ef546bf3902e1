"""How evenly SMs were active: what the number of waves explains, and what unequal blocks do."""

from __future__ import annotations

from keet.analysis.kernel.grid_use import GridShape, grid_shape
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.evidence import Evidence
from keet.records import NamedTuple
from keet.units import Quantity


class Evenness(NamedTuple):
    ratio: Evidence
    """Active cycles of the average SM over those of the SM that is active longest, 0 to 1."""
    share: Evidence
    """The same as a percentage, with an id of its own: texts print it, and models refer to it."""
    shape: GridShape | None

    @property
    def text(self) -> str:
        """`the average SM is active for 8% of the longest SM's cycles`."""
        return f"the average SM is active for {self.share:.0f} of the longest SM's cycles"

    @property
    def is_balanced(self) -> bool:
        return float(self.ratio.value) >= parameter("balanced")

    @property
    def left_without_tail(self) -> float | None:
        """Share of the longest SM's work that is left if the last wave is full; None if there is
        one wave at most."""
        shape = self.shape
        if shape is None or shape.spread < 1 or shape.waves is None or shape.waves.value <= 1:
            return None
        return min(1.0, max(float(self.ratio.value), shape.expected) / parameter("balanced"))

    @property
    def left_with_equal_blocks(self) -> float:
        """Share of the longest SM's work that is left if all blocks take equally long."""
        expected = self.shape.expected if self.shape else 1.0
        return min(1.0, float(self.ratio.value) / expected / parameter("balanced"))


def evenness(view: LaunchView) -> Evenness | None:
    average, longest = view.get("sm_active_cycles"), view.get("sm_active_cycles_max")
    if average is None or longest is None:
        return None
    ratio = view.ratio("sm_evenness", "average over longest active SM", average, longest)
    if ratio is None:
        return None
    percent = Quantity(100 * float(ratio.value), "%")
    label = "average of the longest active SM"
    share = view.ledger.derived("sm_evenness_pct", percent, label, ratio)
    return Evenness(ratio, share, grid_shape(view))
