"""`keet top`: opportunities for the eye, for a spreadsheet and for a page."""

from __future__ import annotations

import csv
import io
import shlex
from collections import defaultdict
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.catalog import findings
from keet.errors import one_line
from keet.explanation.gain_texts import range_text, times_text
from keet.profile import shape_text
from keet.render.markdown import code, prose, table
from keet.render.store_documents import (
    GainDocument,
    GpuDocument,
    OpportunityDocument,
    TopDocument,
)
from keet.render.top_runs import (
    about_no_runs,
    about_runs,
    count,
    duration,
    gap_command,
    gap_mark,
    gap_note,
    gpu_count,
    is_unlike,
    launches_cell,
    launches_text,
    percent,
    pool_text,
    saved_of,
    sections,
    shared_time,
    unlike_mark,
    unlike_note,
    whole_runs,
)

_WIDE = 140
"""Columns from which limiter, finding and GPU have columns of their own."""
_MOST_GPUS = 5
"""That head the list."""


def top_view(top: TopDocument, width: int) -> Group:
    rows = _wide(top) if width >= _WIDE else _blocks(top)
    notes = (Text(note, style="dim") for note in _notes(top))
    where = _unbroken(one_line(top.store), "bold")
    head = (Text(line) for line in (_heading(top), *(f"  {line}" for line in _gpu_lines(top))))
    about = (Text(line, style="dim") for line in _about(top))
    gaps = _gaps(top)
    return Group(where, *head, *about, Text(""), *rows, *notes, *gaps, _unbroken(next_step(top)))


def _gaps(top: TopDocument) -> list[Text]:
    note = gap_note(top)
    if note is None:
        return []
    return [Text(note, style="dim"), _unbroken(f"    {gap_command(top)}", "dim")]


_ORDER = "Shares are of the time on each one's own GPU; ranked by the share that would be saved."


def _about(top: TopDocument) -> list[str]:
    """What times and shares are of."""
    order = [_ORDER] if len(top.gpus) > 1 else []
    return about_runs(top) if top.runs else [about_no_runs(top), *order]


