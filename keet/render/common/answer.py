"""A model's answer: its paragraphs and code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from keet.evidence import Prose, Sentence

_FENCED = re.compile(r"\s*(`{3,}|~{3,})[^\n]*\n(.*?)\n?\s*\1\s*", re.DOTALL)
_MARK = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")


class Line(NamedTuple):
    """A paragraph, or an item of a list."""

    mark: str
    """`-` or `1.`; empty for a paragraph."""
    text: Prose


class Block(NamedTuple):
    """Text between blank lines: a paragraph, a list, or code."""

    lines: tuple[Line, ...] = ()
    code: tuple[str, ...] = ()


def blocks_of(text: Prose) -> list[Block]:
    return list(_blocks(text))


def _blocks(text: Prose) -> Iterator[Block]:
    lines: list[Line] = []
    for sentences, ends_block in _lines(text):
        code = _FENCED.fullmatch("".join(f"{each}{each.ends}" for each in sentences))
        if code is None:
            lines.append(_line(sentences))
        if lines and (code or ends_block):
            yield Block(tuple(lines))
            lines = []
        if code:
            yield Block(code=tuple(code[2].expandtabs(4).splitlines()))
    if lines:
        yield Block(tuple(lines))


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
