"""One launch on pages: its head, where its time goes, and its findings with places and remarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from keet.analysis.account import TimePart
from keet.analysis.archetype import is_debug_build
from keet.analysis.hardware.ceilings import Ceiling
from keet.analysis.hotspots.source_lines import find_hotspots, source_lines
from keet.analysis.parameters import SAVED_PART
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.explain import BY_MODEL, Note
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.explanation.account_texts import MOST_ROWS, account_rows, leading_text, time_text
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import (
    forecast_evidence,
    forecast_text,
    nearest_text,
    precedents_text,
    range_text,
)
from keet.explanation.headline import distinct_units
from keet.explanation.launch_figures import figures_text
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.program import ProgramExplanation
from keet.formatting import count_noun, first_clause, first_sentence, shape_parts, share_text
from keet.pages.blocks import (
    AccountFigure,
    AccountTree,
    Anchors,
    Bar,
    Bars,
    Block,
    Code,
    EvidenceFigure,
    Fold,
    Gap,
    Heading,
    Item,
    Items,
    Part,
    Reader,
    RooflineFigure,
    Span,
    Text,
    Words,
    around,
    file_link,
    indentation,
    joined,
    language,
    plain,
    runs,
)
from keet.pages.capture import facts_blocks, full_name, rules_blocks, workload_noun
from keet.pages.program import (
    figures,
    finding_text,
    first_row,
    gain_text,
    kernel_parts,
    members_blocks,
    replay_blocks,
    saved_part,
    stands_for_text,
)
from keet.profile import Absent, Workload
from keet.safe_text import flat, line_at, shortened

Detail = Literal["full", "middle", "brief"]
"""`full`: everything. `middle`: the first two findings, others by name. `brief`: the first finding
only."""
FINDINGS: dict[Detail, int] = {"full": sys.maxsize, "middle": 2, "brief": 1}
"""Number of findings that are printed with text, places and advice."""
PLACES: dict[Detail, int] = {"full": 3, "middle": 2, "brief": 1}
"""Number of source lines per finding."""
_FEW_FINDINGS = 2
"""Up to as many, their column has room for more."""
_NAMED = 3
"""Number of findings that are printed by name only."""
HEADING = "Where the time goes"
INDENT = 3
"""Of what belongs to a finding."""
_ACCOUNT_ROWS = 7
"""Rows of the account in a terminal."""
_NARROW_BAR, _WIDE_BAR, _UNIT_BAR = 10, 24, 10
"""Length of a bar in characters, on a terminal of 80 columns and on a wide one."""
_LEAST_SHARE = 0.05
"""Units below this share of their peak are not printed, nor shares without a source line."""
_UNITS = 5
_NEAR_PEAK = 0.6
"""Share of its peak from which on the bar of a unit is red. A judgement."""
_RADIUS = 2
"""Lines of code before and after the important ones."""
_LONGEST_CODE = 160
"""Characters of a source line beside its place."""
_WORTH = f"{WORTH - 1:.0%}"
"""Gains below this are no findings."""
_LEAST_GAIN = 1.005
"""Times faster: less is printed as 1.0x."""
_NO_LINES = "the report does not tell which line an instruction belongs to"
_ONE_BY_ONE = {
    Workload.RANGE: "--replay-mode kernel",
    Workload.GRAPH: "--graph-profiling node",
    Workload.CMDLIST: "--replay-mode kernel",
}
"""Options of ncu."""
_CERTAINTY = {"certain": "strong good", "likely": "strong warn", "possible": "strong"}
_DECLARED = {
    "launches": "launched here",
    "shared arrays": "declared here",
    "calls": "called here",
    "template arguments": "chosen here",
    "launch sizes": "size set here",
    "launch bounds": "bounds set here",
}
"""Places that were found in the source text, without a counter."""
_ENDS = {"waits for data": "the load", "warps that wait for data": "where warps wait for it"}
"""Waits have two lines: that of the load that is waited for, and the one where warps wait."""
COMPILERS_OWN = "} (end of the function, or a routine of the compiler)"
"""The compiler counts its own subroutines at a closing brace."""


@dataclass(eq=False, repr=False)
class Shown:
    """A launch on a page, and how much of it."""

    each: LaunchExplanation
    program: ProgramExplanation | None
    reader: Reader
    detail: Detail = "full"
    verbose: bool = False
    printed: set[str] = field(default_factory=set)
    """Remarks printed for this launch so far; none is repeated."""
    anchors: Anchors = field(default_factory=Anchors)
    has_charts: bool = True
    """Whether HTML draws memory chart, roofline and occupancy of this launch."""
    listed_by: int = -1
    """The launch whose listing has the source lines, in HTML."""

    @property
    def is_html(self) -> bool:
        """A long page, which begins with the answer and shows everything else below it."""
        return self.reader.format == "html"

    def anchor(self, part: str = "") -> str:
        return self.anchors.launch(self.each.launch.id, part)


def launch_blocks(shown: Shown) -> Iterator[Block]:
    """A launch that no model explains: what limits it and what to change first, then what was
    measured, then further findings."""
    each, detail = shown.each, shown.detail
    yield from head_blocks(shown)
    yield Text(headline_words(each), indent=2)
    if precedes_findings(each.second_opinion) and detail != "brief":
        yield from (Gap(), Text(each.second_opinion or ""))
    findings = [
        finding_blocks(shown, number, finding)
        for number, finding in enumerate(each.findings[: FINDINGS[detail]], 1)
    ]
    yield from (block for blocks in findings[:1] for block in blocks)
    yield from account_blocks(shown)
    if detail != "brief":
        yield from amounts_blocks(shown)
    elif shown.is_html:
        yield from members_blocks(each, shown.program)
        return
    yield from (block for blocks in findings[1:] for block in blocks)
    yield from last_findings(shown)
    if detail == "full":
        yield from rest_blocks(each)
        yield from occupancy_part(shown) if shown.verbose else ()
    elif each.minor_defect:
        yield Text(each.minor_defect, indent=INDENT)


def launch_section(
    shown: Shown, source: Iterable[Block] = (), model: Iterable[Block] = ()
) -> Iterator[Block]:
    """Everything about a launch in HTML: the answer and the pictures first. `model`: what a model
    wrote."""
    each = shown.each
    yield from head_blocks(shown)
    numbered = enumerate(each.findings, 1)
    findings = [block for one in numbered for block in finding_blocks(shown, *one)]
    findings_line = [
        Heading("Findings", 3),
        *(findings or [Text(_nothing_found(each))]),
        *last_findings(shown),
        *_smaller(each),
        *rest_blocks(each, has_opinion=False),
        *rules_blocks(each, shown.anchors),
    ]
    said, pictures = [*model], [*_pictures(shown)]
    words: list[Block] = [Items([*_answer(shown)], kind="answer card")]
    if shown.program is None:  # the answer and all pictures are on the first screen
        words.append(pictures.pop())
    words += [*said, Part(findings_line, "findings later", shown.anchor("findings"))]
    few = _FEW_FINDINGS if len(pictures) == _ALL_PICTURES else 0
    is_short = shown.program and len(each.findings) <= few and not said
    (words if is_short else pictures).extend(_about(shown))  # so that both are about as long
    yield Part([Part(words, tag="div"), Part(pictures, tag="div")], "columns", tag="div")
    if shown.has_charts and (occupancy := [*occupancy_part(shown)]):
        yield Part(occupancy, "card", tag="div")
    yield from members_blocks(each, shown.program)
    yield from source


_ALL_PICTURES = 3
"""The time, the memory chart and the roofline."""


def _pictures(shown: Shown) -> Iterator[Block]:
    """Where the time goes, and the charts; the roofline is the last one."""
    each = shown.each
    if not each.verdict.not_judged:
        account = [*account_blocks(shown), AccountTree(each)]
        yield Part(account, "card", shown.anchor("account"), tag="section")
    if not shown.has_charts:
        told = f"Charts are left out to keep the page small. To see them: --launch {each.launch.id}"
        yield Part([Text(told, "muted")], "card after", tag="div")
        return
    yield from memory_blocks(shown)
    figure = RooflineFigure([each.launch], shown.anchors, is_small=True)
    yield Part([Heading("Roofline", 3), figure], "card after", shown.anchor("roofline"))


def _about(shown: Shown) -> Iterator[Block]:
    """What the launch does, and how it was configured."""
    if amounts := [*amounts_blocks(shown)]:
        yield Part(amounts, "card later", shown.anchor("amounts"), tag="section")
    if facts := [*facts_blocks(shown.each.launch)]:
        yield Part(facts, "card later", tag="div")


def memory_blocks(shown: Shown) -> Iterator[Block]:
    """The memory chart, if the report has anything to draw."""
    from keet.explanation.memory_chart import memory_chart
    from keet.pages.memory_chart import memory_figure

    chart = memory_chart(shown.each)
    if not chart.is_empty:
        drawn = [Heading("Memory chart", 3), memory_figure(chart)]
        yield Part(drawn, "card memory", shown.anchor("memory"), tag="section")


def head_blocks(shown: Shown) -> Iterator[Block]:
    each, program = shown.each, shown.program
    launch = each.launch
    duration = launch.get("duration")
    shape = [*shape_parts(grid=launch.grid, block=launch.block)]
    shape.append(str(duration) if duration else "duration not measured")
    stands = stands_for_text(program, each)
    about = f"{', '.join(shape)}{f'; {stands}' if stands else ''}"
    tip = full_name(launch)
    name = (Span(f"#{launch.id} ", "muted"), Span(launch.kernel, "name", tip=tip))
    if shown.is_html:
        heading = Heading(name, 2 if shown.detail == "full" else 3, "")
        facts = [Text(text, "muted") for text in (about, figures_text(each.view)) if text]
        yield Part([heading, *facts], "head", tag="div")
    else:
        yield Heading((*name, f": {about}"), 2, "")
    yield from replay_blocks(each)


def _answer(shown: Shown) -> Iterator[Item]:
    """What limits it, and its first finding."""
    each = shown.each
    statement = each.model
    leads = bool(statement and statement.leads)
    limit, others = first_sentence(each.verdict.headline)
    clause, rest = first_clause(limit)
    yield Item(
        (clause, Span(rest, "rest"), Span(f" {BY_MODEL}" if leads else "", "badge")), "Limit"
    )
    if others:
        yield Item(others, "Also")
    for finding in each.findings[:1]:
        yield from _answer_of(shown, finding)


def headline_words(each: LaunchExplanation, mark: Words = "") -> Words:
    """Only the first sentence is printed as a headline."""
    limit, others = first_sentence(each.verdict.headline)
    return Span(limit, "strong"), mark, f" {others}" if others else ""


def _answer_of(shown: Shown, finding: Finding) -> Iterator[Item]:
    yield Item(_where(shown, finding), "Where")
    why: Words = finding_text(finding, shown.program)
    if why != finding.text:
        program = Span("the program above.", "", shown.anchors.top("program"))
        why = (plain(why).removesuffix("above."), program)
    yield Item(why, "Why")
    yield Item(_do(shown, finding), "Do")
    yield Item(gain_words(finding, shown.each), "Gain")


def _where(shown: Shown, finding: Finding) -> Words:
    """The first source line of the finding, or why it has none and where a reader looks next."""
    each = shown.each
    if finding.locations:
        place, *others = finding.locations
        more = count_noun(len(others), "more line") if others else ""
        first = shown.anchors.finding(each.launch.id, 1)
        return _place_words(shown, place), " ", Span(more, "more", first) if more else ""
    if finding.variant in BETWEEN_LAUNCHES:
        return "no source line: it is about what this launch and others read and write"
    hottest = find_hotspots(each.launch, table=each.view.table)
    if isinstance(hottest, Absent) or hottest.by != "line":
        reason = hottest.reason if isinstance(hottest, Absent) else _NO_LINES
        source = Span("Source", "", shown.anchor("source"))
        return f"no source line ({reason}; see ", source, ")"
    for spot in hottest.rows:
        if spot.location and spot.share:
            of = "samples" if hottest.ranked_by == "samples" else "executed instructions"
            place = Place(spot.location.file, spot.location.line, spot.share, of)
            share = f" {Evidence('', '', 100 * spot.share, '%', ''):.0f} of {of}"
            return "no single source line; hottest line: ", _place_words(shown, place), share
    return "no single source line"


def _do(shown: Shown, finding: Finding) -> Words:
    """keet's advice, or the edit of a model that replaces it."""
    if not _is_replaced(shown.each, finding):
        return finding.action
    from keet.pages.model_words import first_sentences, ranked_edits

    what = flat(first_sentences(ranked_edits(shown.each)[0].what, 1))
    return what, " ", Span("See the model's edit", "", shown.anchor("model"))


