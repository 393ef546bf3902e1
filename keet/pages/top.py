"""The page of `keet top`: the largest possible savings, and what times and shares cover."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Literal

from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.documents.top import GpuDocument, OpportunityDocument, TopDocument
from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.finding_notes import range_text
from keet.findings import findings
from keet.formatting import capitalized, count_noun, noun_for, shape_text, share_cell, times_text
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Gap,
    Heading,
    Item,
    Items,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
)
from keet.units import Quantity

_GPU_LINES = 5
"""GPUs with a line above the list, at most."""
_WIDE = 100
"""Columns of a terminal from which on the number of reports is shown."""
_DETAILED = 3
"""Groups of each list with details, unless all are asked for."""
_LEAST_UNLIKE = 0.01
"""Share of a group's time in launches of other lengths; less is not mentioned."""
_TITLES = {"run": "Whole runs", "reports": "Single launches"}
_CAUTION = (
    ", as profiled (time in the run not known): do not compare these times with those of whole runs"
)


def top_page(top: TopDocument, reader: Reader, *, every: bool = False) -> Page:
    """`every`: with the details of all groups."""
    return Page([*_blocks(top, reader, None if every else _DETAILED)])


def _blocks(top: TopDocument, reader: Reader, detailed: int | None) -> Iterator[Block]:
    yield Text(Span(top.store, "name"), is_unbroken=True)
    yield Text(_heading(top))
    if len(top.gpus) > 1:
        names = device_names(top.gpus, top.gpus)
        lines = [f"{name}: {_pool_text(top, gpu)}" for name, gpu in zip(names, top.gpus)]
        if (left := len(lines) - _GPU_LINES) > 0:
            lines[_GPU_LINES:] = [f"and {left:,} more"]
        yield Items([Item(line) for line in lines], mark="", indent=2)
    is_mixed = len({gpu.basis for gpu in top.gpus}) > 1  # only some reports have a run table
    lists = {
        basis: [*group] for basis, group in groupby(top.opportunities, lambda each: each.basis)
    }
    for basis, some in lists.items():
        more = [each for each in top.without_finding if each.basis == basis]
        yield Gap()
        if is_mixed:
            yield Heading(f"{_TITLES[basis]}{_CAUTION if basis == 'reports' else ''}", 2)
        yield _table(top, [*some, *more], is_wide=reader.width >= _WIDE)
    yield Gap()
    about = _about_runs(top) if top.runs else _about_no_runs(top)
    yield from (Text(line, "muted") for line in about)
    yield Gap()
    for basis, some in lists.items():
        if is_mixed:
            yield from (Heading(_TITLES[basis], 2), Gap())
        for each, device in zip(some[:detailed], device_names(some, top.gpus)):
            yield from _opportunity(top, each, device)
    if detailed is not None and any(len(some) > detailed for some in lists.values()):
        whose = f"the first {detailed} of each list" if is_mixed else f"the first {detailed}"
        command = f"keet top {shlex.quote(one_line(top.store))} --all"
        yield Text(f"Details are of {whose}; of all: {command}", "muted")
    yield from (Text(note, "muted") for note in _notes(top))
    yield from _gap_note(top)
    there = [opportunity for opportunity in top.opportunities if not opportunity.gone]
    command = _example_command(there[0]) if there else _prune(top)
    words = ("next: ", Span(command, "code"))
    yield Text(words if top.opportunities else "There is no launch to rank.", is_unbroken=True)


# --- groups of launches


