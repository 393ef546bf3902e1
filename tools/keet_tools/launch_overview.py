"""Short texts about launches for the first prompt of the agent: what tools would answer in full."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from keet.analysis.hotspots.examined import pointer_rows
from keet.analysis.hotspots.source_lines import find_hotspots
from keet.analysis.ledger import Ledger
from keet.analysis.machine_code.launch_code import machine_code
from keet.diagnosis.finding import Finding
from keet.evidence import Evidence, Sentence
from keet.explanation.account_texts import account_rows
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import forecast_text
from keet.formatting import shape_text
from keet.pages.hotspots import (
    distinct_bytes_text,
    excess_text,
    hotspots_summary,
    row_numbers,
    share_words,
    size_text,
    spot_place,
    times_read_text,
    waiting_for,
)
from keet.profile import Absent
from keet.units import Quantity
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput, place_name, quote, shorten

_LAUNCHES = 20
"""That are listed; a tool has all."""
_LEADING_PARTS = 2
"""Of the time of a launch."""


def list_launches(tool_input: ToolInput, report: int = 0) -> Answer:
    """Launches of a report: kernel, grid, block, duration, verdict."""
    launches = tool_input.report(report).launches
    say = AnswerText()
    device = launches[0].launch.device.name if launches else None
    rows = []
    for each in launches[:_LAUNCHES]:
        launch, duration = each.launch, each.view.get("duration")
        took = f" {say(duration)}" if duration else ""
        shapes = f"grid {shape_text(launch.grid)} block {shape_text(launch.block)}"
        headline = say.sentence(shorten(each.verdict.headline, 150))
        what = f"#{launch.id} {quote(launch.kernel, 50)} {quote(shapes)}"
        parts = [
            f"{say(part.percent)} {part.part}" for part in each.account.leading(_LEADING_PARTS)
        ]
        time = f" Time: {'; '.join(parts)}." if parts else ""
        rows.append(f"{what}{took}{_run(each, say)}: {headline}{time}")
    left = len(launches) - len(rows)
    more = f"`{left} more launches`: see explain" if left > 0 else ""
    return say.answer(f"report {quote(f'{report}')} on {quote(device or 'unknown')}", *rows, more)


def _run(each: LaunchExplanation, say: AnswerText) -> str:
    """What the launch represents in the run, where that is known."""
    in_run = each.in_run
    if not in_run:
        return ""
    launches, share, *_ = in_run.evidence
    represented = f", represents {say(launches)} launches, {say(share)} of the run"
    if in_run.warning:
        alike = next(each for each in in_run.evidence if each.metric == "run_alike_share")
        represented += f", of which {say(alike)} is in launches about as long"
    if not each.replay:
        return represented
    _, plain, _ = each.replay.evidence
    return f"{represented}; {say(plain)} in the run, so the rest is of the replay alone"


FINDINGS = 3
"""That are described, together with other remarks."""
_TEXT = 300
_HEADLINE = 400
ACCOUNT = "where the time goes"
_ROWS = 6
"""Parts of the time."""
_HEALTHY = 4


def analyst_findings(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """keet's own findings: causes, places, forecasts, what is healthy, what is not known."""
    each = tool_input.launch(launch, report)
    say = AnswerText()
    findings = (_finding_row(tool_input, each, own, say) for own in each.findings)
    warning = say.sentence(each.in_run.warning or "") if each.in_run else ""
    replay = ""
    if each.replay:
        reasons = (f" Likely {r.id}: {say.sentence(r.text)}." for r in each.replay.likely_reasons)
        replay = "".join([say.sentence(each.replay.text), *reasons])
    return say.answer(
        warning,
        replay,
        say.sentence(shorten(each.verdict.headline, _HEADLINE)),
        *islice(chain(findings, _others(each, say)), FINDINGS),
    )


def _finding_row(
    tool_input: ToolInput, each: LaunchExplanation, finding: Finding, say: AnswerText
) -> str:
    places = []
    for place in finding.locations[:3]:
        share = each.view.ledger.derived(
            f"share_of_{place.of.replace(' ', '_')}",
            Quantity(100 * place.share, "%"),
            f"share of {place.of}",
            line=place.where,
        )
        places.append(f"{place_name(place.where)} {say(share)} of {place.of}")
    where = f" Places: {', '.join(places)}." if places else ""
    ledger = Ledger(each.view.ledger.scope)  # a model must not cite forecasts
    forecast = f"{forecast_text(finding, ledger)}{' under replay' if each.replay else ''}"
    return (
        f"- {finding.id} ({finding.confidence}), forecast `{forecast}`: "
        f"{say.sentence(shorten(finding.text, _TEXT))}{where} "
        f"Remedy: {say.sentence(shorten(tool_input.shown(finding).action, _TEXT))}"
    )


