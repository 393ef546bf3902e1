"""Reads a model's text: resolves its references, and finds numbers that are not references.

A sentence has a problem where a reference cannot be resolved, a comparison is false, or words and
digits outside of references state or compare amounts. The problem tells how to write it instead.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from keet.catalog import metrics
from keet.evidence import Evidence, Prose, Reference, Sentence
from keet.evidence.digits import LISTED, PLACE
from keet.evidence.free_numbers import Allowed, free_number
from keet.prose.expressions import (
    EvaluatedExpression,
    Expression,
    NamedValue,
    ValueProblem,
    constants_of,
    evaluate,
    has_influence,
    parse,
    value_of,
    value_text,
)
from keet.units import format_number

_LINKING = re.compile(
    r"[\s(:=,]*(?:(?:is|are|was|at|of|only|just|about|reaches|reached|stands)\b[\s(:=,]*){0,3}",
    re.I,
)
"""Words that may be between a label and its number."""
_EQUATING = re.compile(r"\s*(?:=|:|\b(?:is|are|was)\b)\s*(?:(?:only|just|about)\s+)?", re.I)
"""The same for labels of one word, which often mean something else: `threads at {x}`."""
_LABEL_REACH = 160
"""Characters before a reference in which its label is searched: longer than any label."""
_MOST_REFERENCES = 400
"""Per text; more are not resolved. An answer has a few dozen."""
_LONGEST_SENTENCE = 3_000
"""Characters of a sentence."""
_MOST_SENTENCES = 1_000
NOT_MEASURED = "not measured"
"""Printed after a number that the model wrote in braces, such as a count in the code."""


def read_prose(text: str, names: Names, allowed: Allowed) -> Prose:
    reader = _Reader(names, allowed)
    return Prose(tuple(reader.sentence(piece, end) for piece, end in sentences_of(text)))


class _Read(NamedTuple):
    part: str | Reference
    problem: str | None = None
    result: EvaluatedExpression | None = None

    @property
    def words(self) -> str:
        return self.part if isinstance(self.part, str) else "{}"


class _Reader:
    """Reads the sentences of one text in their order."""

    def __init__(self, names: Names, allowed: Allowed) -> None:
        self._names, self._allowed = names, allowed
        self._references = self._item = self._sentences = 0

    def sentence(self, text: str, end: str) -> Sentence:
        self._sentences += 1
        if len(text) > _LONGEST_SENTENCE or self._sentences > _MOST_SENTENCES:
            return Sentence.of((text,), "the text is too long; write a few short sentences", end)
        read = list(self._parts(text))
        words = "".join(each.words for each in read)
        item = LISTED.match(words)
        if item and int(item[1]) in (1, self._item + 1):  # items of a list are counted from one
            self._item = int(item[1])
            words = words[item.end() :]
        compares = any(each.result and each.result.is_comparison for each in read)
        problems = [each.problem for each in read if each.problem]
        if not problems:
            problems = [free_number(words, self._allowed, compares=compares) or ""]
        return Sentence.of((each.part for each in read), problems[0] or None, end)

    def _parts(self, text: str) -> Iterator[_Read]:
        place = 0
        for match in SPAN.finditer(text):
            if match[2] is None:
                continue
            if match.start() > place:
                yield _Read(text[place : match.start()])
            read = self._reference(match[2], text, match.span())
            yield read
            place = match.end() + _repeated_unit(read, text[match.end() : match.end() + _UNIT])
        if place < len(text):
            yield _Read(text[place:])

    def _reference(self, part: str, text: str, span: tuple[int, int]) -> _Read:
        self._references += 1
        if self._references > _MOST_REFERENCES:
            return _Read(f"{{{part}}}", "the text has too many references")
        try:
            node = parse(part)
            result = evaluate(node, self._names.lookup)
            problem = self._wrong(part, node, result)
        except ValueProblem as mistake:
            return _Read(f"{{{part}}}", f"{{{part}}}: {mistake}")
        if problem is not None:
            return _Read(f"{{{part}}}", problem)
        said = _label_before(text[max(0, span[0] - _LABEL_REACH) : span[0]], self._names)
        if node.kind == "name" and said is not None:
            problem = _wrong_label(part, said, result.names[0], self._names)
        ids = tuple(dict.fromkeys(i for named in result.names for i in named.ids))
        after = text[span[1] : span[1] + _LABEL_REACH]
        shown = _printed(node, result, said, after, text)
        return _Read(
            Reference(shown, ids, part, result.alone if result.names else ""), problem, result
        )

    def _wrong(self, part: str, node: Expression, result: EvaluatedExpression) -> str | None:
        """Raises ValueProblem."""
        if result.is_comparison and not result.is_true:
            return f"{{{part}}} is false: {result.text}"
        if result.names:
            problem = None if node.kind == "name" else unfounded(node, result, self._names)
            return f"{{{part}}}: {problem}" if problem else None
        # A number without a name must be in the source, or small.
        is_bytes = dict(result.value.dimensions) == {"byte": 1}
        if result.is_comparison or not (result.value.is_bare or is_bytes):
            return f"{{{part}}}: it names no evidence"
        known = self._names.has_literal
        if node.kind == "number":
            fits = known(result.value.number) or _is_small(result.value.number)
        else:
            fits = all(known(n) or _is_plain(n) for n in constants_of(node))
        if fits:
            return None
        return f"{{{part}}}: {part} is not a number of the source or the launch"


def unfounded(node: Expression, result: EvaluatedExpression, names: Names) -> str | None:
    """Why an expression says nothing about its names: its value comes from a number that is written
    out. Raises ValueProblem."""
    is_measured = any(named.ids for named in result.names)
    if is_measured and not has_influence(node, names.lookup):
        return "its result does not depend on the named numbers"
    strange = [n for n in constants_of(node) if not (names.has_literal(n) or _is_plain(n))]
    if strange and not result.is_comparison:
        return f"{strange[0]:g} is not a number of the source or the launch"
    return None


def _is_small(number: float) -> bool:
    return 0 < number <= 16 and number.is_integer()


def _is_plain(number: float) -> bool:
    """Factors: small counts, powers of two and of ten."""
    if _is_small(number):
        return True
    return number > 0 and (math.frexp(number)[0] == 0.5 or f"{number:e}".startswith("1.000000e"))


_UNIT = 14
"""Characters after a reference in which a repeated unit is searched."""


def _repeated_unit(read: _Read, after: str) -> int:
    """Length of a unit that the model wrote after a reference that is printed with its unit."""
    if read.result is None or read.result.is_comparison:
        return 0
    is_name = read.result.names and not read.result.alone
    shown = read.result.names[0].shown if is_name else ""
    unit = shown.rpartition(" ")[2] if " " in shown else ""
    pattern = rf"\s{re.escape(unit)}\b" if unit.isalpha() and len(unit) > 3 else r"(?!)"
    if read.result.value.is_percent:
        pattern = r"\s?%|\s(?:percent|per cent)\b"
    match = re.match(pattern, after)
    return match.end() if match else 0


def _printed(
    node: Expression, result: EvaluatedExpression, said: str | None, after: str, text: str
) -> str:
    """A single name is printed with its label, unless exactly that label is next to it."""
    if not result.names:
        return f"{result.text} ({NOT_MEASURED})"
    if node.kind != "name":
        return result.text
    (named,) = result.names
    label = named.label.lower()
    follows = re.match(rf"\s{re.escape(label)}(?!\w)", after.lower())
    is_said = (said == label and _is_all(text, node.text, label)) or follows
    aside = [] if is_said else [_label_beside(named.label, after)]
    places = {match[0] for match in PLACE.finditer(SPAN.sub(" ", text))}
    if named.where and places != {named.where}:
        aside.append(named.where)
    if not aside:
        return named.shown
    # The label follows the value in brackets, unless the model wrote brackets already.
    is_aside = after.startswith(")") and f"({{{node.text}}})" in text
    return ", ".join([named.shown, *aside]) if is_aside else f"{named.shown} ({', '.join(aside)})"


def _label_beside(label: str, after: str) -> str:
    """The label, without its last word if the sentence goes on with it: `is {l1_busy} busy`."""
    start, _, last = label.rpartition(" ")
    if not start or not re.match(rf"\s{re.escape(last)}(?!\w)", after, re.IGNORECASE):
        return label
    # `L1 data stage (LSU)` is printed in brackets itself.
    return re.sub(r" \(([^()]*)\)$", r", \1", start)


def _is_all(text: str, name: str, label: str) -> bool:
    """Whether a whole clause says just that: `The L2 hit rate is {name}.` Other words before or
    after could make it the number of something else."""
    stated = rf"(?:^|[.;] )(?:the )?{re.escape(label)}(?: is| of| at|:)? \(?\{{{re.escape(name)}\}}"
    return bool(re.search(rf"{stated}\)?(?:[.,;)]|$)", text, re.IGNORECASE))


def _label_before(before: str, names: Names) -> str | None:
    """The label right before a reference, apart from linking words."""
    lowered = before.lower()
    for label in names.labels_by_length:
        at = lowered.rfind(label)
        links = _LINKING if " " in label else _EQUATING
        if at < 0 or not links.fullmatch(lowered, at + len(label)):
            continue
        if at == 0 or not (lowered[at - 1].isalnum() or lowered[at - 1] in "_-"):
            return label  # not `threads` of `subthreads`
    return None


def _wrong_label(part: str, label: str, named: NamedValue, names: Names) -> str | None:
    """The problem if the sentence gives a number the label of another: `L2 hit rate is {l2_busy}`.
    A part of the label, or another label of the same number, is allowed."""
    mine = named.label.lower()
    slugs = {id_.partition("#")[0] for id_ in named.ids}
    if label in mine or mine in label or slugs & names.labels[label]:
        return None
    return f"{{{part}}} is {named.label}, not {label}"


# --- sentences of a text


def sentences_of(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence with its end. Braces and code spans are never split."""
    for paragraph, end in _paragraphs(text):
        flat = " ".join(paragraph.split())
        pieces = list(_cut(flat))
        for place, piece in enumerate(pieces):
            yield piece, " " if place + 1 < len(pieces) else end


