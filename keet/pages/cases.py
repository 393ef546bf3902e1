"""Measured cases on the pages of `keet finding`: the casebook as a list, and one case in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from keet.catalog import metric_with_id
from keet.documents.finding import CaseDocument
from keet.findings import findings
from keet.formatting import (
    capitalized,
    count_noun,
    percent_text,
    share_text,
    speedup_text,
    times_text,
)
from keet.pages.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Command,
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
    table_of,
)
from keet.units import Quantity

_WIDE = 110
"""Columns from which on a row has the time after the fix and the kind of kernel."""


def cases_page(
    entries: Sequence[CaseDocument],
    reader: Reader,
    *,
    of: Sequence[CaseDocument] | None = None,
    in_full: str = "keet finding CASE",
) -> Page:
    """Grouped by finding. An id is wrapped only where the numbers have no room otherwise.

    `of`: all cases, if the entries are only a page of them. `in_full`: how to see one case in full.
    """
    more = " and after it, kind of kernel" if reader.width >= _WIDE else ""
    about = f"Columns: case, speed-up of the fix, time before the fix{more}."
    if several := next((each for each in entries if each.steps and not each.lookalike), None):
        about += f" (all {times_text(several.speedup)}): with the other causes fixed too."
    blocks: list[Block] = [Heading(heading(of or entries)), Text(about, "muted")]
    for finding, group in groupby(entries, lambda entry: entry.finding):
        indent = "  " if reader.format == "terminal" else ""
        rows: list[dict[Column, Words | Cell]] = [
            {
                Column("case", least=min(54, reader.width - 30)): f"{indent}{each.id}",
                Column("speed-up", is_number=True): _gain(each),
                Column("before", is_number=True): _us(each.before_us),
                Column("after", is_number=True, wide=_WIDE): f"→ {_us(each.after_us)}",
                Column("archetype", is_unbroken=True, wide=_WIDE): each.archetype,
            }
            for each in group
        ]
        blocks += [Gap(), Heading(f"{findings()[finding].label} ({finding})", 2)]
        blocks.append(table_of(rows, is_ruled=False, has_heading=False))
    return Page([*blocks, Gap(), Text(f"One in full: {in_full}", "muted")])


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


def _gain(entry: CaseDocument) -> Words:
    """The gain of the cause that the case is listed under, then of all its causes."""
    if entry.lookalike:
        return Span(f"{speedup_text(entry.speedup)} (look-alike)", "muted")
    together = Span(f" (all {times_text(entry.speedup)})", "good") if entry.steps else ""
    return Span(speedup_text(entry.gain), "strong good"), together


def _us(microseconds: float) -> str:
    return str(Quantity(microseconds * 1000, "ns"))


# --- one case


def case_page(entry: CaseDocument) -> Page:
    return Page([*_case(entry)])


def _case(entry: CaseDocument) -> Iterator[Block]:
    yield Heading(_verdict(entry))
    yield Text(f"{entry.id}: {entry.title}, problem {entry.problem}, kernel {entry.kernel}")
    yield from (Gap(), Text(entry.why), Text(f"→ {entry.fix}", "good"), Gap())
    yield Text(
        f"Medians of {entry.launches} launches per side, run alternately with a cold L2. The 10th "
        f"and the 90th percentile are {percent_text(entry.spread_pct, 1)} of the median apart (on "
        f"the noisier side). Results checked for seeds {', '.join(map(str, entry.seeds))}. Before "
        f"the fix, the code reaches {share_text(entry.start_share_of_roofline)} of the speed that "
        "the roofline allows for the work it has to do."
    )
    yield from _causes(entry)
    yield Gap()
    judged = f"Counters of {entry.kernel}, one launch per side:"
    if entry.kernel != entry.kernel_after:
        judged = f"Counters of one launch: {entry.kernel} before, {entry.kernel_after} after:"
    yield from (Text(judged, "muted"), _counters(entry), Gap())
    lines = f"line{'s' if len(entry.lines) > 1 else ''} {', '.join(map(str, entry.lines))}"
    yield Text(f"Source: {entry.file}, cause at {lines}", "muted")
    yield Code(entry.diff.splitlines(), "diff", has_bar=False, indent=2)
    yield Gap()
    yield Text(
        f"{entry.gpu}, driver {entry.driver}, CUDA {entry.cuda}, ncu {entry.ncu}, {entry.date}; "
        f"split: {entry.split}",
        "muted",
    )
    before, after = entry.profiles
    yield Text("In a clone of keet's repository:", "muted")
    yield from (Command(f"keet explain {before}"), Command(f"keet diff {before} {after}"))


def _verdict(entry: CaseDocument) -> str:
    label = findings()[entry.finding].label
    gain = speedup_text(entry.speedup)
    change = f"{_us(entry.before_us)} → {_us(entry.after_us)}"
    if entry.lookalike:
        result = "gains only" if entry.speedup >= 1 else "makes it slower,"
        return f"Looks like {label}, but removing it {result} {gain}: {change}."
    return f"{capitalized(label)}: the fix gains {gain}, {change}."


def _causes(entry: CaseDocument) -> Iterator[Block]:
    """What else is wrong in the code, and what its fix gained."""
    steps = entry.steps or ()
    if steps:
        yield from (Gap(), Text("Several causes; each fix was measured alone:"))
        texts = [
            f"{findings()[step.finding].label} fixed alone: {speedup_text(step.speedup)}, "
            f"{_us(step.after_us)}"
            for step in steps
        ]
        yield Items([*map(Item, texts)], mark="", indent=2)
    fixed = {step.finding for step in steps}
    if left := [findings()[name].label for name in entry.also if name not in fixed]:
        yield Text(f"Also present, not fixed: {', '.join(left)}.")
    if entry.hidden:
        yield Text("The cause is not visible in the kernel's source.")


def _counters(entry: CaseDocument) -> Table:
    moved = entry.moved
    plain = [
        "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        for value in (moved.before, moved.after)
    ]
    rows: list[Sequence[Words]] = [[Span(moved.metric, "strong"), *plain]]
    for name, values in entry.counters.items():
        spec = metric_with_id(name)
        cells = ["-" if value is None else str(Quantity(value, spec.unit)) for value in values]
        rows.append([spec.label, *cells])
    numbers = (Column(name, is_number=True) for name in ("before", "after"))
    return Table([Column("counter"), *numbers], rows)
