"""The numbers of the program view of `keet explain`, as named values for `keet verify`."""

from __future__ import annotations

from collections.abc import Iterator

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
    owners = {p.id: frozenset(row.launches) for row in program.rows for p in row.evidence}
    yield from _sentences(program, owners)
    across = (piece for each in program.cross_launch for piece in each.evidence)
    yield from values_of_evidence([*program.book, *across], owners)


def _sentences(program: ProgramExplanation, owners: Owners) -> Iterator[ComputedValue]:
    yield from values_in_texts(program.texts, [*program.book], owners)
    for found in program.cross_launch:
        yield from values_in_texts([found.text], found.evidence)
    if program.run:
        yield from values_in_texts(program.run.text, [*program.run.book])


def program_texts(program: ProgramExplanation) -> Iterator[str]:
    yield from program.all_texts
    yield from (found.text for found in program.cross_launch)
    yield from (program.represents_text(group) for group in program.groups if group.is_uneven)


def _row(row: ProgramRow, name: str) -> Iterator[ComputedValue]:
    """The cells of the row of a kernel, in which a long name is cut."""
    words = content_words(name.partition("<")[0])
    figures = [(p.label, Quantity(p.value, p.unit)) for p in row.evidence[:3]]
    if row.gain is not None:
        figures.append((f"gain of {name}", Quantity(row.gain.likely, "x")))
    for label, quantity in figures:
        about = frozenset(row.launches)
        yield ComputedValue(label, quantity, words, "sentence", None, _COVERED, about)


def _count(number: int, words: str) -> ComputedValue:
    return ComputedValue(words, Quantity(number, ""), content_words(words), "window")
