"""The page of `keet optimize`: the story of the rounds on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keet.documents.optimize import OptimizeDocument, RoundDocument
from keet.evidence import Evidence, Sentence, constant, counted
from keet.formatting import speedup_text
from keet.pages.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
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
    limited,
)
from keet.units import Quantity

_LOOKS = {"kept": "good", "no_gain": "muted", "no_change": "muted", "refused": "bad"}
_GOALS = {"gpu": "GPU time", "wall": "time of the program"}
_MOST_BARS = 24
"""Rounds in the chart of times: the last ones."""


def optimize_page(document: OptimizeDocument, reader: Reader) -> Page:
    words: list[Words] = [Span(document.source, "place plain")]
    words += [f" on {document.gpu}"] if document.gpu else []
    words.append(f", {_GOALS[document.goal]}")
    if document.kernel:
        words += [" of kernels that match ", Span(document.kernel, "code")]
    left = document.left
    blocks: list[Block] = [
        Heading(words, look=""),
        Gap(),
        Text(_result(document), "verdict"),
        *([Text(Sentence("{text}.", text=left.text).capitalized())] if left else []),
        Gap(),
        _table(document, reader),
        *_chart(document),
        *_next(document),
    ]
    return Page(blocks, "keet optimize")


def _result(document: OptimizeDocument) -> Sentence:
    stopped = document.stopped_text
    best = document.best
    if not document.rounds:
        return Sentence("No change was tried: {stopped}.", stopped=stopped)
    if best is None:
        return Sentence("No change made it faster: {stopped}.", stopped=stopped)
    doubt = "" if best.is_faster else "No gain above the noise, all changes together: "
    noise = Sentence("noise not known")
    if best.times.noise is not None:
        noise = Sentence("noise {noise:.1f}", noise=_noise(best.times.noise))
    return Sentence(
        "{doubt}{speedup:times} as fast as the original ({noise}): {before:base} became "
        "{after:base}; {stopped}.",
        doubt=doubt,
        speedup=constant(best.times.speedup, "", "speed-up"),
        noise=noise,
        before=constant(best.times.before_us, "us", "time of the original"),
        after=constant(best.times.after_us, "us", "time of the best program"),
        stopped=stopped,
    )


def _noise(share: float) -> Evidence:
    return constant(100 * share, "%", "noise")


def _table(document: OptimizeDocument, reader: Reader) -> Table:
    columns = [
        Column("#", is_number=True),
        Column("Result", is_unbroken=True),
        Column("Before", is_number=True),
        Column("After", is_number=True),
        Column("Speed-up", is_number=True),
        Column("Noise", is_number=True, wide=110),
        Column("Lines", is_number=True, wide=100),
        Column("Tokens", is_number=True, wide=120),
        Column("Why"),
    ]
    rows = [_row(each) for each in document.rounds[: reader.rows]]
    caption = limited(document.rounds, reader, "--format json")
    return Table(columns, rows, caption, name="rounds")


def _row(each: RoundDocument) -> list[Words | Cell]:
    times = each.times
    spent = each.usage.input_tokens + each.usage.output_tokens
    result = Span(each.outcome.replace("_", " "), _LOOKS.get(each.outcome, "warn"))
    timed: list[Words | Cell] = ["", "", "", ""]
    if times:
        noise = "" if times.noise is None else str(_noise(times.noise))
        timed = [_time(times.before_us), _time(times.after_us), speedup_text(times.speedup), noise]
    lines = f"+{each.lines_added} -{each.lines_removed}" if each.files else ""
    is_told = each.outcome == "kept" and each.summary  # the speed-up has a column
    why = Cell(each.summary) if is_told else Cell(each.reason, each.summary)
    return [str(each.number), result, *timed, lines, f"{spent:,}" if spent else "", why]


def _time(us: float) -> str:
    return str(Quantity(us * 1e3, "ns"))


def _chart(document: OptimizeDocument) -> Iterator[Block]:
    """The time of the best program after each round, as a share of the original's."""
    if not any(each.times for each in document.rounds):
        return
    time = "" if document.original_us is None else _time(document.original_us)
    first = Bar(1.0, "100%", "original", time)
    bars = []
    share = 1.0
    for each in document.rounds:
        mark = f" ({each.outcome.replace('_', ' ')})"
        if each.outcome == "kept" and each.times and each.of_original is not None:
            share, time, mark = each.of_original, _time(each.times.after_us), ""
        amount = f"{constant(100 * share, '%', 'share'):{'.1f' if share < 0.1 else '.0f'}}"
        bars.append(Bar(min(1.0, share), amount, f"after round {each.number}{mark}", time))
    shown = [first, *bars[-_MOST_BARS:]]
    yield from (Gap(), Text("Time of the best program", "strong"), Bars(shown, name="time"))


def _next(document: OptimizeDocument) -> Iterator[Block]:
    items = [Item((Span(document.folder, "place"), ": prompts, patches, outputs, times"), "Rounds")]
    spent = document.usage
    if spent.calls:
        tokens = counted(spent.input_tokens + spent.output_tokens, "token")
        cost = "" if spent.cost == "unknown" else f", US${spent.cost:.2f}"
        items.append(Item((tokens, f" in {spent.calls:,} calls{cost}"), "Model"))
    if document.best:
        items.insert(0, Item(Span(document.best.patch, "place"), "Patch"))
    yield from (Gap(), Items(items))
    if document.best and document.best.is_faster and not document.applied:
        words = ["git", "-C", document.source, "apply", document.best.patch]
        yield from (Gap(), Text("To apply it (or repeat the command with --apply):"))
        yield Command(shlex.join(words))
    elif document.applied:
        yield from (Gap(), Text("The patch was applied.", "good"))
