"""Texts of `keet top` about times: what times, shares and claimed savings cover."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.errors import one_line
from keet.formatting import capitalized, count_noun, share_cell
from keet.render.common.known_runs import known_runs_text
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.documents.top import GpuDocument, OpportunityDocument, TopDocument


def duration(microseconds: float | None) -> str:
    return "-" if microseconds is None else str(Quantity(microseconds * 1000, "ns"))


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    return share_cell(share)


def gpu_count(top: TopDocument) -> int:
    """A GPU has two entries if only some of its reports have a run table; it counts once."""
    return len({(gpu.device, gpu.compute_capability, gpu.sm_count) for gpu in top.gpus})


# --- launches


def launches_text(each: OpportunityDocument | GpuDocument) -> str:
    if each.basis == "reports":
        return count_noun(each.launches, "launch")
    noun = "launch" if each.run_launches == 1 else "launches"
    return f"{_amount(each.run_launches)} {noun} ({each.launches:,} profiled)"


def launches_cell(each: OpportunityDocument) -> str:
    if each.basis == "reports":
        return f"{each.launches:,}"
    return f"{_amount(each.run_launches)} ({each.launches:,} profiled)"


def _amount(number: float | None) -> str:
    """May be a fraction: profiled launches of one kernel share the launches of the run equally."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number - round(number)) < 0.05 else f"{number:,.1f}"


# --- two lists, where only some reports have a run table


class Section(NamedTuple):
    title: str | None
    """None if there is only one list."""
    opportunities: list[OpportunityDocument]


def sections(top: TopDocument) -> list[Section]:
    """The groups of whole runs, then those of single launches."""
    lists = [(basis, list(some)) for basis, some in groupby(top.opportunities, lambda x: x.basis)]
    mixed = len({gpu.basis for gpu in top.gpus}) > 1
    return [Section(_TITLES[basis] if mixed else None, some) for basis, some in lists]


_TITLES: Mapping[str, str] = {
    "run": "Whole runs",
    "reports": "Single launches, as profiled (time in the run not known): do not compare these "
    "times with those of whole runs",
}


# --- what times and shares cover


def whole_runs(gpu: GpuDocument) -> str:
    return f"{_spent(gpu, gpu.time_us)} {_in_launches(gpu)} of {count_noun(gpu.runs, 'whole run')}"


def _spent(gpu: GpuDocument, time_us: float | None) -> str:
    if not gpu.summed_runs:
        return f"{duration(time_us)} of GPU time"
    if gpu.summed_runs == gpu.runs:
        return f"durations add up to {duration(time_us)}"
    return duration(time_us)


def _in_launches(gpu: GpuDocument) -> str:
    return f"in {_amount(gpu.run_launches)} {'launch' if gpu.run_launches == 1 else 'launches'}"


def pool_text(top: TopDocument, gpu: GpuDocument) -> str:
    """The line of one GPU above the list."""
    if not top.runs:
        return f"{duration(gpu.time_us)} in {count_noun(gpu.launches, 'launch')}"
    if gpu.basis == "reports":
        launches = count_noun(gpu.launches, "launch")
        return f"{duration(gpu.time_us)} in {launches}, as profiled"
    if not gpu.total_us or not (gpu.not_profiled_us or top.kernel):
        return f"{whole_runs(gpu)} ({gpu.launches:,} profiled)"
    return f"{_spent(gpu, gpu.total_us)} in {count_noun(gpu.runs, 'whole run')}: {_parts(top, gpu)}"


def _parts(top: TopDocument, gpu: GpuDocument) -> str:
    """Parts of all time. With --kernel, profiled kernels that do not match are left out."""
    chosen, missed = f"{duration(gpu.time_us)} {_in_launches(gpu)} of kernels that", ""
    if gpu.not_profiled_us and gpu.total_us:
        share = percent(gpu.not_profiled_us / gpu.total_us)
        missed = f", {duration(gpu.not_profiled_us)} ({share}) in kernels that were not"
    if top.kernel is None:
        return f"{chosen} were profiled ({count_noun(gpu.launches, 'launch')}){missed}"
    missed = f"{missed} profiled" if missed else ""
    return f"{chosen} match --kernel ({gpu.launches:,} profiled){missed}"


def about_runs(top: TopDocument) -> list[str]:
    if len(top.gpus) == 1:
        return [_about_one(top.gpus[0]), *_about_sums(top), *_about_unknown(top)]
    lines = []
    if left := top.reports - top.runs:
        others = "the other report" if left == 1 else f"the other {left:,} reports"
        lines = [
            f"{_known_runs(top)}. The launches of {others} count once, as profiled; do not compare "
            "times of whole runs with times of single launches."
        ]
    lines.append(
        "Shares are of the time in the group's own line above; groups are ranked by the share that "
        "a fix could save."
    )
    return [*lines, *_about_sums(top), *_about_unknown(top)]


