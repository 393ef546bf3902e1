"""A part of the views of `explain` and `ask`: a finding's name, gain, places and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.analysis.place import Place
from keet.diagnosis.finding import Finding
from keet.explanation.certainty import why_only_possible
from keet.explanation.explanation_types import LaunchExplanation
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
    return Text.assemble(
        f"{number}. ", (finding.title, _STYLE[finding.cause_certainty]),
        f"  {forecast_of(each, finding)}", (_objection(finding, each), "yellow"),
        (f"  cause: {certainty_of(each, finding)}", "dim"),
    )  # fmt: skip


def title_view(
    number: int, finding: Finding, each: LaunchExplanation, width: int
) -> Iterator[Renderable]:
    """The name, with the certainty of the cause on a line of its own where it does not fit."""
    name = finding_name(number, finding, each)
    if name.cell_len <= width:
        yield name
        return
    certainty = f"cause: {certainty_of(each, finding)}"
    name.right_crop(len(certainty) + 2)
    yield from (name, indented(Text(certainty, "dim")))


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
