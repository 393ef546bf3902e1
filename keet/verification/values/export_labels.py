"""Values of an export under labels that do not identify a single metric (`SECTION: LABEL`).

A text with such a label means the printed number: it is confirmed if it has that value, and never
contradicted by a related metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keet.profile import Launch
from keet.verification.text.claims import Claim
from keet.verification.text.metric_names import words_of
from keet.verification.values.report_values import ReportValue

_REACH = 100
"""Characters before a number in which its label is searched."""
_LINKS = frozenset(
    words_of("is was are were of at only about reaches reached equals stands to has")
)
_FEWEST = 2
"""Words of a label, at least: one may be an ordinary word."""


class ExportLabels:
    def __init__(self) -> None:
        self._made: dict[Launch, Mapping[tuple[str, ...], list[ReportValue]]] = {}

    def find(self, claim: Claim, launches: Sequence[Launch]) -> list[ReportValue]:
        """Values that the exports print under the label in the text."""
        return [r for launch in launches if launch.is_printed for r in self._of(claim, launch)]

    def _of(self, claim: Claim, launch: Launch) -> Sequence[ReportValue]:
        if launch not in self._made:
            self._made[launch] = _labels(launch)
        labels = self._made[launch]
        text, number, term = claim.sentence.text, claim.number, claim.term or claim.misfit
        if term and (found := labels.get(words_of(text[term.start : term.end]))):
            return found
        words = list(words_of(text[max(0, number.start - _REACH) : number.start]))
        while words and words[-1] in _LINKS:
            words.pop()
        tails = (tuple(words[first:]) for first in range(len(words)))
        return next((labels[tail] for tail in tails if tail in labels), ())


def _labels(launch: Launch) -> Mapping[tuple[str, ...], list[ReportValue]]:
    found: dict[tuple[str, ...], list[ReportValue]] = {}
    for name in launch.metric_names():
        _, parted, label = name.partition(": ")
        metric = launch.metric(name) if parted else None
        words = words_of(label)
        if metric is None or metric.quantity is None or len(words) < _FEWEST:
            continue
        report_value = ReportValue(
            label, metric.quantity, name, launch.id, None, launch.rounding(name)
        )
        found.setdefault(words, []).append(report_value)
    return found
