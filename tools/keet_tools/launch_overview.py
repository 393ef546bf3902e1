"""The tools about launches as a whole: `list_launches`, `analyst_findings`, `check_roofline` and
`stall_reasons`.

For a single launch, the first prompt has all that they would answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.roofline.launch_roofline import SHOWN_WORK, LaunchRoofline, find_roofline
from keet.catalog import stalls
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.explanation.account_rows import account_rows
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.gain_texts import forecast_text
from keet.formatting import shape_text
from keet.units import Quantity
from keet_tools.answers import (
    Abstention,
    Answer,
    AnswerText,
    ToolInput,
    one_page,
    place_name,
    quote,
    quote_prose,
    shorten,
)

_LAUNCHES_PER_PAGE = 6
_PARTS = 2
"""Of the time of a launch."""


def list_launches(tool_input: ToolInput, report: int = 0, page: int = 1) -> Answer:
    """Launches of a report: kernel, grid, block, duration, verdict."""
    explanation = tool_input.report(report)
    shown, more = one_page(explanation.launches, page, _LAUNCHES_PER_PAGE)
    say = AnswerText()
    device = explanation.launches[0].launch.device.name if explanation.launches else None
    rows = [_launch_row(each, say) for each in shown]
    return say.answer(f"report {quote(f'{report}')} on {quote(device or 'unknown')}", *rows, more)


def _launch_row(each: LaunchExplanation, say: AnswerText) -> str:
    launch = each.launch
    duration = each.view.get("duration")
    took = f" {say(duration)}" if duration else ""
    shapes = f"grid {shape_text(launch.grid)} block {shape_text(launch.block)}"
    headline = say.headline(each, 150)
    what = f"#{launch.id} {quote(launch.kernel, 50)} {quote(shapes)}"
    return f"{what}{took}{_run(each, say)}: {headline}{_time(each, say)}"


def _time(each: LaunchExplanation, say: AnswerText) -> str:
    """The largest parts of the account."""
    parts = [f"{say(part.share)} {part.label}" for part in each.account.leading(_PARTS)]
    return f" Time: {'; '.join(parts)}." if parts else ""


def _run(each: LaunchExplanation, say: AnswerText) -> str:
    """What the launch represents in the run, where that is known."""
    found = each.in_run
    if found is None:
        return ""
    launches, share, *_ = found.evidence
    represented = f", represents {say(launches)} launches, {say(share)} of the run"
    if found.warning:
        alike = next(each for each in found.evidence if each.metric == "run_alike_share")
        represented += f", of which {say(alike)} is in launches about as long"
    if each.replay is None:
        return represented
    _, plain, _ = each.replay.evidence
    return f"{represented}; {say(plain)} in the run, so the rest is of the replay alone"


FINDINGS = 3
"""Per page."""
_TEXT = 300
_HEADLINE = 400
ACCOUNT = "where the time goes"
_ROWS = 6
"""Parts of the time."""


def analyst_findings(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """keet's own findings: causes, places, forecasts, what is healthy, what is not known."""
    each = tool_input.launch(launch, report)
    say = AnswerText()
    parts: list[Finding | str] = [*each.findings, *_others(each, say)]
    shown, more = one_page(parts, page, FINDINGS) if parts else ([], "")
    rows = [
        part if isinstance(part, str) else _finding_row(tool_input, each, part, say)
        for part in shown
    ]
    return say.answer(
        _unlike(each, say), _replay(each, say), say.headline(each, _HEADLINE), *rows, more
    )


def _unlike(each: LaunchExplanation, say: AnswerText) -> str:
    """That the launch represents others which took much longer or shorter."""
    found = each.in_run
    if found is None or found.warning is None:
        return ""
    return say.with_names(found.warning, found.evidence)


