"""A model's part of an explanation, on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.statement import Authorship, Cause, Edit, Hypothesis, Statement
from keet.render.statement_text import (
    MARKS,
    causes_beyond,
    causes_of,
    cited,
    code_lines,
    dropped_claims,
    flat,
    is_diff,
    numbers_told,
    objections_beyond,
    objections_to,
    place_of,
    standing,
    statements,
    title_of,
    usage_text,
    with_citations,
)

CITATION = re.compile(r"\[E\d+(?:, ?E\d+)*\]")
_STYLES = {"confirmed": "green", "refuted": "red", "inconclusive": "yellow"}
_CODE_LINES = 40
"""More than that is read in an editor."""
_CITED = 12
"""Numbers in the list below a launch; the JSON has them all."""


def words(text: str, evidence: Iterable[str] = ()) -> Text:
    """Prose by a model, its citations set back: they matter to those who look them up."""
    told = Text(with_citations(text, evidence))
    told.highlight_regex(CITATION, "dim")
    return told


def why_view(each: LaunchExplanation, finding: str) -> Iterator[RenderableType]:
    """What a model adds to one of the analyst's findings, right below it."""
    for cause in causes_of(each, finding):
        told = Text.assemble(("why (model): ", "bold magenta"), words(cause.text, cause.evidence))
        yield _indented(told, 3)
    for objection in objections_to(each, finding):
        said = words(objection.text, objection.evidence)
        yield _indented(Text.assemble(("the model objects: ", "bold magenta"), said), 3)


def statement_view(each: LaunchExplanation, author: Authorship) -> Iterator[RenderableType]:
    """After the analyst's part of a launch, whose forecasts stand."""
    if each.statement is None:
        return
    yield ""
    yield Text.assemble(("What ", "bold"), (flat(author.model), "bold magenta"), (" adds", "bold"))
    yield from _account(each.statement)
    yield from _hypotheses(each.statement.hypotheses)
    yield from _causes_of("It also sees:", causes_beyond(each), each)
    yield from _causes_of("It objects to keet's:", objections_beyond(each), each)
    yield from _edits(each)
    yield from _cited(each)


def _account(statement: Statement) -> Iterator[RenderableType]:
    if statement.summary:
        yield _indented(words(statement.summary), 2)
    about = (("code", statement.purpose), ("threads", statement.mapping))
    rows = [(Text(name, "dim"), words(text)) for name, text in about if text]
    if rows:
        yield _indented(_grid(7, rows), 2)


def _hypotheses(hypotheses: Sequence[Hypothesis]) -> Iterator[RenderableType]:
    if not hypotheses:
        return
    yield from _section("Expected from the source, before any number was seen:")
    yield _indented(_grid(14, map(_hypothesis, hypotheses)), 2)


def _hypothesis(guess: Hypothesis) -> tuple[Text, Text]:
    verdict = Text(f"{MARKS[guess.judgement]} {guess.judgement}", _STYLES[guess.judgement])
    reason = words(guess.reason, guess.evidence)
    told = Text.assemble("\n", reason) if reason.plain.strip() else Text()
    return verdict, Text.assemble((flat(guess.text), "bold"), told)


def _causes_of(
    title: str, causes: Sequence[Cause], each: LaunchExplanation
) -> Iterator[RenderableType]:
    if causes:
        yield from _section(title)
    for cause in causes:
        yield _indented(_cause(cause, each), 2)


def _cause(cause: Cause, each: LaunchExplanation) -> Text:
    known = standing(cause, each)
    return Text.assemble(
        (title_of(cause.finding), "bold"), (f" ({known}): " if known else ": ", "dim"),
        words(cause.text, cause.evidence),
    )  # fmt: skip


# --- edits


def _edits(each: LaunchExplanation) -> Iterator[RenderableType]:
    edits = each.statement.edits if each.statement else ()
    if edits:
        yield from _section("Edits to try, as the model wrote them: not compiled, not measured.")
    ranks = {finding.id: rank for rank, finding in enumerate(each.findings, 1)}
    for number, edit in enumerate(edits):
        if number:
            yield ""
        yield from _edit(edit, ranks)


