"""`keet verify`: a text against one report, or against two and what `keet diff` prints of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from keet.analysis.capture.report_document import report_document
from keet.documents.document import live
from keet.documents.verify import RelationSummary, VerifyDocument, VerifySummary
from keet.profile import Launch, Profile
from keet.profile.names import file_name
from keet.units import Quantity
from keet.verification.launch_values import LaunchValues
from keet.verification.named_values import (
    ComputedValue,
    ComputedValues,
    content_words,
    values_in_texts,
    values_of_evidence,
)
from keet.verification.verdicts import CheckedSentence

if TYPE_CHECKING:
    from keet.comparison.causes.attribution import Attribution
    from keet.comparison.result import Difference, PairDifference
    from keet.explanation.analyst import OnLaunch
    from keet.explanation.known_facts import KnownFact

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
    from keet.verification.run_check import with_run_checks
    from keet.verification.verify import verify_text

    both_sides = len(profiles) > 1
    found = verify_text(
        text,
        launches,
        [launch for profile in profiles for launch in profile.launches],
        computed_values(profiles, on_launch=on_launch),
        both_sides=both_sides,
        before_sentence=before_sentence,
    )
    for profile in profiles:
        found = with_run_checks(found, profile) if profile.run else found
    checks = [check.within(each.sentence.text) for each in found for check in each.checks]
    relations = [replace(r, sentence=each.sentence.text) for each in found for r in each.relations]
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
        not_checked=[each.sentence.text for each in found if is_unchecked(each)],
        sentences=found,
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
    computed = [LaunchValues(each, on_launch) for each in profiles]
    sources = [source for each in computed for source in each.sources]

    @cache
    def compared() -> Difference | None:
        return difference or (_difference(profiles) if len(profiles) > 1 else None)

    def general() -> Iterator[ComputedValue]:
        for each in computed:
            yield from each.program()
        if found := compared():
            yield from difference_values(found)

    def sentences() -> Iterator[str]:
        for each in computed:
            yield from each.sentences()
        if found := compared():
            from keet.comparison.sentences import texts_of

            yield from texts_of(found)

    def of_view(launches: Sequence[Launch]) -> list[Launch]:
        return [launch for each in computed for launch in each.of_view(launches)]

    def facts_of(launch: Launch) -> Sequence[KnownFact]:
        return next((each.facts(launch) for each in computed if each.has(launch)), ())

    return ComputedValues(sources, general, of_view, sentences, facts_of)


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
            yield from _share(each)
            yield from _times(each)
        yield from _pair(pair)
    yield from _next_step(difference)
    yield from values_of_evidence(difference.evidence.values())


def _pair(pair: PairDifference) -> Iterator[ComputedValue]:
    """The row of a kernel, in which a long name is cut."""
    words = content_words(pair.kernel.partition("<")[0])
    pieces = [pair.time.before, pair.time.after] if pair.time else []
    pieces += [pair.measured.factor] if pair.measured else []
    for piece in pieces:
        quantity = Quantity(piece.value, piece.unit or "x")
        yield ComputedValue(piece.label, quantity, words, "sentence", None, _COVERED)
    noise = Quantity(100 * pair.verdict.noise, "%")
    yield ComputedValue("noise of the times", noise, words, "sentence", None, _COVERED)


def _share(each: Attribution) -> Iterator[ComputedValue]:
    """Shares of the time saved or lost."""
    if each.percent is None:
        return
    quantity = Quantity(each.percent.value, each.percent.unit)
    label = f"share of the difference: {each.percent.label}"
    for words in {content_words(each.what), content_words(each.what.partition(";")[0])}:
        yield ComputedValue(label, quantity, words, "sentence", None, _COVERED)


def _times(each: Attribution) -> Iterator[ComputedValue]:
    """Times of the line that an item names, before and after."""
    rows = {(file_name(place.file), place.line) for place in (each.before, each.after) if place}
    for piece in each.numbers:
        quantity = Quantity(piece.value, piece.unit)
        yield from (
            ComputedValue(piece.label, quantity, frozenset(), "sentence", row) for row in rows
        )


def _next_step(difference: Difference) -> Iterator[ComputedValue]:
    step = difference.next
    if step is None:
        return
    if step.share:
        share = Quantity(step.share.value, step.share.unit)
        yield ComputedValue("of the time after, saved by the next step", share, _TOTAL, "sentence")
    if cause := step.cause:
        for factor in cause.forecast:
            words = content_words(cause.title)
            label = f"forecast for {cause.label}"
            yield ComputedValue(label, Quantity(factor, "x"), words, "sentence")


_TOTAL = content_words("saves total time after")