def _unbroken(text: str, style: str = "") -> Text:
    """A line to be copied: the terminal may wrap it, keet does not."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _heading(top: TopDocument) -> str:
    """Of files that failed nobody knows whose they are: they are told where nothing is chosen."""
    whole = top.device is None and top.kernel is None
    failed = f" ({top.failed:,} more failed)" if top.failed and whole else ""
    launches = count(top.launches, "launch", "es")
    if top.runs and len(top.gpus) == 1:
        runs = whole_runs(top.gpus[0])
        return f"{runs[0].upper()}{runs[1:]}; {launches} profiled{failed}"
    time = f"{duration(top.time_us)} of GPU time in " if top.time_us is not None else ""
    gpus = f" on {gpu_count(top):,} GPUs" if gpu_count(top) > 1 else ""
    return f"{time}{launches} of {count(top.reports, 'report')}{gpus}{failed}"


def _gpu_lines(top: TopDocument) -> list[str]:
    if len(top.gpus) < 2:
        return []
    lines = [
        f"{name}: {pool_text(top, gpu)}"
        for name, gpu in zip(_device_names(top.gpus, top.gpus), top.gpus)
    ]
    left = len(lines) - _MOST_GPUS
    return [*lines[:_MOST_GPUS], f"and {left:,} more"] if left > 0 else lines


# --- rows


def _wide(top: TopDocument) -> list[RenderableType]:
    """One row each, and under them all how to see more of each."""
    grids: list[RenderableType] = []
    for title, some in sections(top):
        grids += [*_title(title), _grid(top, some), Text("")]
    commands = [_unbroken(f"{each.rank:>2}  {_marked(each)}", "dim") for each in top.opportunities]
    return [*grids, *commands, Text("")]


def _title(title: str | None) -> list[Text]:
    return [Text(title, style="bold"), Text("")] if title else []


def _grid(top: TopDocument, some: Sequence[OpportunityDocument]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("", "could save", "share", "time", "launches"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name in ("file" if top.by == "file" else "kernel", "GPU", "limiter", "finding"):
        grid.add_column(name, overflow="fold")
    grid.add_column("forecast", no_wrap=True)
    for each, device in zip(some, _device_names(some, top.gpus)):
        what = Text.assemble((_name(top, each), "bold"), f"\n{_shape(each)}" if each.grid else "")
        grid.add_row(
            Text(str(each.rank), style="dim"),
            Text(_saving(top, each), style="bold green" if each.saved_us else ""),
            *(percent(each.share), duration(each.time_us), launches_cell(each)),
            *(what, device, each.limiter or "-"),
            *(_finding(each) + _remarks(each), forecast_text(each.forecast)),
        )
    return grid


def _remarks(each: OpportunityDocument) -> str:
    """Why no saving is claimed for a part of its time."""
    return gap_mark(each) + unlike_mark(each)


def _blocks(top: TopDocument) -> list[RenderableType]:
    """A few lines each, for eighty columns."""
    parts: list[RenderableType] = []
    for title, some in sections(top):
        parts += _title(title)
        for each, device in zip(some, _device_names(some, top.gpus)):
            parts += _block(top, each, device)
    return parts


def _block(top: TopDocument, each: OpportunityDocument, device: str) -> list[RenderableType]:
    saves = f"could save {_saving(top, each)}" if each.saved_us else _no_saving(each)
    gain = each.forecast
    told = f": {range_text(each.finding, gain.low, gain.likely, gain.high)}" if gain else ""
    first = Table.grid()
    first.add_column(min_width=4)
    first.add_row(
        Text(f"{each.rank:>2}. ", style="dim"),
        Text.assemble((saves, "bold green" if each.saved_us else ""), f"; {_taken(top, each)}"),
    )
    by_finding = top.by == "finding"
    rest = [
        Text.assemble((_name(top, each), "" if by_finding else "bold"), _aside(top, each)),
        Text.assemble((_finding(each), "bold" if by_finding else ""), told, _remarks(each)),
        Text(f"limiter: {each.limiter or 'not known'}, on {device}"),
    ]
    if by_finding:
        rest[:2] = rest[1::-1]
    command = _unbroken(f"    {_marked(each)}", "dim")
    return [first, *(Padding(line, (0, 0, 0, 4)) for line in rest), command, Text("")]


def _taken(top: TopDocument, each: OpportunityDocument) -> str:
    launches = launches_text(each)
    if each.time_us is None:
        return f"the time of {launches} was not measured"
    share = f"{percent(each.share)} of {shared_time(top, each)}"
    return f"takes {duration(each.time_us)} in {launches}, {share}"


def _name(top: TopDocument, each: OpportunityDocument) -> str:
    if top.by == "file":
        return one_line(each.path)
    if top.by == "finding" and each.kernels > 1:
        return f"{one_line(each.kernel)} and {each.kernels - 1:,} more"
    return one_line(each.kernel)


def _aside(top: TopDocument, each: OpportunityDocument) -> str:
    """What else tells the group from others."""
    if top.by == "file":
        return f"  {one_line(each.kernel)}"
    return f"  {_shape(each)}" if each.grid else ""


def _shape(each: OpportunityDocument) -> str:
    return f"<<<{_stored(each.grid)}, {_stored(each.block)}>>>"


def _stored(shape: str | None) -> str:
    """A store keeps `256x1024x1`, to be compared in SQL."""
    sizes = shape.split("x") if shape else []
    if not all(map(str.isdecimal, sizes)):  # a store that keet did not write
        return one_line(shape or "")
    return shape_text([*map(int, sizes)], "-")


def _saving(top: TopDocument, each: OpportunityDocument) -> str:
    """With what it is ranked by, where the times alone don't show that."""
    if not each.finding:
        return "-"
    part, share = saved_of(each), ""
    if each.saved_us and len(top.gpus) > 1:
        share = f" ({percent(each.saved_share)}{' of all' if part else ''})"
    return f"{duration(each.saved_us)}{part}{share}"


def _no_saving(each: OpportunityDocument) -> str:
    unclear = each.replay_gaps or is_unlike(each)
    if each.finding is not None or unclear:
        known = each.saved_us is not None and not unclear
        return "no saving known" if known else "what could be saved is not known"
    return "no saving known" if each.not_judged < each.launches else "not judged"


def _finding(each: OpportunityDocument) -> str:
    """By its label, as `keet explain` has it."""
    if each.finding is None:
        return _no_finding(each)
    spec = findings().get(each.finding)
    label = spec.label if spec else one_line(each.finding)  # a store that keet did not write
    if each.finding_launches == each.launches:
        return label
    return f"{label} (in {each.finding_launches:,} of {each.launches:,} launches)"


def _no_finding(each: OpportunityDocument) -> str:
    """Nothing is known of a launch without counters, which is not the same as no finding."""
    if not each.not_judged:
        return "no finding"
    lacks = "nothing was measured that says where the time goes"
    if each.not_judged == each.launches:
        return f"not judged: {lacks}"
    return f"no finding ({each.not_judged:,} of {each.launches:,} launches not judged: {lacks})"


def forecast_text(forecast: GainDocument | None) -> str:
    if forecast is None:
        return "-"
    low, likely, high = map(times_text, (forecast.low, forecast.likely, forecast.high))
    return f"{likely} ({low} to {high})"


