"""The numbers of the program view of `keet explain`, as named values for `keet verify`."""

from __future__ import annotations

from collections.abc import Iterator

from keet.evidence import Evidence
from keet.explanation.launch_groups import LaunchGroup
from keet.explanation.program import ProgramExplanation, ProgramRow
from keet.units import Quantity
from keet.verification.values.named_values import (
    ComputedValue,
    Owners,
    content_words,
    values_in_texts,
    values_of_evidence,
)

_MOST_ROWS = 1000
"""Rows after which the others may be summed up: no view lists more."""
_COVERED = 0.6
"""Share of the words of a name that must be present: its end may be cut off."""


def group_values(group: LaunchGroup | None) -> Iterator[ComputedValue]:
    """`launches of this shape, which take 12.99 us to 24.16 us`: their range."""
    words = content_words("launches shape")
    if group is not None and len(group.launches) > 1:
        for label, ns in zip(("shortest launch", "longest launch"), group.durations, strict=True):
            yield ComputedValue(label, Quantity(ns, "ns"), words, "window")


def program_values(program: ProgramExplanation) -> Iterator[ComputedValue]:
    """Sentences and rows."""
    firsts = range(1, min(len(program.rows) - 1, _MOST_ROWS))
    rows = [program.combined_row(program.rows[first:]) for first in firsts]
    for row in rows:
        yield from _row(row, "others")
        yield _count(len(row.members), "others")
    for row in program.rows:
        yield from _row(row, row.kernel)
    for group in program.groups:
        yield _count(len(group.members), "launches")
    owners = {piece.id: _launches(row) for row in program.rows for piece in _pieces(row)}
    yield from _sentences(program, owners)
    yield from values_of_evidence(program.evidence.values(), owners)


def _pieces(row: ProgramRow) -> Iterator[Evidence]:
    found = (row.launches, row.total, row.share, row.shortest, row.typical, row.longest)
    return (piece for piece in found if piece)


def _launches(row: ProgramRow) -> frozenset[int]:
    return frozenset(row.profiled)


def _sentences(program: ProgramExplanation, owners: Owners) -> Iterator[ComputedValue]:
    yield from values_in_texts(program.sentences, program.book, owners)
    for found in program.across:
        yield from values_in_texts([found.text], found.evidence)
    if program.run:
        texts = (text for text, _ in program.run.sentences)
        yield from values_in_texts(texts, program.run.book)


def program_texts(program: ProgramExplanation) -> Iterator[str]:
    yield from program.sentences
    yield from (found.text for found in program.across)
    yield from (group.spread_text for group in program.groups if group.is_uneven)
    yield from (text for text, _ in program.run.sentences) if program.run else ()


def _row(row: ProgramRow, name: str) -> Iterator[ComputedValue]:
    """The cells of the row of a kernel, in which a long name is cut."""
    words = content_words(name.partition("<")[0])
    figures = [(p.label, Quantity(p.value, p.unit)) for p in (row.share, row.launches, row.total)]
    if row.gain is not None:
        figures.append((f"gain of {name}", Quantity(row.gain.likely, "x")))
    for label, quantity in figures:
        yield ComputedValue(label, quantity, words, "sentence", None, _COVERED, _launches(row))


def _count(number: int, words: str) -> ComputedValue:
    return ComputedValue(words, Quantity(number, ""), content_words(words), "window")