def _is_replaced(each: LaunchExplanation, finding: Finding) -> bool:
    """Whether an edit by a model takes the place of keet's advice."""
    if not each.model:
        return False
    from keet.pages.model_words import edit_replaces_advice

    return edit_replaces_advice(each, finding.id)


def _nothing_found(each: LaunchExplanation) -> str:
    if each.verdict.not_judged:
        return "None: the report does not say where the time of this launch goes."
    if each.launch.workload is not Workload.KERNEL:
        return (
            f"None: keet judges kernels, and this is a {workload_noun(each.launch)} of several. "
            "What passes between its kernels is not in the report; Nsight Systems shows it. To "
            "judge the kernels, profile them one by one: "
            f"`ncu {_ONE_BY_ONE[each.launch.workload]}`."
        )
    if is_debug_build(each.view):
        return "None: keet judges no debug code. Build without -G and profile again."
    if each.verdict.is_open:
        return f"None: the report does not show whether a change would gain {_WORTH} or more."
    return f"None: keet sees nothing whose fix would gain {_WORTH} or more."


def _smaller(each: LaunchExplanation) -> Iterator[Block]:
    """Effects that would gain something or that the headline names, unless they look good."""
    good = {note.id for note in each.healthy}
    named = "" if each.findings else each.verdict.headline
    effects = [
        minor
        for minor in each.lesser
        if minor.id not in good and (minor.forecast.likely >= _LEAST_GAIN or minor.label in named)
    ]
    if effects and each.launch.workload is Workload.KERNEL:
        title = count_noun(len(effects), "smaller effect")
        which = "it" if len(effects) == 1 else "one"
        why = f"fixing {which} would gain less than {_WORTH}"
        if any(minor.forecast.likely >= WORTH for minor in effects):
            title = count_noun(len(effects), "effect")
            why = f"gains of less than {_WORTH}, or causes that are more often not there"
        items = [Item((Span(minor.title, "strong"), ": ", minor.text)) for minor in effects]
        yield Fold(f"{title} ({why})", [Items(items)])


