"""Parts of the page of a report: which runs, how much is unscored, what changed since an earlier
run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten

from evals.pages import Heading, Part, Points, Prose, Table, interval_cell
from evals.report.documents import AgainstDocument, PairDocument, RunDocument

_LINE = 200
_REASON, _REASONS = 70, 4


def run_line(run: RunDocument) -> str:
    if run.created is None:
        return f"{run.path}: scores only"
    return f"{run.path}: made {run.created} by keet {run.keet}, prompts {run.prompt_version}"


def reasons(whys: Sequence[str]) -> str:
    """By count, without details of single answers."""
    counted = Counter(shorten(why.split(";")[0], _REASON, placeholder=" …") for why in whys)
    named = [f"{count} {why}" for why, count in counted.most_common(_REASONS)]
    if rest := len(whys) - sum(count for _, count in counted.most_common(_REASONS)):
        named.append(f"{rest} for other reasons")
    return ", ".join(named)


def unscored_parts(whys: Sequence[str], total: int, what: str) -> list[Part]:
    """Comes first on a page, because an incomplete run could be mistaken for a result."""
    if not whys:
        return []
    verb = "is" if len(whys) == 1 else "are"
    words = f"{len(whys)} of {total} {what} {verb} not scored: {reasons(whys)}"
    return [Prose(words)]


def one_line(text: str) -> str:
    """The full text is in scores.jsonl and in the JSON."""
    return shorten(text, _LINE, placeholder=" …")


def against_parts(beside: AgainstDocument) -> Iterator[Part]:
    yield Heading(f"Against {beside.earlier.path}")
    yield Prose(
        f"{beside.pairs} prompts scored in both; {beside.only_here} here only, "
        f"{beside.only_earlier} there only. Change of the share of right answers:"
    )
    if beside.notes:
        yield Points(beside.notes)
    rows = [(name, interval_cell(change)) for name, change in beside.change.items()]
    yield Table([("condition", "change"), *rows])
    yield Prose(f"Regressions ({beside.rule}): {len(beside.regressions)} of {beside.pairs}")
    yield Points(list(_pair_lines(beside.regressions)))
    yield Prose(f"Gains (the other way round): {len(beside.gains)} of {beside.pairs}")
    yield Points(list(_pair_lines(beside.gains)))


def _pair_lines(pairs: Sequence[PairDocument]) -> Iterator[str]:
    for pair in pairs:
        yield f"{pair.id} ({pair.model}): {pair.before} to {pair.after}"
