"""The page of `keet verify`: sentences with numbers or comparisons, checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keet.documents.verify import RelationDocument
from keet.formatting import count_noun
from keet.pages.blocks import Block, Gap, Item, Items, Page, Span, Text, Words
from keet.verification.verdicts import CheckedNumber, CheckedSentence
from keet.verification.verify import VerifiedText, is_unchecked

_MARKS = {
    "contradicted": ("WRONG", "strong bad"),
    "not_found": ("?", "warn"),
    "confirmed": ("ok", "good"),
}
"""The worst first."""
_NEXT: Mapping[str, str] = {
    "contradicted": "wrong: correct the text; keet metrics {report} PATTERN shows the values",
    "not_found": (
        "?: name the metric and the launch next to the number; keet show {report} lists what was "
        "not collected"
    ),
}
_UNCHECKED = "not checked"
_MARK_WIDTH = len(_UNCHECKED)


def verify_page(
    verified: VerifiedText,
    *,
    shown: Sequence[CheckedSentence] | None = None,
    advice: Mapping[str, str] = _NEXT,
) -> Page:
    """`shown`: the sentences of one page; counts are over all sentences. `advice`: what to do,
    depending on the result.
    """
    sentences = verified.sentences if shown is None else shown
    items = [item for checked in sentences for item in _sentence(checked)]
    blocks: list[Block] = []
    if items:
        blocks += [Items(items, label_width=_MARK_WIDTH), Gap()]
    numbers = Counter[str](check.verdict for check in verified.checks)
    relations = Counter[str](relation.verdict for relation in verified.relations)
    if not numbers and not relations:
        blocks.append(Text("the text contains no number to check"))
    if numbers:
        blocks.append(Text(_counted(numbers, "number", "not found"), "strong"))
    if relations:
        blocks.append(Text(_counted(relations, "comparison", "not checked"), "strong"))
    if left := len(verified.not_checked):
        blocks.append(Text(f"{count_noun(left, 'sentence')} not checked", "muted"))
    report = verified.report.snapshot or verified.report.path
    blocks += [
        Text(line.format(report=report), "muted")
        for verdict, line in advice.items()
        if numbers[verdict] or (relations[verdict] and verdict == "contradicted")
    ]
    return Page(blocks)


def _sentence(checked: CheckedSentence) -> Iterator[Item]:
    """A mark and the sentence, and below it the remarks on its numbers."""
    if is_unchecked(checked):
        yield Item(Span(_flat(checked.sentence.text), "muted"), Span(_UNCHECKED, "muted"))
    if not checked.verdicts:
        return
    mark, look = _MARKS[next(verdict for verdict in _MARKS if verdict in checked.verdicts)]
    if mark == "ok" and checked.checks:
        mark = "numbers ok"  # the rest of the sentence was not checked
    # A number inside a comparison, as in `ten times higher than`, is judged with the comparison.
    alone = [
        check
        for check in checked.checks
        if not any(relation.start <= check.start < relation.end for relation in checked.relations)
    ]
    verdicts: list[CheckedNumber | RelationDocument] = [*alone, *checked.relations]
    begin, text, position = checked.sentence.start, checked.sentence.text, 0
    words: list[Words] = []
    for start, end, verdict in sorted(
        (e.start - begin, e.end - begin, e.verdict) for e in verdicts
    ):
        if start >= position:
            words.append(_flat(text[position:start]))
            words.append(Span(_flat(text[start:end]), _MARKS[verdict][1]))
            position = end
    yield Item((*words, _flat(text[position:])), Span(mark, look))
    for each in verdicts:
        if each.verdict != "confirmed":
            name = Span(_flat(each.text), _MARKS[each.verdict][1])
            yield Item((name, f": {each.reason}"), depth=1)


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _counted(counts: Counter[str], noun: str, unknown: str) -> str:
    confirmed, contradicted = counts["confirmed"], counts["contradicted"]
    return (
        f"{count_noun(counts.total(), noun)}: {confirmed:,} confirmed, {contradicted:,} "
        f"contradicted, {counts['not_found']:,} {unknown}"
    )
