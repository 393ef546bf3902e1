"""The program and its run on pages: kernels by share of the time, what each could gain, which
launches are printed, and where ncu's replay differs from the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.parameters import SAVED_PART
from keet.analysis.time_model import WORTH
from keet.diagnosis.finding import Finding
from keet.documents.explain import CrossLaunchDocument
from keet.evidence import Sentence
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.launch_groups import answer_label, first_answer
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.formatting import capitalized, listed, shapes_text, times_text
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Fold,
    Gap,
    Heading,
    Item,
    Items,
    Look,
    Notice,
    Reader,
    Span,
    Table,
    Text,
    Words,
    joined,
    table_of,
)
from keet.pages.capture import full_name
from keet.profile import Workload
from keet.profile.run_link import longest_first
from keet.safe_text import one_line

if TYPE_CHECKING:
    from keet.explanation.whole_run import KernelRow, ReplayDiffers, WholeRun

ROWS = 8
"""Kernels in a table at most."""
_SMALL_PCT = 1.0
"""Per cent of the time: smaller kernels share a row."""
_SPREAD, _SPREAD_IN_RUN = 1.2, 2.0
"""Both times are printed if the longest launch takes this many times as long as the shortest."""
_ACROSS = 3
"""Cross-launch findings that are printed; JSON has all of them."""
_NAMED_LAUNCHES = 3
"""Launches that a row names at most."""
_HTML_ROWS, _MOST_MEMBERS = 300, 200
"""Kernels that an HTML page lists one by one: 150 launches have at most 150, and more than twice as
many are not read but searched; and launches of one shape."""
_GAIN_NOTE = (
    "Gain: times faster, if the first finding of the kernel were fixed (an estimate); with “work”: "
    "times the work in the same time."
)
_FOR_TIMES = 64
"""Columns of a terminal from which on the table has times and launches."""
_LEAST_NAME = 16
"""Names are not cut below this number of characters."""
_NAME_BEFORE_FOLDING, _LEAST_FINDING = 30, 20
"""Columns of a name before findings are folded, and of a finding at least."""


def program_blocks(
    program: ProgramExplanation,
    reader: Reader,
    links: Mapping[int, str] | None = None,
    first: Sequence[Block] = (),
) -> Iterator[Block]:
    """`links`: anchors of launches that have a place on the page. `first`: what to change first,
    printed after the first sentence."""
    run = program.run
    yield Heading("Program", 2, only=("html",))
    yield from _sentences(program.all_texts, run, first)
    yield from (Gap(), _program_table(program, reader, links or {}))
    if reader.format == "html" and any(map(gain_text, program.rows)):
        yield Text(_GAIN_NOTE, "muted")
    if across := listed_across(program):
        yield from (Gap(), Items([Item(finding.text) for finding in across]))
    if program.amounts:
        from keet.pages.amounts import program_summary

        yield from program_summary(program.amounts)
    yield from _run_notes(run)


def run_blocks(run: WholeRun, most: int = ROWS) -> Iterator[Block]:
    """The run on its own, for a page that explains nothing."""
    yield from _sentences(run.text, run)
    columns = [
        Column("Kernel", look="name", least=12),
        *(Column(name, is_number=True) for name in ("Share", "Time", "Launches")),
        Column("Profiled", least=8),
    ]
    rows: list[list[Words | Cell]] = []
    for row in run_rows(run, most):
        share, launches, busy, *_ = row.evidence
        look = "" if row.profiled or row.in_range else "warn"
        name = Span(one_line(row.kernel), "plain" if row.members else "name")
        cells = [f"{share:share}", str(busy), str(launches), Span(profiled_text(row), look)]
        rows.append([Cell(name, spread_text(row)), *cells])
    yield from (Gap(), Table(columns, rows, name="Kernels of the run"))
    if notes := list(_run_notes(run)):
        yield from (Gap(), *notes)


def _sentences(
    texts: Sequence[str], run: WholeRun | None, then: Sequence[Block] = ()
) -> Iterator[Block]:
    """`then`: printed after the first of them."""
    warnings = run.warnings if run else ()
    first, *others = texts
    yield Text(first, "strong lead")
    yield from then
    if told := [text for text in others if text not in warnings]:
        yield from (*([Gap()] if then else []), Text(joined(told, " ")))
    yield from map(Notice, warnings)


def _run_notes(run: WholeRun | None) -> Iterator[Block]:
    """Why kernels could not be profiled, and what to try."""
    for skipped in run.skipped if run else ():
        reason = skipped.reason.removeprefix("it can't be replayed: ")
        text = f"{skipped.kernel} could not be profiled: {reason}; to profile it: {skipped.remedy}"
        yield Notice(text)
    yield from (Notice(f"note: {note}") for note in (run.notes if run else ()))


def _program_table(program: ProgramExplanation, reader: Reader, links: Mapping[int, str]) -> Table:
    rows = listed_rows(program, _HTML_ROWS if reader.format == "html" else ROWS)
    repeated = Counter(row.kernel for row in rows)
    answers = [answer_text(row) for row in rows]
    numbers = [(*figures(row), gain_text(row) or _more_work(row)) for row in rows]
    room = 1000
    if reader.format == "terminal":  # a row takes one line if possible: names are cut first
        named = zip(("Share", "Launches", "Time", "Gain"), *numbers)
        widths = [max(map(len, each)) for each in named]
        if reader.width < _FOR_TIMES:
            widths = [widths[0], widths[3]]
        taken = sum(widths) + 3 * len(widths)
        names = min(max(len("".join(kernel_parts(r))) for r in rows), _NAME_BEFORE_FOLDING)
        left = reader.width - taken - 3
        finding = max(_LEAST_FINDING, min(max(map(len, answers)), left - names))
        room = max(_LEAST_NAME, left - finding)
    is_timed = bool(program.us_total)
    cells: list[dict[Column, Words | Cell]] = []
    for row, answer, (share, launches, time, gain) in zip(rows, answers, numbers):
        look = "" if is_profiled(row) or row.members else "warn"
        name, behind = kernel_parts(row, room)
        look_of_name = "plain" if row.members else "name"
        kernel = (linked_name(row, name, links, look_of_name), Span(behind, "plain"))
        part, count, took, *_ = (float(each.value) for each in row.evidence)
        saves = row.gain.likely if row.gain and gain else ""
        cells.append({
            Column("Kernel", look="name", most=room):
                Cell(kernel, detail_text(row, repeated), row.kernel),
            Column("Share", is_number=True):
                Cell(share, value=part if is_timed else "", share=part / 100 if is_timed else None),
            Column("Gain", is_number=True): Cell(gain, value=saves),
            Column("First finding"): Span(answer, look),
            Column("Time", is_number=True, wide=_FOR_TIMES):
                Cell(time, value=took if is_timed else ""),
            Column("Launches", is_number=True, wide=_FOR_TIMES): Cell(launches, value=count),
        })  # fmt: skip
    return table_of(cells, name="Kernels by time")


def linked_name(row: ProgramRow, name: str, links: Mapping[int, str], look: Look = "name") -> Span:
    """The name of a row, with a link to the first of its launches that has a place on the page."""
    members = (row.first, *(member for group in row.groups for member in group.members))
    to = (links[member.launch.id] for member in members if member and member.launch.id in links)
    return Span(name, look, next(to, ""), full_name(row.first.launch) if row.first else "")


_WITHOUT_CODE = " (machine code not analysed)"


def members_blocks(each: LaunchExplanation, program: ProgramExplanation | None) -> Iterator[Block]:
    """The launches that this one represents, behind a summary; nothing if there are no others, or
    if another launch of the group lists them."""
    group = program.standing.get(each.launch.id) if program else None
    if program is None or group is None or len(group.launches) < 2:
        return
    ranked = longest_first(group.launches)
    has_code = group.first.view.code_state != "off"
    labels = {
        member.launch.id: f"{member.label}{_WITHOUT_CODE * (member.without_code and has_code)}"
        for member in group.members
    }
    others = {other.launch.id for other in group.different}
    rows: list[list[Words | Cell]] = []
    for launch in ranked[:_MOST_MEMBERS]:
        duration = launch.get("duration")
        other = " (not what most of them have)" if launch.id in others else ""
        label = labels.get(launch.id, "not explained")
        time = Cell(str(duration) if duration else "-", value=launch.rank_time or "")
        rows.append([Cell(f"#{launch.id}", value=launch.id), time, f"{label}{other}"])
    count, *times = program.numbers_of(group)
    columns = [Column("Launch"), Column("Time", is_number=True), Column("First finding")]
    left = len(ranked) - _MOST_MEMBERS
    caption = f"{left} shorter ones are not listed." if left > 0 else ""
    table = Table(columns, rows, caption, "Launches of this kernel and shape")
    spread = dict(zip(("shortest", "median", "longest"), times))
    text = "Time: shortest {shortest}, median {median}, longest {longest}."
    title = Sentence("All {count:.0f} launches of this kernel and shape", count=count)
    yield Fold(title, [*([Text(Sentence(text, **spread))] if times else []), table])


# --- rows


def listed_rows(program: ProgramExplanation, most: int = ROWS) -> list[ProgramRow]:
    """At most `most` rows: large ones one by one, the others combined. Without times, no row is
    small."""
    rows = program.rows
    small = _SMALL_PCT if program.us_total else 0.0
    large = [row for row in rows if 100 * row.share >= small] or list(rows[:1])
    single = large[: most if len(rows) <= most else most - 1]
    rest = [row for row in rows if row not in single]
    return [*single, program.combined_row(rest)] if len(rest) > 1 else [*single, *rest]


def first_row(program: ProgramExplanation) -> ProgramRow | None:
    """The kernel whose first finding would save most time; where none saves much, the kernel that
    takes most time of those with a finding. Findings that are only of ncu's replay do not count."""
    rows = [row for row in program.rows if row.finding and row.first and not row.first.replay]
    best = max(rows, key=saved_part, default=None)
    if best is None or saved_part(best) >= SAVED_PART:
        return best
    return max(rows, key=lambda row: row.share)


