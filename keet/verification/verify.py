"""Checks the numbers of any text against a report.

`verify_text` compares it with launches; `verify_against` (`keet verify`) with one report, or with
two and what `keet diff` prints of them.

Confirmed: the metric that the clause names has this value in the launch that it is about.
Contradicted: it has another value. Not found: the text does not say what the number is, or the
report does not have it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from keet.analysis.coverage import report_document
from keet.catalog import metric_named, metrics
from keet.documents.document import live
from keet.documents.verify import RelationSummary, VerifyDocument, VerifySummary
from keet.evidence import Sentence, constant
from keet.profile import Launch, Profile
from keet.profile.launch import file_name
from keet.progress import counted
from keet.verification.claims import (
    Claim,
    capacity,
    find_claims,
    names_tightly,
    with_capacity_units,
)
from keet.verification.launch_values import ComputedValues, LaunchValues, forecast_values
from keet.verification.metric_names import (
    NCU_NAME,
    ROOFLINE,
    STALL_SHARE,
    TIME_SHARE,
    Term,
    terms_in,
    words_of,
)
from keet.verification.named_values import (
    ComputedValue,
    SentenceWords,
    check_ratio,
    computed,
    content_words,
    explain_mistake,
    same_value,
    values_in_texts,
    values_of_evidence,
    with_factors,
    with_shares,
    without_unknown_sides,
)
from keet.verification.numbers import TextNumber, find_numbers, spelled_numbers
from keet.verification.relation_check import RelationChecker, clause_of, is_hypothetical, qualified
from keet.verification.report_values import ReportValue, ReportValues, with_sum
from keet.verification.run_check import with_run_checks
from keet.verification.scope_check import (
    NO_SUCH_LAUNCH,
    NOT_CHECKED,
    ScopeChecker,
    check_shape,
    not_of_each,
    of_same_launch,
    relations_in_scope,
    unchecked_sentence,
)
from keet.verification.sentences import (
    SentenceSpan,
    split_sentences,
    without_asides,
    without_citations,
    without_quotes,
)
from keet.verification.subjects import LaunchLookup, find_places, places_within, wordlike_files
from keet.verification.topics import CurrentTopic, ScopeTracker
from keet.verification.verdicts import (
    VERDICTS,
    CheckedNumber,
    CheckedSentence,
    agrees_with_report,
    confirmed,
    fits,
    not_found,
)

if TYPE_CHECKING:
    from keet.comparison.causes.attribution import Attribution
    from keet.comparison.result import Difference
    from keet.explanation.analyst import OnLaunch


_NO_WHOLE = (
    *("time", "sample", "warp sample", "stall"),
    *("these", "those", "them", "that", "this", "it"),
)
"""Words after `of` that are not a column of a source line, so the name in the clause decides."""
_OF_LINES = ("samples", "src_", "inst_executed", "global_", "duration", TIME_SHARE, STALL_SHARE)
_SHARE_OF = re.compile(r"\s*of\s+(?:(?:the|all|its)\s+)?(\w+(?:\s\w+)?)")


_OTHERS = content_words("others")
"""The only word of a row of the program view of `keet explain`: the sum of the smaller rows."""
_UNCLEAR = "it is not clear which metric the text means"
_MOST_NUMBERS = 64
"""Numbers per sentence: the time to check each grows with their count."""
_TOO_MANY = Sentence(
    "not checked: more than {most} numbers in one sentence; split it",
    most=constant(_MOST_NUMBERS, "", "numbers"),
)


def verify_text(  # noqa: PLR0913
    text: str,
    launches: Sequence[Launch],
    everything: Sequence[Launch] | None = None,
    known: ComputedValues | None = None,
    *,
    both_sides: bool = False,
    before_sentence: Callable[[], None] | None = None,
) -> list[CheckedSentence]:
    """Check every number of `text` against the launches, sentence by sentence.

    `everything`: all launches of the report (or of both reports), if `launches` is a selection;
    used to say that a wrong number belongs to a launch that was not selected. `known`: numbers that
    keet itself computes. `both_sides`: both sides that the text compares are given, so a number
    before or after an arrow can be wrong. `before_sentence`: called before each sentence; may raise
    to stop.
    """
    plain = without_citations(text)
    verifier = _Verifier(plain, launches, everything or launches, known or ComputedValues())
    checked_sentences: list[CheckedSentence] = []
    for sentence in verifier.sentences():
        if before_sentence is not None:
            before_sentence()
        written = SentenceSpan(text[sentence.start : sentence.end], sentence.start)
        checked = verifier.sentence(sentence)._replace(sentence=written)
        if checked_sentences and verifier.refers_back:
            checked_sentences[-1] = unchecked_sentence(checked_sentences[-1])
        checked_sentences.append(checked if both_sides else without_unknown_sides(checked))
    return checked_sentences


class _Verifier:
    def __init__(
        self,
        text: str,
        launches: Sequence[Launch],
        everything: Sequence[Launch],
        known: ComputedValues,
    ) -> None:
        self._text = text
        self._launches = tuple(launches)
        self._everything = LaunchLookup(everything)
        self._computed = known
        self._facts = ReportValues(self._everything, self._metric_ids_asked)
        self._relations = RelationChecker(self._facts, known.facts_of)
        self._printed = _ExportLabels()
        self._files = wordlike_files(text, self._everything.of_each_kernel)
        self._places = find_places(text, self._files)
        self._unquoted = without_quotes(text, self._everything.of_each_kernel, self._places)
        plain = without_asides(self._unquoted)
        written = find_numbers(self._without_files(plain), self._everything.names)
        self._numbers = sorted([*written, *spelled_numbers(plain)], key=lambda number: number.start)
        self._topics = CurrentTopic(text, self._everything)
        self._scopes = ScopeTracker(self._unquoted, self._everything, self._launches)

    def sentences(self) -> Iterator[SentenceSpan]:
        """Split without quoted code: a semicolon there does not end a sentence."""
        for sentence in split_sentences(self._unquoted):
            yield SentenceSpan(self._text[sentence.start : sentence.end], sentence.start)

    def _metric_ids_asked(self) -> Iterator[str]:
        """Metrics that the text names."""
        for sentence in self.sentences():
            yield from (id_ for term in terms_in(sentence.text) for id_ in term.metric_ids)
        yield "duration"

    def sentence(self, sentence: SentenceSpan) -> CheckedSentence:
        self._topics.enter(sentence)
        here = [number.moved(-sentence.start) for number in self._numbers_of(sentence)]
        here = with_capacity_units(sentence.text, here)
        here, left = here[:_MOST_NUMBERS], here[_MOST_NUMBERS:]
        places = places_within(self._places, sentence.start, sentence.end)
        self._topics.rows(sentence, places)
        claims = find_claims(sentence, here, self._everything, places, self._topics.place)
        self._words = SentenceWords(sentence.text, here)
        scope = self._scopes.scope_of(sentence, here, self._topics)
        if scope is not None and scope.quantifiers and self._computed.quotes(sentence.text):
            scope = None
            self._scopes.forget()
        plain = [claim for claim in claims if scope is None or not scope.governs(claim.number)]
        checks = [self._check(claim, claims) for claim in plain]
        second = self._everything.of_second_report
        checks = of_same_launch(checks, plain, self._subjects, self._readings_of, second)
        checks = with_shares(checks, sentence.text)
        if scope is not None:
            governed = [claim for claim in claims if scope.governs(claim.number)]
            over_scope = ScopeChecker(scope, governed, self._readings_of).checks()
            if self._words.besides_numbers == _OTHERS:
                over_scope = list(map(self._or_computed, governed, over_scope))
            checks = sorted([*checks, *over_scope], key=lambda check: check.number.start)
        checks += [not_found(number, _TOO_MANY) for number in left]
        related = self._relations.check(sentence, claims, self._spoken_of)
        open_topics = (None, "limiter")  # others that no fact decides are left out
        related = [r for r in related if r.verdict != "not_found" or r.topic in open_topics]
        is_wrong = any(r.topic and r.verdict == "contradicted" for r in related)
        if is_wrong and self._computed.quotes(sentence.text):
            related = [r for r in related if not r.topic]
        if scope is None:
            checks, related = with_factors(checks, related)
        else:
            related = relations_in_scope(related, scope)
        self._topics.leave(sentence)
        by = sentence.start
        return CheckedSentence(
            sentence,
            tuple(check.moved(by) for check in checks),
            tuple(replace(each, start=each.start + by, end=each.end + by) for each in related),
            scope is not None,
        )

    @property
    def refers_back(self) -> bool:
        """Whether the last sentence quantifies the one before it."""
        return self._scopes.refers_back

    def _without_files(self, text: str) -> str:
        """`cmath:31` is a source line, not a number."""
        for name in self._files:
            text = re.sub(rf"\b{name}:\d+", lambda match: "_" * len(match[0]), text)
        return text

    def _numbers_of(self, sentence: SentenceSpan) -> Sequence[TextNumber]:
        first = bisect_left(self._numbers, sentence.start, key=lambda number: number.start)
        last = bisect_left(self._numbers, sentence.end, key=lambda number: number.start)
        return self._numbers[first:last]

    def _subjects(self, claim: Claim) -> tuple[Launch, ...]:
        """The launches that a claim is about; all selected ones if it names none."""
        return claim.subject.launches if claim.subject else self._spoken_of

    def _named(self, claim: Claim) -> tuple[Launch, ...] | None:
        """The launches that the sentence names for the number, before or after it."""
        if claim.subject:
            return claim.subject.launches
        names = self._everything.named_in(claim.sentence.text)
        return tuple(launch for name in names for launch in name.launches) or None

    @property
    def _spoken_of(self) -> tuple[Launch, ...]:
        return self._topics.launches or self._launches

    def _check(self, claim: Claim, claims: Sequence[Claim]) -> CheckedNumber:
        """By the metric names in the text, then by what keet computes."""
        if claim.subject and not claim.subject.launches:
            return not_found(claim.number, NO_SUCH_LAUNCH)
        if claim.number.shape:
            return check_shape(claim, self._subjects(claim))
        if said := capacity(claim.sentence.text, claim.number):
            return CheckedNumber(claim.number, "confirmed", None, said)
        check = self._by_names(claim, claims)
        refused = check.reason.startswith(NOT_CHECKED)
        if refused and not self._computed.quotes(claim.sentence.text):
            return check
        return self._or_computed(claim, check)

    def _or_computed(self, claim: Claim, check: CheckedNumber) -> CheckedNumber:
        if check.verdict == "confirmed" or self._computed.is_empty:
            return check
        around = self._words.around(claim.number, self._topics.rows_of(claim))
        # Below the title of a source line, the text is keet's own output, with short labels.
        exact = check.verdict == "contradicted" and names_tightly(claim)
        exact = exact and self._topics.place is None
        value = self._computed.find(
            claim.number, around, self._subjects(claim), self._named(claim), exact=exact
        )
        return check if value is None else confirmed(claim.number, value)

    def _by_names(  # noqa: PLR0911
        self, claim: Claim, claims: Sequence[Claim]
    ) -> CheckedNumber:
        number = claim.number
        if (ratio := check_ratio(claim, self._facts, self._spoken_of)) is not None:
            return ratio
        printed = self._printed.find(claim, self._subjects(claim))
        values = [*printed, *self._readings(claim, self._subjects(claim))]
        fitting = [value for value in values if agrees_with_report(number, value)]
        if partly := not_of_each(claim, values):
            return partly
        if fitting and not (number.bound and is_hypothetical(claim)):
            return _fits_one(claim, values[0], fitting)
        if printed:
            text = "{value}; this label does not identify a single metric"
            return not_found(number, Sentence(text, value=str(printed[0])))
        if not values:
            return self._wrong_unit(claim) or self._nothing(claim)
        # Contradicted only if the text surely means the measured value.
        if is_hypothetical(claim):
            return not_found(number, "the text states a possibility, not a measurement")
        if not claim.firm and claim.place is None:
            return not_found(number, Sentence("; ").join([_UNCLEAR, str(values[0])]))
        why = explain_mistake(claim, claims, values, self._facts)
        return CheckedNumber(number, "contradicted", values[0], why)

    def _readings_of(self, claim: Claim, launch: Launch) -> list[ReportValue]:
        return [*self._printed.find(claim, [launch]), *self._readings(claim, [launch])]

    def _readings(self, claim: Claim, launches: Sequence[Launch]) -> Iterator[ReportValue]:
        """Values that the claim's name may mean, in matching units, the likeliest first."""
        ids = qualified(claim.term.metric_ids if claim.term else (), clause_of(claim))
        if claim.number.unit == "ns" and not (ids or claim.place or claim.misfit):
            ids = ("duration",)  # a time without a name is most likely the duration
        missing = claim.term is not None and claim.term.entry.complement
        for launch in counted(launches, "reading launches"):
            values = self._of_line(claim, ids, launch)
            if values is None and ids:
                values = with_sum(self._facts.read(ids, launch, complement=missing))
            for value in values or ():
                if fits(claim.number, value.quantity.unit, lenient=True):
                    yield value

    def _of_line(
        self, claim: Claim, ids: Sequence[str], launch: Launch
    ) -> list[ReportValue] | None:
        """Values of a source line if the claim is about one; `None` if it is not."""
        place, number = claim.place, claim.number
        if place is None or not number.unit:
            return None
        of = _SHARE_OF.match(claim.sentence.text, number.end)
        if number.unit == "%" and of and not of[1].startswith(_NO_WHOLE):
            return self._facts.read_share(" ".join(of[1].split()), launch, place)
        # Source lines have samples, stalls, sectors, or just a share.
        of_lines = not ids or any(id_.startswith(_OF_LINES) for id_ in ids)
        return self._facts.read_line(ids, launch, place) if of_lines else None

    def _wrong_unit(self, claim: Claim) -> CheckedNumber | None:
        """Contradicted if the metric named right before the number never has its unit."""
        term = claim.misfit
        if term is None or is_hypothetical(claim):
            return None
        value = next(self._facts.read_each(term.metric_ids, self._subjects(claim)), None)
        if value is None:
            return None
        text = "{value}, in another unit than {said}"
        reason = Sentence(text, value=str(value), said=claim.number.text)
        return CheckedNumber(claim.number, "contradicted", value, reason)

    def _nothing(self, claim: Claim) -> CheckedNumber:
        number, term = claim.number, claim.term or claim.misfit
        if term is None:
            alike = same_value(number, self._facts, self._subjects(claim))
            hint = f"; {alike.label} has this value" if alike else ""
            reason = f"the text does not say which metric this is{hint}"
        elif (name := term.metric_ids[0]).startswith(NCU_NAME) and not self._has(name):
            reason = f"there is no metric {name.removeprefix(NCU_NAME)}"
            return CheckedNumber(number, "contradicted", None, reason)
        elif "samples_total" in term.metric_ids and number.unit == "%":
            reason = "the text does not say which source line or stall this is the share of"
        else:
            reason = f"the report has no {_label(term)}"
        return not_found(number, reason)

    def _has(self, name: str) -> bool:
        name = name.removeprefix(NCU_NAME)
        known = metric_named(name) is not None
        return known or any(launch.metric(name) for launch in self._everything)


