"""Times and counts of `keet top` in words, of whole runs or of profiled launches: what they add up,
and for which part of them a saving is claimed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from keet.analysis.replay.gap import DIFFERS
from keet.errors import one_line
from keet.formatting import capitalized, count_noun, share_cell
from keet.records import NamedTuple
from keet.render.common.store import known_runs_text
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.render.json.top import GpuDocument, OpportunityDocument, TopDocument


def duration(microseconds: float | None) -> str:
    return "-" if microseconds is None else str(Quantity(microseconds * 1000, "ns"))


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    return share_cell(share)


def gpu_count(top: TopDocument) -> int:
    """One whose runs are known in part is there twice, and counts once."""
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
    """A fraction of a launch is said: several profiled launches share the others evenly."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number - round(number)) < 0.05 else f"{number:,.1f}"


# --- the two lists of a store that knows some runs


class Section(NamedTuple):
    title: str | None
    """None: the only list."""
    opportunities: list[OpportunityDocument]


def sections(top: TopDocument) -> list[Section]:
    """Groups of whole runs, and those of single launches."""
    lists = [(basis, list(some)) for basis, some in groupby(top.opportunities, lambda x: x.basis)]
    mixed = len({gpu.basis for gpu in top.gpus}) > 1
    return [Section(_TITLES[basis] if mixed else None, some) for basis, some in lists]


_TITLES: Mapping[str, str] = {
    "run": "Whole runs",
    "reports": "As profiled, time in the run not known: these times do not compare with those of "
    "whole runs",
}


# --- what times and shares are of


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
    """One line of several at the head of the list."""
    if not top.runs:
        return f"{duration(gpu.time_us)} in {count_noun(gpu.launches, 'launch')}"
    if gpu.basis == "reports":
        return f"{duration(gpu.time_us)} in {count_noun(gpu.launches, 'launch')}, as profiled"
    if not gpu.total_us or not (gpu.not_profiled_us or top.kernel):
        return f"{whole_runs(gpu)} ({gpu.launches:,} profiled)"
    return f"{_spent(gpu, gpu.total_us)} in {count_noun(gpu.runs, 'whole run')}: {_parts(top, gpu)}"


def _parts(top: TopDocument, gpu: GpuDocument) -> str:
    """Of all time; of the profiled kernels only those that --kernel chose."""
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
            f"{_known_runs(top)}. The launches of {others} count once, as profiled; times of runs "
            "and of single launches do not compare."
        ]
    order = "Shares are of the time of each one's own line above"
    lines.append(f"{order}; ranked by the share that would be saved.")
    return [*lines, *_about_sums(top), *_about_unknown(top)]


def _known_runs(top: TopDocument) -> str:
    text = known_runs_text(top.known_runs, top.runs, count_noun(top.reports, "report"))
    return capitalized(text)


def about_no_runs(top: TopDocument) -> str:
    """Where no launch has a time in a run."""
    once = "each launch counts once, as profiled"
    if top.known_runs:
        return f"{_known_runs(top)}: {once}."
    none = "The whole run is known for none of these reports"
    if top.reports == 1:
        none = "The whole run of this report is not known"
    return f"{none}: {once} (keet profile records the run)."


def _about_sums(top: TopDocument) -> list[str]:
    """Where a table has nothing but durations."""
    number, runs = sum(gpu.summed_runs for gpu in top.gpus), sum(gpu.runs for gpu in top.gpus)
    if not number:
        return []
    table = "The table of the run does" if runs == 1 else "The tables of the runs do"
    if number < runs:
        table = f"The {'table' if number == 1 else 'tables'} of {number:,} of {runs:,} runs "
        table += "does" if number == 1 else "do"
    return [
        f"{table} not tell which kernels ran at the same time: times there are sums of durations, "
        "which may be more than the GPU time."
    ]


def _about_unknown(top: TopDocument) -> list[str]:
    if not any(each.unknown_us for each in top.opportunities):
        return []
    return ["In the ranking, time for which the saving is not known counts in full."]


def _about_one(gpu: GpuDocument) -> str:
    runs, their = ("the run", "its") if gpu.runs == 1 else ("the runs", "their")
    whole = "kernels together" if gpu.summed_runs else "GPU time"
    of_all = f"Times are of {runs} as a whole; shares are of all {their} {whole}"
    missed = ""
    if gpu.not_profiled_us and gpu.total_us:
        share = percent(gpu.not_profiled_us / gpu.total_us)
        spent = duration(gpu.not_profiled_us)
        missed = f" Kernels that were not profiled take {spent} ({share}) of it."
    return f"{of_all}, {duration(gpu.total_us)}.{missed}"


def shared_time(top: TopDocument, each: OpportunityDocument) -> str:
    """What the share of a group is of."""
    where = " on its GPU" if gpu_count(top) > 1 else ""
    if each.basis == "run":
        whose = "run's" if top.runs == 1 else "runs'"
        return f"the {whose} time{where}"
    if top.runs:
        return f"the profiled time{where}"
    return "its GPU's time" if where else "the time"


# --- what a saving is claimed for

_LEAST = 0.01
"""Of a group's time: less is not worth a remark."""


def saved_of(each: OpportunityDocument) -> str:
    """The part of a group's time that the forecast holds for, where it is not all of it."""
    told = duration(each.saved_of_us)
    if each.basis == "reports" or not each.saved_us or told == duration(each.time_us):
        return ""
    return f" of {told}"


def is_unlike(each: OpportunityDocument) -> bool:
    return bool(each.unlike_us and each.time_us and each.unlike_us >= _LEAST * each.time_us)


def unlike_mark(each: OpportunityDocument) -> str:
    """The run has launches of another size than those that were profiled."""
    return f"; {duration(each.unlike_us)} is in unlike launches" if is_unlike(each) else ""


def unlike_note(top: TopDocument) -> list[str]:
    if not any(map(is_unlike, top.opportunities)):
        return []
    return [
        "Unlike launches took less than half or more than twice as long in the run as the profiled "
        "one: no saving is claimed for them."
    ]


# --- replay against reality


def gap_mark(each: OpportunityDocument) -> str:
    """Their forecast is of the replay."""
    if not each.replay_gaps:
        return ""
    some = each.replay_gaps < each.launches
    of_all = f" of {each.replay_gaps:,} of {count_noun(each.launches, 'profiled launch')}"
    return f"; the replay{of_all if some else ''} differs from the run"


def gap_note(top: TopDocument) -> str | None:
    """`gap_command` follows it."""
    number = sum(gpu.replay_gaps for gpu in top.gpus)
    if not number:
        return None
    whose, which = ("it", "") if number == 1 else ("them", ", for the one with the most time")
    return (
        f"The times of {count_noun(number, 'profiled launch')} in the run and under the profiler "
        f"differ by more than {DIFFERS:g}x: no saving is claimed for {whose}. Why{which}:"
    )


def gap_command(top: TopDocument) -> str:
    """Says why the launch that stands for the most time differs."""
    most = max(top.gpus, key=lambda gpu: gpu.replay_gap_us or 0.0)
    example = most.gap_example
    path = shlex.quote(one_line(example.path)) if example else "REPORT"
    return f"keet explain {path}" + (f" --launch {example.launch}" if example else "")
