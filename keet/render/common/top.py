"""Texts of `keet top` in all formats: the heading, the cells of a group, notes, the next step."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keet.errors import one_line
from keet.evidence import Evidence, Sentence
from keet.explanation.gain_texts import range_text
from keet.findings import findings
from keet.formatting import capitalized, count_noun, shape_text
from keet.render.common.top_times import (
    about_no_runs,
    about_runs,
    duration,
    gap_mark,
    gpu_count,
    is_unlike,
    launches_text,
    percent,
    pool_text,
    saved_of,
    shared_time,
    unlike_mark,
    unlike_note,
    whole_runs,
)

if TYPE_CHECKING:
    from keet.documents.finding import Forecast
    from keet.documents.top import GpuDocument, OpportunityDocument, TopDocument

_MOST_GPUS = 5
"""Maximum number of GPUs with a line above the list."""
_ORDER = (
    "Shares are of the time on the group's own GPU; groups are ranked by the share that a fix "
    "could save."
)


def about_times(top: TopDocument) -> list[str]:
    """What times and shares cover."""
    order = [_ORDER] if len(top.gpus) > 1 else []
    return about_runs(top) if top.runs else [about_no_runs(top), *order]


def top_heading(top: TopDocument) -> str:
    """Failed files are counted only without --device and --kernel, because their contents are not
    known."""
    whole = top.device is None and top.kernel is None
    failed = f" ({top.failed:,} more failed)" if top.failed and whole else ""
    launches = count_noun(top.launches, "launch")
    if top.runs and len(top.gpus) == 1:
        runs = whole_runs(top.gpus[0])
        return f"{capitalized(runs)}; {launches} profiled{failed}"
    time = f"{duration(top.time_us)} of GPU time in " if top.time_us is not None else ""
    gpus = f" on {gpu_count(top):,} GPUs" if gpu_count(top) > 1 else ""
    return f"{time}{launches} of {count_noun(top.reports, 'report')}{gpus}{failed}"


def gpu_lines(top: TopDocument) -> list[str]:
    if len(top.gpus) < 2:
        return []
    lines = [
        f"{name}: {pool_text(top, gpu)}"
        for name, gpu in zip(device_names(top.gpus, top.gpus), top.gpus)
    ]
    left = len(lines) - _MOST_GPUS
    return [*lines[:_MOST_GPUS], f"and {left:,} more"] if left > 0 else lines


def remarks(each: OpportunityDocument) -> str:
    """Why keet claims no saving for a part of the group's time."""
    return gap_mark(each) + unlike_mark(each)


def time_taken(top: TopDocument, each: OpportunityDocument) -> str:
    launches = launches_text(each)
    if each.time_us is None:
        return f"the time of {launches} was not measured"
    share = f"{percent(each.share)} of {shared_time(top, each)}"
    return f"takes {duration(each.time_us)} in {launches}, {share}"


def group_name(top: TopDocument, each: OpportunityDocument) -> str:
    if top.by == "file":
        return one_line(each.path)
    if top.by == "finding" and each.kernels > 1:
        return f"{one_line(each.kernel)} and {each.kernels - 1:,} more"
    return one_line(each.kernel)


def launch_shape(each: OpportunityDocument) -> str:
    return f"<<<{_stored(each.grid)}, {_stored(each.block)}>>>"


def _stored(shape: str | None) -> str:
    """The store has the form `256x1024x1`."""
    sizes = shape.split("x") if shape else []
    if not all(map(str.isdecimal, sizes)):  # a store that was not written by keet
        return one_line(shape or "")
    return shape_text([*map(int, sizes)], "-")


def saving_text(top: TopDocument, each: OpportunityDocument) -> str:
    """The time saved. With several GPUs also its share, which is the ranking criterion."""
    if not each.finding:
        return "-"
    part, share = saved_of(each), ""
    if each.saved_us and len(top.gpus) > 1:
        share = f" ({percent(each.saved_share)}{' of all' if part else ''})"
    return f"{duration(each.saved_us)}{part}{share}"


def no_saving_text(each: OpportunityDocument) -> str:
    unclear = each.replay_gaps or is_unlike(each)
    if each.finding is not None or unclear:
        known = each.saved_us is not None and not unclear
        return "no saving known" if known else "saving not known"
    return "no saving known" if each.not_judged < each.launches else "not checked"


