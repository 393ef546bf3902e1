"""What a model wrote about a launch: a first screen that fits into a number of lines, or all of it.

On the first screen sentences are never cut. If there is not enough room, whole elements and the
last sentences of texts are left out, the least important first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import compress
from typing import NamedTuple

from keet.documents.explain import BY_MODEL
from keet.documents.model_explanation import (
    Authorship,
    CauseDocument,
    EditDocument,
    ModelExplanation,
)
from keet.evidence import Evidence, Prose
from keet.explanation.explanation_types import LaunchExplanation
from keet.formatting import capitalized, count_noun
from keet.pages.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Part,
    Reader,
    Span,
    Table,
    Text,
    Words,
    joined,
    plain,
)
from keet.pages.launch import (
    INDENT,
    Shown,
    account_blocks,
    account_line,
    advice,
    finding_blocks,
    head_blocks,
    headline_words,
    last_findings,
    name_words,
    place_blocks,
    rest_blocks,
    title_blocks,
)
from keet.pages.model_words import (
    OWN_WORDS,
    aim_of,
    claim_notes,
    code_lines,
    computation_lines,
    computations,
    edit_replaces_advice,
    edit_status,
    first_sentences,
    is_diff,
    leading_causes,
    leading_edits,
    marked_texts,
    model_words,
    next_limiter_text,
    not_confirmed,
    places_of,
    problem_text,
    ranked_edits,
    standing,
    those_about,
    those_beyond,
    title_of,
    unused_notes,
    usage_text,
)
from keet.pages.program import finding_text
from keet.pages.short_diff import short_diff
from keet.profile.launch import file_name
from keet.safe_text import flat
from keet.version import __version__

_EDIT_INDENT = 5
_ALL = 99
OTHER_EDITS = "Other edits, cause not confirmed"


# --- everything


class _Statement:
    """All that a model wrote about a launch, in blocks."""

    def __init__(self, shown: Shown, said: ModelExplanation) -> None:
        self.shown, self.each, self.said = shown, shown.each, said
        told = said if shown.verbose or shown.is_html else replace(said, purpose=Prose())
        known = {evidence.id: evidence for evidence in self.each.view.ledger}
        self.numbers = [known[entry] for entry in told.ids if entry in known]
        """That the texts refer to, in their order."""
        self.texts = [text for _, text in told.texts]
        self.links: dict[str, str] | None = None
        if shown.is_html:
            computed = [reference.text for reference in computations(self.texts).values()]
            ids = [*(piece.id for piece in self.numbers), *computed]
            keys = (shown.anchor(f"model-number-{number}") for number in range(1, len(ids) + 1))
            self.links = dict(zip(ids, keys))

    def words(self, text: Prose) -> Words:
        return model_words(text, with_reasons=True, links=self.links)

    def place(self, where: str) -> Span:
        """`slow.cu:31-34`, as a link to the first of its lines."""
        name, _, lines = where.rpartition(":")
        paths = [path for path in self.each.launch.source_files if file_name(path) == name]
        first = lines.partition("-")[0]
        to = ""
        if self.shown.is_html and len(paths) == 1 and first.isascii() and first.isdigit():
            to = self.shown.anchors.line(self.shown.listed_by, paths[0], int(first[:9]))
        return Span(flat(where), "place", to)

    def why(self, finding: str) -> Iterator[Block]:
        """The model's causes and objections, below the finding."""
        for name, causes in (
            ("Why (model): ", self.said.causes),
            ("The model objects: ", self.said.objections),
        ):
            for cause in those_about(causes, finding):
                notes = self._notes(cause, is_cause=causes is self.said.causes)
                yield Text((Span(name, "model"), self.words(cause.text), notes), indent=INDENT)

    def _notes(self, cause: CauseDocument, *, is_cause: bool) -> Words:
        """keet's remarks, after the model's text in another style. `is_cause`: not an objection."""
        known = standing(cause, self.each) if is_cause else not_confirmed(cause)
        notes = "; ".join([*filter(None, [known]), *claim_notes(cause)])
        facts = joined((self.words(Prose((fact,))) for fact in cause.because), ", ")
        based = (Span(" Based on: ", "muted"), facts, ".") if facts else ""
        return Span(f" ({notes})" if notes else "", "warn"), based

    def causes(
        self, title: str, causes: Sequence[CauseDocument], *, is_cause: bool
    ) -> Iterator[Block]:
        items = []
        ranks = {finding.id: n for n, finding in reversed([*enumerate(self.each.findings, 1)])}
        for cause in causes:
            at = (" at ", self.place(cause.where)) if cause.where else ""
            rank, launch = ranks.get(cause.finding), self.each.launch.id
            to = self.shown.anchors.finding(launch, rank) if rank else ""
            head = (Span(title_of(cause.finding), "strong", to), at, ": ")
            notes = self._notes(cause, is_cause=is_cause)
            items.append(Item((head, self.words(cause.text), notes)))
        if items:
            yield from (Gap(), *_titled(title))
            yield Items(items, kind="causes", indent=2)

    def edits(self) -> Iterator[Block]:
        ranked = ranked_edits(self.each)
        sure = len([edit for edit in ranked if edit.cause_confirmed])
        for number, edit in enumerate(ranked, 1):
            if number == sure + 1:
                yield from (Gap(), *_titled(OTHER_EDITS))
            places = joined((self.place(place) for place in edit.places), ", ")
            head = edit_head(number, edit, self.each, places if self.shown.is_html else None)
            anchor = self.shown.anchor(f"edit-{number}")
            blocks: list[Block] = [Text((head, ": ", self.words(edit.what)), indent=INDENT)]
            blocks += [*_code(edit, f"{anchor}-code" * self.shown.is_html), *_status(edit)]
            for name, text in (("Risk: ", edit.risk), ("Check: ", edit.check)):
                if text:
                    words = (Span(name, "strong"), self.words(text))
                    blocks.append(Text(words, indent=_EDIT_INDENT))
            yield from (Gap(), Part(blocks, "edit", anchor, tag="article"))

    def rest(self) -> Iterator[Block]:
        """What belongs to no finding and no edit."""
        said = self.said
        if headline := self.shown.each.verdict.analyst_headline:
            text = f"Without the model, keet's headline is: {flat(headline)}"
            yield from (Gap(), Text(text, indent=2))
        if said.purpose and (self.shown.verbose or self.shown.is_html):
            words = (Span("The code: ", "strong"), self.words(said.purpose))
            yield from (Gap(), Text(words, indent=2))
        key = self.shown.anchor("model-number")
        yield from number_blocks(self.numbers, self.texts, self.shown.reader, anchor=key)


def model_blocks(shown: Shown) -> Iterator[Block]:
    """The first cause and how to fix it, then why, then everything else."""
    each = shown.each
    if not each.model:
        return
    statement = _Statement(shown, each.model)
    yield from head_blocks(shown)
    yield headline(each)
    for finding in each.findings[:1]:
        yield from finding_blocks(shown, 1, finding)
    yield from (*statement.edits(), Gap())
    if summary := each.model.summary:
        yield Text((Span("Model: ", "model"), statement.words(summary)), indent=2)
    for finding in each.findings[:1]:
        yield from statement.why(finding.id)
    yield from account_blocks(shown)
    for number, finding in enumerate(each.findings[1:], 2):
        yield from (*finding_blocks(shown, number, finding), *statement.why(finding.id))
    yield from last_findings(shown)
    said = each.model
    named, against = (those_beyond(own, each) for own in (said.causes, said.objections))
    yield from statement.causes("The model also names", named, is_cause=True)
    yield from statement.causes("The model objects to", against, is_cause=False)
    yield from (*statement.rest(), *rest_blocks(each))


def model_section(shown: Shown) -> Iterator[Block]:
    """The same for HTML, which has the findings elsewhere."""
    each, said = shown.each, shown.each.model
    if not said:
        return
    statement = _Statement(shown, said)
    beyond, unlisted = (those_beyond(own, each) for own in (said.causes, said.objections))
    own = [cause for cause in said.causes if cause not in beyond]
    against = [cause for cause in said.objections if cause not in unlisted]
    blocks: list[Block] = [Heading("What the model says", 3)]
    if said.summary:
        blocks.append(Text(statement.words(said.summary), "summary"))
    blocks += statement.causes("Why", own, is_cause=True)
    blocks += statement.causes("It also names", beyond, is_cause=True)
    blocks += statement.causes("It objects to", against, is_cause=False)
    blocks += statement.causes("It also objects to", unlisted, is_cause=False)
    yield Part([*blocks, *statement.edits(), *statement.rest()], "model", shown.anchor("model"))


