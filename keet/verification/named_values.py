"""Values that keet computes from a report, with the words that name them in a text.

A text that quotes keet (a finding's share of the sectors, a forecast, a row of `keet hotspots`)
contains numbers that are not metrics of the report. `ValueIndex` finds them by their words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from keet.evidence import Evidence, Reference, Sentence
from keet.profile import Launch
from keet.units import Number, Quantity
from keet.verification.metric_names import words_of
from keet.verification.numbers import TextNumber, find_numbers
from keet.verification.report_values import ReportValue
from keet.verification.sentences import split_sentences
from keet.verification.subjects import RowKey
from keet.verification.verdicts import agrees

if TYPE_CHECKING:
    pass

Scope = Literal["cell", "window", "sentence", "row"]
"""Where the words must be. `cell`: alone right before the number; `window`: between the adjacent
numbers; `sentence`: anywhere in it; `row`: nowhere, the number is a cell of the row."""

_FILLERS = frozenset(
    words_of(
        "the a an of at is are was were be to by in on and or for with its it that this these "
        "those as than from not no now only about peak busy near ceiling close closest come comes "
        "share there them they their has have all each per so if but while which what will would "
        "could measured against"
    )
)
"""Words without meaning for a name."""
_OPPOSITES = tuple(
    frozenset(words_of(pair))
    for pair in (
        "load store",
        "read written",
        "read write",
        "l1 l2",
        "long short",
        "achieved theoretical",
        "static dynamic",
        "shared global local",
        "active elapsed",
        "hit miss",
    )
)
"""Words that distinguish otherwise equal names."""
_WAYS = tuple(
    frozenset(words_of(way))
    for way in ("read reading load loaded", "write written wrote stored store")
)
_BARS = re.compile(r"[\u2500-\u259f·●→|*`_]+")
_WORDS = re.compile(r"(?<!\S)\w+:(?=\s)|[\w.%]*[\w%]")
_LAUNCH = re.compile(r"#(\d)")
_SEPARATOR = re.compile(r"[,;:()\[\]]|\s{2,}|\n(?=\d)")
_ALONE_BEHIND = re.compile(r"\s*\Z|\s{2}|\s*[│|]")
_COVERED = 0.6
"""Share of a label's words that must be present: people leave some out."""
_COVERED_OWN = 0.75
"""The same for the words around a number in keet's own sentences."""


class ComputedValue(NamedTuple):
    """A value that keet computes, and the words that name it in a text."""

    label: str
    quantity: Quantity
    words: frozenset[str]
    scope: Scope
    row: RowKey | None = None
    """Set for values of one source line or instruction."""
    covered: float = 1.0
    """Share of the words that must be present, 0 to 1."""
    launches: frozenset[int] = frozenset()
    """Numbers of the launches that the value is about; empty: of the launch that it was made for,
    or of the whole report."""

    def report_value(self, launch: Launch | None) -> ReportValue:
        line = f"{self.row[0]}:{self.row[1]}" if isinstance(self.row, tuple) else None
        return ReportValue(self.label, self.quantity, None, launch.id if launch else None, line)


def computed(  # noqa: PLR0913, PLR0917
    label: str,
    value: Number,
    unit: str,
    words: str,
    scope: Scope,
    row: RowKey | None = None,
    covered: float = 1.0,
) -> ComputedValue:
    """A value that is named by the words of a phrase."""
    return ComputedValue(label, Quantity(value, unit), content_words(words), scope, row, covered)


class WordsAround(NamedTuple):
    """The words around a number, and the keys of its row."""

    cell: frozenset[str]
    window: frozenset[str]
    sentence: frozenset[str]
    rows: tuple[RowKey, ...]
    is_cell: bool
    """The number is alone in a column."""

    @property
    def all(self) -> frozenset[str]:
        return self.sentence | self.cell

    def name(self, known: ComputedValue) -> bool:
        if known.row is None and not known.words:
            return False
        if known.row is not None and known.row not in self.rows:
            return False
        if known.scope == "row":
            return self.is_cell
        if known.scope == "cell":
            return known.words == self.cell
        near = self.window if known.scope == "window" else self.sentence
        if _names_opposite(known.words, near) or _names_one_way(known.words, near):
            return False
        shared = len(known.words & near)
        return shared >= min(2, len(known.words)) and shared >= known.covered * len(known.words)