def saved_part(row: ProgramRow) -> float:
    """Share of the program's time, 0 to 1; 0: not known."""
    return row.share * (1 - 1 / row.gain.likely) if row.gain else 0.0


def run_rows(run: WholeRun, most: int) -> list[KernelRow]:
    """The same for the kernels of a run."""
    large = sum(row.share_pct >= _SMALL_PCT for row in run.kernels)
    shown = min(large, most) if len(run.kernels) <= most else min(large, most - 1)
    single = run.kernels[: max(shown, 1)]
    rest = run.kernels[len(single) :]
    if len(rest) > 1:
        from keet.explanation.whole_run import combined_row

        return [*single, combined_row(run, rest)]
    return [*single, *rest]


def listed_across(program: ProgramExplanation) -> tuple[CrossLaunchDocument, ...]:
    return program.cross_launch[:_ACROSS]


def kernel_parts(row: ProgramRow, room: int = 1000) -> tuple[str, str]:
    """`gemm` and ` (cuBLAS) #3`: the name, and what is behind it, with the representative launch.
    A long name is cut; template arguments are dropped first."""
    library = f" ({row.library})" if row.library else ""
    if row.run_row is None:  # the representative of identical launches
        named: Sequence[int] = (row.first.launch.id,) if row.first else ()
    else:
        named = row.launches
    ids = listed([f"#{launch}" for launch in named], _NAMED_LAUNCHES)
    behind = f"{library}{f' {ids}' if ids else ''}"
    name, most = one_line(row.kernel), max(_LEAST_NAME, room - len(behind))
    head, opened, _ = name.partition("<")
    if len(name) > most and opened:
        name = f"{head}<…>"
    return (name if len(name) <= most else f"{name[: most - 1]}…"), behind


