"""The view of `keet diff` for a terminal: verdict, table of kernels, causes of each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.comparison.causes.attribution import Attribution
from keet.comparison.caveat import Caveat
from keet.comparison.result import Difference, Gate, PairDifference
from keet.comparison.sentences import (
    NOT_PROFILED,
    basis_text,
    how_paired,
    limits,
    nothing_next,
    span_text,
    unprofiled_text,
)
from keet.formatting import capitalized
from keet.render.common.device import describe_device
from keet.render.common.diff import (
    caveat_text,
    change_of,
    finding_words,
    gate_notes,
    is_alone,
    launch_cells,
    numbers_of,
    pairs_in_full,
    shown_times,
    side_name,
    time_headings,
    verified_text,
)
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text

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
_ESTIMATES = " The percentages of causes (why) are estimates, each taken on its own."
_OPPOSITE = {"saved": "takes longer now", "lost": "takes less time now"}
_INDENT = 9
_ROWS = 20
"""Kernels in the table; the others are only counted."""


def diff_view(difference: Difference, top: int, width: int) -> Group:
    verdict = Text(difference.verdict.headline, style=_STYLE[difference.verdict.word])
    parts: list[Renderable] = [verdict, _heading(difference)]
    parts += [Text(each) for each in (basis_text(difference), span_text(difference)) if each]
    parts += _reasons(difference.all_caveats)
    if difference.rows > 1:
        parts += ["", _table(difference, width)]
    for pair in pairs_in_full(difference.pairs, top):
        parts += ["", *_pair(pair, alone=is_alone(difference))]
    parts += ["", *_closing(difference, pairs_in_full(difference.pairs, top))]
    if difference.gate:
        parts += ["", *_gate(difference.gate)]
    return Group(*parts)


def _heading(difference: Difference) -> Text:
    devices = {d: None for run in difference.sides[1].captures for d in run.profile.devices}
    return Text.assemble(
        (side_name(difference.sides[0]), "bold"), " → ", (side_name(difference.sides[1]), "bold"),
        f" on {', '.join(map(describe_device, devices))}",
    )  # fmt: skip


def _reasons(reasons: Sequence[Caveat]) -> Iterator[Renderable]:
    for reason in reasons:
        style = {"forbids": "bold red", "weakens": "yellow", "note": "dim"}[reason.severity]
        yield Text(caveat_text(reason), style=style)


def _table(difference: Difference, width: int) -> Table:
    pairs = difference.pairs
    table = Table(is_ruled=True)
    before, after = map(capitalized, time_headings(difference))
    launches = ["Launches"] if difference.verdict.basis == "run" else []
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
        times = map(str, rest.time.evidence)
        cells = ["", "", NOT_PROFILED, "", *times, "", ""]
        table.add_row(*cells[: len(table.columns)])
    return table


def _row(pair: PairDifference) -> list[Renderable]:
    before, after = shown_times(pair)
    limits = " → ".join(dict.fromkeys(pair.limiter or ()))
    word = pair.verdict.word if pair.on_both else "unchanged"
    return [
        numbers_of(pair.before),
        numbers_of(pair.after),
        Text(pair.kernel),
        *launch_cells(pair),
        before,
        after,
        Text(change_of(pair), style=_STYLE[word]),
        limits,
    ]


def _pair(pair: PairDifference, *, alone: bool) -> Iterator[Renderable]:
    """If there is only one kernel, its times are already in the heading."""
    summary = limits(pair) or "" if alone else pair.verdict.headline
    yield Text.assemble((pair.kernel, "bold"), f": {summary}" if summary else "")
    if how := how_paired(pair):
        yield Indented(Text(how, style="dim"), 2)
    if shares := _shares_text(pair):
        yield Indented(Text(shares, style="dim"), 2)
    last = ""
    for each in pair.attribution:
        heading = _HEADINGS[each.kind]
        yield _attribution(heading if heading != last else "", each)
        last = heading
    yield from _findings(pair)


def _shares_text(pair: PairDifference) -> str:
    """What the percentages of the rows mean; empty if no row has one."""
    shares = [each.share for each in pair.attribution if each.share is not None]
    if not shares:
        return ""
    word = "saved" if pair.timing.saved > 0 else "lost"
    negative = f"; negative: {_OPPOSITE[word]}" if min(shares) < 0 else ""
    return f"Percentages are shares of the time {word} in this kernel{negative}."


def _attribution(heading: str, each: Attribution) -> Table:
    share = f"{each.percent:.0f}" if each.percent else ""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=_INDENT - 1, style="cyan", justify="right")
    line.add_column(width=5, justify="right")
    line.add_column()
    code = Text(f"  {each.code}", style="italic") if each.code else Text("")
    line.add_row(heading, Text(share, style="bold"), Text.assemble(each.what, code))
    return line


def _findings(pair: PairDifference) -> Iterator[Renderable]:
    styles = {"fixed": "green", "now reported": "red"}
    texts = [
        Text.assemble((f"{word}: ", styles.get(word, "dim")), ids)
        for word, ids in finding_words(pair)
    ]
    if texts:
        line = Table.grid(padding=(0, 1))
        line.add_column(width=_INDENT - 1, style="cyan", justify="right")
        line.add_column()
        line.add_row("findings", Text("; ").join(texts))
        yield line


def _closing(difference: Difference, printed: Sequence[PairDifference]) -> Iterator[Renderable]:
    if share := unprofiled_text(difference):
        yield Text(f"{share}.")
    step = difference.next
    if step:
        yield Text.assemble(("Next: ", "bold"), step.text)
        action = Text.assemble(("→ ", "bold"), step.action)
        yield Indented(action, 2)
    else:
        yield Text.assemble(("Next: ", "bold"), nothing_next(difference))
    rows = [each for pair in printed for each in pair.attribution]
    estimates = _ESTIMATES if any(each.percent and each.kind == "cause" for each in rows) else ""
    yield Text(f"{verified_text(difference)}.{estimates}", style="dim")


def _gate(gate: Gate) -> Iterator[Renderable]:
    yield Text(capitalized(gate.verdict), style="bold red" if gate.failed else "bold green")
    for regression in gate.regressions:
        yield Text(f"  {regression.text}")
    for line in gate_notes(gate):
        yield Text(f"  {line}", style="yellow")
