"""Texts about hotspots: stall reasons of a row, what was counted, what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from keet.analysis.source_lines import Hotspots
from keet.catalog import stalls
from keet.documents.hotspots import HotspotsLaunch, SpotDocument
from keet.evidence import Sentence, constant, counted
from keet.profile import Launch
from keet.profile.names import file_name

STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Smaller stall reasons are not printed."""
_FEW = 100
"""With fewer samples, a share of one half is off by ten percentage points or more by chance."""


def launch_list(launches: Sequence[Launch | HotspotsLaunch]) -> Sentence:
    names = ", ".join(f"#{launch.id} {launch.kernel}" for launch in launches[:4])
    return with_more(names, len(launches) - 4)


def with_more(names: str, left: int) -> Sentence:
    """`#0 k, #3 k and 2 more`."""
    if left <= 0:
        return Sentence("{names}", names=names)
    more = constant(left, "", "more")
    return Sentence("{names} and {more:d} more", names=names, more=more)


def hotspots_summary(found: Hotspots) -> Sentence:
    is_sampled = found.ranked_by == "samples"
    return Sentence(
        "{total}{none} in {rows}",
        total=counted(
            found.number(f"all {found.ranked_by}", found.total),
            "sample" if is_sampled else "executed instruction",
        ),
        none="" if is_sampled else ", none sampled,",
        rows=_rows(found),
    )


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


def few_samples_text(found: Hotspots) -> Sentence:
    """Empty if there are enough samples."""
    if found.ranked_by != "samples" or found.total >= _FEW:
        return Sentence()
    samples = counted(found.number("all samples", found.total), "sample")
    return Sentence("Only {samples}: shares are rough.", samples=samples)


def _rows(found: Hotspots) -> Sentence:
    """All instructions without a line are one row, but not a line."""
    if found.by == "instruction":
        return counted(found.number("instructions", found.rows_total), "instruction")
    lines = sum(spot.location is not None for spot in found.rows)
    unplaced = sum(spot.instructions for spot in found.rows if spot.location is None)
    placed = counted(found.number("source lines", lines), "source line")
    if not unplaced:
        return placed
    rest = counted(found.number("instructions without a line", unplaced), "instruction")
    return Sentence("{placed} and {rest} without a line", placed=placed, rest=rest)


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


def stall_reasons(spot: SpotDocument) -> list[str]:
    """The important stall reasons of a spot, the largest first."""
    known = stalls()
    return [
        r
        for r, share in spot.stall_shares().items()
        if known[r].counts_as_stall and share >= _STALL_SHARE
    ]


def stall_texts(spot: SpotDocument) -> list[Sentence]:
    """`Long Scoreboard 92%`: the largest stall reasons with their share of the row's samples."""
    return [
        Sentence(
            "{label} {share:.0f}",
            label=stalls()[reason].label,
            share=constant(100 * spot.stall_shares()[reason], "%", f"samples with {reason}"),
        )
        for reason in stall_reasons(spot)[:STALLS_SHOWN]
    ]


def waiting_for(spot: SpotDocument) -> Sentence:
    return Sentence(", ").join(stall_texts(spot))
