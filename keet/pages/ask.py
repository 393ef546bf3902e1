"""The page of `keet ask`: the answer in short paragraphs, its numbers, calls and tokens used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from keet.evidence import Prose, Sentence
from keet.explanation.analyst import AnsweredQuestion, CitedNumber
from keet.pages.blocks import (
    Block,
    Code,
    Command,
    Gap,
    Heading,
    Item,
    Items,
    Page,
    Reader,
    Span,
    Text,
    Words,
)
from keet.pages.capture import describe_device
from keet.pages.model import author_blocks, number_blocks
from keet.pages.model_words import computation_lines, model_words
from keet.safe_text import flat

_FENCED = re.compile(r"\s*(`{3,}|~{3,})[^\n]*\n(.*?)\n?\s*\1\s*", re.DOTALL)
_MARK = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")


def ask_page(answered: AnsweredQuestion, reader: Reader, *, verbose: bool = False) -> Page:
    """`verbose`: also prints the numbers that the answer refers to, and why sentences are
    unchecked. Other formats than a terminal always do."""
    return Page([*_blocks(answered, reader, has_numbers=verbose or reader.format != "terminal")])


def _blocks(answered: AnsweredQuestion, reader: Reader, *, has_numbers: bool) -> Iterator[Block]:
    yield Heading(flat(answered.question), look="strong label")
    several = len(answered.explanations) > 1
    for number, explanation in enumerate(answered.explanations):
        devices = ", ".join(describe_device(device) for device in explanation.profile.devices)
        path = Span(explanation.profile.provenance.path, "name")
        yield Text((f"report {number}: " if several else "", path, f" on {devices}"))
    computed: set[str] = set()
    for paragraph in paragraphs_of(answered.answer):
        yield Gap()
        if paragraph.code:
            yield Code(paragraph.code, "cuda", indent=2)
        for kind, lines in groupby(paragraph.lines, lambda line: line.kind):
            marked = [(mark, model_words(text, with_reasons=has_numbers)) for mark, text in lines]
            if kind == "text":
                yield from (Text(words) for _, words in marked)
            elif kind == "numbered":
                yield Items([Item((f"{flat(mark)} ", words)) for mark, words in marked], mark="")
            else:
                yield Items([Item(words) for _, words in marked])
        for _, text in paragraph.lines if not has_numbers else ():
            yield from (Text(line, "muted") for line in computation_lines(text, computed))
    if has_numbers:
        numbers = answered.evidence.values()
        launches = [_launch_of(answered, each) for each in numbers]
        cited = [each.number for each in numbers]
        yield from number_blocks(cited, [answered.answer], reader, launches)
    yield Gap()
    told, texts = bool(answered.answer), [str(answered.answer)]
    yield from author_blocks(answered.authorship, texts, answered=told, part="answer")
    if answered.followups:
        yield Text(Span("Next:", "strong"))
        yield from (Command(flat(command)) for command in answered.followups)


def _launch_of(answered: AnsweredQuestion, entry: CitedNumber) -> Words:
    if entry.report is None:
        return ""
    report = f" (report {entry.report})" if len(answered.reports) > 1 else ""
    return f"#{entry.launch} ", Span(entry.kernel or "", "code"), report


# --- the paragraphs of an answer


class Line(NamedTuple):
    """A paragraph, or an item of a list."""

    mark: str
    """`-` or `1.`; empty for a paragraph."""
    text: Prose

    @property
    def kind(self) -> str:
        return "text" if not self.mark else "numbered" if self.mark[0].isdigit() else "bullets"


class Paragraph(NamedTuple):
    """Text between blank lines: a paragraph, a list, or code."""

    lines: tuple[Line, ...] = ()
    code: tuple[str, ...] = ()


def paragraphs_of(text: Prose) -> Iterator[Paragraph]:
    lines: list[Line] = []
    for sentences, ends_block in _lines(text):
        code = _FENCED.fullmatch("".join(f"{sentence}{sentence.ends}" for sentence in sentences))
        if code is None:
            lines.append(_line(sentences))
        if lines and (code or ends_block):
            yield Paragraph(tuple(lines))
            lines = []
        if code:
            yield Paragraph(code=tuple(code[2].expandtabs(4).splitlines()))
    if lines:
        yield Paragraph(tuple(lines))


def _lines(text: Prose) -> Iterator[tuple[list[Sentence], bool]]:
    """The sentences of each line, and whether a blank line follows."""
    line: list[Sentence] = []
    for sentence in text.sentences:
        if sentence.strip():
            line.append(sentence)
        if "\n" in sentence.ends and line:
            yield line, sentence.ends.count("\n") > 1
            line = []
    if line:
        yield line, True


def _line(sentences: list[Sentence]) -> Line:
    """The mark of a list item is at the start of its first sentence."""
    first, *others = sentences
    begin = first.parts[0] if first.parts and isinstance(first.parts[0], str) else ""
    mark = _MARK.match(begin)
    if mark is None:
        return Line("", Prose(tuple(sentences)))
    rest = first.with_parts((begin[mark.end() :], *first.parts[1:]))
    return Line(mark[0].strip(), Prose((rest, *others)))