def rest_blocks(each: LaunchExplanation, *, has_opinion: bool = True) -> Iterator[Block]:
    """What is said after the findings. `has_opinion`: with that of ncu's rules."""
    opinion = each.second_opinion if has_opinion else None
    if precedes_findings(opinion) and not each.model:
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
    """Rates and resources in a line, which HTML has in the head; the account, the busiest units,
    and notes on both. In brief only the largest parts."""
    each = shown.each
    if shown.is_html and shown.detail != "brief":
        if not each.verdict.not_judged:
            yield from (Heading(HEADING, 3), AccountFigure(each))
        return
    notes = [Text(note.text, indent=2) for note in shown_notes(each, everything=shown.verbose)]
    is_short = each.verdict.not_judged or shown.detail == "brief"
    blocks = [*account_line(shown)] if is_short else [*_figures(shown), *_account(shown), *notes]
    yield from ([Gap(), *blocks] if blocks else [])


def _figures(shown: Shown) -> Iterator[Block]:
    if not shown.is_html and (figures := figures_text(shown.each.view)):
        yield Text(figures, "muted", indent=2)


def _account(shown: Shown) -> Iterator[Block]:
    each, reader = shown.each, shown.reader
    if each.account and shown.verbose:
        parts = []
        for part, depth in with_depth(each.account):
            time = f" ({time_text(part.time)})" if part.time else ""
            words = (part.part, Span(f" [{evidence_text(part)}]", "code muted"))
            parts.append(Item(words, f"{part.percent:.1f}{time}", depth))
        yield Text((Span(HEADING, "strong"), " (with evidence ids, as in --format json)"), indent=2)
        yield Items(parts, is_right=True, indent=2)
    elif each.account:
        most = _ACCOUNT_ROWS if reader.format == "terminal" else MOST_ROWS
        bars = [
            Bar(float(row.share.value) / 100, f"{row.share:.0f}", row.label, row.time)
            for row in account_rows(each.view, each.account, most)
        ]
        length = _WIDE_BAR if reader.width >= 110 else _NARROW_BAR
        yield from (Text(HEADING, "strong", indent=2), Bars(bars, length, HEADING, indent=2))
    if units := units_words(each, reader):
        yield Text(units, indent=2)