def headline(each: LaunchExplanation) -> Text:
    leads = bool(each.model and each.model.leads)
    mark = Span(f" ({BY_MODEL})" if leads else "", "model")
    return Text(headline_words(each, mark), indent=2)


def edit_head(
    number: int, edit: EditDocument, each: LaunchExplanation, places: Words | None = None
) -> Words:
    """`places`: its places with links."""
    place, aim = places_of(edit), aim_of(edit, each)
    at = (" at ", Span(place, "place") if places is None else places) if place else ""
    other = f", instead of edit {edit.instead_of}" if edit.instead_of else ""
    return Span(f"Edit {number} (model)", "model"), at, f" {aim}" if aim else "", other


def _code(edit: EditDocument, anchor: str = "") -> Iterator[Code]:
    """The patch, or a sketch if there is none. `anchor`: in HTML, where the patch is unchanged, so
    that a copy applies."""
    if edit.diff:
        lines = edit.diff.strip("\n").split("\n") if anchor else code_lines(edit.diff)
        yield Code(lines, "diff", copied="Copy patch", anchor=anchor, indent=_EDIT_INDENT)
    elif edit.sketch.strip():
        lines, language = code_lines(edit.sketch), "diff" if is_diff(edit.sketch) else "cuda"
        yield Code(lines, language, copied="Copy code", anchor=anchor, indent=_EDIT_INDENT)


def _status(edit: EditDocument) -> Iterator[Block]:
    look = "good" if edit.diff and edit.build != "fails" else "warn"
    if edit.diff or edit.problem:
        yield Text(edit_status(edit), look, indent=_EDIT_INDENT)
    for warning in edit.warnings:
        yield Text(f"Warning: {flat(warning)}", "warn", indent=_EDIT_INDENT)


def _titled(title: str) -> Iterator[Block]:
    yield Heading(title, 4, only=("html",))
    yield Text(f"{title}:", "italic", indent=2, only=("terminal", "markdown"))


def number_blocks(
    evidence: Sequence[Evidence],
    texts: Sequence[Prose],
    reader: Reader,
    launches: Sequence[Words] = (),
    anchor: str = "",
) -> Iterator[Block]:
    """The numbers that `texts` refer to, and the numbers computed from them. `launches`: the launch
    of each number, if there are several. `anchor`: of the rows, in HTML with their number."""
    columns = {
        Column("Number"): True,
        Column("Value", is_number=True): True,
        Column("Metric", look="code"): reader.format != "terminal",  # too long for one
        Column("Place", look="place"): any(entry.line for entry in evidence),
        Column("Launch"): bool(launches),
        Column("Id", look="code muted"): True,
    }
    whole: list[tuple[str, str, Span, Span, Words, Words]] = []
    for entry, launch in zip(evidence, launches or [""] * len(evidence)):
        place = Span(flat(entry.line or ""), "place")
        metric, id_ = (Span(flat(name), "code") for name in (entry.metric, entry.id))
        whole.append((flat(entry.label), str(entry), metric, place, launch, id_))
    for how, computed in computations(texts).items():
        ids = joined((Span(flat(entry), "code") for entry in computed.ids), ", ")
        whole.append((how, flat(computed.result), Span("computed"), Span(""), "", ids))
    rows: list[list[Words | Cell]] = []
    for number, (label, *cells) in enumerate(whole, 1):
        name = Cell(label, anchor=f"{anchor}-{number}") if reader.format == "html" else label
        rows.append([*compress((name, *cells), columns.values())])
    if rows:
        title = "Numbers that the model refers to"
        yield from (Gap(), Text(f"{title}:", "italic", indent=2, only=("terminal",)))
        shown = [*compress(columns, columns.values())]
        table = Table(shown, rows, name=title, is_ruled=False, indent=2)
        yield Fold(f"{title}: {len(rows)}", [table], kind="fold evidence", is_printed=True)