def _names_opposite(words: frozenset[str], near: frozenset[str]) -> bool:
    """`shared load bank conflicts` must not match those of stores, although most words are
    equal."""
    missing = words - near
    return any(bool(pair & missing) and bool((pair - words) & near) for pair in _OPPOSITES)


def _names_one_way(words: frozenset[str], near: frozenset[str]) -> bool:
    """Traffic between two units is that of both directions: it is neither what goes from one to the
    other nor what is written."""
    if "between" not in words or any(way & words for way in _WAYS):
        return False
    return "between" not in near or sum(bool(way & near) for way in _WAYS) == 1


@lru_cache(maxsize=512)
def content_words(text: str) -> frozenset[str]:
    """Words with meaning, in one form for singular and plural."""
    words = words_of(_BARS.sub(" ", text))
    return frozenset(w for w in words if w not in _FILLERS and not w[0].isdigit())


class SentenceWords:
    """The words around each number of a sentence."""

    def __init__(self, text: str, numbers: Sequence[TextNumber]) -> None:
        self._text = text
        self._starts = sorted(n.start for n in numbers)
        self._ends = sorted(n.end for n in numbers)
        self._all = content_words(text)
        masked = list(_BARS.sub(lambda bar: " " * len(bar[0]), text))
        for n in numbers:
            masked[n.start : n.end] = ";" * (n.end - n.start)
        self._masked = "".join(masked)
        self._cells = list(_cells(self._masked))

    @property
    def besides_numbers(self) -> frozenset[str]:
        return content_words(self._masked)

    def around(self, number: TextNumber, rows: Sequence[RowKey] = ()) -> WordsAround:
        before = bisect_right(self._ends, number.start)
        behind = bisect_left(self._starts, number.end)
        start = self._ends[before - 1] if before else 0
        end = self._starts[behind] if behind < len(self._starts) else len(self._text)
        window = content_words(self._text[start:end])
        return WordsAround(
            cell=self._cell(number),
            window=window if len(window) > 1 else self._all,
            sentence=self._all,
            rows=tuple(rows),
            is_cell=self._is_alone(number),
        )

    def _cell(self, number: TextNumber) -> frozenset[str]:
        """The nearest words before the number: of its own cell, else of an earlier one."""
        index = bisect_right(self._cells, number.start, key=lambda cell: cell.start) - 1
        own = content_words(self._masked[self._cells[index].start : number.start])
        return own or self._cells[index].before

    def _is_alone(self, number: TextNumber) -> bool:
        """Whether it is alone in a column: between bars, two blanks or line ends."""
        before = self._text[: number.start]
        rest = before.rstrip()
        begins = not rest or len(before) - len(rest) > 1 or rest[-1] in "│|"
        return begins and bool(_ALONE_BEHIND.match(self._text, number.end))


class _Cell(NamedTuple):
    start: int
    before: frozenset[str]
    """The words of the nearest earlier cell that has any."""


def _cells(masked: str) -> Iterator[_Cell]:
    start, words = 0, frozenset[str]()
    for match in _SEPARATOR.finditer(masked):
        yield _Cell(start, words)
        words = content_words(masked[start : match.start()]) or words
        start = match.end()
    yield _Cell(start, words)


def plain_words(sentence: str) -> str:
    """Without layout and markup; a leading `Why:` stays apart."""
    return " ".join(_WORDS.findall(_LAUNCH.sub(r"launch \1", sentence)))