def detail_text(row: ProgramRow, repeated: Counter[str]) -> str:
    """What distinguishes the row from others of the same kernel, and how much its launches
    differ."""
    parts = []
    if repeated[row.kernel] > 1 and row.grid and row.block:
        parts.append(shapes_text(row.grid, row.block))
    _, _, _, *ends = row.evidence
    if ends and ends[-1].value > _SPREAD * ends[0].value:
        parts.append(f"{ends[0]} to {ends[-1]} per launch")
    return ", ".join(parts)


def figures(row: ProgramRow) -> tuple[str, str, str]:
    """Share, launches and time; `not measured` if the report has no duration of them."""
    part, launches, took, *_ = row.evidence
    if not took.value:
        return "-", f"{launches:count}", "not measured"
    return f"{part:share}", f"{launches:count}", str(took)


def gain_text(row: ProgramRow) -> str:
    return times_text(row.gain.likely) if row.gain and row.gain.likely >= WORTH else ""


def _more_work(row: ProgramRow) -> str:
    """`21x work`, where a fix does more work in the same time; else empty. Nothing is said of a
    launch that took another time in the run than under replay."""
    finding, first = row.finding, row.first
    if finding is None or row.members or not finding.does_more_work or (first and first.replay):
        return ""
    return f"{times_text(finding.forecast.likely)} work"


