"""A part of the views of `explain` and `ask`: a finding's name, gain, places and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import why_only_possible
from keet.render.common.finding import (
    certainty_of,
    forecast_of,
    is_disputed,
    nearest_changes,
    new_remarks,
)
from keet.render.common.places import place_shares, unplaced_shares
from keet.render.common.source_text import source_lines
from keet.render.terminal.layout import Indented, Renderable, Text

INDENT = 3
_LEAST_CODE = 12
"""A source line is only printed if at least this many characters fit."""
_STYLE = {"certain": "bold green", "likely": "bold yellow", "possible": "bold"}


def finding_name(number: int, finding: Finding, each: LaunchExplanation) -> Text:
    return Text.assemble(*(part for part in _name(number, finding, each)))


def _name(number: int, finding: Finding, each: LaunchExplanation) -> tuple[Text, Text, Text]:
    """Its title, its gain, and the certainty of the cause."""
    title = Text.assemble(f"{number}. ", (finding.title, _STYLE[finding.cause_certainty]))
    gain = Text.assemble(f"  {forecast_of(each, finding)}", (_objection(finding, each), "yellow"))
    return title, gain, Text(f"  cause: {certainty_of(each, finding)}", "dim")


def title_view(
    number: int, finding: Finding, each: LaunchExplanation, width: int
) -> Iterator[Renderable]:
    """The name; what does not fit beside the title is below it."""
    title, gain, cause = _name(number, finding, each)
    beside = title.cell_len + gain.cell_len
    if beside + cause.cell_len <= width:
        yield Text.assemble(title, gain, cause)
    elif beside <= width:
        yield from (Text.assemble(title, gain), Indented(cause, INDENT - 2))
    else:
        yield from (title, Indented(Text.assemble(gain, cause), INDENT - 2))


def _objection(finding: Finding, each: LaunchExplanation) -> str:
    return "  (the model objects)" if is_disputed(finding, each) else ""


def places_view(
    finding: Finding, each: LaunchExplanation, most: int, width: int
) -> Iterator[Renderable]:
    """The first source lines, and how much of the effect has no line."""
    lines = source_lines(each.launch)
    places = finding.places[:most]
    for place, share in zip(places, place_shares(places)):
        yield indented(_place(place, share, lines, width))
    for share in unplaced_shares(places):
        yield indented(Text.assemble((f"{share}  ", "dim"), "no source line"))


def action_view(finding: Finding) -> Renderable:
    return indented(Text.assemble(("→ ", "bold"), finding.action))


def remarks_view(
    finding: Finding, each: LaunchExplanation, printed: set[str]
) -> Iterator[Renderable]:
    """`printed`: remarks printed for this launch so far; none is repeated."""
    yield from (indented(Text(text, style="dim")) for text in new_remarks(finding, each, printed))


def nearest_view(finding: Finding, each: LaunchExplanation) -> Iterator[Renderable]:
    """The lines that the fix of the nearest measured case changed."""
    changes = nearest_changes(finding, each)
    yield from (indented(Text(line, style="dim"), INDENT + 2) for line in changes)


def only_possible_view(finding: Finding, each: LaunchExplanation) -> Iterator[Renderable]:
    """Why the cause is only possible; nothing if it is more."""
    if reason := why_only_possible(finding, each.view, each.account):
        yield indented(Text(reason, style="dim"))


def indented(content: Renderable, indent: int = INDENT) -> Indented:
    return Indented(content, indent)


def _place(place: Place, share: str, lines: Mapping[str, Sequence[str]], width: int) -> Text:
    """One line; code that does not fit is cut."""
    text = lines.get(place.file, ())
    code = text[place.line - 1].strip() if 1 <= place.line <= len(text) else ""
    if code == "}":  # the compiler counts its own subroutines there
        code = "} (end of the function, or a routine of the compiler)"
    where = Text.assemble((f"{share}  " if share else "", "dim"), (place.where, "cyan"))
    room = width - where.cell_len - INDENT - 2
    if not code or room < _LEAST_CODE:
        return where
    shown = Text(code, "italic")
    shown.truncate(room, overflow="ellipsis")
    return Text.assemble(where, "  ", shown)