def group_finding(each: OpportunityDocument) -> str:
    """By its label, as in `keet explain`."""
    if each.finding is None:
        return _no_finding(each)
    spec = findings().get(each.finding)
    label = one_line(each.finding)  # a store that was not written by keet
    if spec:
        label = spec.labels.get(each.variant or "", spec.label)
    if not _is_partial(each):
        return label
    return f"{label} (in {each.finding_launches:,} of {each.launches:,} launches)"


def _no_finding(each: OpportunityDocument) -> str:
    """A launch without metrics was not checked, nor was debug code, which is different from having
    no finding."""
    if each.debug_builds == each.launches:
        return "debug build"
    if each.debug_builds:
        return f"no finding ({each.debug_builds:,} of {each.launches:,} launches: debug build)"
    if not each.not_judged:
        return "no finding"
    lacks = "no metric shows where the time goes"
    if each.not_judged == each.launches:
        return f"not checked: {lacks}"
    return f"no finding ({each.not_judged:,} of {each.launches:,} launches not checked: {lacks})"


def forecast_launches(each: OpportunityDocument) -> str:
    """What the forecast is for, if the finding is not in all launches of the group."""
    if not _is_partial(each):
        return ""
    number = each.finding_launches
    return " for this launch" if number == 1 else f" for these {number:,} launches"


def partial_note(top: TopDocument) -> list[str]:
    """For tables, in which the forecast has a column of its own."""
    if not any(map(_is_partial, top.opportunities)):
        return []
    return ["A forecast is for the launches that have the finding, not for the whole group."]


def _is_partial(each: OpportunityDocument) -> bool:
    return each.finding is not None and each.finding_launches != each.launches


def forecast_text(each: OpportunityDocument) -> str:
    """For a column, in which only what is not a speed-up is said."""
    if each.forecast is None:
        return "-"
    text = forecast_range(each, each.forecast)
    return text.replace(" faster", "").replace(" in the same time", "")


def forecast_range(each: OpportunityDocument, gain: Forecast) -> Sentence:
    bounds = [
        Evidence(f"forecast_{name}#store", f"forecast_{name}", value, "", "times faster")
        for name, value in (("low", gain.low), ("likely", gain.likely), ("high", gain.high))
    ]
    return range_text(each.finding, *bounds, variant=each.variant or "")


def device_names(
    named: Sequence[OpportunityDocument | GpuDocument], gpus: Sequence[GpuDocument]
) -> list[str]:
    """With the number of SMs if it differs: a MIG slice has the name of the whole GPU."""
    sizes: dict[str | None, set[int | None]] = defaultdict(set)
    for gpu in gpus:
        sizes[gpu.device].add(gpu.sm_count)
    return [
        one_line(each.device or "unknown GPU")
        + (f" ({each.sm_count or '?'} SMs)" if len(sizes[each.device]) > 1 else "")
        for each in named
    ]


def example_command(each: OpportunityDocument) -> str:
    return f"keet explain {shlex.quote(one_line(each.path))} --launch {each.launch}"


def top_notes(top: TopDocument) -> list[str]:
    notes = []
    if top.untimed:
        launches = count_noun(top.untimed, "launch has", "launches have")
        notes.append(f"{launches} no measured duration, and no part in the times above.")
    if top.kernel is not None:
        notes.append("Shares are of the time of all kernels on that GPU.")
    if gone := sum(each.gone for each in top.opportunities):
        reports = count_noun(gone, "report was", "reports were")
        prune = f"keet batch DIR -o {shlex.quote(one_line(top.store))} --prune"
        notes.append(f"{reports} moved or deleted; remove such reports from the store: {prune}")
    if top.groups > len(top.opportunities):
        listed = f"{len(top.opportunities):,} of {top.groups:,} groups are listed"
        notes.append(f"{listed}; list more with --top N.")
    return [*notes, *unlike_note(top)]


def next_step(top: TopDocument) -> str:
    """The last line: the command to run next."""
    if not top.opportunities:
        return "There is no launch to rank."
    there = [each for each in top.opportunities if not each.gone]
    if not there:
        return f"next: keet batch DIR -o {shlex.quote(one_line(top.store))} --prune"
    return f"next: {example_command(there[0])}"
