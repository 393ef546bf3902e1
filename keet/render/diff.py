"""`keet diff` on a terminal: the verdict, a table of kernels, and what accounts for each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.catalog import findings
from keet.comparison.attribution import Attribution
from keet.comparison.gate import Gate
from keet.comparison.reasons import Reason
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sides import Group as KernelGroup
from keet.comparison.sides import Side
from keet.comparison.telling import (
    NOT_PROFILED,
    basis_text,
    counted_launches,
    grounded,
    headline,
    how_paired,
    limits,
    nothing_next,
    pair_headline,
    span_text,
    unprofiled_text,
)
from keet.render.show import describe_device

_STYLE = {
    "faster": "bold green",
    "slower": "bold red",
    "unchanged": "bold",
    "inconclusive": "yellow",
}
_HEADINGS = {
    "fusion": "kernels",
    "cause": "why",
    "account": "time",
    "unit": "units",
    "line": "lines",
    "work": "also",
}
_SHARES = (
    "Percentages are shares of the time saved or lost; those for causes (why) are estimates, each "
    "taken on its own."
)
_SEVERITY = {"forbids": "not comparable", "weakens": "weakens it", "note": "note"}
_INDENT = 9
_ROWS = 20
"""Kernels in the table; the others are counted."""


def diff_view(difference: Difference, gate: Gate | None, top: int, width: int) -> Group:
    said = Text(headline(difference), style=_STYLE[difference.timing.word])
    parts: list[RenderableType] = [said, _heading(difference)]
    parts += [Text(each) for each in (basis_text(difference), span_text(difference)) if each]
    parts += _reasons(difference.all_reasons)
    if difference.rows > 1:
        parts += ["", _table(difference, width)]
    for pair in told_in_full(difference.pairs, top):
        parts += ["", *_pair(pair, alone=is_alone(difference))]
    parts += ["", *_closing(difference, told_in_full(difference.pairs, top))]
    if gate:
        parts += ["", *_gate(gate)]
    return Group(*parts)


def is_alone(difference: Difference) -> bool:
    """The verdict is that of the only kernel."""
    (only, *others) = difference.pairs or (None,)
    same = only is None or only.timing.word == difference.timing.word
    return not others and difference.rows == 1 and not difference.no_total and same


def told_in_full(pairs: Sequence[PairDifference], top: int) -> list[PairDifference]:
    """Those that changed, the largest change first; of a single pair, that."""
    changed = [pair for pair in pairs if pair.timing.word in ("faster", "slower")]
    chosen = changed if len(pairs) > 1 else list(pairs)
    return sorted(chosen, key=lambda pair: -abs(pair.timing.saved))[:top]


def side_name(side: Side) -> str:
    """The report as the user named it, or the folder or baseline of several."""
    provenance = side.first.profile.provenance
    path = provenance.snapshot or provenance.path
    folder = PurePath(path).parent
    name = f"baseline {folder.name}" if folder.parent.name == "baselines" else None
    if len(side.runs) == 1:
        return name or path
    return f"{name or folder} ({len(side.runs)} runs)"


def _heading(difference: Difference) -> Text:
    devices = {d: None for run in difference.after.runs for d in run.profile.devices}
    return Text.assemble(
        (side_name(difference.before), "bold"), " → ", (side_name(difference.after), "bold"),
        f" on {', '.join(map(describe_device, devices))}",
    )  # fmt: skip


def _reasons(reasons: Sequence[Reason]) -> Iterator[RenderableType]:
    for reason in reasons:
        style = {"forbids": "bold red", "weakens": "yellow", "note": "dim"}[reason.severity]
        yield Text(reason_text(reason), style=style)


def reason_text(reason: Reason) -> str:
    return reason.text if reason.no_verdict else f"{_SEVERITY[reason.severity]}: {reason.text}"


def numbers_of(groups: Sequence[KernelGroup]) -> str:
    """`0-2`, `0, 4`: which launches of the report."""
    ids = sorted(launch.id for group in groups for launch in group.launches)
    spans: list[list[int]] = []
    for number in ids:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:3]) or "-"


def change_of(pair: PairDifference) -> str:
    if pair.basis == "run" and pair.timing.unmeasured:
        return "not known"
    if not pair.on_both:
        return "gone" if pair.pairing.before else "new"
    return pair_headline(pair).partition(":")[0]


def time_headings(difference: Difference) -> tuple[str, str]:
    per = " per launch" if difference.basis == "per_launch" else ""
    return f"before{per}", f"after{per}"


def _table(difference: Difference, width: int) -> Table:
    pairs = difference.pairs
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    before, after = (each.capitalize() for each in time_headings(difference))
    launches = ["Launches"] if difference.basis == "run" else []
    right = {before, after, "Change", "Launches"}
    for name in ("#", "→ #", "Kernel", *launches, before, after, "Change", "Limited by"):
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    if width < 100:
        table.columns.pop()
    for pair in pairs[:_ROWS]:
        table.add_row(*_row(pair)[: len(table.columns)])
    if len(pairs) > _ROWS:
        table.caption = f"and {len(pairs) - _ROWS} more kernels"
    if rest := difference.not_profiled:
        cells = ["", "", NOT_PROFILED, "", str(rest.before), str(rest.after), "", ""]
        table.add_row(*cells[: len(table.columns)])
    return table


def _row(pair: PairDifference) -> list[RenderableType]:
    before, after = shown_times(pair)
    limits = " → ".join(dict.fromkeys(pair.limiters or ()))
    word = pair.timing.word if pair.on_both else "unchanged"
    return [
        numbers_of(pair.pairing.before),
        numbers_of(pair.pairing.after),
        Text(pair.kernel),
        *launch_cells(pair),
        before,
        after,
        Text(change_of(pair), style=_STYLE[word]),
        limits,
    ]


def shown_times(pair: PairDifference) -> tuple[str, str]:
    """In cells of a table: `-` where a side has no such kernel, or no time."""
    timing, time, known = pair.timing, pair.time, pair.known_time
    ends = (time.before, time.after) if time else (known, known)
    before = str(ends[0]) if ends[0] and timing.before is not None else "-"
    after = str(ends[1]) if ends[1] and timing.after is not None else "-"
    return before, after


def launch_cells(pair: PairDifference) -> list[str]:
    """Of the runs; no cell where the times are not of runs."""
    if pair.basis != "run":
        return []
    return [counted_launches(pair.counted, noun="") if pair.counted else "-"]


def _pair(pair: PairDifference, *, alone: bool) -> Iterator[RenderableType]:
    """Of a single kernel, the times were said already."""
    said = limits(pair) or "" if alone else pair_headline(pair)
    yield Text.assemble((pair.kernel, "bold"), f": {said}" if said else "")
    if how := how_paired(pair):
        yield Padding(Text(how, style="dim"), (0, 0, 0, 2), expand=False)
    last = ""
    for each in pair.attribution:
        heading = _HEADINGS[each.kind]
        yield _attribution(heading if heading != last else "", each)
        last = heading
    yield from _findings(pair)


def _attribution(heading: str, each: Attribution) -> Table:
    share = f"{each.share:.0f}" if each.share else ""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=_INDENT - 1, style="cyan", justify="right")
    line.add_column(width=5, justify="right")
    line.add_column()
    code = Text(f"  {each.code}", style="italic") if each.code else Text("")
    line.add_row(heading, Text(share, style="bold"), Text.assemble(each.what, code))
    return line


def finding_words(pair: PairDifference) -> list[tuple[str, str]]:
    """What became of the findings, in words."""
    known = findings()
    outcome = pair.outcome
    groups = (
        ("fixed", outcome.fixed),
        ("new", outcome.new),
        ("remaining", outcome.remaining),
        ("not told by both reports", outcome.unknown),
    )
    return [(word, ", ".join(known[each].label for each in ids)) for word, ids in groups if ids]


def _findings(pair: PairDifference) -> Iterator[RenderableType]:
    styles = {"fixed": "green", "new": "red"}
    told = [
        Text.assemble((f"{word}: ", styles.get(word, "dim")), ids)
        for word, ids in finding_words(pair)
    ]
    if told:
        line = Table.grid(padding=(0, 1))
        line.add_column(width=_INDENT - 1, style="cyan", justify="right")
        line.add_column()
        line.add_row("findings", Text("; ").join(told))
        yield line


def _closing(difference: Difference, told: Sequence[PairDifference]) -> Iterator[RenderableType]:
    if share := unprofiled_text(difference):
        yield Text(f"{share}.")
    step = difference.next_step
    if step:
        yield Text.assemble(("Next: ", "bold"), step.text)
        action = Text.assemble(("→ ", "bold"), step.action)
        yield Padding(action, (0, 0, 0, 2), expand=False)
    else:
        yield Text.assemble(("Next: ", "bold"), nothing_next(difference))
    checked = grounded(difference)
    verified = f"{len(checked.verified)} of {checked.numbers} numbers verified against "
    shares = f" {_SHARES}" if any(each.share for pair in told for each in pair.attribution) else ""
    yield Text(f"{verified}{sources(difference)}.{shares}", style="dim")


def sources(difference: Difference) -> str:
    """What the numbers are held to."""
    return "the reports and tables of the runs" if difference.basis == "run" else "the reports"


def _gate(gate: Gate) -> Iterator[RenderableType]:
    verdict = gate_verdict(gate)
    yield Text(verdict[:1].upper() + verdict[1:], style="bold red" if gate.failed else "bold green")
    for regression in gate.regressions:
        yield Text(f"  {regression.text}")
    for line in gate_notes(gate):
        yield Text(f"  {line}", style="yellow")


def gate_verdict(gate: Gate) -> str:
    if gate.failed:
        count = len(gate.regressions)
        return f"gate of {gate.percent:g} % failed: {count} regression{'s' * (count > 1)}"
    return f"gate of {gate.percent:g} % passed"


def gate_notes(gate: Gate) -> Iterator[str]:
    if gate.blurred:
        names = ", ".join(gate.blurred[:3])
        yield f"noise exceeds the gate for {names}: add runs (--before-run, --after-run)"
    if gate.alone:
        yield f"not gated by itself: {', '.join(gate.alone[:5])}"
    if gate.missing:
        yield f"not on both sides: {', '.join(gate.missing[:3])}"
    yield from gate.not_gated
