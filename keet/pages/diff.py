"""The page of `keet diff`: verdict, table of kernels, causes of each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any

from keet.comparison.causes.attribution import Attribution
from keet.comparison.caveat import Caveat
from keet.comparison.result import Difference, Gate, PairDifference
from keet.comparison.sentences import (
    NOT_PROFILED,
    basis_text,
    counted_launches,
    headline_parts,
    how_paired,
    limits,
    nothing_next,
    span_text,
    unprofiled_text,
)
from keet.comparison.sides import Side
from keet.findings import findings
from keet.formatting import capitalized, share_cell
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
    joined,
)
from keet.pages.device import describe_device
from keet.version import __version__

ROWS = 20
"""Kernels in the table; the others are only counted."""
_LOOKS = {
    "faster": "verdict good",
    "slower": "verdict bad",
    "unchanged": "verdict",
    "inconclusive": "verdict warn",
}
_SEVERITY = {
    "forbids": ("Not comparable", "strong bad"),
    "weakens": ("Less certain", "warn"),
    "note": ("Note", "muted"),
}
_KINDS = {
    "fusion": "kernels",
    "cause": "why",
    "account": "time",
    "unit": "units",
    "line": "lines",
    "work": "also",
}
"""What attributions say, as the label of their rows."""
_FOLDED = ("unit", "work")
_EXPLAINS = ("fusion", "cause", "account", "unit")
"""Kinds of attributions that explain why; lines only say where."""
_MAIN_REASON = 0.5
"""Share of the change from which on a cause is its main reason. A judgement: half."""


def diff_page(
    difference: Difference, _: Reader, top: int, shown: Sequence[PairDifference] | None = None
) -> Page:
    """`top`: kernels printed in full. `shown`: the kernels to print, for a tool with pages."""
    return Page([*_blocks(difference, top, shown)])


def _blocks(
    difference: Difference, top: int, shown: Sequence[PairDifference] | None
) -> Iterator[Block]:
    words: Words
    words, remedy = headline_parts(difference)
    look = _LOOKS[difference.verdict.word]
    if gate := difference.gate:  # its result comes first
        words = (gate.verdict, "; ", words)
        look = "verdict bad" if gate.failed else "verdict good"
    yield Heading(words, look=look, mark="keet:")
    devices = {d: None for run in difference.sides[1].captures for d in run.profile.devices}
    sides = joined((Span(side_name(side), "name") for side in difference.sides), " → ")
    yield Text((sides, f" on {', '.join(map(describe_device, devices))}"))
    about = (remedy, basis_text(difference), span_text(difference))
    yield from (Text(each) for each in about if each)
    if gate:
        yield from _gate(gate)
    for caveat in difference.all_caveats:
        yield Notice(caveat_text(caveat), _SEVERITY[caveat.severity][1])
    if difference.rows > 1:
        yield from (Gap(), _table(difference, shown))
    in_full = pairs_in_full(difference.pairs if shown is None else shown, top)
    for pair in in_full:
        yield from (Gap(), *_pair(pair, alone=is_alone(difference)))
    yield from (Gap(), *_closing(difference, in_full))


def _gate(gate: Gate) -> Iterator[Block]:
    items = [Item(each.text) for each in gate.regressions]
    items += [Item(Span(line, "warn")) for line in gate_notes(gate)]
    if items:
        yield Items(items, indent=2)


def _table(difference: Difference, shown: Sequence[PairDifference] | None) -> Table:
    has_launches = difference.verdict.basis == "run"
    columns = [
        Column("#"),
        Column("→ #"),
        Column("Kernel", look="name"),
        *([Column("Launches", is_number=True)] if has_launches else []),
        *(Column(capitalized(each), is_number=True) for each in time_headings(difference)),
        Column("Change", is_number=True),
        Column("Noise", is_number=True, wide=110),
        Column("Limited by", wide=100),
    ]
    rows = [_row(pair) for pair in (difference.pairs[:ROWS] if shown is None else shown)]
    if rest := difference.not_profiled:
        times = map(str, rest.time.evidence)
        blank = [""] if has_launches else []
        rows.append(["", "", Cell(Span(NOT_PROFILED, "plain")), *blank, *times])
    more = len(difference.pairs) - ROWS if shown is None else 0
    caption = f"and {more} more kernels" if more > 0 else ""
    return Table(columns, rows, caption, "Kernels before and after")


def _row(pair: PairDifference) -> list[Words | Cell]:
    word = pair.verdict.word if pair.on_both else "unchanged"
    return [
        numbers_of(pair.before),
        numbers_of(pair.after),
        pair.kernel,
        *launch_cells(pair),
        *shown_times(pair),
        Span(change_of(pair), _LOOKS[word]),
        share_cell(pair.verdict.noise) if pair.on_both else "",
        " → ".join(dict.fromkeys(pair.limiter or ())),
    ]


def _pair(pair: PairDifference, *, alone: bool) -> Iterator[Block]:
    """If there is only one kernel, its times are already in the heading."""
    summary = limits(pair) if alone else pair.verdict.headline
    yield Heading((Span(pair.kernel, "name"), f": {summary}" if summary else ""), 2, "")
    if how := how_paired(pair):
        yield Text(how, "muted", indent=2)
    if shares := _shares_text(pair):
        yield Text(shares, "muted", indent=2)
    rows = [
        (kind, Items([_attribution(each) for each in group], _KINDS[kind], **_LABELS))
        for kind, group in groupby(pair.attribution, key=lambda each: each.kind)
    ]
    yield from (items for kind, items in rows if kind not in _FOLDED)
    if folded := [items for kind, items in rows if kind in _FOLDED]:
        yield Fold("Units and counters", folded)
    if words := finding_words(pair):
        looks = {"fixed": "good", "now reported": "bad"}
        texts = [(Span(f"{word}: ", looks.get(word, "muted")), ids) for word, ids in words]
        yield Items([Item(joined(texts, "; "))], "findings", mark="")


_LABELS: Mapping[str, Any] = {"label_width": 5, "is_right": True, "mark": ""}


def _attribution(each: Attribution) -> Item:
    share = Span(f"{each.percent:.0f}", "strong") if each.percent else " "
    return Item((each.what, Span(f"  {each.code}", "code italic") if each.code else ""), share)


def _shares_text(pair: PairDifference) -> str:
    """What the percentages of the rows mean; empty if no row has one."""
    shares = [each.share for each in pair.attribution if each.share is not None]
    if not shares:
        return ""
    saved = pair.timing.saved > 0
    opposite = "takes longer now" if saved else "takes less time now"
    negative = f"; negative: {opposite}" if min(shares) < 0 else ""
    word = "saved" if saved else "lost"
    return f"Percentages are shares of the time {word} in this kernel{negative}."


def _closing(difference: Difference, in_full: Sequence[PairDifference]) -> Iterator[Block]:
    if share := unprofiled_text(difference):
        yield Text(f"{share}.")
    step = difference.next
    yield Text((Span("Next: ", "strong"), step.text if step else nothing_next(difference)))
    if step:
        yield Text((Span("→ ", "strong"), step.action), indent=2)
    rows = [each for pair in in_full for each in pair.attribution]
    estimates = ""
    if any(each.percent and each.kind == "cause" for each in rows):
        estimates = " The percentages of causes (why) are estimates, each taken on its own."
    yield Foot(f"keet {__version__}: {verified_text(difference)}.{estimates}")


# --- words that other formats and the notebook share


def verified_text(difference: Difference) -> str:
    """What is true of the numbers in all texts: sentences print them from evidence only."""
    tables = " and run tables" if difference.verdict.basis == "run" else ""
    return f"all measured numbers in these texts come from the reports{tables}"


def is_alone(difference: Difference) -> bool:
    """Whether there is only one kernel, so that the verdict is about it."""
    (only, *others) = difference.pairs or (None,)
    same = only is None or only.verdict.word == difference.verdict.word
    return not others and difference.rows == 1 and not difference.no_total and same


def pairs_in_full(pairs: Sequence[PairDifference], top: int) -> list[PairDifference]:
    """The pairs that changed, the largest change first; a single pair always."""
    changed = [pair for pair in pairs if pair.verdict.word in ("faster", "slower")]
    chosen = changed if len(pairs) > 1 else list(pairs)
    return sorted(chosen, key=lambda pair: -abs(pair.timing.saved))[:top]


def main_reasons(pair: PairDifference) -> list[Attribution]:
    """What explains most of a change, for a reader who wants one sentence. A cause is better than
    the part of the time that it affects, but only if it explains most of the change."""
    if pair.verdict.word not in ("faster", "slower"):
        return []
    found = [each for each in pair.attribution if each.kind in _EXPLAINS]
    if fusion := [each for each in found if each.kind == "fusion"]:
        return fusion
    causes = [each for each in found if each.kind == "cause"]
    leading = _largest(causes)
    if leading is None or _share(leading) < _MAIN_REASON:
        leading = _largest(found)
    unweighed = [each for each in causes if each.share is None]
    enough = leading is not None and leading.kind == "cause"
    return [*([leading] if leading else []), *([] if enough else unweighed[:1])]


def _largest(found: Sequence[Attribution]) -> Attribution | None:
    """The largest one with the same sign as the change."""
    return max((each for each in found if _share(each) > 0), key=_share, default=None)


def _share(each: Attribution) -> float:
    return each.share or 0.0


def side_name(side: Side) -> str:
    """The report as the user named it; for several reports, their folder or baseline."""
    provenance = side.first.profile.provenance
    path = provenance.file
    folder = PurePath(path).parent
    name = f"baseline {folder.name}" if folder.parent.name == "baselines" else None
    if len(side.captures) == 1:
        return name or path
    return f"{name or folder} ({len(side.captures)} runs)"


def caveat_text(reason: Caveat) -> str:
    return reason.text if reason.no_verdict else f"{_SEVERITY[reason.severity][0]}: {reason.text}"


def numbers_of(ids: Sequence[int]) -> str:
    """Which launches of the report: `0-2`, `0, 4`."""
    spans: list[list[int]] = []
    for number in ids:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:3]) or "-"


def change_of(pair: PairDifference) -> str:
    if pair.verdict.basis == "run" and pair.timing.unmeasured:
        return "not known"
    if not pair.on_both:
        return "gone" if pair.before else "new"
    return pair.verdict.headline.partition(":")[0]


def time_headings(difference: Difference) -> tuple[str, str]:
    per = " per launch" if difference.verdict.basis == "per_launch" else ""
    return f"before{per}", f"after{per}"


def shown_times(pair: PairDifference) -> tuple[str, str]:
    """Table cells: `-` if a side has no such kernel, or no time."""
    timing, time, known = pair.timing, pair.time, pair.known_time
    ends = (time.before, time.after) if time else (known, known)
    before = str(ends[0]) if ends[0] and timing.before is not None else "-"
    after = str(ends[1]) if ends[1] and timing.after is not None else "-"
    return before, after


def launch_cells(pair: PairDifference) -> list[str]:
    """Launches in the runs; no cells if the times are not of runs."""
    if pair.verdict.basis != "run":
        return []
    return [counted_launches(pair.counted, noun=False) if pair.counted else "-"]


def finding_words(pair: PairDifference) -> list[tuple[str, str]]:
    """Which findings were fixed, are new or remain, in words."""
    known = findings()
    groups = (
        ("fixed", pair.fixed),
        ("now reported", pair.new),
        ("remaining", pair.remaining),
        ("not known for both sides", pair.unknown),
    )
    return [(word, ", ".join(known[each].label for each in ids)) for word, ids in groups if ids]


def gate_notes(gate: Gate) -> Iterator[str]:
    if gate.blurred:
        names = ", ".join(gate.blurred[:3])
        yield f"noise exceeds the gate for {names}: add runs (--before-run, --after-run)"
    if gate.alone:
        yield f"not gated on its own: {', '.join(gate.alone[:5])}"
    if gate.missing:
        yield f"not measured on both sides: {', '.join(gate.missing[:3])}"
    yield from gate.not_gated
