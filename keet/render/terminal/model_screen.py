"""First screen of a launch that a model explained: headline, first cause, edit.

Sentences are never cut. If there is not enough room, whole elements and the last sentences of texts
are left out, the least important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from keet.diagnosis.finding import Finding
from keet.documents.model_explanation import CauseDocument, EditDocument
from keet.evidence import Prose
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.program import ProgramExplanation
from keet.formatting import count_noun
from keet.render.common.computations import computation_lines, in_short
from keet.render.common.model_explanation import (
    causes_beyond,
    code_lines,
    edit_replaces_advice,
    first_sentences,
    is_diff,
    leading_causes,
    leading_edit,
    leading_objections,
    next_limiter_text,
    other_edits,
    standing,
    title_of,
)
from keet.render.common.program import finding_text
from keet.render.common.short_diff import short_diff
from keet.render.terminal.account import account_line
from keet.render.terminal.code_block import code_block
from keet.render.terminal.finding import (
    INDENT,
    action_view,
    finding_name,
    indented,
    places_view,
    title_view,
)
from keet.render.terminal.layout import Renderable, Text
from keet.render.terminal.line_count import line_count
from keet.render.terminal.model_explanation import (
    BY,
    EDIT_INDENT,
    edit_head,
    edit_status_view,
    headline_view,
    words,
)
from keet.safe_text import flat

_ALL = 99


class _Room(NamedTuple):
    """How much of each element is printed."""

    summary: int = _ALL
    """Number of sentences; the same for the other texts."""
    cause: int = _ALL
    objection: int = 1
    what: int = _ALL
    """The text of the edit."""
    risk: int = _ALL
    check: int = _ALL
    measured: bool = True
    """The evidence for the first finding."""
    limiter: bool = True
    """What limits the kernel after the fix, if the headline is the model's."""
    advice: bool = True
    code: int = 16
    """Number of code lines."""
    account: bool = True
    others: int = 4
    """Maximum number of further findings, causes and edits, each."""


_STEPS = (
    ("check", 1), ("risk", 1), ("limiter", False), ("others", 2), ("cause", 3), ("what", 2),
    ("cause", 2), ("others", 0), ("code", 12), ("what", 1), ("account", False), ("advice", False),
    ("code", 9), ("cause", 1), ("code", 6), ("risk", 0), ("check", 0), ("measured", False),
    ("cause", 0), ("what", 0), ("objection", 0), ("code", 4), ("summary", 8), ("summary", 6),
    ("summary", 4), ("summary", 3), ("summary", 2), ("summary", 1),
)  # fmt: skip
"""What is left out until the text fits, in this order."""
_Step = tuple[str, int]


def first_screen(
    each: LaunchExplanation,
    program: ProgramExplanation | None,
    lines: int,
    width: int,
    columns: int,
) -> list[Renderable]:
    """As much as fits in `lines` lines of `columns` columns; a narrower terminal gets the same
    words on more lines."""

    def screen(steps: Sequence[_Step]) -> list[Renderable]:
        return list(_Screen(each, program, reduce(_less, steps, _Room()), width).parts())

    def fits(steps: Sequence[_Step]) -> bool:
        return line_count(screen(steps), max(width, columns)) <= lines

    taken: list[_Step] = []
    for step in _STEPS:
        if fits(taken):
            break
        taken.append(step)
    # The last step may have freed more lines than needed.
    for step in reversed(taken[:-1]):
        without = [other for other in taken if other != step]
        if fits(without):
            taken = without
    return screen(taken)


def _less(room: _Room, step: _Step) -> _Room:
    name, most = step
    return room._replace(**{name: min(getattr(room, name), most)})


