"""The source of a pair on the page of `keet diff`: both sides next to each other with what each
line cost, or the hottest code of each side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.code_names import function_start
from keet.analysis.hotspots.source_lines import Spot, find_hotspots, source_line, source_lines
from keet.comparison.causes.explained_pair import WeightedLaunch
from keet.comparison.causes.line_changes import (
    NONE_SEEN,
    NOTHING,
    SURE,
    SideLines,
    paired_files,
    read_lines,
    sampled_time,
)
from keet.evidence import Reference, Sentence, constant
from keet.formatting import share_cell
from keet.pages.blocks import (
    Anchors,
    Block,
    Cell,
    Column,
    Heading,
    Notice,
    Part,
    SidesFigure,
    Span,
    Table,
    Text,
    Words,
)
from keet.pages.hotspots import hotspots_notes, waiting_for
from keet.profile import Absent
from keet.profile.launch import file_name
from keet.safe_text import shortened
from keet.units import Quantity

FEW_SAMPLES = 1_000
"""Samples of a side below which chance moves shares by whole per cents, as on explain's page."""
_SIDES = ("before", "after")
_HOTTEST = 10
"""Rows per launch."""
_LONGEST_ROW = 200
"""Characters of a source line or an instruction."""
_LEGEND = (
    "Each line with its share of the side's samples and the time that stands for (share of the "
    "samples x duration), where a side has 0.5 % or more there. < means that no sample hit the "
    "line. Change is time after less time before; grey where it is within the sampling error. A "
    "line marked − is gone or reads differently after, one marked + is new or reads differently."
)
_LEGEND_SHARES = (
    "Each line with its share of the side's samples (of the executed instructions where a report "
    "has no samples). No times: a side was not sampled for the whole launch. A line marked − is "
    "gone or reads differently after, one marked + is new or reads differently."
)


def source_blocks(
    before: Sequence[WeightedLaunch],
    after: Sequence[WeightedLaunch],
    anchors: tuple[Anchors, Anchors],
    level: int,
) -> Iterator[Block]:
    """`anchors`: of lines before and after. `level`: of the heading."""
    one, other = read_lines(before), read_lines(after)
    both = isinstance(one, SideLines) and isinstance(other, SideLines) and (one, other)
    if both and (files := paired_files(*both)):
        yield Heading("Source before and after", level)
        is_timed = both[0].sampled and both[1].sampled
        yield Text(_LEGEND if is_timed else _LEGEND_SHARES, "muted")
        if is_timed and (few := few_samples(*both)):
            yield Notice(few)
        launches = (before[0].explanation.launch.id, after[0].explanation.launch.id)
        yield SidesFigure(files, anchors, launches, common_unit([side.whole for side in both]))
        return
    yield Heading("Hottest code before and after", level)
    lacks = [f"{side} {word}" for side, word in zip((one, other), _SIDES) if isinstance(side, str)]
    if lacks:
        yield Notice(f"The sources can't be shown side by side: {', '.join(lacks)}.", "")
    sides = zip(_SIDES, (before, after))
    yield Part([Part([*_hottest(x, word)]) for word, side in sides for x in side], "two")


def common_unit(wholes: Sequence[float]) -> str:
    """Of times of two sides, given in nanoseconds, in one column: that of the shorter side."""
    return Quantity(min(filter(None, wholes), default=0.0), "ns").scaled_unit()


def few_samples(*sides: SideLines) -> Sentence | None:
    if min(side.samples for side in sides) >= FEW_SAMPLES:
        return None
    hottest = [max(s.costs.values(), key=lambda cost: cost.ns, default=NOTHING) for s in sides]
    return Sentence(
        "Few samples: {counts}. By chance, the time of the hottest line may be off by up to about "
        "{errors} (two standard deviations), and by more where SMs run in step: their samples are "
        "then not independent. A line that no sample hit took below about {unseen} (rule of "
        "three: {rule}/n of the time, of n samples, with {sure} % confidence).",
        counts=_of_both(f"{side.samples:,}" for side in sides),
        errors=_of_both(sampled_time(SURE * cost.deviation) for cost in hottest),
        unseen=_of_both(sampled_time(side.unseen) for side in sides),
        rule=constant(NONE_SEEN, "", "samples that a line without a sample may have missed"),
        sure=constant(95, "", "confidence of the rule of three in per cent"),
    )


def _of_both(numbers: Iterable[str]) -> Sentence:
    """Of the samples of both sides, which have no ledger."""
    before, after = (Reference(number, ()) for number in numbers)
    return Sentence.of((before, " before and ", after, " after"))


# --- where the sources can't be aligned


def _hottest(each: WeightedLaunch, word: str) -> Iterator[Block]:
    """The hottest lines or instructions of one launch."""
    launch = each.explanation.launch
    hotspots = find_hotspots(launch)
    yield Text((Span(f"Hottest {word}", "strong"), ": ", Span(launch.kernel, "break")))
    if isinstance(hotspots, Absent):
        yield Text(f"{hotspots.reason}; {hotspots.remedy}")
        return
    is_sampled = hotspots.ranked_by == "samples"
    is_timed = is_sampled and not hotspots.partial
    columns = [
        Column("Line" if hotspots.by == "line" else "Instruction"),
        Column("Samples" if is_sampled else "Executed", is_number=True),
        *([Column("Time", is_number=True)] if is_timed else []),
        Column("Waits for"),
    ]
    lines, starts = source_lines(launch), launch.function_starts
    # Code that was not analysed is not fetched for a table.
    analysed = hotspots.by == "instruction" and each.explanation.view.code is not None
    texts = launch.disassembly if analysed else {}
    code = {} if isinstance(texts, Absent) else texts
    rows: list[list[Words | Cell]] = []
    for spot in hotspots.rows[:_HOTTEST]:
        text = source_line(spot, lines) if spot.address is None else code.get(spot.address)
        share = spot.share or 0.0
        shown = shortened(" ".join((text or "").split()), _LONGEST_ROW)
        time = "" if each.time is None else str(Quantity(share * each.time, "ns"))
        rows.append([
            Cell(_place(spot, starts), Span(shown, "code")),
            share_cell(share),
            *([time] if is_timed else []),
            waiting_for(spot),
        ])  # fmt: skip
    yield Table(columns, rows, name=f"Hottest {word}: {launch.kernel}", is_sortable=False)
    notes = [hotspots.partial.text] if hotspots.partial else []
    yield from (Text(note, "muted") for note in (*notes, *hotspots_notes(launch, hotspots, lines)))


def _place(spot: Spot, starts: Sequence[int]) -> str:
    """`tour.cu:21`; of an instruction its offset in its function, as in cuobjdump."""
    line = f"{file_name(spot.location.file)}:{spot.location.line}" if spot.location else ""
    if spot.address is None:
        return line or "no source line"
    return f"{spot.address - function_start(starts, spot.address):#06x} {line}".strip()
