"""A part of `keet explain --verbose`'s view: everything that a model wrote about a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.documents.model_explanation import (
    CauseDocument,
    EditDocument,
    HypothesisDocument,
    ModelExplanation,
)
from keet.evidence import Evidence
from keet.explanation.explanation_types import LaunchExplanation
from keet.render.common.model_explanation import (
    MARKS,
    causes_beyond,
    causes_of,
    cited,
    claim_notes,
    code_lines,
    is_diff,
    leading_edit,
    not_confirmed,
    objections_beyond,
    objections_to,
    other_edits,
    patch_lines,
    standing,
    title_of,
)
from keet.render.terminal.code_block import code_block
from keet.render.terminal.finding import indented
from keet.render.terminal.layout import Renderable, Table, Text
from keet.render.terminal.model_explanation import (
    BY,
    EDIT_INDENT,
    edit_head,
    edit_status_view,
    words,
)
from keet.safe_text import flat

_STYLES = {"confirmed": "green", "refuted": "red", "inconclusive": "yellow"}


def why_view(each: LaunchExplanation, finding: str) -> Iterator[Renderable]:
    """A model's causes and objections, printed below the finding."""
    for cause in causes_of(each, finding):
        notes = _notes(cause, standing(cause, each))
        yield indented(Text.assemble(("Why (model): ", BY), words(cause.text), notes))
    for objection in objections_to(each, finding):
        notes = _notes(objection, not_confirmed(objection))
        yield indented(Text.assemble(("The model objects: ", BY), words(objection.text), notes))


def model_view(each: LaunchExplanation) -> Iterator[Renderable]:
    """The parts of the model's explanation that are not printed with the findings."""
    if each.model_explanation is None:
        return
    yield from _edits(each)
    also = [(cause, standing(cause, each)) for cause in causes_beyond(each)]
    yield from _causes_of("The model also names:", also)
    against = [(cause, not_confirmed(cause)) for cause in objections_beyond(each)]
    yield from _causes_of("The model objects to:", against)
    yield from _about(each.model_explanation)
    yield from _hypotheses(each.model_explanation.hypotheses)
    yield from _analyst(each.model_explanation)
    yield from _numbers(cited(each))


def _notes(cause: CauseDocument, known: str) -> Text:
    """keet's remarks, after the model's text in another style."""
    notes = "; ".join([*filter(None, [known]), *claim_notes(cause)])
    facts = ", ".join(map(flat, cause.because))
    texts = [f" ({notes})" if notes else "", f" Based on: {facts}." if facts else ""]
    return Text.assemble((texts[0], "yellow"), (texts[1], "dim"))


def _edits(each: LaunchExplanation) -> Iterator[Renderable]:
    first = leading_edit(each)
    for number, edit in enumerate((*([first] if first else []), *other_edits(each)), 1):
        yield ""
        yield indented(Text.assemble(edit_head(number, edit, each), ": ", words(edit.what)))
        yield from _code(edit)
        yield from edit_status_view(edit)
        for name, text in (("Risk: ", edit.risk), ("Check: ", edit.check)):
            if text:
                yield indented(Text.assemble((name, "bold"), words(text)), EDIT_INDENT)


def _code(edit: EditDocument) -> Iterator[Renderable]:
    if edit.diff:
        yield code_block(patch_lines(edit), EDIT_INDENT, is_diff=True)
    elif edit.sketch.strip():
        lines = code_lines(edit.sketch)
        yield code_block(lines, EDIT_INDENT, is_diff=is_diff(edit.sketch))


def _causes_of(title: str, causes: Sequence[tuple[CauseDocument, str]]) -> Iterator[Renderable]:
    """`causes`: each with keet's remark."""
    if causes:
        yield from _section(title)
    for cause, known in causes:
        at = f" at {flat(cause.where)}" if cause.where else ""
        head = Text(f"{title_of(cause.finding)}{at}: ", "bold")
        yield indented(Text.assemble(head, words(cause.text), _notes(cause, known)), 2)


def _about(statement: ModelExplanation) -> Iterator[Renderable]:
    about = (("code", statement.purpose), ("threads", statement.mapping))
    rows = [(Text(name, "dim"), words(text)) for name, text in about if text]
    if rows:
        yield ""
        yield indented(_grid(7, rows), 2)


def _hypotheses(hypotheses: Sequence[HypothesisDocument]) -> Iterator[Renderable]:
    if not hypotheses:
        return
    yield from _section("Expected from the source alone, before the model saw any number:")
    yield indented(_grid(14, map(_hypothesis, hypotheses)), 2)


def _hypothesis(guess: HypothesisDocument) -> tuple[Text, Text]:
    verdict = Text(f"{MARKS[guess.verdict]} {guess.verdict}", _STYLES[guess.verdict])
    expected = words(guess.text)
    expected.stylize("bold")
    reason = Text.assemble("\n", words(guess.reason)) if guess.reason else Text()
    return verdict, Text.assemble(expected, reason)


def _analyst(statement: ModelExplanation) -> Iterator[Renderable]:
    if statement.leads and statement.analyst_headline:
        yield from _section("Without the model, keet's headline is:")
        yield indented(Text(flat(statement.analyst_headline)), 2)


def _numbers(evidence: Sequence[Evidence]) -> Iterator[Renderable]:
    if evidence:
        yield from _section("The numbers that it refers to:")
        yield indented(numbers_table(evidence), 2)


def numbers_table(evidence: Sequence[Evidence]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    for entry in evidence:
        where = f", {flat(entry.line)}" if entry.line else ""
        grid.add_row(Text(str(entry)), Text(f"{flat(entry.label)}{where}"), Text(flat(entry.id)))
    return grid


def _section(title: str) -> Iterator[Renderable]:
    yield ""
    yield indented(Text(title, "italic"), 2)


def _grid(width: int, rows: Iterable[tuple[Text, Text]]) -> Table:
    """A grid with a narrow column of names, and text beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid
