"""Numbers that are no metrics of the report: values that keet computes, and multiples and changes.

A text that quotes keet contains a finding's share of the sectors, a forecast, a row of `keet
hotspots`: `ValueIndex` finds them by their words. Multiples and differences are of two launches or
two metrics: `5x slower than`. A contradicted number is explained by the right value, and by where
the wrong one may come from.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import chain, product
from types import MappingProxyType
from typing import Literal, NamedTuple

from keet.catalog import metrics
from keet.documents.verify import RelationDocument
from keet.evidence import Evidence, Reference, Sentence, constant
from keet.profile import Launch
from keet.profile.run_link import MAX_DECODED
from keet.units import Number, Quantity
from keet.verification.claims import Claim
from keet.verification.metric_names import terms_in, words_of
from keet.verification.numbers import TextNumber, find_numbers
from keet.verification.report_values import ReportValue, ReportValues
from keet.verification.sentences import split_sentences
from keet.verification.subjects import RowKey, TextPlace, is_object
from keet.verification.verdicts import (
    CheckedNumber,
    CheckedSentence,
    agrees,
    amounts,
    confirmed,
    is_near,
    not_found,
    same_kind,
)

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
_OPPOSITES = tuple(frozenset(words_of(pair)) for pair in (
    "load store", "read written", "read write", "l1 l2", "long short", "achieved theoretical",
    "static dynamic", "shared global local", "active elapsed", "hit miss",
))  # fmt: skip
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
    texts: Iterable[str], evidence: Iterable[Evidence], owners: Owners = MappingProxyType({})
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


_UP = r"slower|longer|more|higher|larger|greater|bigger|above"
_DOWN = r"faster|shorter|less|fewer|lower|smaller|quicker|below"
_THAN = re.compile(rf"\s*(?:times\s+)?(?:as\s+\w+\s+as|(?:{_UP}|{_DOWN})\b)", re.IGNORECASE)
_FEWER = re.compile(
    rf"\s*(?:times\s+)?(?:{_DOWN}|as\s+(?:fast|quick)|the\s+speed)\b", re.IGNORECASE
)
_SPEED = re.compile(r"\b(?:slower|faster|quicker|speed-?up|longer|shorter)\b", re.IGNORECASE)
_OF_WHAT = re.compile(r"\s*(?:times\s+)?the\s+(?:speed|time|duration)\b", re.IGNORECASE)
_NOT_THESE = re.compile(
    r"\b(?:would|could|might|may|expect\w*|estimat\w*|forecast|potential|ideal\w*|than necessary"
    r"|after|before|previous\w*|baseline|original|old)\b",
    re.IGNORECASE,
)


_MOST_PAIRS = 160_000
"""Pairs of launches, at most, that are tried for a number. With more, some pair has nearly every
ratio, so the number is not found."""

_Pair = tuple[ReportValue, ReportValue]


def check_ratio(
    claim: Claim, facts: ReportValues, subjects: Sequence[Launch]
) -> CheckedNumber | None:
    """The verdict on a multiple or a difference; `None` for other numbers.

    `subjects`: launches that the text is about, if the sentence names none.
    """
    number, text = claim.number, claim.sentence.text
    behind = text[number.end : number.end + 24]
    is_change = bool(_THAN.match(behind)) and number.bound is None
    if number.unit != "x" and not is_change:
        return None
    named = facts.launches.named_in(text)
    if _OF_WHAT.match(behind) and not named:
        return not_found(number, "the text does not say for which launch")
    down = bool(_FEWER.match(behind))
    ones, others = _sides(text, facts, subjects)
    pairs = list(_pairs(text, facts, ones, others, directed=is_change))
    for pair in pairs:
        for result in _results(number, pair, down=down):
            exact = agrees(number, result.quantity, rounding=result.rounding)
            if exact and is_near(number, result.quantity):
                return confirmed(number, result)
    right = None
    is_clear = named and len(ones) == len(others) == 1 and not _NOT_THESE.search(text)
    if is_clear and pairs and pairs[0][0].launch != pairs[0][1].launch:
        right = next(_results(number, pairs[0], down=down), None)
    if right is None:
        return not_found(number, "no two numbers of the report have this ratio or difference")
    return CheckedNumber(number, "contradicted", right, str(right))


def _sides(
    text: str, facts: ReportValues, subjects: Sequence[Launch]
) -> tuple[list[Launch], list[Launch]]:
    """The two compared launches: the one after `than` is the second."""
    ones: list[Launch] = []
    others: list[Launch] = []
    for name in facts.launches.named_in(text):
        (others if is_object(text, name) else ones).extend(name.launches)
    if len(set(ones)) == 2 and not others:
        ones, others = ones[:1], ones[-1:]
    ones = list(dict.fromkeys(ones or subjects))
    known = set(ones)
    others = list(dict.fromkeys(others)) or [x for x in facts.launches if x not in known]
    return ones, others if len(ones) * len(others) <= _MOST_PAIRS else []


def _pairs(
    text: str,
    facts: ReportValues,
    ones: Sequence[Launch],
    others: Sequence[Launch],
    *,
    directed: bool,
) -> Iterator[_Pair]:
    """Two launches under one metric, then two metrics of one launch."""
    ids = [id_ for term in terms_in(text) if not term.entry.weak for id_ in term.metric_ids]
    if _SPEED.search(text) or not ids:
        ids = ["duration", *ids]
    for metric_id in dict.fromkeys(ids):
        for one, two in product(ones, others):
            if one.id != two.id:
                sides = [facts.read([metric_id], launch) for launch in (one, two)]
                yield from zip(*sides)
                if not directed:
                    yield from zip(*sides[::-1])
    for launch in ones:
        values = facts.read(ids, launch)
        yield from ((a, b) for a, b in product(values, values) if a.label != b.label)


def _results(number: TextNumber, pair: _Pair, *, down: bool) -> Iterator[ReportValue]:
    """Ratio, relative change or difference of the two; the first is the larger one, or with `down`
    the smaller one."""
    first, second = pair[::-1] if down else pair
    a, b = first.quantity.value, second.quantity.value
    if not same_kind(first.quantity.unit, second.quantity.unit):
        return
    one, other = (f"{value.label} of #{value.launch}" for value in (first, second))
    relative = first.rounding / abs(a) + second.rounding / abs(b) if a and b else 0.0
    if number.unit == "x" and b:
        yield _computed(f"{one} over {other}", a / b, "x", relative * abs(a / b))
    elif number.unit == "%" and first.quantity.unit != "%" and b and (a or not down):
        change = (a - b) / a if down else (a - b) / b
        slack = 100 * relative * max(abs(a / b), 1.0)
        yield _computed(f"{one} over {other}, in change", 100 * change, "%", slack)
    elif number.unit != "x":
        unit = "point" if number.unit == "point" else first.quantity.unit
        yield _computed(f"{one} less {other}", a - b, unit, first.rounding + second.rounding)


def _computed(label: str, value: float, unit: str, rounding: float) -> ReportValue:
    return ReportValue(label, Quantity(value, unit), None, None, None, rounding)


def with_shares(checks: list[CheckedNumber], text: str) -> list[CheckedNumber]:
    """Confirms shares of two other numbers: `8 of 32 MB (25 %)`, `94 % of the total`."""
    known = [c.report_value for c in checks if c.verdict == "confirmed" and c.report_value]
    return [_as_share(check, known, text) for check in checks]


def _as_share(check: CheckedNumber, known: Sequence[ReportValue], text: str) -> CheckedNumber:
    number = check.number
    if check.verdict != "not_found" or number.unit != "%":
        return check
    behind = re.match(r"\s*(?:of\b|\))", text[number.end :])
    apposed = re.search(r"\bof\b.*,\s*(?:or\s+|i\.e\.\s+)?\Z", text[: number.start])
    for part, whole in product(known, known) if behind or apposed else ():
        share = _share(part, whole)
        if share and agrees(number, share.quantity):
            return confirmed(number, share)
    return check


def _share(part: ReportValue, whole: ReportValue) -> ReportValue | None:
    if part.label == whole.label or not same_kind(part.quantity.unit, whole.quantity.unit):
        return None
    if not whole.quantity.value or part.quantity.unit == "%":
        return None
    value = Quantity(100 * part.quantity.value / whole.quantity.value, "%")
    return ReportValue(f"{part.label} over {whole.label}", value, None, part.launch)


def with_factors(
    checks: Sequence[CheckedNumber], relations: Sequence[RelationDocument]
) -> tuple[list[CheckedNumber], list[RelationDocument]]:
    """A comparison and its factor (`36 times as much as`) get the same verdict."""
    related = [_of_number(relation, checks) for relation in relations]
    return [_of_relation(check, related) for check in checks], related


def _of_relation(check: CheckedNumber, relations: Sequence[RelationDocument]) -> CheckedNumber:
    """`36 times as much as`: the 36 gets the verdict of the comparison."""
    for relation in relations:
        inside = relation.start <= check.number.start < relation.end
        if inside and relation.verdict != "not_found":
            return CheckedNumber(check.number, relation.verdict, None, relation.reason)
    return check


def _of_number(relation: RelationDocument, checks: Sequence[CheckedNumber]) -> RelationDocument:
    """`looks up 1.6 times the sectors of`: a confirmed factor confirms the comparison."""
    for check in checks:
        inside = relation.start <= check.number.start < relation.end
        known = check.verdict == "confirmed" and relation.verdict == "not_found"
        if inside and known and check.number.unit == "x":
            return replace(relation, verdict="confirmed", reason=check.reason)
    return relation


_COMPARES = re.compile(r"\d\S{0,30}(?: \S{1,30})? (?:→|->)|\bbefore\b.*\bafter\b", re.DOTALL)
_OTHER_SIDE = "one side of a comparison: name both reports (--report BEFORE --report AFTER)"


def without_unknown_sides(checked: CheckedSentence) -> CheckedSentence:
    """`16 → 26`: with one report, the other side of the change is not found, not contradicted."""
    if not _COMPARES.search(checked.sentence.text):
        return checked
    return checked.unchecked(_OTHER_SIDE, only=("contradicted",))


_ROUNDED_TOO_FAR = 0.1
"""Relative error up to which a number counts as rounded too far."""


def explain_mistake(
    claim: Claim, claims: Sequence[Claim], values: Sequence[ReportValue], facts: ReportValues
) -> str:
    """The right value, and where the wrong one may come from. `values`: the right ones, the
    likeliest first."""
    several = 1 if claim.term and claim.term.entry.part else 3
    right = Sentence("; ").join(dict.fromkeys(map(str, values[:several])))
    guess = next(_mistakes(claim, claims, values, facts), None)
    return Sentence("; ").join([right, guess]) if guess else right


def _mistakes(
    claim: Claim, claims: Sequence[Claim], values: Sequence[ReportValue], facts: ReportValues
) -> Iterator[str]:
    """What the number may be instead, the likeliest first."""
    number, right = claim.number, values[0]
    own = [launch for launch in facts.launches if launch.id == right.launch]
    yield from _other_launches(claim, values, facts)
    yield from _other_names(claim, claims, values, own, facts)
    yield from _wrong_powers(number, right)
    yield from _other_lines(claim, right, own, facts)
    if alike := same_value(number, facts, own, right.label):
        yield f"{number.text} is {alike.label}"
    for value, _ in amounts(number, right.quantity.unit, lenient=True):
        if right.quantity.value and abs(value / right.quantity.value - 1) <= _ROUNDED_TOO_FAR:
            yield "rounded too far"


def _other_launches(
    claim: Claim, values: Sequence[ReportValue], facts: ReportValues
) -> Iterator[str]:
    term, tried = claim.term, {value.launch for value in values}
    if term is None or claim.place or len(facts.launches) > MAX_DECODED:
        return
    for launch in facts.launches:
        if launch.id not in tried:
            others = facts.read(term.metric_ids, launch, complement=term.entry.complement)
            if any(agrees(claim.number, value.quantity) for value in others):
                yield f"{claim.number.text} is the value of launch {launch.id}"


def _other_names(
    claim: Claim,
    claims: Sequence[Claim],
    values: Sequence[ReportValue],
    own: Sequence[Launch],
    facts: ReportValues,
) -> Iterator[str]:
    """The number belongs to another metric of the same sentence."""
    labels = {value.label for value in values}
    terms = [other.term for other in claims if other.term and other.term != claim.term]
    for value in (value for term in terms for value in facts.read_each(term.metric_ids, own)):
        if value.label not in labels and agrees(claim.number, value.quantity):
            yield f"{claim.number.text} is {value.label}"


def _other_lines(
    claim: Claim, right: ReportValue, own: Sequence[Launch], facts: ReportValues
) -> Iterator[str]:
    ids = claim.term.metric_ids if claim.term else ()
    for launch in own if claim.place and right.line is not None else ():
        hotspots = facts.hotspots(launch)
        locations = [spot.location for spot in hotspots.rows] if hotspots else []
        for file, line in filter(None, locations):
            for value in facts.read_line(ids, launch, TextPlace(0, 0, file, line)):
                if value.label == right.label and agrees(claim.number, value.quantity):
                    yield f"{claim.number.text} is the value of {value.line}"


def _wrong_powers(number: TextNumber, right: ReportValue) -> Iterator[str]:
    """Wrong by a unit prefix, or a fraction written as a percentage."""
    for value, half in amounts(number, right.quantity.unit, lenient=True):
        for factor in (1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9, 100.0, 0.01):
            if abs(value * factor - right.quantity.value) <= half * factor and value:
                size = round(max(factor, 1 / factor))
                yield Sentence("wrong by a factor of {n}", n=constant(size, "", "factor"))


def same_value(
    number: TextNumber, facts: ReportValues, launches: Sequence[Launch], label: str = ""
) -> ReportValue | None:
    """A key metric of the catalog with this value and unit, under another label; None for small
    counts."""
    small = number.value.is_integer() and number.value < 100
    # With many launches, some metric of some launch has nearly every value.
    if not number.unit or number.bound or small or len(launches) > MAX_DECODED:
        return None
    keys = [spec.id for spec in metrics().values() if spec.key]
    alike = (v for v in facts.read_each(keys, launches) if agrees(number, v.quantity))
    return next((value for value in alike if value.label != label), None)