def _table(top: TopDocument, some: Sequence[OpportunityDocument], *, is_wide: bool) -> Table:
    """One row per group. In a narrow terminal, the source line is below the last name."""
    others = ("time", "could save", "gain", "cause")
    titles = ["file" if top.by == "file" else "kernel", "finding"]
    if top.by == "finding":
        titles.reverse()
    overflow: Literal["fold", "ellipsis"] = "fold" if top.by == "file" else "ellipsis"
    columns = [Column("#", is_number=True), Column(titles[0], overflow=overflow)]
    columns += [Column(title, is_number=title != "cause") for title in others]
    last = [titles[1], "where"] if is_wide else [f"{titles[1]}, where"]
    columns += [Column(title, overflow="ellipsis") for title in last]
    columns.append(Column("reports", is_number=True, wide=_WIDE))
    rows: list[Sequence[Words | Cell]] = []
    for each in some:
        name = "/".join(PurePath(each.path).parts[-2:]) if top.by == "file" else each.kernel
        label = _finding_label(each) if each.finding else _without_finding(each)
        names = [Span(one_line(name), "name"), label]
        if top.by == "finding":
            names.reverse()
        saved = Span(duration(each.saved_us), "strong good") if each.saved_us else _no_saving(each)
        gain = ""  # more work in the same time is none
        if each.saved_us and each.saved_of_us:
            gain = times_text(each.saved_of_us / (each.saved_of_us - each.saved_us))
        place: Words = "not known" if each.finding else ""
        if each.file:
            file = PurePath(each.file.replace("\\", "/")).name
            place = Span(one_line(f"{file}:{each.line}"), "place")
        numbers = (duration(each.time_us), saved, gain, each.cause_certainty or "")
        cells = [names[1], place] if is_wide else [Cell(names[1], place if each.file else "")]
        rows.append([str(each.rank), names[0], *numbers, *cells, f"{each.reports:,}"])
    return Table(columns, rows)


def _opportunity(top: TopDocument, each: OpportunityDocument, device: str) -> Iterator[Block]:
    saves = f"could save {_saving(top, each)}" if each.saved_us else f"saving {_no_saving(each)}"
    look = "strong good" if each.saved_us else ""
    yield Text((Span(saves, look), f"; {_time_taken(top, each)}"), mark=f"{each.rank:>2}. ")
    is_by_finding = top.by == "finding"
    name = one_line(each.path if top.by == "file" else each.kernel)
    more = f" and {each.kernels - 1:,} more" if is_by_finding and each.kernels > 1 else ""
    shape = Span(f"  {launch_shape(each)}", "code") if each.grid else ""
    aside: Words = ("  ", Span(one_line(each.kernel), "code")) if top.by == "file" else shape
    finding = group_finding(each) if each.finding else _without_finding(each)
    what: list[Words] = [
        (Span(name, "name plain" if is_by_finding else "name"), more, aside),
        (Span(finding, "strong" if is_by_finding else ""), "".join(_about_finding(each))),
    ]
    if is_by_finding:
        what.reverse()
    what.append(f"limiter: {each.limiter or 'not known'}, on {device}")
    yield Items([Item(words) for words in what], mark="", indent=4)
    gone = "  # this file was moved or deleted" if each.gone else ""
    command = Span(_example_command(each), "code")
    yield Text((command, gone), "muted", is_unbroken=True, indent=4)
    yield Gap()


def _saving(top: TopDocument, each: OpportunityDocument) -> str:
    """The time saved. With several GPUs also its share."""
    basis_time, part = duration(each.saved_of_us), ""
    if each.basis != "reports" and basis_time != duration(each.time_us):
        part = f" of {basis_time}"  # the forecast is not for all of the group's time
    share = ""
    if len(top.gpus) > 1:
        share = f" ({_percent(each.saved_share)}{' of all' if part else ''})"
    return f"{duration(each.saved_us)}{part}{share}"


def _no_saving(each: OpportunityDocument) -> str:
    unclear = each.replay_gaps or _is_unlike(each)
    if each.finding is not None or unclear:
        known = each.saved_us is not None and not unclear
        return "none" if known else "not known"  # none: more work in the same time
    return "none known" if each.not_judged < each.launches else "not checked"


def _time_taken(top: TopDocument, each: OpportunityDocument) -> str:
    launches = count_noun(each.launches, "launch")
    if each.basis == "run":
        launches = f"{_launches(each.run_launches)} ({each.launches:,} profiled)"
    if each.time_us is None:
        return f"the time of {launches} was not measured"
    whole = "all GPU time"
    if each.basis == "run":
        whole = "the run's time" if top.runs == 1 else "the runs' time"
    elif top.runs:
        whole = "the profiled time"
    where = " on its GPU" if _gpu_count(top) > 1 else ""
    share = f"{_percent(each.share)} of {whole}{where}"
    return f"takes {duration(each.time_us)} in {launches}, {share}"


def group_finding(each: OpportunityDocument) -> str:
    """By its label, as in `keet explain`. A launch without metrics was not checked, nor was debug
    code, which is different from having no finding."""
    launches = f"{each.launches:,} launches"
    if each.finding is not None:
        label = _finding_label(each)
        is_partial = each.finding_launches != each.launches
        return f"{label} (in {each.finding_launches:,} of {launches})" if is_partial else label
    if each.debug_builds == each.launches:
        return "debug build"
    if each.debug_builds:
        return f"no finding ({each.debug_builds:,} of {launches}: debug build)"
    if not each.not_judged:
        return "no finding"
    lacks = "no metric shows where the time goes"
    if each.not_judged == each.launches:
        return f"not checked: {lacks}"
    return f"no finding ({each.not_judged:,} of {launches} not checked: {lacks})"


def _without_finding(each: OpportunityDocument) -> str:
    """Machine code that was not analysed may show a finding."""
    checked = each.launches - each.debug_builds - each.not_judged
    lacks_code = each.without_code > 0 and checked > 0
    return group_finding(each) + (" (machine code not analysed)" if lacks_code else "")


def _finding_label(each: OpportunityDocument) -> str:
    spec = findings().get(each.finding or "")
    if spec is None:
        return one_line(each.finding or "")  # a store that was not written by keet
    return spec.labels.get(each.variant or "", spec.label)


def forecast_text(each: OpportunityDocument) -> str:
    gain = each.forecast
    if gain is None:
        return ""
    bounds = [
        Evidence(f"forecast_{name}#store", f"forecast_{name}", value, "", "times faster")
        for name, value in (("low", gain.low), ("likely", gain.likely), ("high", gain.high))
    ]
    return range_text(each.finding, *bounds, variant=each.variant or "")


def _about_finding(each: OpportunityDocument) -> Iterator[str]:
    """Its forecast, and what that is for; which of the group's time it does not cover; how sure the
    cause is."""
    if each.forecast:
        yield f": {forecast_text(each)}"
        number = each.finding_launches
        if each.finding is not None and number != each.launches:
            yield " for this launch" if number == 1 else f" for these {number:,} launches"
    if each.replay_gaps:  # their forecast is for the time under the profiler
        some = each.replay_gaps < each.launches
        of_all = f" of {each.replay_gaps:,} of {count_noun(each.launches, 'launch')}"
        yield f"; the profiled time{of_all if some else ''} differs from the time in the run"
    if _is_unlike(each):
        yield f"; {duration(each.unlike_us)} is in launches of other lengths"
    if each.cause_certainty:
        yield f"  cause: {each.cause_certainty}"


def _is_unlike(each: OpportunityDocument) -> bool:
    """The run has launches that took much shorter or longer than the profiled ones."""
    unlike, time = each.unlike_us, each.time_us
    return bool(unlike and time and unlike >= _LEAST_UNLIKE * time)


def launch_shape(each: OpportunityDocument) -> str:
    """The store has the form `256x1024x1`."""
    shapes = []
    for shape in (each.grid or "", each.block or ""):
        sizes = shape.split("x") if shape else []
        is_stored = all(map(str.isdecimal, sizes))  # else the store was not written by keet
        shapes.append(shape_text([*map(int, sizes)], "-") if is_stored else one_line(shape))
    return f"<<<{', '.join(shapes)}>>>"


def _example_command(each: OpportunityDocument) -> str:
    return f"keet explain {shlex.quote(one_line(each.path))} --launch {each.launch}"


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


# --- what times and shares cover


def duration(microseconds: float | None) -> str:
    return "-" if microseconds is None else str(Quantity(microseconds * 1000, "ns"))


def _percent(share: float | None) -> str:
    return "-" if share is None else share_cell(share)


def _launches(number: float | None) -> str:
    """May be a fraction: profiled launches of one kernel share the launches of the run equally."""
    if number is None:
        return "- launches"
    digits = 0 if abs(number - round(number)) < 0.05 else 1
    return f"{number:,.{digits}f} {noun_for(number, 'launch')}"