def amounts_blocks(shown: Shown) -> Iterator[Block]:
    if amounts := shown.each.main_amounts:
        from keet.pages.amounts import short_amounts

        most = 12 if shown.detail == "full" else 6
        yield from short_amounts(amounts, shown.reader, most)


def occupancy_part(shown: Shown) -> Iterator[Block]:
    from keet.pages.occupancy import occupancy_blocks

    yield from occupancy_blocks(shown.each, shown.anchor("occupancy"))


def account_line(shown: Shown) -> Iterator[Block]:
    """Rates and resources, and the largest parts in one line."""
    each = shown.each
    yield from _figures(shown)
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
        words = (f"{between}{unit.label} ", bars if is_drawn else "", f"{unit.reached:.0f}")
        if place and is_drawn and len(plain(shown)) + len(plain(words)) > reader.width - 2:
            break
        shown.append(words)
    return shown if each.view.ceilings.ranked else ""


def shown_notes(each: LaunchExplanation, *, everything: bool = False) -> Iterator[Note]:
    """Notes that explain what limits the launch, without those that repeat a finding or the
    headline."""
    largest = max(each.account, key=lambda part: float(part.percent.value), default=None)
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
    sources = ", ".join(dict.fromkeys(piece.id for piece in part.sources))
    return f"{part.percent.id} from {sources}" if sources else part.percent.id


