"""The tool `analyst_findings`: the findings of keet without a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keet.analysis.ledger import Ledger
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.explanation.account_rows import account_rows
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.gain_texts import forecast_text
from keet.units import Quantity
from keet_tools.answer_text import AnswerText, one_page, place_name, quote_prose, shorten
from keet_tools.tool_input import Answer, ToolInput

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
    rows = [part if isinstance(part, str) else _row(tool_input, each, part, say) for part in shown]
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


def _row(tool_input: ToolInput, each: LaunchExplanation, finding: Finding, say: AnswerText) -> str:
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
    """Where the time goes: outermost parts, and in brackets what is within each."""
    if each.verdict.not_judged:
        return
    groups: list[tuple[str, list[str]]] = []
    for row in account_rows(each.view, each.account, _ROWS):
        text = f"{row.label} {say(row.share)}"
        if row.depth:
            groups[-1][1].append(text)
        else:
            groups.append((text, []))
    parts = [f"{text} ({', '.join(inner)})" if inner else text for text, inner in groups]
    if parts:
        yield f"- {ACCOUNT}: {'; '.join(parts)}"
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