def _gpu_count(top: TopDocument) -> int:
    """A GPU has two entries if only some of its reports have a run table; it counts once."""
    return len({(gpu.device, gpu.compute_capability, gpu.sm_count) for gpu in top.gpus})


def _heading(top: TopDocument) -> str:
    """Failed files are counted only without --device and --kernel, because their contents are not
    known."""
    whole = top.device is None and top.kernel is None
    failed = f" ({top.failed:,} more failed)" if top.failed and whole else ""
    launches = count_noun(top.launches, "launch")
    if top.runs and len(top.gpus) == 1:
        return f"{capitalized(_whole_runs(top.gpus[0]))}; {launches} profiled{failed}"
    time = f"{duration(top.time_us)} of GPU time in " if top.time_us is not None else ""
    gpus = f" on {_gpu_count(top):,} GPUs" if _gpu_count(top) > 1 else ""
    return f"{time}{launches} of {count_noun(top.reports, 'report')}{gpus}{failed}"


def _whole_runs(gpu: GpuDocument) -> str:
    launches = f"{_launches(gpu.run_launches)} of {count_noun(gpu.runs, 'whole run')}"
    return f"{_spent(gpu, gpu.time_us)} in {launches}"


def _spent(gpu: GpuDocument, time_us: float | None) -> str:
    if not gpu.summed_runs:
        return f"{duration(time_us)} of GPU time"
    if gpu.summed_runs == gpu.runs:
        return f"durations add up to {duration(time_us)}"
    return duration(time_us)


def _pool_text(top: TopDocument, gpu: GpuDocument) -> str:
    """The line of one GPU above the list."""
    launches = count_noun(gpu.launches, "launch")
    if not top.runs:
        return f"{duration(gpu.time_us)} in {launches}"
    if gpu.basis == "reports":
        return f"{duration(gpu.time_us)} in {launches}, as profiled"
    if not gpu.total_us or not (gpu.not_profiled_us or top.kernel):
        return f"{_whole_runs(gpu)} ({gpu.launches:,} profiled)"
    # Parts of all time. With --kernel, profiled kernels that do not match are left out.
    parts, missed = f"{duration(gpu.time_us)} in {_launches(gpu.run_launches)} of kernels that", ""
    if gpu.not_profiled_us:
        share = _percent(gpu.not_profiled_us / gpu.total_us)
        missed = f", {duration(gpu.not_profiled_us)} ({share}) in kernels that were not"
    if top.kernel is None:
        parts = f"{parts} were profiled ({launches}){missed}"
    else:
        missed = f"{missed} profiled" if missed else ""
        parts = f"{parts} match --kernel ({gpu.launches:,} profiled){missed}"
    return f"{_spent(gpu, gpu.total_us)} in {count_noun(gpu.runs, 'whole run')}: {parts}"


def _about_runs(top: TopDocument) -> Iterator[str]:
    if len(top.gpus) == 1:
        yield _about_one(top.gpus[0])
    else:
        if left := top.reports - top.runs:
            others = "the other report" if left == 1 else f"the other {left:,} reports"
            yield (
                f"{_known_runs(top)}. The launches of {others} count once, as profiled; do not "
                "compare times of whole runs with times of single launches."
            )
        yield f"Shares are of the time in the group's own line above; {_ranking(top)}"
    number, runs = sum(gpu.summed_runs for gpu in top.gpus), sum(gpu.runs for gpu in top.gpus)
    if number:  # run tables that only have durations
        table = "The run table does" if runs == 1 else "The run tables do"
        if number < runs:
            table = f"{number:,} of {runs:,} run tables {'does' if number == 1 else 'do'}"
        yield (
            f"{table} not record which kernels ran at the same time: the times are sums of "
            "durations, which may be more than the GPU time."
        )
    if any(opportunity.unknown_us for opportunity in top.opportunities):
        yield "In the ranking, time with an unknown saving counts in full."