def _edit(edit: Edit, ranks: dict[str, int]) -> Iterator[RenderableType]:
    yield _indented(_edit_head(edit, ranks), 2)
    if place_of(edit) or edit.finding:
        yield _indented(words(edit.what), 4)
    if edit.code.strip():
        yield code_view(edit.code, 4)
    notes = (("risk", edit.risk), ("check", edit.check))
    rows = [(Text(name, "bold"), words(text)) for name, text in notes if text]
    if rows:
        yield _indented(_grid(5, rows), 4)


def _edit_head(edit: Edit, ranks: dict[str, int]) -> Text:
    """Where and what for on a line of their own, then what to do."""
    place = place_of(edit)
    head = Text("→ ", "bold")
    if place:
        head.append(place, "cyan")
    if edit.finding:
        rank = f"{ranks[edit.finding]}. " if edit.finding in ranks else ""
        head.append(f"{', ' if place else ''}for {rank}{title_of(edit.finding)}")
    return head if place or edit.finding else head.append_text(words(edit.what))


def code_view(code: str, indent: int) -> RenderableType:
    """Behind a bar: where it begins and ends is keet's to say, whatever the code holds."""
    lines = code_lines(code)
    styles = {"+": "green", "-": "red", "@": "dim"} if is_diff(lines) else {}
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for line in lines[:_CODE_LINES]:
        grid.add_row(Text("│", "dim"), Text(one_line(line), styles.get(line[:1], "")))
    if len(lines) > _CODE_LINES:
        more = f"... {len(lines) - _CODE_LINES} more lines: see --format markdown"
        grid.add_row(Text("│", "dim"), Text(more, "dim"))
    return _indented(grid, indent)


# --- the evidence


def _cited(each: LaunchExplanation) -> Iterator[RenderableType]:
    evidence = cited(each)
    if not evidence:
        return
    yield from _section("The numbers it cites:")
    yield _indented(_numbers(evidence[:_CITED]), 2)
    if len(evidence) > _CITED:
        more = f"and {len(evidence) - _CITED} more: see --format json"
        yield _indented(Text(more, "dim"), 2)


def _numbers(evidence: Sequence[Evidence]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in evidence:
        where = f", {flat(entry.line)}" if entry.line else ""
        grid.add_row(Text(entry.id), Text(str(entry)), Text(f"{flat(entry.label)}{where}"))
    return grid


# --- the end of the page


def model_closing(explanation: Explanation, author: Authorship) -> Iterator[RenderableType]:
    """What was verified, what was not and is not said, and what it took."""
    if told := numbers_told(explanation):
        yield Text(told, "dim")
    yield from dropped_view(dropped_claims(explanation))
    yield from author_view(author, answered=bool(statements(explanation)))


def dropped_view(claims: Iterable[str]) -> Iterator[RenderableType]:
    for number, claim in enumerate(claims):
        if not number:
            yield Text("Dropped, not borne out by the report:", "yellow")
        yield _indented(Text(claim), 2)


def author_view(
    author: Authorship, *, answered: bool, part: str = "part"
) -> Iterator[RenderableType]:
    usage = author.usage
    if answered or usage.calls or usage.cached:
        yield Text(usage_text(author), "dim")
    if author.problem:
        lacking = "incomplete" if answered else "missing"
        yield Text(f"The model's {part} is {lacking}: {flat(author.problem)}", "bold yellow")
    if author.transcript:
        yield Text(f"Transcript: {flat(author.transcript)}", "dim")


# --- layout


def _section(title: str) -> Iterator[RenderableType]:
    yield ""
    yield _indented(Text(title, "italic"), 2)


def _indented(content: RenderableType, indent: int) -> Padding:
    return Padding(content, (0, 0, 0, indent), expand=False)


def _grid(width: int, rows: Iterable[tuple[Text, Text]]) -> Table:
    """A narrow column of names, and text beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid
