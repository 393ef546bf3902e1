"""Texts about hotspots: stall reasons of a row, what was counted, what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from keet.analysis.source_lines.hotspots import Hotspots, Spot
from keet.catalog import stalls
from keet.formatting import count_noun, share_text
from keet.profile import Launch
from keet.profile.names import file_name

STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Smaller stall reasons are not printed."""
_FEW = 100
"""With fewer samples, a share of one half is off by ten percentage points or more by chance."""


def launch_list(launches: Sequence[Launch]) -> str:
    numbers = ", ".join(f"#{launch.id} {launch.kernel}" for launch in launches[:4])
    return numbers + (f" and {len(launches) - 4} more" if len(launches) > 4 else "")


def hotspots_summary(found: Hotspots) -> str:
    ranked = "sample" if found.ranked_by == "samples" else "executed instruction"
    what = ranked if found.total == 1 else f"{ranked}s"
    none = "" if found.ranked_by == "samples" else ", none sampled,"
    return f"{found.total:,} {what}{none} in {_rows(found)}"


def columns_text(found: Hotspots, *, has_stalls: bool, has_code: bool, has_purposes: bool) -> str:
    """Names the columns of rows that are not a table."""
    of_lines = found.by == "line"
    is_sampled = found.ranked_by == "samples"
    counted = "samples, samples" if is_sampled else "executed instructions, executed instructions"
    whose = "the line's" if of_lines else "its"
    reasons = f", stall reasons (% of {whose} samples)" if has_stalls else ""
    text = f"Columns: share of {counted}, {'line' if of_lines else 'offset and line'}{reasons}."
    purpose = "what its instructions are for (% of executed)" if of_lines else "what it is for"
    code = "its code" if of_lines else "the instruction"
    below = [code] * has_code + [purpose] * has_purposes
    return f"{text} Below: {' and '.join(below)}." if below else text


def few_samples_text(found: Hotspots) -> str:
    """Empty if there are enough samples."""
    if found.ranked_by != "samples" or found.total >= _FEW:
        return ""
    return f"Only {count_noun(found.total, 'sample')}: shares are rough."


def _rows(found: Hotspots) -> str:
    """All instructions without a line are one row, but not a line."""
    if found.by == "instruction":
        return count_noun(len(found.spots), "instruction")
    lines = sum(spot.location is not None for spot in found.spots)
    unplaced = sum(spot.instructions for spot in found.spots if spot.location is None)
    rest = f" and {count_noun(unplaced, 'instruction')} without a line" if unplaced else ""
    return f"{count_noun(lines, 'source line')}{rest}"


def chance_error(share: float, total: int) -> float:
    """How far a share of samples may be off by chance, if samples are independent.

    The farther end of Wilson's interval of two standard deviations, which is also valid near 0 and
    1.
    """
    spread = 4 / total
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(share - (middle - half), middle + half - share)


def hotspots_notes(
    launch: Launch, found: Hotspots, lines: Mapping[str, Sequence[str]], *, for_tool: bool = False
) -> list[str]:
    """How to get the data that is missing. `for_tool`: without command-line options."""
    if not launch.locations:
        see = "list_reports" if for_tool else "keet show"
        return [f"no line information: build with nvcc -lineinfo, and see: {see}"]
    if found.by != "line" or lines:
        return []
    if launch.find_source is None:
        option = "source" if for_tool else "--source DIR"
        return [f"the source text is not in the report: pass its folder with {option}"]
    files = sorted({file_name(path) for path in launch.source_files})
    return [f"not found under {'' if for_tool else '--'}source: {', '.join(files[:4])}"]


def stall_reasons(spot: Spot) -> list[str]:
    """The important stall reasons of a spot, the largest first."""
    known = stalls()
    shares = spot.stall_shares()
    return [r for r, share in shares if known[r].counts_as_stall and share >= _STALL_SHARE]


def waiting_for(spot: Spot) -> str:
    """The largest stall reasons with their share of the row's samples."""
    known, shares = stalls(), dict(spot.stall_shares())
    shown = stall_reasons(spot)[:STALLS_SHOWN]
    return ", ".join(f"{known[reason].label} {share_text(shares[reason])}" for reason in shown)