def with_depth(parts: Sequence[TimePart], depth: int = 0) -> Iterator[tuple[TimePart, int]]:
    for part in parts:
        yield part, depth
        yield from with_depth(part.children, depth + 1)


def busiest_units(each: LaunchExplanation) -> list[Ceiling]:
    """The busiest unit always; others only above a minimum share."""
    return [
        ceiling
        for place, ceiling in enumerate(distinct_units(each.view.ceilings.ranked)[:_UNITS])
        if ceiling.share >= _LEAST_SHARE or place == 0
    ]


# --- findings


def first_change(
    program: ProgramExplanation,
    reader: Reader,
    anchors: Anchors | None = None,
    owner: Callable[[LaunchExplanation], int] | None = None,
) -> Iterator[Block]:
    """What to change first in the program and where: the first finding of the kernel that could
    save most time. Nothing if no kernel has a finding that holds for the run. `owner`: the launch
    whose listing has the source lines of another, in HTML."""
    row = first_row(program)
    if row is None or row.first is None or row.finding is None:
        return
    shown = Shown(row.first, program, reader, "brief", anchors=anchors or Anchors())
    share, *_ = figures(row)
    part = f", {share} of the time" if program.us_total else ""
    is_small = bool(gain_text(row)) and saved_part(row) < SAVED_PART
    is_open = row.finding.cause_certainty == "possible"
    head = "To check first:" if is_open else "To change first:"
    head = "Largest saving, a small one:" if is_small else head
    name, behind = kernel_parts(row, reader.width - len(head) - len(part) - 1)
    if shown.is_html:
        shown.listed_by = owner(row.first) if owner else -1
        kernel = (Span(name, "name", shown.anchor()), behind, part)
        where, _, *todo = _answer_of(shown, row.finding)
        why = Item(finding_text(row.finding, program).replace("see above", "see below"), "Why")
        items = [Item(kernel, head.rstrip(":")), where, why, *todo]
        yield Items(items, kind="answer panel")
        return
    yield from (Gap(), Text((Span(head, "strong"), " ", Span(name, "name"), behind, part)))
    title, *below = title_lines(shown, 0, row.finding)
    yield from (Text(title, indent=INDENT), *(Text(words, indent=INDENT - 2) for words in below))
    yield from (*place_blocks(shown, row.finding, 1), advice(row.finding))