def _device_names(
    named: Sequence[OpportunityDocument | GpuDocument], gpus: Sequence[GpuDocument]
) -> list[str]:
    """A slice of a GPU has the name of the whole: told apart by its SMs where both are there."""
    sizes: dict[str | None, set[int | None]] = defaultdict(set)
    for gpu in gpus:
        sizes[gpu.device].add(gpu.sm_count)
    return [
        one_line(each.device or "a GPU without a name")
        + (f" ({each.sm_count or '?'} SMs)" if len(sizes[each.device]) > 1 else "")
        for each in named
    ]


def _marked(each: OpportunityDocument) -> str:
    return f"{example(each)}  # the file is gone" if each.gone else example(each)


def example(each: OpportunityDocument) -> str:
    return f"keet explain {shlex.quote(one_line(each.path))} --launch {each.launch}"


# --- what else is to be said


def _notes(top: TopDocument) -> list[str]:
    notes = []
    if top.untimed:
        noun = "launch has" if top.untimed == 1 else "launches have"
        notes.append(f"{top.untimed:,} {noun} no measured duration: counted, and in no time here.")
    if top.kernel is not None:
        notes.append("Shares are of the time of all kernels on that GPU.")
    if gone := sum(each.gone for each in top.opportunities):
        noun = "report is no longer where it was" if gone == 1 else "reports are no longer there"
        take = f"keet batch DIR -o {shlex.quote(one_line(top.store))} --prune"
        notes.append(f"{gone:,} {noun}; take what is gone out of the store with: {take}")
    if top.groups > len(top.opportunities):
        notes.append(f"{len(top.opportunities):,} of {top.groups:,} groups; more with --limit N.")
    return [*notes, *unlike_note(top)]


def next_step(top: TopDocument) -> str:
    """The last line: what to do now."""
    if not top.opportunities:
        return "Nothing to rank."
    there = [each for each in top.opportunities if not each.gone]
    if not there:
        return f"next: keet batch DIR -o {shlex.quote(one_line(top.store))} --prune"
    return f"next: {example(there[0])}"


# --- other forms

_CSV = tuple(OpportunityDocument.model_fields)
_ADDED = ("basis", "run_launches", "replay_gaps", "saved_of_us", "unknown_us", "unlike_us")
"""Columns that came later: they are the last, so that those before them stay where they were."""


def top_csv(top: TopDocument) -> str:
    """A row per group; the forecast in three columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    plain = [name for name in _CSV if name not in ("forecast", *_ADDED)]
    writer.writerow([*plain, "forecast_low", "forecast_likely", "forecast_high", *_ADDED])
    for each in top.opportunities:
        gain = each.forecast
        cells = [getattr(each, name) for name in plain]
        cells += (gain.low, gain.likely, gain.high) if gain else ("", "", "")
        writer.writerow([*cells, *(getattr(each, name) for name in _ADDED)])
    return out.getvalue()


def top_markdown(top: TopDocument) -> str:
    parts = [
        f"{code(top.store)}: {prose(_heading(top))}",
        *_markdown_gpus(top),
        *_markdown_tables(top),
        *map(prose, _notes(top)),
        *([f"{prose(note)} {code(gap_command(top))}"] if (note := gap_note(top)) else []),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown_tables(top: TopDocument) -> list[str]:
    header = (
        top.by,
        "could save",
        "share",
        "time",
        "launches",
        "GPU",
        "limiter",
        "forecast",
        "see",
    )
    parts = []
    for title, some in sections(top):
        names = _device_names(some, top.gpus)
        rows = [_markdown_row(top, each, device) for each, device in zip(some, names)]
        parts += [*([f"{prose(title)}:"] if title else []), table(header, rows)]
    return parts


def _markdown_gpus(top: TopDocument) -> list[str]:
    lines = ["\n".join(f"- {prose(line)}" for line in _gpu_lines(top))]
    return [*filter(None, lines), *map(prose, _about(top))]


def _markdown_row(top: TopDocument, each: OpportunityDocument, device: str) -> list[str]:
    shape = _shape(each) if each.grid else ""
    found = _finding(each) + _remarks(each)
    what = {"kernel": f"{code(each.kernel + shape)}: {prose(found)}"}
    what["finding"] = f"{prose(found)}: {prose(_name(top, each))}"
    what["file"] = f"{code(each.path)}: {prose(found)}"
    on = prose(device)
    return [
        *(what[top.by], _saving(top, each), percent(each.share), duration(each.time_us)),
        *(launches_cell(each), on, prose(each.limiter or "-")),
        forecast_text(each.forecast),
        code(example(each)) + (" (the file is gone)" if each.gone else ""),
    ]