class _Screen:
    def __init__(
        self, each: LaunchExplanation, program: ProgramExplanation | None, room: _Room, width: int
    ) -> None:
        self._each = each
        self._program = program
        self._room = room
        self._width = width
        self._computed: set[str] = set()
        """Computations that are printed already."""

    def parts(self) -> Iterator[Renderable]:
        each, room = self._each, self._room
        yield headline_view(each)
        if each.model_explanation and each.model_explanation.summary:
            yield from self._text(
                Text("Model: ", BY), each.model_explanation.summary, room.summary, 2
            )
        yield ""
        yield from self._leading()
        if edit := leading_edit(each):
            yield ""
            yield from self._edit(edit)
        account = account_line(each) if room.account else ()
        if others := [*account, *self._others()]:
            yield from ["", *others]

    def _text(
        self, head: Text, text: Prose, most: int, indent: int, notes: str = ""
    ) -> Iterator[Renderable]:
        """The first sentences, then how their numbers were computed."""
        shown = first_sentences(text, most)
        known = (f" ({notes})" if notes else "", "yellow")
        is_cut = len(shown.sentences) < len(first_sentences(text, _ALL).sentences)
        more = (f"{' ' if shown else ''}(more: --verbose)" if is_cut else "", "dim")
        yield indented(Text.assemble(head, words(in_short(shown)), known, more), indent)
        for line in computation_lines(shown, self._computed):
            yield indented(Text(line, "dim"), indent)

    def _leading(self) -> Iterator[Renderable]:
        each, room = self._each, self._room
        for finding in each.findings[:1]:
            yield from title_view(1, finding, each, self._width)
            if room.measured:
                limiter = next_limiter_text(each) if room.limiter else ""
                yield indented(Text(f"{finding_text(finding, self._program)} {limiter}".rstrip()))
            yield from places_view(finding, each, 1, self._width)
        for cause in leading_causes(each) if room.cause else ():
            yield from self._text(
                self._why(cause), cause.text, room.cause, INDENT, standing(cause, each)
            )
        for objection in leading_objections(each)[: room.objection]:
            head = Text("The model objects: ", BY)
            yield from self._text(head, objection.text, room.objection, INDENT)
        for finding in each.findings[:1]:
            if room.advice and not edit_replaces_advice(each, finding.id):
                yield action_view(finding)

    def _why(self, cause: CauseDocument) -> Text:
        """A cause that is not a finding has its own title."""
        same = [finding for finding in self._each.findings if finding.id == cause.finding]
        name = "Why (model)" if same else f"{title_of(cause.finding)} (model)"
        named = [place.where for finding in same for place in finding.places[:1]]
        at = f" at {flat(cause.where)}" if cause.where and cause.where not in named else ""
        return Text.assemble((name, BY), (at, "cyan"), (": ", BY))

    def _edit(self, edit: EditDocument) -> Iterator[Renderable]:
        room = self._room
        head = Text.assemble(edit_head(1, edit, self._each), ": ")
        yield from self._text(head, edit.what, room.what, INDENT)
        yield from self._code(edit)
        yield from edit_status_view(edit)
        notes = (("Risk: ", edit.risk, room.risk), ("Check: ", edit.check, room.check))
        for name, text, most in notes:
            if text and most:
                yield from self._text(Text(name, "bold"), text, most, EDIT_INDENT)

    def _code(self, edit: EditDocument) -> Iterator[Renderable]:
        most = self._room.code
        if edit.diff:
            rows = short_diff(edit.diff, most)
            while most > 1 and rows[most:] and not rows[most - 1].is_changed:
                most -= 1  # no context lines of changes that are not printed
            numbers = [row.number for row in rows]
            texts = [row.text for row in rows]
            yield code_block(texts, INDENT, is_diff=True, most=most, numbers=numbers)
        elif edit.sketch.strip():
            lines = code_lines(edit.sketch)
            yield code_block(lines, EDIT_INDENT, is_diff=is_diff(edit.sketch), most=most)

    def _others(self) -> Iterator[Renderable]:
        """Further findings, causes and edits in a line each; their texts need --verbose."""
        each, most = self._each, self._room.others
        leading = leading_causes(each)
        also = [cause for cause in causes_beyond(each) if cause not in leading]
        lines = [
            [self._other(rank, other) for rank, other in enumerate(each.findings[1:], 2)],
            [_also(cause, each) for cause in also],
            [self._other_edit(rank, edit) for rank, edit in enumerate(other_edits(each), 2)],
        ]
        yield from (line for some in lines for line in some[:most])
        left = zip((len(some[most:]) for some in lines), ("finding", "cause", "edit"))
        more = [count_noun(count, f"more {name}") for count, name in left if count]
        if more:
            yield Text(f"{', '.join(more)}: --verbose", "dim")

    def _other(self, number: int, finding: Finding) -> Text:
        """On one line; without the certainty of the cause if it does not fit."""
        name = finding_name(number, finding, self._each)
        if name.cell_len > self._width:
            name.right_crop(len(name) - name.plain.rindex("  cause: "))
        return name

    def _other_edit(self, number: int, edit: EditDocument) -> Text:
        """On one line; without its text if that does not fit and the title says where it is."""
        head = edit_head(number, edit, self._each)
        text = Text.assemble(head, ": ", words(in_short(first_sentences(edit.what, 1))))
        says_where = bool(edit.places or edit.finding)
        return head if says_where and text.cell_len > self._width else text


def _also(cause: CauseDocument, each: LaunchExplanation) -> Text:
    at = f" at {flat(cause.where)}" if cause.where else ""
    known = standing(cause, each)
    return Text.assemble(("Also (model): ", BY), f"{title_of(cause.finding)}{at} ({known})")