def finding_blocks(shown: Shown, number: int, finding: Finding) -> Iterator[Block]:
    anchor = shown.anchors.finding(shown.each.launch.id, number)
    yield from (Gap(), Part([*_finding(shown, number, finding)], "finding", anchor, tag="article"))


def _finding(shown: Shown, number: int, finding: Finding) -> Iterator[Block]:
    each, reader, detail = shown.each, shown.reader, shown.detail
    yield from title_blocks(shown, number, finding)
    is_answer = shown.is_html and number == 1 and detail == "full"
    if is_answer:  # the box has its text and advice
        above = Span("the answer above", "", shown.anchor())
        yield Text(("Cause and advice: ", above, "."), "muted")
    else:
        # HTML has it always in full, because links lead here and skip the program.
        text = finding.text if shown.is_html else finding_text(finding, shown.program)
        yield Text(text, indent=INDENT)
    yield from place_blocks(shown, finding)
    if not is_answer and not _is_replaced(each, finding):
        yield advice(finding)
    if detail == "brief":
        if reason := finding.certainty_reason:
            yield Text(reason, "muted", indent=INDENT)
        return
    for text in new_remarks(finding, each, shown.printed):
        yield Text(text, "muted", indent=INDENT)
    # Edits of a model are of this code: readers must not take others for one.
    case = None if each.model else finding.nearest_case
    # A line that is gone does not say what to write.
    adds = case is not None and any(line.startswith("+") for line in case.changes)
    if case and adds and (shown.verbose or reader.format != "terminal"):
        text = f"What changed in {case.id}, another program:"
        yield from (Text(text, "muted", indent=INDENT), Code(case.changes, "diff", indent=INDENT))
    if shown.is_html:
        anchor = shown.anchors.finding(each.launch.id, number)
        yield EvidenceFigure(finding.evidence, each.view.ledger, f"{anchor}-evidence")


def last_findings(shown: Shown) -> Iterator[Block]:
    """Those that are only named, and the gain of all."""
    each, detail = shown.each, shown.detail
    in_full = FINDINGS[detail]
    ranked = list(enumerate(each.findings, 1))[in_full : in_full + _NAMED]
    if named := [Item(name_words(shown, number, finding)) for number, finding in ranked]:
        yield Items(named, mark="")
    if every := all_fixed_text(each):
        yield Text(every, indent=INDENT)
    if each.unlisted and detail == "full":
        top = len(each.findings) + len(each.unlisted)
        more = f"{len(each.unlisted)} more with smaller gains: use --top {top}"
        yield Text(more, "muted", indent=INDENT, only=("html",))


def gain_words(finding: Finding, each: LaunchExplanation) -> Words:
    """The forecast and how sure it is, as badges."""
    look = {"certain": "badge good", "likely": "badge warn"}.get(finding.cause_certainty, "badge")
    badges = [Span(f"cause: {certainty_of(each, finding)}", look)]
    badges += [Span("found by the model", "badge")] if finding.origin == "model" else []
    badges += [Span("the model objects", "badge warn")] if is_disputed(finding, each) else []
    return joined((Span(forecast_of(each, finding), "strong number"), *badges), " ")