def answer_text(row: ProgramRow) -> str:
    """The first finding of the launch that represents the row."""
    if row.members:
        if row.run_row is None or row.run_row.in_range:
            return ""
        return f"{sum(map(is_profiled, row.members))} of {len(row.members)} profiled"
    if row.not_explained:
        return "not explained"
    if row.first is None:
        return "" if is_profiled(row) else "not profiled"
    label = answer_label(row.first)
    return f"{label} (of the replay)" if row.first.replay and first_answer(row.first) else label


def is_profiled(row: ProgramRow) -> bool:
    """Whether a launch of the row is in the report, on its own or possibly inside a range."""
    return bool(row.launches) or bool(row.run_row and row.run_row.in_range)


def profiled_text(row: KernelRow) -> str:
    """`#0, #3`: the launches of the report that represent the row."""
    if not row.profiled:
        return "-" if row.in_range else "not profiled"
    if row.members:
        return f"{sum(bool(r.profiled) for r in row.members)} of {len(row.members)} profiled"
    return listed([f"#{launch}" for launch in row.profiled], _NAMED_LAUNCHES)


def spread_text(row: KernelRow) -> Sentence:
    """`2.10 us to 1.20 ms per launch`, if launches differ much."""
    _, _, _, *ends = row.evidence
    if not ends or ends[1].value <= _SPREAD_IN_RUN * ends[0].value:
        return Sentence()
    return Sentence("{shortest} to {longest} per launch", shortest=ends[0], longest=ends[1])


# --- launches of the program


def shown_launches(
    explanation: Explanation, program: ProgramExplanation | None, *, everything: bool
) -> Sequence[LaunchExplanation]:
    """The launches that are printed: all, those that a model explains, or the most important
    ones. In the order of the program's table, except in reports that are too large for memory."""
    if program is None:
        return explanation.launches
    if not everything:
        by_model = [each for each in explanation.launches if each.model]
        return by_model or program.shown_launches
    if not isinstance(explanation.launches, tuple):
        return explanation.launches
    ranks = {
        launch.id: rank for rank, group in enumerate(program.groups) for launch in group.launches
    }
    return sorted(explanation.launches, key=lambda each: ranks.get(each.launch.id, len(ranks)))


def finding_text(finding: Finding, program: ProgramExplanation | None) -> str:
    """Cross-launch findings are not repeated after the program."""
    across = listed_across(program) if program else ()
    if all(finding.text != other.text for other in across):
        return finding.text
    return f"{finding.text.partition(':')[0]}: see above."


def stands_for_text(program: ProgramExplanation | None, each: LaunchExplanation) -> str:
    """Which launches of the program it represents: `it represents 13 launches of this shape`,
    `represents 3 launches, 2.6% of the run's GPU time`. Empty if it is alone."""
    if program is None:
        return ""
    if program.run is None:
        group = program.standing.get(each.launch.id)
        return program.represents_text(group) if group and len(group.launches) > 1 else ""
    if each.in_run:
        return each.in_run.text
    single = each.launch.workload is Workload.KERNEL
    return "not in the run table" if single else "its part of the run is not known"


def replay_blocks(each: LaunchExplanation) -> Iterator[Block]:
    """Where the run differs from the launch: it comes before all figures, which are of the
    replay."""
    if each.in_run and each.in_run.warning:
        yield Notice(each.in_run.warning, "strong warn", indent=2)
    if each.replay:
        yield Notice(each.replay.text, "strong warn", indent=2)
        rows = [
            Item((Span(f"{heading} ", "strong warn"), f"{text} {tell}".rstrip()))
            for heading, text, tell in reason_texts(each.replay)
        ]
        yield Items(rows, mark="", indent=2)
    if each.replay or (each.in_run and each.in_run.warning):
        yield Gap()


def reason_texts(replay: ReplayDiffers) -> Iterator[tuple[str, str, str]]:
    """For each reason that is not ruled out: a heading, the evidence for it, and how to find
    out."""
    if replay.as_for is not None:
        yield "Why:", f"as for #{replay.as_for}.", ""
        return
    from keet.analysis.replay_gap_reasons import REASON_NAMES

    for reason in replay.open_reasons:
        heading = f"{capitalized(reason.status)}: {REASON_NAMES[reason.id]}."
        text = reason.text if reason.text.startswith("ncu ") else capitalized(reason.text)
        yield heading, f"{text}.", f"To tell: {reason.how_to_tell}."