# --- the first screen


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


def screen_blocks(shown: Shown, lines: int) -> list[Block]:
    """As much as fits in `lines` lines."""
    head = list(head_blocks(shown))
    said = shown.each.model
    if said is None:
        return head

    def less(room: _Room, step: _Step) -> _Room:
        name, most = step
        return room._replace(**{name: min(getattr(room, name), most)})

    def screen(steps: Sequence[_Step]) -> list[Block]:
        return [*head, *_Screen(shown, said, reduce(less, steps, _Room())).blocks()]

    def fits(steps: Sequence[_Step]) -> bool:
        return shown.reader.lines(screen(steps)) <= lines

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


class _Screen:
    def __init__(self, shown: Shown, said: ModelExplanation, room: _Room) -> None:
        self._shown, self._each, self._said, self._room = shown, shown.each, said, room
        self._computed: set[str] = set()
        """Computations that are printed already."""

    def blocks(self) -> Iterator[Block]:
        """What to change comes first: the headline already names the cause."""
        each, room = self._each, self._room
        yield from (headline(each), Gap(), *self._leading())
        for edit in leading_edits(each):
            yield from self._edit(edit)
        yield Gap()
        if summary := self._said.summary:
            yield from self._text(Span("Model: ", "model"), summary, room.summary, 2)
        yield from self._why()
        account = account_line(self._shown) if room.account else ()
        if others := [*account, *self._others()]:
            yield from (Gap(), *others)

    def _text(
        self, head: Words, text: Prose, most: int, indent: int, notes: str = ""
    ) -> Iterator[Block]:
        """The first sentences, then how their numbers were computed."""
        shown = first_sentences(text, most)
        is_cut = len(shown.sentences) < len(first_sentences(text, _ALL).sentences)
        known = Span(f" ({notes})" if notes else "", "warn")
        more = Span(f"{' ' if shown else ''}(more: --verbose)" if is_cut else "", "muted")
        yield Text((head, model_words(shown), known, more), indent=indent)
        for line in computation_lines(shown, self._computed):
            yield Text(line, "muted", indent=indent)

    def _leading(self) -> Iterator[Block]:
        each, room = self._each, self._room
        for finding in each.findings[:1]:
            yield from title_blocks(self._shown, 1, finding)
            if room.measured:
                limiter = next_limiter_text(each) if room.limiter else ""
                text = f"{finding_text(finding, self._shown.program)} {limiter}".rstrip()
                yield Text(text, indent=INDENT)
            yield from place_blocks(self._shown, finding, 1)
            if room.advice and not edit_replaces_advice(each, finding.id):
                yield advice(finding)

    def _why(self) -> Iterator[Block]:
        each, room = self._each, self._room
        leading = leading_causes(self._said, each)
        for cause in leading if room.cause else ():
            # A cause that is not a finding has its own title.
            same = [finding for finding in each.findings if finding.id == cause.finding]
            name = "Why (model)" if same else f"{title_of(cause.finding)} (model)"
            named = [place.where for finding in same for place in finding.locations[:1]]
            at = f" at {flat(cause.where)}" if cause.where and cause.where not in named else ""
            head = (Span(name, "model"), Span(at, "place"), Span(": ", "model"))
            yield from self._text(head, cause.text, room.cause, 2, standing(cause, each))
        if each.findings and not leading:  # a model may object to what it names itself
            objects = Span("The model objects: ", "model")
            for objection in those_about(self._said.objections, each.findings[0].id)[:1]:
                if room.objection:
                    yield from self._text(objects, objection.text, room.objection, 2)

    def _edit(self, edit: EditDocument) -> Iterator[Block]:
        room = self._room
        yield from self._text((edit_head(1, edit, self._each), ": "), edit.what, room.what, INDENT)
        for code in _code(edit):
            assert isinstance(code, Code)
            yield self._short(code, edit)
        yield from _status(edit)
        notes = (("Risk: ", edit.risk, room.risk), ("Check: ", edit.check, room.check))
        for name, text, most in notes:
            if text and most:
                yield from self._text(Span(name, "strong"), text, most, _EDIT_INDENT)

    def _short(self, code: Code, edit: EditDocument) -> Code:
        most, rest = self._room.code, "--format markdown"
        if not edit.diff:
            return replace(code, most=most, rest=rest)
        rows = short_diff(edit.diff, most)
        while most > 1 and rows[most:] and not rows[most - 1].is_changed:
            most -= 1  # no context lines of changes that are not printed
        texts, numbers = [row.text for row in rows], [row.number for row in rows]
        rest = f"--patch FILE or {rest}"
        return Code(texts, "diff", numbers, most, rest, indent=INDENT)

    def _others(self) -> Iterator[Block]:
        """Further findings, causes and edits in a line each; their texts need --verbose."""
        each, most = self._each, self._room.others
        causes, edits = self._said.causes, ranked_edits(each)
        leading, printed = leading_causes(self._said, each), len(leading_edits(each))
        also: list[Words] = []
        for cause in those_beyond(causes, each):
            if cause not in leading:
                at = f" at {flat(cause.where)}" if cause.where else ""
                text = f"{title_of(cause.finding)}{at} ({standing(cause, each)})"
                also.append((Span("Also (model): ", "model"), text))
        rest = (cause for finding in each.findings[1:] for cause in those_about(causes, finding.id))
        lines: list[list[Words]] = [
            [self._other(rank) for rank in range(2, len(each.findings) + 1)],
            also,
            [self._other_edit(n, e) for n, e in enumerate(edits, 1) if n > printed],
            [capitalized(note) for cause in rest for note in unused_notes(cause)],
        ]
        yield from (Text(line) for some in lines for line in some[:most])
        left = zip((len(some[most:]) for some in lines), ("finding", "cause", "edit", "claim"))
        if more := [count_noun(count, f"more {name}") for count, name in left if count]:
            yield Text(f"{', '.join(more)}: --verbose", "muted")

    def _other(self, number: int) -> Words:
        """On one line; without the certainty of the cause if it does not fit."""
        name, cause = name_words(self._shown, number, self._each.findings[number - 1])
        fits = len(plain((name, cause))) <= self._shown.reader.width
        return (name, cause) if fits else name

    def _other_edit(self, number: int, edit: EditDocument) -> Words:
        """On one line; without its text if that does not fit and the title says where it is."""
        head: Words = edit_head(number, edit, self._each)
        if not edit.cause_confirmed:
            head = (head, Span(", cause not confirmed", "warn"))
        words = (head, ": ", model_words(first_sentences(edit.what, 1)))
        says_where = bool(edit.places or edit.finding)
        return head if says_where and len(plain(words)) > self._shown.reader.width else words


# --- the end of the page


def author_blocks(
    author: Authorship, texts: Iterable[str], introduction: str = "", *, answered: bool, part: str
) -> Iterator[Block]:
    """Which parts are written by the model, and what they cost. `texts`: what is printed, with
    marks. `part`: of what the model wrote."""
    yield from map(Notice, marked_texts(texts))
    if author.problem:
        yield Notice(problem_text(author.problem, part, answered=answered), "strong warn")
    was_asked = answered or author.usage.calls or author.usage.cached
    usage = f"keet {__version__}; {usage_text(author)}" if was_asked else f"keet {__version__}"
    yield Foot(joined((introduction, OWN_WORDS if answered else "", usage), " "))
    if author.transcript:
        yield Text(f"Transcript: {flat(author.transcript)}", "muted", only=("terminal",))
