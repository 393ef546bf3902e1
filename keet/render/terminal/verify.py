"""The view of `keet verify` for a terminal: sentences with numbers or comparisons, checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keet.comparison.verify_values import VerifiedText
from keet.documents.verify import RelationDocument
from keet.formatting import count_noun
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.verification.verdicts import CheckedNumber, CheckedSentence

_MARKS = {
    "contradicted": ("WRONG", "bold red"),
    "not_found": ("?", "yellow"),
    "confirmed": ("ok", "green"),
}
"""The worst first."""
_NEXT: Mapping[str, str] = {
    "contradicted": ("wrong: correct the text; keet metrics {report} PATTERN shows the values"),
    "not_found": (
        "?: name the metric and the launch next to the number; keet show {report} lists what was "
        "not collected"
    ),
}


def verify_view(
    verified: VerifiedText,
    *,
    shown: Sequence[CheckedSentence] | None = None,
    advice: Mapping[str, str] = _NEXT,
) -> Group:
    """Sentences without anything to check are left out.

    `shown`: the sentences of one page; counts are over all sentences. `advice`: what to do,
    depending on the result.
    """
    sentences = verified.sentences if shown is None else shown
    parts: list[Renderable] = [_sentence(checked) for checked in sentences if checked.verdicts]
    if parts:
        parts.append("")
    counts = Counter[str](check.verdict for check in verified.checks)
    related = Counter[str](each.verdict for each in verified.relations)
    parts.append(_summary(counts, related))
    report = verified.report.snapshot or verified.report.path
    parts += [
        Text(line.format(report=report), style="dim")
        for verdict, line in advice.items()
        if counts[verdict] or (related[verdict] and verdict == "contradicted")
    ]
    return Group(*parts)


def _sentence(checked: CheckedSentence) -> Table:
    """A mark, the sentence, and below it the remarks on its numbers."""
    mark, style = _MARKS[next(verdict for verdict in _MARKS if verdict in checked.verdicts)]
    if mark == "ok" and checked.checks:
        mark = "numbers ok"  # the rest of the sentence was not checked
    table = Table.grid(padding=(0, 1))
    table.add_column(width=10, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), _marked(checked))
    for note in _notes(checked):
        table.add_row("", Indented(note, 2, is_filled=True))
    return table


def _marked(checked: CheckedSentence) -> Text:
    """The sentence on one line, with numbers and comparisons in the colour of their verdict."""
    sentence, text, position = checked.sentence, Text(), 0
    for start, end, verdict in sorted(_spans(checked)):
        if start >= position:
            text.append(_flat(sentence.text[position:start]))
            text.append(_flat(sentence.text[start:end]), style=_MARKS[verdict][1])
            position = end
    text.append(_flat(sentence.text[position:]))
    return text


def _spans(checked: CheckedSentence) -> Iterator[tuple[int, int, str]]:
    """Positions in the sentence. A number inside a comparison gets the colour of the comparison."""
    by = checked.sentence.start
    for each in checked.relations:
        yield each.start - by, each.end - by, each.verdict
    for check in checked.checks:
        if not _belongs(check, checked.relations):
            yield check.start - by, check.end - by, check.verdict


def _belongs(check: CheckedNumber, relations: Sequence[RelationDocument]) -> bool:
    """Whether the number is part of the comparison, as in `ten times higher than`."""
    return any(each.start <= check.start < each.end for each in relations)


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _notes(checked: CheckedSentence) -> Iterator[Text]:
    numbers = [c for c in checked.checks if not _belongs(c, checked.relations)]
    remarks = [(check.text, check.verdict, check.reason) for check in numbers]
    remarks += [(each.text, each.verdict, each.reason) for each in checked.relations]
    for words, verdict, reason in remarks:
        if verdict != "confirmed":
            yield Text.assemble((_flat(words), _MARKS[verdict][1]), f": {reason}")


def _summary(numbers: Counter[str], relations: Counter[str]) -> Text:
    if not numbers and not relations:
        return Text("the text contains no number to check")
    lines = [_counted(numbers, "number", "not found")] if numbers else []
    lines += [_counted(relations, "comparison", "not checked")] if relations else []
    return Text("\n".join(lines), "bold")


def _counted(counts: Counter[str], noun: str, unknown: str) -> str:
    total = counts.total()
    words = [
        f"{counts['confirmed']:,} confirmed",
        f"{counts['contradicted']:,} contradicted",
        f"{counts['not_found']:,} {unknown}",
    ]
    return f"{count_noun(total, noun)}: {', '.join(words)}"
