"""Texts about hotspots: stall reasons of a row, what was counted, what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.code_names import Offset, line_text, noun, with_more
from keet.analysis.kernel.executed_code import PURPOSES
from keet.analysis.source_lines import Hotspots, RowWait
from keet.catalog import stalls
from keet.documents.hotspots import HotspotsLaunch, PurposeShare, SpotDocument
from keet.evidence import Sentence, constant, counted
from keet.profile import Launch, Location
from keet.profile.names import file_name

if TYPE_CHECKING:
    from keet.analysis.sass import MachineCode

STALLS_SHOWN = 2
_STALL_SHARE = 0.05
"""Smaller stall reasons are not printed."""
_FEW = 100
"""With fewer samples, a share of one half is off by ten percentage points or more by chance."""


def launch_list(launches: Sequence[Launch | HotspotsLaunch]) -> Sentence:
    names = ", ".join(f"#{launch.id} {launch.kernel}" for launch in launches[:4])
    return with_more(names, len(launches) - 4)


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


_LEAST_SHARE = 0.005
"""Smaller shares would be printed as 0 %."""


def mix_text(mix: Iterable[PurposeShare]) -> Sentence:
    """With the labels of the account: `addresses and indices 77%, loads and stores 10%`."""
    kept = (each for each in mix if each.share >= _LEAST_SHARE)
    return Sentence(", ").join(_share_text(PURPOSES[each.purpose], each.share) for each in kept)


def purposes_text(purposes: Iterable[PurposeShare], most: int = 2) -> Sentence:
    """The largest purposes of a row: `address 54%, value 46%`."""
    kept = [each for each in purposes if each.share >= _LEAST_SHARE]
    return Sentence(", ").join(_share_text(each.purpose, each.share) for each in kept[:most])


def _share_text(what: str, share: float) -> Sentence:
    percent = constant(100 * share, "%", f"share of {what}")
    return Sentence("{what} {percent:.0f}", what=what, percent=percent)


def waits_for(
    code: MachineCode, wait: RowWait | None, line: Location | None, offset: Offset | None = None
) -> str:
    """For example ` for the load at slow.cu:19` or ` (barrier at slow.cu:35)`; empty if no other
    instruction is waited for.

    `offset` is given if rows are instructions: the producer is then named by its offset.
    """
    if wait is None or wait.producer_position is None or wait.reason == "wait":
        return ""
    producer = code.program.code[wait.producer_position]
    what = noun(producer)
    held = "registers of " if wait.link == "register reuse" else ""
    if offset is not None:
        return f" for {held}the {what} at {offset(producer.address)}"
    if wait.reason == "barrier" and wait.producer in (None, line):
        return ""
    if wait.reason == "barrier":  # `Barrier 95% for the barrier` would name it twice
        return f" ({what} at {line_text(wait.producer)})"
    if wait.producer is None or wait.producer == line:
        return f" for {held}{'its own' if line else 'the'} {what}"
    return f" for {held}the {what} at {line_text(wait.producer)}"


def size_text(size: int | None) -> Sentence:
    known = "unknown" if size is None else constant(size, "byte", "size")
    return Sentence("{size}", size=known)


def distinct_text(
    distinct: int | None, basis: str | None, requested: int | None, why_unknown: str
) -> Sentence:
    """`at most 134.2 MB (4.0x)` for a bound, `about 106.5 MB (25x)` for an estimate."""
    told = distinct_bytes_text(distinct, basis, why_unknown)
    times = times_read_text(requested, distinct)
    return Sentence("{told} ({times})", told=told, times=times) if times else told


def distinct_bytes_text(distinct: int | None, basis: str | None, why_unknown: str) -> Sentence:
    if distinct is None:
        return Sentence("unknown: {why}", why=why_unknown)
    kind = "about" if basis == "estimate" else "at most"
    return Sentence("{kind} {size}", kind=kind, size=size_text(distinct))


def times_read_text(requested: int | None, distinct: int | None) -> Sentence:
    """How often each byte is requested; empty if that is not known."""
    if not distinct or not requested:
        return Sentence()
    return Sentence("{times:times}", times=constant(requested / distinct, "x", "times read"))
