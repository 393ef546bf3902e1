"""The view of `keet verify` for a terminal: sentences with numbers or comparisons, checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keet.formatting import count_noun
from keet.profile import Profile
from keet.render.terminal.layout import Group, Indented, Renderable, Table, Text
from keet.verification.verdicts import CheckedNumber, CheckedSentence, ClaimVerdict, RelationCheck

_MARKS = {
    ClaimVerdict.CONFIRMED: ("ok", "green"),
    ClaimVerdict.CONTRADICTED: ("WRONG", "bold red"),
    ClaimVerdict.NOT_FOUND: ("?", "yellow"),
}
_WORST = (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_FOUND, ClaimVerdict.CONFIRMED)
_NEXT: Mapping[ClaimVerdict, str] = {
    ClaimVerdict.CONTRADICTED: (
        "wrong: correct the text; keet metrics {report} PATTERN shows the values"
    ),
    ClaimVerdict.NOT_FOUND: (
        "?: name the metric and the launch next to the number; keet show {report} lists what was "
        "not collected"
    ),
}


def verify_view(
    profile: Profile,
    found: Sequence[CheckedSentence],
    *,
    shown: Sequence[CheckedSentence] | None = None,
    advice: Mapping[ClaimVerdict, str] = _NEXT,
) -> Group:
    """Sentences without anything to check are left out.

    `shown`: the sentences of one page; counts are over all sentences. `advice`: what to do,
    depending on the result.
    """
    sentences = found if shown is None else shown
    parts: list[Renderable] = [_sentence(checked) for checked in sentences if checked.verdicts]
    if parts:
        parts.append("")
    counts = Counter(check.verdict for checked in found for check in checked.checks)
    related = Counter(each.verdict for checked in found for each in checked.relations)
    parts.append(_summary(counts, related))
    report = profile.provenance.file
    parts += [
        Text(line.format(report=report), style="dim")
        for verdict, line in advice.items()
        if counts[verdict] or (related[verdict] and verdict is ClaimVerdict.CONTRADICTED)
    ]
    return Group(*parts)


def _sentence(checked: CheckedSentence) -> Table:
    """A mark, the sentence, and below it the remarks on its numbers."""
    mark, style = _MARKS[next(verdict for verdict in _WORST if verdict in checked.verdicts)]
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


def _spans(checked: CheckedSentence) -> Iterator[tuple[int, int, ClaimVerdict]]:
    """Positions in the sentence. A number inside a comparison gets the colour of the comparison."""
    by = checked.sentence.start
    for each in checked.relations:
        yield each.start - by, each.end - by, each.verdict
    for check in checked.checks:
        if not _belongs(check, checked.relations):
            yield check.number.start - by, check.number.end - by, check.verdict


def _belongs(check: CheckedNumber, relations: Sequence[RelationCheck]) -> bool:
    """Whether the number is part of the comparison, as in `ten times higher than`."""
    return any(each.start <= check.number.start < each.end for each in relations)


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _notes(checked: CheckedSentence) -> Iterator[Text]:
    numbers = [c for c in checked.checks if not _belongs(c, checked.relations)]
    remarks = [(check.number.text, check.verdict, check.reason) for check in numbers]
    remarks += [(each.text, each.verdict, each.reason) for each in checked.relations]
    for words, verdict, reason in remarks:
        if verdict is not ClaimVerdict.CONFIRMED:
            yield Text.assemble((_flat(words), _MARKS[verdict][1]), f": {reason}")


def _summary(numbers: Counter[ClaimVerdict], relations: Counter[ClaimVerdict]) -> Text:
    if not numbers and not relations:
        return Text("the text contains no number to check")
    lines = [_counted(numbers, "number", "not found")] if numbers else []
    lines += [_counted(relations, "comparison", "not checked")] if relations else []
    return Text("\n".join(lines), "bold")


def _counted(counts: Counter[ClaimVerdict], noun: str, unknown: str) -> str:
    total = counts.total()
    words = [
        f"{counts[ClaimVerdict.CONFIRMED]:,} confirmed",
        f"{counts[ClaimVerdict.CONTRADICTED]:,} contradicted",
        f"{counts[ClaimVerdict.NOT_FOUND]:,} {unknown}",
    ]
    return f"{count_noun(total, noun)}: {', '.join(words)}"
