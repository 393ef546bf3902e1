"""What limits the occupancy of a launch, as text."""

from __future__ import annotations

from keet.analysis.kernel.resident_warps import BLOCK_LIMITS
from keet.profile import Launch
from keet.units import Quantity


def occupancy_limit(launch: Launch) -> str:
    """The resource that allows the fewest blocks: `registers allow 2 blocks per SM`. Empty if all
    warps fit, or if the report does not have the data."""
    possible = launch.get("theoretical_occupancy_pct")
    if not possible or possible.value >= 100:
        return ""
    found = {name: launch.get(metric) for name, metric in BLOCK_LIMITS.items()}
    known: dict[str, Quantity] = {name: q for name, q in found.items() if q and q.value > 0}
    if not known:
        return ""
    least = min(q.value for q in known.values())
    names = " and ".join(name for name, q in known.items() if q.value == least)
    return f"{names} allow {least:.0f} block{'' if least == 1 else 's'} per SM"
