"""One launch on pages: its head, where its time goes, and its findings with places and remarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from keet.analysis.account import TimePart
from keet.analysis.hardware.ceilings import Ceiling
from keet.diagnosis.finding import Finding
from keet.documents.explain import Note
from keet.documents.finding import Place
from keet.evidence import Sentence
from keet.explanation.account_rows import MOST_ROWS, account_rows, leading_text, time_text
from keet.explanation.busy_units import distinct_units
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import (
    nearest_case,
    nearest_text,
    precedents_text,
    why_only_possible,
)
from keet.explanation.gain_texts import forecast_evidence, forecast_text, range_text
from keet.explanation.launch_figures import figures_text
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.program import ProgramExplanation
from keet.formatting import shape_parts, share_text
from keet.pages.blocks import (
    Bar,
    Bars,
    Block,
    Code,
    Gap,
    Heading,
    Item,
    Items,
    Reader,
    Span,
    Text,
    Words,
    joined,
    plain,
)
from keet.pages.program import finding_text, replay_blocks, stands_for_text
from keet.pages.source_text import around, indentation, language, runs, source_lines

Detail = Literal["full", "middle", "brief"]
"""`full`: everything. `middle`: the first two findings, others by name. `brief`: the first finding
only."""
FINDINGS: dict[Detail, int] = {"full": sys.maxsize, "middle": 2, "brief": 1}
"""Number of findings that are printed with text, places and advice."""
PLACES: dict[Detail, int] = {"full": 3, "middle": 2, "brief": 1}
"""Number of source lines per finding."""
_NAMED = 3
"""Number of findings that are printed by name only."""
HEADING = "Where the time goes"
INDENT = 3
"""Of what belongs to a finding."""
_ACCOUNT_ROWS, _ROWS_WITH_NOTES = 7, 6
"""Rows of the account in a terminal, without and with notes: the first finding must fit on a screen
of 24 lines."""
_NARROW_BAR, _WIDE_BAR, _UNIT_BAR = 12, 24, 10
"""Length of a bar in characters, on a terminal of 80 columns and on a wide one."""
_LEAST_SHARE = 0.05
"""Units below this share of their peak are not printed, nor shares without a source line."""
_UNITS = 5
_NEAR_PEAK = 0.6
_RADIUS = 2
"""Lines of code before and after the important ones."""
_CERTAINTY = {"certain": "strong good", "likely": "strong warn", "possible": "strong"}
_DECLARED = {"launches": "launched here", "shared arrays": "declared here"}
"""Places that were found in the source text, without a counter."""
_ENDS = {"waits for data": "the load", "warps that wait for data": "where warps wait for it"}
"""Waits have two lines: that of the load that is waited for, and the one where warps wait."""
COMPILERS_OWN = "} (end of the function, or a routine of the compiler)"
"""The compiler counts its own subroutines at a closing brace."""


@dataclass
class Shown:
    """A launch on a page, and how much of it."""

    each: LaunchExplanation
    program: ProgramExplanation | None
    reader: Reader
    detail: Detail = "full"
    verbose: bool = False
    printed: set[str] = field(default_factory=set)
    """Remarks printed for this launch so far; none is repeated."""


def launch_blocks(shown: Shown) -> Iterator[Block]:
    """A launch that no model explains."""
    each, detail = shown.each, shown.detail
    yield from head_blocks(each, shown.program)
    yield Text(each.verdict.headline, "strong", indent=2)
    yield from account_line(each) if detail == "brief" else account_blocks(shown)
    if precedes_findings(each.second_opinion) and detail != "brief":
        yield from (Gap(), Text(each.second_opinion or ""))
    for number, finding in enumerate(each.findings[: FINDINGS[detail]], 1):
        yield from finding_blocks(shown, number, finding)
    yield from last_findings(each, detail)
    if detail == "full":
        yield from rest_blocks(each)


def head_blocks(each: LaunchExplanation, program: ProgramExplanation | None) -> Iterator[Block]:
    launch = each.launch
    duration = launch.get("duration")
    facts = [*shape_parts(grid=launch.grid, block=launch.block)]
    facts.append(str(duration) if duration else "duration not measured")
    stands = stands_for_text(program, each)
    about = f": {', '.join(facts)}{f'; {stands}' if stands else ''}"
    yield Heading((Span(f"#{launch.id} ", "muted"), Span(launch.kernel, "name"), about), 2, "")
    yield from replay_blocks(each)
    if figures := figures_text(each.view):
        yield Text(figures, "muted", indent=2)


def rest_blocks(each: LaunchExplanation) -> Iterator[Block]:
    """What is said after the findings."""
    opinion = each.second_opinion
    if precedes_findings(opinion) and not each.model_explanation:
        opinion = None
    if each.healthy or opinion or each.minor_defect:
        yield Gap()
    if each.minor_defect:
        yield Text(each.minor_defect)
    if each.healthy:
        healthy = "; ".join(note.text for note in each.healthy)
        yield Text((Span("Looks good: ", "strong good"), f"{healthy}."))
    if opinion:
        yield Text(opinion, "muted")


# --- where the time goes


def account_blocks(shown: Shown) -> Iterator[Block]:
    """The account, the busiest units, and notes on both."""
    each, reader, verbose = shown.each, shown.reader, shown.verbose
    if each.verdict.not_judged:
        return
    notes = [Text(note.text, indent=2) for note in shown_notes(each, everything=verbose)]
    blocks: list[Block] = []
    if each.account.parts and verbose:
        parts = [
            Item(
                (part.label, Span(f" [{evidence_text(part)}]", "code muted")),
                f"{part.share:.1f}{f' ({time_text(part.us)})' if part.us else ''}",
                depth,
            )
            for part, depth in with_depth(each.account.parts)
        ]
        blocks += [
            Text((Span(HEADING, "strong"), " (with evidence ids, as in --format json)"), indent=2),
            Items(parts, is_right=True, indent=2),
        ]
    elif each.account.parts:
        most = _ROWS_WITH_NOTES if notes else _ACCOUNT_ROWS
        most = most if reader.format == "terminal" else MOST_ROWS
        bars = [
            Bar(float(row.share.value) / 100, f"{row.share:.0f}", row.label, row.time, row.depth)
            for row in account_rows(each.view, each.account, most)
        ]
        length = _WIDE_BAR if reader.width >= 110 else _NARROW_BAR
        blocks += [Text(HEADING, "strong", indent=2), Bars(bars, length, HEADING, indent=2)]
    if units := units_words(each, reader):
        blocks.append(Text(units, indent=2))
    blocks += notes
    yield from ([Gap(), *blocks] if blocks else [])


def account_line(each: LaunchExplanation) -> Iterator[Block]:
    """The largest parts in one line."""
    text = leading_text(each.view, each.account)
    if text and not each.verdict.not_judged:
        yield Text((Span("Time: ", "muted"), text), indent=2)


def units_words(each: LaunchExplanation, reader: Reader) -> Words:
    """As many units as fit on one line of a terminal; empty if the report has none."""
    shown: list[Words] = [Span("Units, share of peak:", "muted")]
    is_drawn = reader.format == "terminal"
    for place, unit in enumerate(busiest_units(each)):
        full = min(_UNIT_BAR, round(_UNIT_BAR * unit.share))
        look = "bad" if unit.share >= _NEAR_PEAK else "label"
        bars = (Span("█" * full, look), Span("░" * (_UNIT_BAR - full), "muted"), " ")
        between = "  " if is_drawn else ", " if place else " "
        words = (f"{between}{unit.name} ", bars if is_drawn else "", f"{unit.reached:.0f}")
        if place and is_drawn and len(plain(shown)) + len(plain(words)) > reader.width - 2:
            break
        shown.append(words)
    return shown if each.ceilings else ""


def shown_notes(each: LaunchExplanation, *, everything: bool = False) -> Iterator[Note]:
    """Notes that explain what limits the launch, without those that repeat a finding or the
    headline."""
    largest = max(each.account.parts, key=lambda part: float(part.share.value), default=None)
    first = next(iter(each.account.leading(1)), None)
    matters = {
        "instruction_mix": largest is not None and largest.id == "issuing",
        "l2_stage": True,
        "bytes_moved": first is not None
        and first.id.endswith("busy.dram")
        and each.verdict.healthy is None
        and all(finding.id != "redundant_traffic" for finding in each.findings),
    }
    return (note for note in each.notes if everything or matters[note.id])


def evidence_text(part: TimePart) -> str:
    """For example `account_idle#0 from sm_active_cycles#0, elapsed_cycles#0`."""
    sources = ", ".join(dict.fromkeys(piece.id for piece in part.evidence))
    return f"{part.share.id} from {sources}" if sources else part.share.id


def with_depth(parts: Sequence[TimePart], depth: int = 0) -> Iterator[tuple[TimePart, int]]:
    for part in parts:
        yield part, depth
        yield from with_depth(part.children, depth + 1)


def busiest_units(each: LaunchExplanation) -> list[Ceiling]:
    """The busiest unit always; others only above a minimum share."""
    return [
        ceiling
        for place, ceiling in enumerate(distinct_units(each.ceilings)[:_UNITS])
        if ceiling.share >= _LEAST_SHARE or place == 0
    ]


# --- findings


def finding_blocks(
    shown: Shown, number: int, finding: Finding, *, has_advice: bool = True
) -> Iterator[Block]:
    """`has_advice`: unless an edit by a model takes its place."""
    each, reader, detail = shown.each, shown.reader, shown.detail
    yield Gap()
    yield from title_blocks(number, finding, each, reader)
    yield Text(finding_text(finding, shown.program), indent=INDENT)
    yield from place_blocks(finding, each, PLACES[detail], reader, in_context=detail != "brief")
    if has_advice:
        yield advice(finding)
    if detail == "brief":
        if reason := why_only_possible(finding, each.view, each.account):
            yield Text(reason, "muted", indent=INDENT)
        return
    for text in new_remarks(finding, each, shown.printed):
        yield Text(text, "muted", indent=INDENT)
    changes = nearest_changes(finding, each)
    if changes and (shown.verbose or reader.format != "terminal"):
        yield Code(changes, "diff", indent=INDENT)


def last_findings(each: LaunchExplanation, detail: Detail = "full") -> Iterator[Block]:
    """Those that are only named, and the gain of all."""
    in_full = FINDINGS[detail]
    ranked = list(enumerate(each.findings, 1))[in_full : in_full + _NAMED]
    if named := [
        Item(joined(name_words(number, finding, each), ": ")) for number, finding in ranked
    ]:
        yield Items(named, mark="")
    if every := all_fixed_text(each):
        yield Text(every, indent=INDENT)


def name_words(number: int, finding: Finding, each: LaunchExplanation) -> tuple[Words, Words]:
    """Its title, and its gain with the certainty of the cause."""
    objection = Span(" (the model objects)" if is_disputed(finding, each) else "", "warn")
    title = (f"{number}. ", Span(finding.title, _CERTAINTY[finding.cause_certainty]))
    cause = Span(f", cause {certainty_of(each, finding)}", "muted")
    return title, (forecast_of(each, finding), objection, cause)


def title_blocks(
    number: int, finding: Finding, each: LaunchExplanation, reader: Reader
) -> Iterator[Block]:
    """What does not fit beside the title is below it."""
    title, gain = name_words(number, finding, each)
    words = (title, ": ", gain)
    if len(plain(words)) <= reader.width or reader.format != "terminal":
        yield Heading(words, 3, "")
    else:
        yield from (Heading(title, 3, ""), Text(gain, indent=INDENT))


def advice(finding: Finding) -> Text:
    return Text(finding.action, mark="→ ", indent=INDENT)


def place_blocks(
    finding: Finding,
    each: LaunchExplanation,
    most: int,
    reader: Reader,
    *,
    in_context: bool = True,
) -> Iterator[Block]:
    """The first source lines, and how much of the effect has no line. The code is beside them in a
    terminal, and elsewhere below, with the lines around it if `in_context`."""
    texts, places = source_lines(each.launch), finding.places[:most]
    is_short = reader.format == "terminal"
    items = []
    for place, share in zip(places, place_shares(places)):
        lines = texts.get(place.file, ()) if is_short else ()
        code = lines[place.line - 1].strip() if 1 <= place.line <= len(lines) else ""
        code = COMPILERS_OWN if code == "}" else code
        where = (Span(f"{share}  " if share else "", "muted"), Span(place.where, "place"))
        items.append(Item((where, Span(f"  {code}", "italic") if code else "")))
    for share in unplaced_shares(places):
        items.append(Item((Span(f"{share}  ", "muted"), "no source line")))
    if items:
        yield Items(items, mark="", is_cut=True, indent=INDENT)
    if in_context and not is_short:
        for file in dict.fromkeys(place.file for place in places):
            yield from _excerpt(file, places, texts.get(file, ()))


def _excerpt(file: str, places: Sequence[Place], text: Sequence[str]) -> Iterator[Block]:
    """The given lines of one file, marked, with the lines around them."""
    marked = {place.line for place in places if place.file == file and place.line <= len(text)}
    shown = around(marked, _RADIUS, len(text))
    indent = indentation(text[n - 1] for n in shown)
    width = len(str(max(shown, default=0)))
    rows: list[tuple[str, str]] = []
    for run in runs(shown):
        rows += [("", "...")] if rows else []
        rows += [
            (f"{'>' if n in marked else ' '} {n:{width}}", text[n - 1].expandtabs(4)[indent:])
            for n in run
        ]
    if rows:
        yield Code([code for _, code in rows], language(file), [number for number, _ in rows])


def place_shares(places: Sequence[Place]) -> list[str]:
    """For example `41% of all samples`. If a list has both lines of waits, each text says which one
    it is: `the load: 94% of all waits for data`, `where warps wait for it: 72% of all waits for
    data`. Empty if nothing was measured."""
    has_both = {place.of for place in places} >= {*_ENDS}
    texts = []
    for place in places:
        end = _ENDS.get(place.of) if has_both else None
        of = f"{end}: {share_text(place.share)} of all waits for data" if end else ""
        # A line that a model named has no share.
        text = of or f"{share_text(place.share)} of all {place.of}" if place.share else ""
        texts.append(_DECLARED.get(place.of, text))
    return texts


def unplaced_shares(places: Sequence[Place]) -> Iterator[str]:
    """For example `26% of all samples`: the share without a source line, once per kind of share."""
    for of, share in {place.of: place.unplaced for place in places}.items():
        if share >= _LEAST_SHARE:
            yield f"{share_text(share)} of all {of}"


# --- words about findings


def forecast_of(each: LaunchExplanation, finding: Finding) -> Sentence:
    """The forecast. If the replay differs from the run, the text says that the gain is under
    replay."""
    forecast = forecast_text(finding, each.view.ledger)
    return Sentence("{forecast} under replay", forecast=forecast) if each.replay else forecast


def certainty_of(each: LaunchExplanation, finding: Finding) -> str:
    sure = finding.cause_certainty
    return f"{sure}, for the replay only" if each.replay else sure


def all_fixed_text(each: LaunchExplanation) -> Sentence:
    """The gain if all findings were fixed; empty if there is one, or if the others add nothing."""
    every = each.all_fixed
    first = each.findings[0].forecast.likely if each.findings else 1.0
    if every is None or each.replay or round(every.likely, 1) <= round(first, 1):
        return Sentence()
    gains = forecast_evidence("all", every, "all of its causes", each.view.ledger)
    return Sentence("If all of these were fixed: {gain}.", gain=range_text(None, *gains))


def is_disputed(finding: Finding, each: LaunchExplanation) -> bool:
    """Whether a model disputes the gain with facts that are true."""
    statement = each.model_explanation
    if statement is None or any(cause.finding == finding.id for cause in statement.causes):
        return False
    return any(x.finding == finding.id and not x.problem for x in statement.objections)


def nearest_changes(finding: Finding, each: LaunchExplanation) -> tuple[str, ...]:
    """The lines that the fix of the nearest measured case changed. Empty where a model explains the
    launch: its edits are of this code, and readers must not take these for one."""
    case = None if each.model_explanation else nearest_case(finding, each)
    return case.changes if case else ()


def new_remarks(finding: Finding, each: LaunchExplanation, printed: set[str]) -> list[str]:
    """Why it ranks first, if a larger part of the time does not; why the cause is only possible, if
    so; what the same fix gained in measured cases, and the nearest of them.

    `printed`: remarks printed for this launch so far. New ones are added, so that none is repeated.
    """
    is_first = each.findings[:1] == (finding,)
    texts = (
        each.order_reason if is_first else "",
        why_only_possible(finding, each.view, each.account),
        precedents_text(finding, each.view.ledger),
        nearest_text(case) if (case := nearest_case(finding, each)) else "",
    )
    new = [text for text in texts if text and text not in printed]
    printed.update(new)
    return new
