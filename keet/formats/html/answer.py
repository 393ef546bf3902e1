"""The answer for a launch in five lines: what limits it, where, why, what to do, the gain."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.source_lines import Hotspots, find_hotspots
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.formats.html.finding import FindingWriter
from keet.formats.html.markup import Content, Html, element, prose
from keet.pages.anchors import Anchors
from keet.profile import Absent
from keet.safe_text import flat

_NO_LINES = "the report does not tell which line an instruction belongs to"
_UNLIKE_OTHERS = "no source line: it is about what this launch and others read and write"
_OF = {"samples": "samples", "executed": "executed instructions"}


def answer_card(each: LaunchExplanation, findings: FindingWriter, anchors: Anchors) -> Html:
    rows = [("Limit", _headline(each)), *_answer_rows(each, findings, anchors)]
    return element(
        "dl",
        [
            element("div", element("dt", name), element("dd", text), class_=name.lower())
            for name, text in rows
        ],
        class_="answer panel",
    )


def _headline(each: LaunchExplanation) -> Content:
    leads = bool(each.model_explanation and each.model_explanation.leads)
    return [prose(each.verdict.headline), _by_model() if leads else None]


def _by_model() -> Content:
    from keet.explanation.explain_document import BY_MODEL

    return [" ", element("span", BY_MODEL, class_="badge")]


def _answer_rows(
    each: LaunchExplanation, findings: FindingWriter, anchors: Anchors
) -> Iterator[tuple[str, Content]]:
    """Of the first finding."""
    for finding in each.findings[:1]:
        yield "Where", _where(finding, each, findings, anchors)
        yield "Why", findings.why(finding)
        yield "Do", _action(finding, each, anchors)
        yield "Gain", list(findings.gain_words(finding))


def _where(
    finding: Finding, each: LaunchExplanation, findings: FindingWriter, anchors: Anchors
) -> Content:
    """The first source line of the finding, or why it has none."""
    number, places = each.launch.id, finding.places
    if places:
        return [findings.place(places[0]), _more_places(len(places) - 1, anchors, number)]
    if finding.variant in BETWEEN_LAUNCHES:
        return _UNLIKE_OTHERS
    found = find_hotspots(each.launch, table=each.view.table)
    if not isinstance(found, Absent) and found.by == "line":
        return ["no single source line", _hottest(found, findings)]
    reason = found.reason if isinstance(found, Absent) else _NO_LINES
    source = element("a", "Source", href=f"#{anchors.launch(number, 'source')}")
    return [f"no source line ({reason}; see ", source, ")"]


def _hottest(found: Hotspots, findings: FindingWriter) -> Content:
    """Not the cause, but where a reader looks next."""
    spot = next((spot for spot in found.rows if spot.location and spot.share), None)
    if spot is None or spot.location is None or spot.share is None:
        return None
    of = _OF[found.ranked_by]
    share = Evidence("", "", 100 * spot.share, "%", "")
    place = Place(spot.location.file, spot.location.line, spot.share, of)
    return ["; hottest line: ", findings.place(place), f" {share:.0f} of {of}"]


def _action(finding: Finding, each: LaunchExplanation, anchors: Anchors) -> Content:
    """keet's advice, or the edit of a model that replaces it."""
    if each.model_explanation is None:
        return prose(finding.action)
    from keet.pages.model_words import edit_replaces_advice, first_sentences, ranked_edits

    edit = next(iter(ranked_edits(each)), None)
    if edit is None or not edit_replaces_advice(each, finding.id):
        return prose(finding.action)
    target = anchors.launch(each.launch.id, "model")
    link = element("a", "See the model's edit", href=f"#{target}")
    return [prose(flat(first_sentences(edit.what, 1))), " ", link]


def _more_places(count: int, anchors: Anchors, launch: int) -> Content:
    if not count:
        return None
    text = "1 more line" if count == 1 else f"{count} more lines"
    return [" ", element("a", text, href=f"#{anchors.finding(launch, 1)}", class_="more")]
