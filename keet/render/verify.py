"""`keet verify` on a terminal: the sentences that hold numbers, and what is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keet.profile import Profile
from keet.verification.checked import Check, CheckedSentence, Verdict

_MARKS = {
    Verdict.CONFIRMED: ("ok", "green"),
    Verdict.CONTRADICTED: ("WRONG", "bold red"),
    Verdict.NOT_FOUND: ("?", "yellow"),
}
_WORST = (Verdict.CONTRADICTED, Verdict.NOT_FOUND, Verdict.CONFIRMED)
_NEXT = {
    Verdict.CONTRADICTED: "wrong: correct the text; keet metrics {report} PATTERN has the values",
    Verdict.NOT_FOUND: (
        "?: name the metric, and the launch, beside the number; keet show {report} says what was "
        "not collected"
    ),
}


def verify_view(profile: Profile, found: Sequence[CheckedSentence]) -> Group:
    """Sentences without numbers are left out: there is nothing to check in them."""
    with_numbers = [checked for checked in found if checked.checks]
    parts: list[RenderableType] = [_sentence(checked) for checked in with_numbers]
    if parts:
        parts.append("")
    counts = Counter(check.verdict for checked in found for check in checked.checks)
    parts.append(_summary(counts))
    report = profile.provenance.snapshot or profile.provenance.path
    parts += [
        Text(line.format(report=report), style="dim")
        for verdict, line in _NEXT.items()
        if counts[verdict]
    ]
    return Group(*parts)


def _sentence(checked: CheckedSentence) -> Table:
    """A mark, and beside it the sentence with what is to be said of its numbers below."""
    verdicts = {check.verdict for check in checked.checks}
    mark, style = _MARKS[next(verdict for verdict in _WORST if verdict in verdicts)]
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=5, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), _marked(checked))
    for note in _notes(checked.checks):
        table.add_row("", Padding(note, (0, 0, 0, 2)))
    return table


def _marked(checked: CheckedSentence) -> Text:
    """The sentence on one line, its numbers in the colour of their verdict."""
    sentence, text, position = checked.sentence, Text(), 0
    for check in sorted(checked.checks, key=lambda check: check.number.start):
        start, end = check.number.start - sentence.start, check.number.end - sentence.start
        text.append(_flat(sentence.text[position:start]))
        text.append(_flat(sentence.text[start:end]), style=_MARKS[check.verdict][1])
        position = end
    text.append(_flat(sentence.text[position:]))
    return text


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _notes(checks: Sequence[Check]) -> Iterator[Text]:
    for check in checks:
        if check.verdict is not Verdict.CONFIRMED:
            style = _MARKS[check.verdict][1]
            yield Text.assemble((_flat(check.number.text), style), f": {check.reason}")


def _summary(counts: Counter[Verdict]) -> Text:
    total = sum(counts.values())
    if not total:
        return Text("the text holds no number to check")
    words = [
        f"{counts[Verdict.CONFIRMED]:,} confirmed",
        f"{counts[Verdict.CONTRADICTED]:,} contradicted",
        f"{counts[Verdict.NOT_FOUND]:,} not found",
    ]
    return Text(f"{total:,} {'number' if total == 1 else 'numbers'}: {', '.join(words)}", "bold")
