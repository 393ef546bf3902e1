"""Verdicts on the numbers and comparisons of a text: confirmed, contradicted, not found."""

from __future__ import annotations

import math
from typing import NamedTuple

from keet.documents.document import live
from keet.documents.verify import ClaimVerdict, NumberCheck, RelationDocument
from keet.verification.text.numbers import TextNumber
from keet.verification.text.sentences import SentenceSpan
from keet.verification.values.report_values import ReportValue


class CheckedNumber(NumberCheck):
    """One number of the text, and the verdict on it."""

    number: TextNumber = live()
    """With positions in the whole text, after the whole sentence was checked."""
    report_value: ReportValue | None = live()
    """What it was compared with."""

    def __init__(
        self,
        number: TextNumber,
        verdict: ClaimVerdict,
        report_value: ReportValue | None,
        reason: str,
        sentence: str = "",
    ) -> None:
        value = report_value or ReportValue(None, None, None, None)  # type: ignore[arg-type]
        is_amount = number.shape is None and math.isfinite(number.value)
        super().__init__(
            text=number.text,
            start=number.start,
            end=number.end,
            value=number.value if is_amount else None,
            unit=number.unit,
            sentence=sentence,
            verdict=verdict,
            reason=reason,
            label=value.label,
            metric=value.metric,
            measured=value.quantity,
            launch=value.launch,
            line=value.line,
        )
        self.__dict__.update(number=number, report_value=report_value)

    def moved(self, by: int) -> CheckedNumber:
        number = self.number._replace(start=self.start + by, end=self.end + by)
        return CheckedNumber(number, self.verdict, self.report_value, self.reason)

    def within(self, sentence: str) -> CheckedNumber:
        return CheckedNumber(self.number, self.verdict, self.report_value, self.reason, sentence)


class CheckedSentence(NamedTuple):
    sentence: SentenceSpan
    checks: tuple[CheckedNumber, ...]
    relations: tuple[RelationDocument, ...] = ()
    is_quantified: bool = False
    """It is about several launches, which were checked together or not at all."""

    @property
    def all(self) -> list[NumberCheck | RelationDocument]:
        """Its numbers, then its comparisons."""
        return [*self.checks, *self.relations]

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        return [each.verdict for each in self.all]