def account_lines(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    """Where the time goes, the largest parts first."""
    if each.verdict.not_judged:
        return
    rows = account_rows(each.view, each.account, _ROWS)
    if parts := "; ".join(f"{row.label} {say(row.share)}" for row in rows):
        yield f"- {ACCOUNT}: {parts}"
    yield from (f"- {say.sentence(note.text)}" for note in each.notes)


def _others(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    yield from account_lines(each, say)
    if each.healthy:
        notes = "; ".join(say.sentence(note.text) for note in each.healthy[:_HEALTHY])
        yield f"- healthy: {notes}"
    if each.skipped:
        reasons = "; ".join(f"{skip.check}: {skip.reason}" for skip in each.skipped)
        yield f"- not known: {quote(reasons, 400)}"
    if each.second_opinion:
        # Quoted: it may hold numbers of a rule, and it counts findings, which have ids here.
        yield f"- {quote(each.second_opinion, 300)}"


_LINES = 7


def source_hotspots(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """Hottest source lines (SASS without lines): sample share, stall reasons, wasted traffic."""
    each = tool_input.launch(launch, report)
    hotspots = find_hotspots(each.launch)
    if isinstance(hotspots, Absent):
        raise Abstention(f"{hotspots.reason}; {hotspots.remedy}")
    say = AnswerText(tool_input.names, each.view.ledger.scope)
    what = "samples" if hotspots.ranked_by == "samples" else "executed instructions, none sampled,"
    unit = "source line" if hotspots.by == "line" else "instruction"
    form = "Share of {what} ({total}) by {unit}; waits are shares of its own samples:"
    heading = Sentence(form, what=what, total=hotspots_summary(hotspots), unit=unit)
    partial = hotspots.partial.text if hotspots.partial else ""
    sass = each.launch.disassembly if hotspots.by != "line" and tool_input.show_source else {}
    rows = []
    for spot in hotspots.rows[:_LINES]:
        number = row_numbers(hotspots, spot)
        local = Sentence()
        if spot.sectors_local:
            count = number("local sectors", spot.sectors_local, "sector")
            local = Sentence("local memory {count}s", count=count)
        waits = waiting_for(spot, hotspots)
        facts = [
            Sentence("waits {waits}", waits=waits) if waits else "",
            excess_text(spot, hotspots),
        ]
        code = "" if isinstance(sass, Absent) else sass.get(spot.address or -1, "")
        shown = f" {quote(code)}" if code else ""
        row = "; ".join(
            map(say.sentence, filter(None, [share_words(spot, hotspots), *facts, local]))
        )
        rows.append(f"{place_name(spot_place(spot, each.launch))} {row}{shown}")
    return say.answer(say.sentence(heading), say.sentence(partial), *rows)


def address_forms(tool_input: ToolInput, launch: int | None = None, report: int = 0) -> Answer:
    """Bytes that are read through each pointer, and how often each is requested."""
    each = tool_input.launch(launch, report)
    code = each.view.code or (tool_input.report(report).reads_code and machine_code(each.launch))
    if not code:
        raise Abstention("the machine code is not analysed in this run; leave out --no-sass")
    if isinstance(code, Absent):
        raise Abstention(f"the machine code can't be analysed: {code.reason}; {code.remedy}")
    say, ledger = AnswerText(), each.view.ledger
    rows = []
    for row in pointer_rows(code):
        of = row.parameter or row.pointer

        def number(label: str, value: float, unit: str = "", of: str = of) -> Evidence:
            return ledger.derived(f"{label} {of}", Quantity(value, unit), label)

        is_measured = row.l2_basis == "measured" and (row.l2_bytes or 0) <= (row.l1_bytes or 0)
        sizes = {
            "threads request": (row.requested_bytes, "requested bytes"),
            "L1 is asked, in sectors, for": (row.l1_bytes, "l1 bytes"),
            "L1 reads from L2": (row.l2_bytes if is_measured else None, "l2 bytes"),
        }
        facts = [
            Sentence("{words} {size}", words=words, size=size_text(size, number, label))
            for words, (size, label) in sizes.items()
            if size is not None
        ]
        why, requested = row.why_unknown or "", row.requested_bytes
        distinct = distinct_bytes_text(row.distinct_bytes_at_most, row.basis, why, number)
        facts.append(Sentence("distinct bytes {distinct}", distinct=distinct))
        if times := times_read_text(requested, row.distinct_bytes_at_most, number):
            least = "about" if row.basis == "estimate" else "at least"
            facts.append(Sentence("each byte {least} {times}", least=least, times=times))
        name = quote(row.pointer if tool_input.show_source else of, 40)
        rows.append(f"pointer {name}: {say.sentence(Sentence('; ').join(facts))}")
    if not rows:
        return Answer("The launch reads no global memory.")
    read = ledger.measured("dram_bytes_read")
    sums = [f"The launch reads {say(read)} from DRAM."] if read else []
    distinct_sizes = [reuse.distinct_bytes_at_most for reuse in code.reuse]
    if None not in distinct_sizes:
        is_bound = all(reuse.basis == "bound" for reuse in code.reuse)
        size = Quantity(sum(known or 0 for known in distinct_sizes), "byte")
        total = ledger.derived("distinct_bytes", size, "distinct bytes read")
        sums.append(f"All loads read {'at most' if is_bound else 'about'} {say(total)} distinct.")
    return say.answer("Global memory by pointer, most bytes first.", " ".join(sums), *rows)