_ITEM = r"\s*(?:[-*+•]|\d+[.)])\s"
SPAN = re.compile(r"`([^`]*)`|\{{1,2}([^{}]*)\}{1,2}")
"""Code, whose braces are not references; or a reference, also in double braces."""


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and list items, each with its end. Code spans end with their paragraph."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        starts = [match.end() for match in re.finditer(rf"\n(?={_ITEM})", _hidden(paragraph))]
        for begin, end in itertools.pairwise([0, *starts, len(paragraph) + 1]):
            if (part := paragraph[begin : end - 1]).strip():
                yield part, "\n" if re.match(_ITEM, part) else "\n\n"


def _hidden(text: str) -> str:
    """With code and references replaced by underscores; positions stay."""
    return SPAN.sub(lambda match: "_" * len(match[0]), text)


_END = re.compile(r"(?<=[.!?])(?:['\")\]*_]*)\s+(?=[^\s])")
_ABBREVIATED = re.compile(
    r"\b(?:e\.g|i\.e|vs|approx|ca|avg|etc|no|fig|max|min|cf)\.$|^\(?\d{1,2}\.$", re.I
)
"""A number at the beginning is a list number."""


def _cut(text: str) -> Iterator[str]:
    hidden = _hidden(text)
    begin = 0
    for match in _END.finditer(hidden):
        if _ABBREVIATED.search(hidden[max(begin, match.start() - 12) : match.start()]):
            continue
        yield text[begin : match.end()].strip()
        begin = match.end()
    if text[begin:].strip():
        yield text[begin:].strip()