def _known_runs(top: TopDocument) -> str:
    text = known_runs_text(top.known_runs, top.runs, count_noun(top.reports, "report"))
    return capitalized(text)


def about_no_runs(top: TopDocument) -> str:
    """For stores in which no launch has a time in a run."""
    once = "each launch counts once, as profiled"
    if top.known_runs:
        return f"{_known_runs(top)}: {once}."
    none = "None of these reports has a run table"
    if top.reports == 1:
        none = "This report has no run table"
    return f"{none}: {once} (keet profile records run tables)."


def _about_sums(top: TopDocument) -> list[str]:
    """For run tables that only have durations."""
    number, runs = sum(gpu.summed_runs for gpu in top.gpus), sum(gpu.runs for gpu in top.gpus)
    if not number:
        return []
    table = "The run table does" if runs == 1 else "The run tables do"
    if number < runs:
        table = f"{number:,} of {runs:,} run tables {'does' if number == 1 else 'do'}"
    return [
        f"{table} not record which kernels ran at the same time: the times are sums of durations, "
        "which may be more than the GPU time."
    ]


def _about_unknown(top: TopDocument) -> list[str]:
    if not any(each.unknown_us for each in top.opportunities):
        return []
    return ["In the ranking, time with an unknown saving counts in full."]


def _about_one(gpu: GpuDocument) -> str:
    runs, their = ("the whole run", "its") if gpu.runs == 1 else ("the whole runs", "their")
    whole = "summed durations" if gpu.summed_runs else "GPU time"
    of_all = f"Times are of {runs}; shares are of {their} {whole}"
    missed = ""
    if gpu.not_profiled_us and gpu.total_us:
        share = percent(gpu.not_profiled_us / gpu.total_us)
        spent = duration(gpu.not_profiled_us)
        missed = f" Kernels that were not profiled take {spent} ({share}) of it."
    return f"{of_all}, {duration(gpu.total_us)}.{missed}"


def shared_time(top: TopDocument, each: OpportunityDocument) -> str:
    """What the share of a group is a share of."""
    where = " on its GPU" if gpu_count(top) > 1 else ""
    if each.basis == "run":
        whose = "run's" if top.runs == 1 else "runs'"
        return f"the {whose} time{where}"
    if top.runs:
        return f"the profiled time{where}"
    return f"all GPU time{where}"


# --- what a saving is claimed for

_LEAST = 0.01
"""Share of a group's time; less is not mentioned."""


def saved_of(each: OpportunityDocument) -> str:
    """The part of the group's time that the forecast is for, if that is not all of it."""
    basis_time = duration(each.saved_of_us)
    if each.basis == "reports" or not each.saved_us or basis_time == duration(each.time_us):
        return ""
    return f" of {basis_time}"


def is_unlike(each: OpportunityDocument) -> bool:
    return bool(each.unlike_us and each.time_us and each.unlike_us >= _LEAST * each.time_us)


def unlike_mark(each: OpportunityDocument) -> str:
    """The run has launches that took much shorter or longer than the profiled ones."""
    return (
        f"; {duration(each.unlike_us)} is in launches of other lengths" if is_unlike(each) else ""
    )


def unlike_note(top: TopDocument) -> list[str]:
    if not any(map(is_unlike, top.opportunities)):
        return []
    return [
        "Launches of other lengths took less than half or more than twice as long in the run as "
        "the profiled launch: keet claims no saving for them."
    ]


# --- launches that took another time in the run than under the profiler


def gap_mark(each: OpportunityDocument) -> str:
    """Their forecast is for the time under the profiler, not for the time in the run."""
    if not each.replay_gaps:
        return ""
    some = each.replay_gaps < each.launches
    of_all = f" of {each.replay_gaps:,} of {count_noun(each.launches, 'launch')}"
    return f"; the profiled time{of_all if some else ''} differs from the time in the run"


def gap_note(top: TopDocument) -> str | None:
    """`gap_command` follows it."""
    number = sum(gpu.replay_gaps for gpu in top.gpus)
    if not number:
        return None
    whose, which = ("it", "") if number == 1 else ("them", " (the one with the most time)")
    launches = count_noun(number, "launch")
    return (
        f"The times of {launches} in the run and under the profiler differ by more than "
        f"{REPLAY_DIFFERS:g}x: keet claims no saving for {whose}. See why{which}:"
    )


def gap_command(top: TopDocument) -> str:
    """Explains the difference for the launch that stands for the most time."""
    most = max(top.gpus, key=lambda gpu: gpu.replay_gap_us or 0.0)
    example = most.gap_example
    path = shlex.quote(one_line(example.path)) if example else "REPORT"
    return f"keet explain {path}" + (f" --launch {example.launch}" if example else "")
