"""The view of `keet cases` for a terminal: the casebook as a list, and one case in full."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from keet.catalog import metric_with_id
from keet.documents.cases import CaseDocument
from keet.findings import findings
from keet.formatting import (
    capitalized,
    count_noun,
    percent_text,
    share_text,
    speedup_text,
    times_text,
)
from keet.render.terminal.highlighted import Diff
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.units import Quantity

_WIDE = 110
"""Columns from which on a row has the time after the fix and the kind of kernel."""


def cases_view(
    entries: Sequence[CaseDocument],
    width: int,
    *,
    of: Sequence[CaseDocument] | None = None,
    in_full: str = "keet cases CASE",
) -> Group:
    """Grouped by finding. An id is never wrapped, so that it can be copied.

    `of`: number of all cases, if the entries are only a page of them. `in_full`: how to see one
    case in full.
    """
    parts: list[Renderable] = [
        Text(heading(of or entries), style="bold"),
        Text(_columns_text(entries, is_wide=width >= _WIDE), style="dim"),
    ]
    for finding, group in groupby(entries, lambda entry: entry.finding):
        parts += [Text(""), Text(f"{findings()[finding].label} ({finding})", style="bold")]
        parts.append(_table(list(group), width))
    return Group(*parts, Text(""), Text(f"One in full: {in_full}", style="dim"))


def _columns_text(entries: Sequence[CaseDocument], *, is_wide: bool) -> str:
    """What the columns are; `(all ...)` is explained with the first one of the table."""
    more = " and after it, kind of kernel" if is_wide else ""
    text = f"Columns: case, speed-up of the fix, time before the fix{more}."
    several = next((each for each in entries if each.steps and not each.lookalike), None)
    if several is None:
        return text
    return f"{text} (all {times_text(several.speedup)}): with the other causes fixed too."


def heading(entries: Sequence[CaseDocument]) -> str:
    """The first line: how many cases there are, and what their fixes gained."""
    families = len({entry.family for entry in entries})
    gains = [entry.gain for entry in entries if not entry.lookalike]
    alike = len(entries) - len(gains)
    parts = [f"{count_noun(len(entries), 'measured case')} from {count_noun(families, 'family')}"]
    if gains:
        parts.append(
            f"{count_noun(len(gains), 'fix')} gained {speedup_text(min(gains))} to "
            f"{speedup_text(max(gains))} (median {speedup_text(median(gains))})"
        )
    if alike:
        parts.append(
            f"{count_noun(alike, 'look-alike')}, whose fix gained less than 10% or made it slower"
        )
    return "; ".join(parts) + "."


def _table(entries: Sequence[CaseDocument], width: int) -> Table:
    wide = width >= _WIDE
    grid = Table(has_heading=False, padding=(0, 2))
    grid.add_column("case", no_wrap=True, min_width=min(54, width - 30))
    grid.add_column("speed-up", justify="right", no_wrap=True)
    grid.add_column("before", justify="right", no_wrap=True)
    if wide:
        grid.add_column("after", justify="right", no_wrap=True)
        grid.add_column("archetype", no_wrap=True)
    for entry in entries:
        more = (f"→ {_us(entry.after_us)}", entry.archetype) if wide else ()
        grid.add_row(f"  {entry.id}", _gain(entry), _us(entry.before_us), *more)
    return grid


def _gain(entry: CaseDocument) -> Text:
    """The gain of the cause that the case is listed under, then of all its causes."""
    if entry.lookalike:
        return Text(f"{speedup_text(entry.speedup)} (look-alike)", style="dim")
    alone = Text(f"{speedup_text(entry.gain)}", style="bold green")
    return (
        alone.append(f" (all {times_text(entry.speedup)})", style="not bold")
        if entry.steps
        else alone
    )


def _us(microseconds: float) -> str:
    return str(Quantity(microseconds * 1000, "ns"))


# --- one case


def case_view(entry: CaseDocument, _: int) -> Group:
    parts: list[Renderable] = [
        Text(_verdict(entry), style="bold"),
        Text(f"{entry.id}: {entry.title}, problem {entry.problem}, kernel {entry.kernel}"),
        Text(""),
        Text(entry.why),
        Text(f"→ {entry.fix}", style="green"),
        Text(""),
        _times(entry),
        *_steps(entry),
        *_others(entry),
        Text(""),
        Text(_judged(entry), style="dim"),
        _counters(entry),
        Text(""),
        Text(f"Source: {entry.file}, cause at {_lines(entry)}", style="dim"),
        _diff(entry),
        Text(""),
        *_provenance(entry),
    ]
    return Group(*parts)


def _diff(entry: CaseDocument) -> Indented:
    return Indented(Diff(entry.diff), 2, is_filled=True)


def _verdict(entry: CaseDocument) -> str:
    label = findings()[entry.finding].label
    change = f"{_us(entry.before_us)} → {_us(entry.after_us)}"
    if entry.lookalike:
        result = "gains only" if entry.speedup >= 1 else "makes it slower,"
        return (
            f"Looks like {label}, but removing it {result} {speedup_text(entry.speedup)}: {change}."
        )
    return f"{capitalized(label)}: the fix gains {speedup_text(entry.speedup)}, {change}."


def _lines(entry: CaseDocument) -> str:
    return f"line{'s' if len(entry.lines) > 1 else ''} {', '.join(map(str, entry.lines))}"


def _times(entry: CaseDocument) -> Text:
    return Text(
        f"Medians of {entry.launches} launches per side, run alternately with a cold L2. The 10th "
        f"and the 90th percentile are {percent_text(entry.spread_pct, 1)} of the median apart (on "
        f"the noisier side). Results checked for seeds {', '.join(map(str, entry.seeds))}. Before "
        f"the fix, the code reaches {share_text(entry.start_share_of_roofline)} of the speed that "
        "the roofline allows for the work it has to do."
    )


def _steps(entry: CaseDocument) -> list[Text]:
    if not entry.steps:
        return []
    rows = [
        Text(
            f"  {findings()[step.finding].label} fixed alone: {speedup_text(step.speedup)}, "
            f"{_us(step.after_us)}"
        )
        for step in entry.steps
    ]
    return [Text(""), Text("Several causes; each fix was measured alone:"), *rows]


def _others(entry: CaseDocument) -> list[Text]:
    """Causes that are also present and that no step fixes."""
    left = [name for name in entry.also if name not in {step.finding for step in entry.steps or ()}]
    labels = ", ".join(findings()[name].label for name in left)
    lines = [Text(f"Also present, not fixed: {labels}.")] if left else []
    hidden = [Text("The cause is not visible in the kernel's source.")] if entry.hidden else []
    return [*lines, *hidden]


def _judged(entry: CaseDocument) -> str:
    if entry.kernel == entry.kernel_after:
        return f"Counters of {entry.kernel}, one launch per side:"
    return f"Counters of one launch: {entry.kernel} before, {entry.kernel_after} after:"


def _counters(entry: CaseDocument) -> Table:
    grid = Table(is_ruled=True)
    grid.add_column("counter", overflow="fold")
    for name in ("before", "after"):
        grid.add_column(name, justify="right", no_wrap=True)
    moved = entry.moved
    grid.add_row(Text(moved.metric, style="bold"), _plain(moved.before), _plain(moved.after))
    for name, (before, after) in entry.counters.items():
        spec = metric_with_id(name)
        grid.add_row(spec.label, _value(before, spec.unit), _value(after, spec.unit))
    return grid


def _plain(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else str(Quantity(value, unit))


def _provenance(entry: CaseDocument) -> list[Text]:
    measured = (
        f"{entry.gpu}, driver {entry.driver}, CUDA {entry.cuda}, ncu {entry.ncu}, {entry.date}; "
        f"split: {entry.split}"
    )
    before, after = entry.profiles
    return [
        Text(measured, style="dim"),
        Text("In a clone of keet's repository:", style="dim"),
        *(
            Text(f"  {command}", style="dim", no_wrap=True, overflow="ignore")
            for command in (f"keet explain {before}", f"keet diff {before} {after}")
        ),
    ]