HARDWARE = frozenset({1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0})
"""Threads of a warp, bytes of a word, a sector, a cache line; threads of the largest block."""
_MOST_SUGGESTIONS = 50


class Names:
    """Resolves names and checks literals."""

    def __init__(
        self,
        evidence: Iterable[tuple[str, Evidence]],
        facts: Mapping[str, Evidence] | None = None,
        literals: frozenset[float] = frozenset(),
        find: Callable[[str], Evidence | None] = lambda _: None,
    ) -> None:
        """`evidence`: with its names, several per piece. `facts`: constants. `literals`: numbers in
        the source. `find`: looks up evidence that is not in `evidence` yet."""
        self._evidence = dict(evidence)
        self._facts = dict(facts or {})
        self._literals = literals
        self._find = find
        labels = {slug: spec.label for slug, spec in metrics().items()}
        pieces = [(piece.slug, piece.label) for piece in self._evidence.values()]
        self.labels: dict[str, set[str]] = {}
        """Labels in lower case, with the slugs of the numbers that have the label; also those of
        the catalog, which a sentence may use for a metric that is not among the evidence."""
        for slug, label in (*labels.items(), *pieces):
            self.labels.setdefault(label.lower(), set()).add(slug)
        self.labels_by_length = sorted(self.labels, key=len, reverse=True)
        self._fact_values = frozenset(fact.value for fact in self._facts.values())
        self._known: dict[str, NamedValue | str] = {}
        self._suggested = 0

    def lookup(self, name: str) -> NamedValue:
        """Raises ValueProblem for an unknown name."""
        if name not in self._known:
            self._known[name] = self._looked_up(name)
        named = self._known[name]
        if isinstance(named, str):
            raise ValueProblem(named)
        return named

    def _looked_up(self, name: str) -> NamedValue | str:
        """The number, or the problem."""
        piece = self._evidence.get(name) or self._find(name)
        if piece is not None:
            self._evidence[name] = piece
            return named(piece)
        fact = self._facts.get(name)
        if fact is None:
            self._suggested += 1
            is_late = self._suggested > _MOST_SUGGESTIONS  # looking for similar names is slow
            known = [] if is_late else [*self._evidence, *self._facts]
            close = difflib.get_close_matches(name, known, 3, 0.6)
            similar = f"; similar names: {', '.join(close)}" if close else ""
            return f"there is no `{name}`{similar}"
        value = value_of(float(fact.value), fact.unit)
        shown = value_text(value) if fact.unit else format_number(fact.value)
        return NamedValue(value._replace(is_bare=not fact.unit), fact.label, shown)

    def has_literal(self, number: float) -> bool:
        """Whether the number occurs in the source, the launch or the hardware."""
        return number in self._literals or number in HARDWARE or number in self._fact_values


def named(piece: Evidence) -> NamedValue:
    digits = ".1f" if piece.unit in ("%", "x") else ""
    shown = format(piece, digits).replace(" x", "x")
    if piece.value != 1 and piece.unit in _PLURALS:
        shown = shown.removesuffix(piece.unit) + _PLURALS[piece.unit]
    value = value_of(float(piece.value), piece.unit)
    return NamedValue(value, piece.label, shown, (piece.id,), piece.line or "")


_COUNTED = (
    "sector", "request", "wavefront", "conflict", "sample", "warp", "block", "thread", "load",
    "store", "iteration", "cycle",
)  # fmt: skip
_PLURALS = {"inst": "instructions", "launch": "launches"} | {each: f"{each}s" for each in _COUNTED}
"""Counted units are written as words: `32 sectors`."""