class ValueIndex:
    """Values by row key, and values without a row by their words."""

    def __init__(self, known: Iterable[ComputedValue]) -> None:
        self._rows: dict[RowKey, list[ComputedValue]] = defaultdict(list)
        self._words: dict[str, list[ComputedValue]] = defaultdict(list)
        for each in known:
            if each.row is not None:
                self._rows[each.row].append(each)
            for word in each.words if each.row is None else ():
                self._words[word].append(each)

    def find(
        self,
        number: TextNumber,
        around: WordsAround,
        named: Set[int] | None = None,
        *,
        exact: bool = False,
    ) -> ComputedValue | None:
        """`named`: numbers of the launches that the sentence names."""
        of_rows = (known for key in around.rows for known in self._rows.get(key, ()))
        of_words = (known for word in sorted(around.all) for known in self._words.get(word, ()))
        for known in chain(of_rows, of_words):
            fits = known.words == around.cell if exact else around.name(known)
            if fits and _is(number, known.quantity) and _is_about(known, named, number, around):
                return known
        return None


def _is_about(
    known: ComputedValue, named: Set[int] | None, number: TextNumber, around: WordsAround
) -> bool:
    """Whether the value is about the launches that the sentence names: a row of keet names the
    first of them. A bound is about all of them."""
    if not known.launches:
        return True
    if named is None:
        return number.bound is None
    if number.bound:
        return known.launches == named
    return bool(known.launches & named) if around.is_cell else known.launches <= named


def _is(number: TextNumber, quantity: Quantity) -> bool:
    """A forecast of 2x does not match a count of 2. A bound (`at most 1.2x`) must equal the value:
    nearly every other number is above or below it."""
    exact = number._replace(bound=None)
    return (quantity.unit != "x" or number.unit == "x") and agrees(exact, quantity)


Owners = Mapping[str, frozenset[int]]
"""Numbers of the launches that a piece of evidence is about, by its id."""


def values_of_evidence(
    evidence: Iterable[Evidence], owners: Owners = MappingProxyType({})
) -> Iterator[ComputedValue]:
    """Evidence, named by its label."""
    for piece in evidence:
        if words := content_words(piece.label):
            about = owners.get(piece.id, frozenset())
            name, _, line = (piece.line or "").rpartition(":")
            row = (name, int(line)) if name and line.isdecimal() else None
            yield ComputedValue(piece.label, piece.quantity, words, "window", row, _COVERED, about)


def values_in_texts(
    texts: Iterable[str],
    evidence: Iterable[Evidence],
    owners: Owners = MappingProxyType({}),
) -> Iterator[ComputedValue]:
    """The numbers in keet's own sentences, named by the words around each."""
    pieces = {piece.id: piece for piece in evidence}
    for text in texts:
        printed = list(_printed(text, pieces))
        for sentence in split_sentences(text):
            here = [each for each in printed if sentence.start <= each[0].start < sentence.end]
            numbers = [number.moved(-sentence.start) for number, _ in here]
            around = SentenceWords(sentence.text, numbers)
            for number, (_, piece) in zip(numbers, here):
                words = around.around(number).window
                if number.shape is None and words:
                    about = owners.get(piece.id, frozenset()) if piece else frozenset()
                    yield _said(number, words, piece)._replace(launches=about)


def _printed(
    text: str, pieces: Mapping[str, Evidence]
) -> Iterator[tuple[TextNumber, Evidence | None]]:
    """Numbers with their evidence; None for constants, and for numbers of several pieces."""
    numbers = find_numbers(text)
    end = 0
    for part in text.parts if isinstance(text, Sentence) else (Reference(text, ()),):
        start, end = end, end + len(str(part))
        if isinstance(part, Reference):
            piece = pieces.get(part.ids[0]) if len(part.ids) == 1 else None
            yield from ((number, piece) for number in numbers if start <= number.start < end)


def _said(number: TextNumber, words: frozenset[str], piece: Evidence | None) -> ComputedValue:
    """With the value of the evidence; without one, the printed value."""
    label = piece.label if piece else "a number that keet prints"
    same = piece is not None and agrees(number, piece.quantity)
    quantity = piece.quantity if piece and same else Quantity(number.value, number.unit)
    return ComputedValue(label, quantity, words, "window", None, _COVERED_OWN)