def _fits_one(
    claim: Claim, likeliest: ReportValue, fitting: Sequence[ReportValue]
) -> CheckedNumber:
    """`L1 is under 10 %` must be true for L1, not just for one of its stages."""
    part = claim.term is not None and claim.term.entry.part
    if part and claim.number.bound == "below" and likeliest.label not in {r.label for r in fitting}:
        reason = Sentence("; ").join([_UNCLEAR, str(likeliest), str(fitting[0])])
        return not_found(claim.number, reason)
    return confirmed(claim.number, fitting[0])


def _label(term: Term) -> str:
    first = term.metric_ids[0]
    if spec := metrics().get(first):
        return spec.label
    name = first.split(":")[-1].replace("_", " ")
    return f"{name} roofline" if first.startswith(ROOFLINE) else name


_REACH = 100
"""Characters before a number in which its label is searched."""
_LINKS = frozenset(
    words_of("is was are were of at only about reaches reached equals stands to has")
)
_FEWEST_LABEL_WORDS = 2
"""Words of a label, at least: one may be an ordinary word."""


class _ExportLabels:
    """Values of an export under labels that do not identify a single metric (`SECTION: LABEL`).

    A text with such a label means the printed number: it is confirmed if it has that value, and
    never contradicted by a related metric.
    """

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
        if term and (values := labels.get(words_of(text[term.start : term.end]))):
            return values
        words = list(words_of(text[max(0, number.start - _REACH) : number.start]))
        while words and words[-1] in _LINKS:
            words.pop()
        tails = (tuple(words[first:]) for first in range(len(words)))
        return next((labels[tail] for tail in tails if tail in labels), ())


def _labels(launch: Launch) -> Mapping[tuple[str, ...], list[ReportValue]]:
    labels: dict[tuple[str, ...], list[ReportValue]] = {}
    for name in launch.metric_names():
        _, parted, label = name.partition(": ")
        metric = launch.metric(name) if parted else None
        words = words_of(label)
        if metric and metric.quantity is not None and len(words) >= _FEWEST_LABEL_WORDS:
            rounding = launch.rounding(name)
            value = ReportValue(label, metric.quantity, name, launch.id, None, rounding)
            labels.setdefault(words, []).append(value)
    return labels


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
            **{verdict: counts[verdict] for verdict in VERDICTS},
            relations=RelationSummary(**{verdict: related[verdict] for verdict in VERDICTS}),
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
    from keet.comparison.same_kernel import Side, SideCapture

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