def name_words(shown: Shown, number: int, finding: Finding) -> tuple[Words, Words]:
    """Its title with the gain, and the certainty of the cause. `number`: 0 for none."""
    each = shown.each
    objection = Span(" (the model objects)" if is_disputed(finding, each) else "", "warn")
    title = Span(finding.title, _CERTAINTY[finding.cause_certainty])
    # In a terminal it stands apart, so that `keet verify` does not read it as a part of a sentence.
    between = "  " if shown.reader.format == "terminal" else ", "
    cause = Span(f"{between}cause: {certainty_of(each, finding)}", "muted")
    if shown.verbose:
        cause = Span(f"{cause.text}{between}{finding.id}", "muted")
    rank = f"{number}. " if number else ""
    return (rank, title, ": ", forecast_of(each, finding), objection), cause


def title_lines(shown: Shown, number: int, finding: Finding) -> tuple[Words, ...]:
    """What does not fit beside the title is below it."""
    name, cause = name_words(shown, number, finding)
    room = shown.reader.width - (0 if number else INDENT)
    fits = len(plain((name, cause))) <= room or shown.reader.format != "terminal"
    return ((name, cause),) if fits else (name, cause)


def title_blocks(shown: Shown, number: int, finding: Finding) -> Iterator[Block]:
    if shown.is_html:
        tip = f"{finding.id}; see: keet finding {finding.id}"
        yield Heading((Span(str(number), "rank"), " ", Span(finding.title, tip=tip)), 4, "")
        yield Text(gain_words(finding, shown.each), "gain")
        return
    title, *below = title_lines(shown, number, finding)
    yield from (Heading(title, 3, ""), *(Text(words, indent=INDENT - 2) for words in below))


def advice(finding: Finding) -> Text:
    return Text(finding.action, "do", mark="→ ", indent=INDENT)


def place_blocks(shown: Shown, finding: Finding, most: int | None = None) -> Iterator[Block]:
    """The first source lines, and how much of the effect has no line. The code is beside them, and
    in Markdown below with the lines around it."""
    each, form = shown.each, shown.reader.format
    most = most or (None if shown.is_html and shown.detail == "full" else PLACES[shown.detail])
    places = finding.locations[:most]
    items = []
    for place, share in zip(places, place_shares(places)):
        before = Span(f"{share}  " if share else "", "muted share")
        items.append(Item((before, _place_words(shown, place))))
    for share in unplaced_shares(places):
        items.append(Item((Span(f"{share}  ", "muted share"), "no source line")))
    if items:
        yield Items(items, mark="", is_cut=True, kind="places", indent=INDENT)
    if form == "markdown" and shown.detail != "brief":
        texts = source_lines(each.launch)
        for file in dict.fromkeys(place.file for place in places):
            yield from _excerpt(file, places, texts.get(file, ()))


def _place_words(shown: Shown, place: Place) -> Words:
    to = file_link(shown.each.launch, place.file, shown.reader, place.line)
    if shown.is_html:
        to = to or shown.anchors.line(shown.listed_by, place.file, place.line)
    where = Span(place.where, "place", to)
    if shown.reader.format == "markdown":
        return where
    text = shown.each.launch.source_files.get(place.file) or ""
    code = line_at(text, place.line).strip()
    code = COMPILERS_OWN if code == "}" else shortened(code, _LONGEST_CODE)
    return where, "  ", Span(code, "italic code" if not shown.is_html else "code")


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
    statement = each.model
    if not statement or any(cause.finding == finding.id for cause in statement.causes):
        return False
    return any(x.finding == finding.id and not x.problem for x in statement.objections)


def new_remarks(finding: Finding, each: LaunchExplanation, printed: set[str]) -> list[str]:
    """Why it ranks first, if a larger part of the time does not; why the cause is only possible, if
    so; what the same fix gained in measured cases, and the nearest of them.

    `printed`: remarks printed for this launch so far. New ones are added, so that none is repeated.
    """
    is_first = each.findings[:1] == (finding,)
    texts = (
        each.order_reason if is_first else "",
        finding.certainty_reason,
        precedents_text(finding, each.view.ledger),
        nearest_text(finding.nearest_case) if finding.nearest_case else "",
    )
    new = [text for text in texts if text and text not in printed]
    printed.update(new)
    return new
