"""`keet verify`: a text against one report, or against two and what `keet diff` prints of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from keet.analysis.capture.report_document import report_document
from keet.documents.document import live
from keet.documents.verify import RelationSummary, VerifyDocument, VerifySummary
from keet.profile import Launch, Profile
from keet.profile.names import file_name
from keet.verification.launch_values import ComputedValues, LaunchValues, forecast_values
from keet.verification.named_values import (
    ComputedValue,
    computed,
    content_words,
    values_in_texts,
    values_of_evidence,
)
from keet.verification.run_check import with_run_checks
from keet.verification.verdicts import CheckedSentence
from keet.verification.verify import verify_text

if TYPE_CHECKING:
    from keet.comparison.causes.attribution import Attribution
    from keet.comparison.result import Difference
    from keet.explanation.analyst import OnLaunch

_COVERED = 0.5
"""Share of the words of an item that must be present: a table may wrap it."""


class VerifiedText(VerifyDocument):
    sentences: Sequence[CheckedSentence] = live()
    """All of them, also those without a number."""

    @property
    def is_wrong(self) -> bool:
        return bool(self.summary.contradicted or self.summary.relations.contradicted)


def verify_against(  # noqa: PLR0913
    profiles: Sequence[Profile],
    text: str,
    launches: Sequence[Launch],
    *,
    name: str = "text",
    on_launch: OnLaunch = lambda *_: None,
    before_sentence: Callable[[], None] | None = None,
) -> VerifiedText:
    """`profiles`: one report, or the two that the text compares. `launches`: those that it may be
    about. `name`: of the text's file."""
    both_sides = len(profiles) > 1
    sentences = verify_text(
        text,
        launches,
        [launch for profile in profiles for launch in profile.launches],
        computed_values(profiles, on_launch=on_launch),
        both_sides=both_sides,
        before_sentence=before_sentence,
    )
    for profile in profiles:
        sentences = with_run_checks(sentences, profile) if profile.run else sentences
    checks = [check.within(each.sentence.text) for each in sentences for check in each.checks]
    relations = [
        replace(r, sentence=each.sentence.text) for each in sentences for r in each.relations
    ]
    counts, related = (Counter(each.verdict for each in some) for some in (checks, relations))
    return VerifiedText(
        report=report_document(profiles[-1]),
        before=report_document(profiles[0]) if both_sides else None,
        text=name,
        summary=VerifySummary(
            numbers=len(checks),
            confirmed=counts["confirmed"],
            contradicted=counts["contradicted"],
            not_found=counts["not_found"],
            relations=RelationSummary(
                confirmed=related["confirmed"],
                contradicted=related["contradicted"],
                not_found=related["not_found"],
            ),
        ),
        checks=checks,
        relations=relations,
        not_checked=[each.sentence.text for each in sentences if is_unchecked(each)],
        sentences=sentences,
    )


def is_unchecked(sentence: CheckedSentence) -> bool:
    """Nothing in it was checked. Headings, and lines without words, are no sentences."""
    text = sentence.sentence.text
    is_sentence = any(map(str.isalpha, text)) and not text.lstrip().startswith("#")
    return is_sentence and not sentence.verdicts


def computed_values(
    profiles: Sequence[Profile],
    difference: Difference | None = None,
    on_launch: OnLaunch = lambda *_: None,
) -> ComputedValues:
    """What keet computes for one report, or for two (BEFORE, AFTER) and their difference."""

    @cache
    def compared() -> Difference | None:
        return difference or (_difference(profiles) if len(profiles) > 1 else None)

    def general() -> Iterator[ComputedValue]:
        if comparison := compared():
            yield from difference_values(comparison)

    def sentences() -> Iterator[str]:
        if comparison := compared():
            from keet.comparison.sentences import texts_of

            yield from texts_of(comparison)

    return ComputedValues([LaunchValues(p, on_launch) for p in profiles], general, sentences)


def _difference(profiles: Sequence[Profile]) -> Difference:
    from keet.comparison.compare import compare
    from keet.comparison.sides import Side, SideCapture

    before, after = (Side((SideCapture(profile, profile.launches),)) for profile in profiles)
    return compare(before, after, guess=True)


def difference_values(difference: Difference) -> Iterator[ComputedValue]:
    """Sentences and items of `keet diff`."""
    from keet.comparison.sentences import texts_of

    yield from values_in_texts(texts_of(difference), list(difference.evidence.values()))
    for pair in difference.pairs:
        for each in pair.attribution:
            yield from _of_attribution(each)
        # The row of a kernel, in which a long name is cut.
        words = pair.kernel.partition("<")[0]
        pieces = [pair.time.before, pair.time.after] if pair.time else []
        pieces += [pair.measured.factor] if pair.measured else []
        rows = [(piece.label, piece.value, piece.unit or "x") for piece in pieces]
        rows.append(("noise of the times", 100 * pair.verdict.noise, "%"))
        yield from (computed(*row, words, "sentence", covered=_COVERED) for row in rows)
    if step := difference.next:
        if share := step.share:
            label, words = "of the time after, saved by the next step", "saves total time after"
            yield computed(label, share.value, share.unit, words, "sentence")
        yield from forecast_values(step.cause) if step.cause else ()
    yield from values_of_evidence(difference.evidence.values())


def _of_attribution(each: Attribution) -> Iterator[ComputedValue]:
    """Its share of the time saved or lost; and the times of the line that it names."""
    if each.percent is not None:
        label = f"share of the difference: {each.percent.label}"
        for words in {content_words(each.what), content_words(each.what.partition(";")[0])}:
            quantity = each.percent.quantity
            yield ComputedValue(label, quantity, words, "sentence", None, _COVERED)
    rows = {(file_name(place.file), place.line) for place in (each.before, each.after) if place}
    for piece, row in product(each.numbers, rows):
        yield computed(piece.label, piece.value, piece.unit, "", "sentence", row)