def _replay(each: LaunchExplanation, say: AnswerText) -> str:
    """That the findings are of a replay which differs from the run, and the likely reasons."""
    replay = each.replay
    if replay is None:
        return ""
    reasons = [
        f"Likely {reason.id}: {say.with_names(reason.text, reason.evidence)}."
        for reason in replay.likely_reasons
    ]
    return " ".join([say.with_names(replay.text, replay.evidence), *reasons])


def _finding_row(
    tool_input: ToolInput, each: LaunchExplanation, finding: Finding, say: AnswerText
) -> str:
    places = [_place(each, place, say) for place in finding.places[:3]]
    where = f" Places: {', '.join(places)}." if places else ""
    ledger = Ledger(each.view.ledger.scope)  # a model must not cite forecasts
    forecast = f"{forecast_text(finding, ledger)}{' under replay' if each.replay else ''}"
    return (
        f"- {finding.id} ({finding.confidence}), forecast `{forecast}`: "
        f"{say.with_names(shorten(finding.text, _TEXT), finding.evidence)}{where} "
        f"Remedy: {shorten(_action(tool_input, finding), _TEXT)}"
    )


def _action(tool_input: ToolInput, finding: Finding) -> str:
    if tool_input.show_source:
        return finding.action
    here = f" at {finding.places[0].where}" if finding.here and finding.places else ""
    return replace(finding, here=here).action


def _place(each: LaunchExplanation, place: Place, say: AnswerText) -> str:
    share = each.view.ledger.derived(
        f"share_of_{place.of.replace(' ', '_')}",
        Quantity(100 * place.share, "%"),
        f"share of {place.of}",
        line=place.where,
    )
    return f"{place_name(place.where)} {say(share)} of {place.of}"


