"""Texts about the whole run: its table, what profiled launches represent, replay differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.evidence import Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import capitalized
from keet.profile import Workload

if TYPE_CHECKING:
    from keet.explanation.whole_run import KernelRow, ReplayDiffers, WholeRun


ROWS = 8
"""Maximum number of kernels in an explanation."""
_SMALL = 1.0
"""Per cent of the run: smaller kernels are combined."""
_SPREAD = 2.0
"""Both times are printed if the longest launch takes this many times as long as the shortest."""
_NAMED = 3
"""Maximum number of launches of the report that a row names."""


def rows_of(run: WholeRun, most: int) -> list[KernelRow]:
    """At most so many rows: large kernels one by one, the others in one row."""
    large = sum(row.share_pct >= _SMALL for row in run.kernels)
    shown = min(large, most) if len(run.kernels) <= most else min(large, most - 1)
    single = run.kernels[: max(shown, 1)]
    rest = run.kernels[len(single) :]
    if len(rest) > 1:
        from keet.explanation.whole_run import combined_row

        return [*single, combined_row(run, rest)]
    return [*single, *rest]


def profiled_text(row: KernelRow) -> str:
    """`#0, #3`: the launches of the report that represent the row."""
    if not row.profiled:
        return "-" if row.in_range else "not profiled"
    if row.members:
        return f"{sum(bool(r.profiled) for r in row.members)} of {len(row.members)} profiled"
    named = ", ".join(f"#{launch}" for launch in row.profiled[:_NAMED])
    return f"{named}, …" if len(row.profiled) > _NAMED else named


def spread_text(row: KernelRow) -> Sentence:
    """`2.10 us to 1.20 ms per launch`, if launches differ much."""
    _, _, _, *ends = row.evidence
    if not ends or ends[1].value <= _SPREAD * ends[0].value:
        return Sentence()
    return Sentence("{shortest} to {longest} per launch", shortest=ends[0], longest=ends[1])


def stands_for(each: LaunchExplanation) -> str:
    if each.in_run:
        return each.in_run.text
    single = each.launch.workload is Workload.KERNEL
    return "not in the run table" if single else "its part of the run is not known"


def skipped_texts(run: WholeRun) -> Iterator[str]:
    """Why kernels could not be profiled, and what to try."""
    for skipped in run.skipped:
        reason = skipped.reason.removeprefix("it can't be replayed: ")
        yield f"{skipped.kernel} could not be profiled: {reason}; to profile it: {skipped.remedy}"


def reason_texts(replay: ReplayDiffers) -> Iterator[tuple[str, str, str]]:
    """For each reason that is not ruled out: a heading, the evidence for it, and how to find
    out."""
    if replay.as_for is not None:
        yield "Why:", f"as for #{replay.as_for}.", ""
        return
    from keet.analysis.replay_gap_reasons import REASON_NAMES

    for reason in replay.open_reasons:
        heading = f"{capitalized(reason.status)}: {REASON_NAMES[reason.id]}."
        text = reason.text if reason.text.startswith("ncu ") else capitalized(reason.text)
        yield heading, f"{text}.", f"To tell: {reason.how_to_tell}."
