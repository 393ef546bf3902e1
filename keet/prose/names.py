"""Looks up the names that a text may use: evidence, and facts of source, launch and device."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

from keet.catalog import metrics
from keet.evidence import Evidence
from keet.prose import values
from keet.prose.expressions import NamedValue
from keet.prose.values import ValueProblem
from keet.units import format_number

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
        self.labels = _labels(self._evidence.values())
        """Labels in lower case, with the slugs of the numbers that have the label."""
        self.labels_by_length = sorted(self.labels, key=len, reverse=True)
        self._fact_values = frozenset(fact.value for fact in self._facts.values())
        self._known: dict[str, NamedValue | str] = {}
        self._suggested = 0

    def lookup(self, name: str) -> NamedValue:
        """Raises ValueProblem for an unknown name."""
        if name not in self._known:
            self._known[name] = self._looked_up(name)
        found = self._known[name]
        if isinstance(found, str):
            raise ValueProblem(found)
        return found

    def _looked_up(self, name: str) -> NamedValue | str:
        """The number, or the problem."""
        piece = self._evidence.get(name) or self._find(name)
        if piece is not None:
            self._evidence[name] = piece
            return named(piece)
        fact = self._facts.get(name)
        return f"there is no `{name}`{self._close(name)}" if fact is None else _named_fact(fact)

    def has_literal(self, number: float) -> bool:
        """Whether the number occurs in the source, the launch or the hardware."""
        return number in self._literals or number in HARDWARE or number in self._fact_values

    def _close(self, name: str) -> str:
        """Similar names. Slow, so only for the first unknown names."""
        self._suggested += 1
        if self._suggested > _MOST_SUGGESTIONS:
            return ""
        known = [*self._evidence, *self._facts]
        close = difflib.get_close_matches(name, known, 3, 0.6)
        return f"; similar names: {', '.join(close)}" if close else ""


def _labels(evidence: Iterable[Evidence]) -> Mapping[str, set[str]]:
    """Also labels of the catalog: a sentence may use the label of a metric that is not among the
    evidence."""
    found: dict[str, set[str]] = {}
    for slug, spec in metrics().items():
        found.setdefault(spec.label.lower(), set()).add(slug)
    for piece in evidence:
        found.setdefault(piece.label.lower(), set()).add(piece.slug)
    return found


def _named_fact(fact: Evidence) -> NamedValue:
    value = values.value_of(float(fact.value), fact.unit)
    shown = values.value_text(value) if fact.unit else format_number(fact.value)
    return NamedValue(value._replace(is_bare=not fact.unit), fact.label, shown)


def named(piece: Evidence) -> NamedValue:
    digits = ".1f" if piece.unit in ("%", "x") else ""
    shown = _plural(format(piece, digits).replace(" x", "x"), piece)
    value = values.value_of(float(piece.value), piece.unit)
    return NamedValue(value, piece.label, shown, (piece.id,), piece.line or "")


_COUNTED = frozenset(
    ("sector", "request", "wavefront", "conflict", "sample", "warp", "block", "thread", "load",
     "store", "iteration", "cycle", "launch")
)  # fmt: skip
_MANY = {"inst": "instructions", "launch": "launches"}


def _plural(shown: str, piece: Evidence) -> str:
    """`32 sectors`: counted units are written as words in the plural."""
    if piece.value == 1 or not (piece.unit in _COUNTED or piece.unit in _MANY):
        return shown
    return shown.removesuffix(piece.unit) + _MANY.get(piece.unit, f"{piece.unit}s")