def account_lines(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    """Where the time goes, the largest parts first."""
    if each.verdict.not_judged:
        return
    rows = account_rows(each.view, each.account, _ROWS)
    if parts := "; ".join(f"{row.label} {say(row.share)}" for row in rows):
        yield f"- {ACCOUNT}: {parts}"
    yield from (f"- {say.with_names(note.text, note.evidence)}" for note in each.notes)


def _others(each: LaunchExplanation, say: AnswerText) -> Iterator[str]:
    yield from account_lines(each, say)
    if each.healthy:
        notes = [say.with_names(note.text, note.evidence) for note in each.healthy]
        yield f"- healthy: {shorten('; '.join(notes), 400)}"
    if each.skipped:
        reasons = "; ".join(f"{skip.check}: {skip.reason}" for skip in each.skipped)
        yield f"- not known: {quote_prose(reasons, 400)}"
    if each.second_opinion:
        # Quoted: it may hold numbers of a rule, and it counts findings, which have ids here.
        yield f"- {quote_prose(each.second_opinion, 300)}"


_CEILINGS_PER_PAGE = 10
_OF_MEMORY = ("l2_stage", "bytes_moved")
"""Notes that say more about a ceiling of memory."""


def check_roofline(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Share of peak of each arithmetic type and memory level, with arithmetic intensity."""
    each = tool_input.launch(launch, report)
    found = find_roofline(each.launch, each.view.ledger)
    if not found.ceilings:
        reasons = "; ".join(f"{a.reason}: {a.remedy}" for a in found.skipped[:2])
        raise Abstention(f"no share of any peak is known; {shorten(reasons, 400)}")
    ranked = sorted(found.ceilings, key=lambda ceiling: -ceiling.share)
    busy = [each for each in ranked if each.reached_pct >= SHOWN_WORK or each.busiest]
    shown, more = one_page(busy or ranked, page, _CEILINGS_PER_PAGE)
    say = AnswerText()
    rows = []
    for ceiling in shown:
        parts = [_reached(ceiling.label, ceiling.evidence, say)]
        if stage := ceiling.busiest:
            parts.append(f"{stage.part} {say(stage.evidence)} busy")
        for entry in found.lead_intensities():
            if entry.level == ceiling.id:
                value, ridge, _ = entry.evidence
                parts.append(f"intensity {say(value)}, ridge {say(ridge)}")
        rows.append(", ".join(parts))
    if link := found.host_link:
        known = [each for each in (link.reached, link.achieved, link.peak) if each]
        rows.append(f"{_reached(link.name, known, say)} ({link.source})")
    idle = ", ".join(ceiling.label for ceiling in ranked if busy and ceiling not in busy)
    notes = [f"idle: {idle}"] if idle else []
    notes += [
        say.with_names(note.text, note.evidence) for note in each.notes if note.id in _OF_MEMORY
    ]
    notes += [shorten(note, 160) for note in found.notes[:2]]
    return say.answer(_reading(found), *rows, *_unknown(found), *notes, more)


def _reading(found: LaunchRoofline) -> str:
    """Without what it tells people at a terminal to type."""
    return found.reading.replace(": keet hotspots shows where", "").replace(
        "; keet show REPORT tells how to", ""
    )


def _reached(label: str, evidence: Sequence[Evidence], say: AnswerText) -> str:
    reached, *rates = map(say, evidence)
    return ", ".join([f"{label} {reached} of peak", *([" of ".join(rates)] if rates[1:] else [])])


def _unknown(found: LaunchRoofline) -> list[str]:
    reasons = dict.fromkeys(absent.reason for absent in found.skipped)
    return [f"not known: {shorten('; '.join(reasons), 200)}"] if reasons else []


_STALLS_PER_PAGE = 8
_STARVED = 50.0
"""Per cent of the issue slots in use below which schedulers wait for warps, not warps for them."""
HEALTHY_SHARE = 0.75
"""Of its peak from which a unit is what warps wait for, however they do it."""
_SCHEDULERS = (
    ("no_eligible_pct", "cycles without an eligible warp"),
    ("eligible_warps_per_scheduler", "eligible warps a scheduler"),
    ("active_warps_per_scheduler", "active warps a scheduler"),
    ("warp_cycles_per_issued_inst", "cycles between two instructions of a warp"),
)


def stall_reasons(
    tool_input: ToolInput, launch: int | None = None, report: int = 0, page: int = 1
) -> Answer:
    """Shares of warp time by stall reason, what each means, and whether schedulers starve."""
    view = tool_input.launch(launch, report).view
    say = AnswerText()
    if not view.stalls:
        raise Abstention("warp states were not collected; profile with `--section WarpStateStats`")
    ranked = sorted(view.stalls, key=lambda reason: -view.stalls[reason])
    shown, more = one_page(ranked, page, _STALLS_PER_PAGE)
    rows = [row for reason in shown if (row := _stall_row(view, reason, say))]
    return say.answer(_judgement(view, say), *_schedulers(view, say), *rows, more)


def _judgement(view: LaunchView, say: AnswerText) -> str:
    """Stalls cost nothing while other warps issue."""
    issue = view.ceilings.reached("issue")
    if issue is None:
        return "It is not known how busy the issue slots were, or whether stalls matter."
    busiest = view.ceilings.nearest
    if issue.value < _STARVED and busiest and busiest[0].share >= HEALTHY_SHARE:
        unit = f"{busiest[0].spoken} at {say(busiest[0].reached)} of peak"
        return f"Issue slots are {say(issue)} busy; warps wait since {unit} serves no faster."
    if issue.value < _STARVED:
        return f"Schedulers starve, issue slots are {say(issue)} busy: stalls cost time."
    return f"Issue slots are {say(issue)} busy: most stalls are hidden by other warps."


def _schedulers(view: LaunchView, say: AnswerText) -> list[str]:
    found = [(view.get(metric), label) for metric, label in _SCHEDULERS]
    texts = [f"{label} {say(value)}" for value, label in found if value is not None]
    return ["; ".join(texts)] if texts else []


def _stall_row(view: LaunchView, reason: str, say: AnswerText) -> str:
    share = view.stall(reason)
    if share is None:
        return ""
    stall = stalls()[reason]
    means = f"waits for {stall.waits_for}" if stall.counts_as_stall else "no real stall"
    return f"{stall.label} {say(share)}: {means}"