def _about_one(gpu: GpuDocument) -> str:
    runs, their = ("the whole run", "its") if gpu.runs == 1 else ("the whole runs", "their")
    whole = "summed durations" if gpu.summed_runs else "GPU time"
    missed = ""
    if gpu.not_profiled_us and gpu.total_us:
        share = _percent(gpu.not_profiled_us / gpu.total_us)
        spent = duration(gpu.not_profiled_us)
        missed = f" Kernels that were not profiled take {spent} ({share}) of it."
    times = f"Times are of {runs}; shares are of {their} {whole}, {duration(gpu.total_us)}."
    return f"{times}{missed}"


def _about_no_runs(top: TopDocument) -> Iterator[str]:
    """For stores in which no launch has a time in a run."""
    once = "each launch counts once, as profiled"
    if top.known_runs:
        yield f"{_known_runs(top)}: {once}."
    else:
        none = "None of these reports has a run table"
        if top.reports == 1:
            none = "This report has no run table"
        yield f"{none}: {once} (keet profile records run tables)."
    if len(top.gpus) > 1:
        yield f"Shares are of the time on the group's own GPU; {_ranking(top)}"


def _ranking(top: TopDocument) -> str:
    if top.sort == "share":
        return "groups are ranked by the share that a fix could save."
    return "groups are ranked by the time that a fix could save (--sort share: by its share)."


def _known_runs(top: TopDocument) -> str:
    reports = count_noun(top.reports, "report")
    return capitalized(known_runs_text(top.known_runs, top.runs, reports))


def known_runs_text(runs: int, timed: int, of_all: str) -> str:
    """How many files have a run table. `timed`: number of these run tables that have times of the
    profiled launches."""
    have = f"{runs:,} of {of_all} {'has' if runs == 1 else 'have'} a run table"
    if timed == runs:
        return have
    if not timed:
        return f"{have}, without times of the profiled launches"
    return f"{have}, {timed:,} of them with times of the profiled launches"


# --- notes below the list


def without_code_text(without: int, reports: int) -> str:
    """What a store lacks that was made without --sass."""
    number = "all" if without == reports else f"{without:,} of {reports:,}"
    number = "this" if reports == 1 else number
    return (
        f"The machine code of {number} {'report' if reports == 1 else 'reports'} was not analysed: "
        "`keet explain` may find other causes. For its answers make a new store, which takes about "
        "twice as long: keet batch --sass DIR -o NEW"
    )


def _notes(top: TopDocument) -> Iterator[str]:
    if top.untimed:
        launches = count_noun(top.untimed, "launch has", "launches have")
        yield f"{launches} no measured duration, and no part in the times above."
    if top.without_code:
        yield without_code_text(top.without_code, top.reports)
    if top.kernel is not None:
        yield "Shares are of the time of all kernels on that GPU."
    if gone := sum(opportunity.gone for opportunity in top.opportunities):
        reports = count_noun(gone, "report was", "reports were")
        yield f"{reports} moved or deleted; remove such reports from the store: {_prune(top)}"
    if top.groups > len(top.opportunities):
        listed = f"{len(top.opportunities):,} of {top.groups:,} groups are listed"
        yield f"{listed}; list more with --top N."
    if any(map(_is_unlike, top.opportunities)):
        yield (
            "Launches of other lengths took less than half or more than twice as long in the run "
            "as the profiled launch: keet claims no saving for them."
        )


def _prune(top: TopDocument) -> str:
    return f"keet batch DIR -o {shlex.quote(one_line(top.store))} --prune"


def _gap_note(top: TopDocument) -> Iterator[Block]:
    """Launches that took another time in the run than under the profiler, and the command that
    explains it for the one that stands for the most time."""
    number = sum(gpu.replay_gaps for gpu in top.gpus)
    if not number:
        return
    whose, which = ("it", "") if number == 1 else ("them", " (the one with the most time)")
    yield Text(
        f"The times of {count_noun(number, 'launch')} in the run and under the profiler differ by "
        f"more than {REPLAY_DIFFERS:g}x: keet claims no saving for {whose}. See why{which}:",
        "muted",
    )
    example = max(top.gpus, key=lambda gpu: gpu.replay_gap_us or 0.0).gap_example
    path = shlex.quote(one_line(example.path)) if example else "REPORT"
    command = f"keet explain {path}" + (f" --launch {example.launch}" if example else "")
    yield Text(Span(command, "code"), "muted", is_unbroken=True, indent=4)
