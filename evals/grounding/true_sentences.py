"""True sentences about a sample, each with one number of known evidence, from which mutants are
made.

Some are built from a label and a value, as models write them; some are keet's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evals.grounding.explanations import ASKED, SampleExplanations
from keet.evidence import Evidence

_EACH = 2
"""Sentences per sample that are built from labels; the metrics change from sample to sample."""
_NUMERAL = re.compile(r"(?P<numeral>\d[\d,]*(?:\.\d+)?)(?P<unit>.*)")


class TrueSentence(NamedTuple):
    """A true sentence: the text before its number, the number, and the text after it."""

    sample: str
    piece: Evidence
    before: str
    numeral: str
    unit: str
    """With the space before it."""
    after: str
    metric: str | None = None
    """Catalog id."""

    @property
    def text(self) -> str:
        return self.saying(self.numeral + self.unit)

    def saying(self, said: str, *, before: str | None = None) -> str:
        return (self.before if before is None else before) + said + self.after


def true_sentences_of(explained: SampleExplanations, turn: int) -> list[TrueSentence]:
    """`turn`: the number of the sample, which selects the metrics."""
    return [*_labelled(explained, turn), *_own(explained), *_placed(explained)]


def _labelled(explained: SampleExplanations, turn: int) -> Iterator[TrueSentence]:
    order = [ASKED[(turn * _EACH + step) % len(ASKED)] for step in range(len(ASKED))]
    telling = [name for name in order if _tells(explained.asked.get(name))]
    for name in telling[:_EACH]:
        piece = explained.asked[name]
        base = _base(explained.name, piece, f"{piece.label} is ", ".")
        yield from [base._replace(metric=name)] if base else []


def _tells(piece: Evidence | None) -> bool:
    """0 and 100 % are the values of many metrics, so a mutant of theirs may be true of another
    one."""
    return piece is not None and 0 < piece.value != 100


def _placed(explained: SampleExplanations) -> Iterator[TrueSentence]:
    shares = [piece for piece in explained.places if 1 < piece.value < 99]
    for piece in shares[:1]:
        base = _base(explained.name, piece, f"{piece.line} has ", " of the samples.")
        yield from [base] if base else []


def _own(explained: SampleExplanations) -> Iterator[TrueSentence]:
    """The first number of keet's own sentence about a finding."""
    for finding in explained.told.findings[:1]:
        for number in finding.text.references[:1]:
            place = finding.text.parts.index(number)
            before = "".join(map(str, finding.text.parts[:place]))
            piece = explained.pieces.get(number.ids[0]) if number.ids else None
            said = _parts(number.text)
            if piece and said:
                after = finding.text[len(before) + len(number.text) :]
                yield TrueSentence(explained.name, piece, before, *said, after)


def _base(sample: str, piece: Evidence, before: str, after: str) -> TrueSentence | None:
    parts = _parts(str(piece))
    return TrueSentence(sample, piece, before, *parts, after) if parts else None


def _parts(said: str) -> tuple[str, str] | None:
    match = _NUMERAL.fullmatch(said)
    return (match["numeral"], match["unit"]) if match else None
