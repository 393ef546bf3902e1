"""Where the time of a launch goes, and how busy its units are, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.explanation.account_rows import AccountRow, account_rows, leading_text, time_text
from keet.explanation.explanation_types import LaunchExplanation
from keet.render.common.account import (
    HEADING,
    busiest_units,
    evidence_text,
    shown_notes,
    with_depth,
)
from keet.render.markdown.markup import prose


def account_markdown(each: LaunchExplanation, *, verbose: bool = False) -> Iterator[str]:
    if each.verdict.not_judged:
        return
    rows = list(_tree_items(each) if verbose else _items(account_rows(each.view, each.account)))
    if rows:
        yield f"**{HEADING}:**\n\n" + "\n".join(rows)
    units = ", ".join(f"{c.name} {c.reached:.0f}" for c in busiest_units(each))
    notes = [note.text for note in shown_notes(each, everything=verbose)]
    texts = [*([f"Units, share of peak: {units}."] if units else []), *notes]
    if texts:
        yield prose(" ".join(texts))


def account_line_markdown(each: LaunchExplanation) -> Iterator[str]:
    text = leading_text(each.view, each.account)
    if text and not each.verdict.not_judged:
        yield prose(f"{HEADING}: {text}.")


def _items(rows: Sequence[AccountRow]) -> Iterator[str]:
    for row in rows:
        took = f" ({row.time})" if row.us else ""
        yield _item(f"{row.share:.0f}{took}: {row.label}", row.depth)


def _tree_items(each: LaunchExplanation) -> Iterator[str]:
    for part, depth in with_depth(each.account.parts):
        took = f" ({time_text(part.us)})" if part.us else ""
        text = f"{part.share:.1f}{took}: {part.label} [{evidence_text(part)}]"
        yield _item(text, depth)


def _item(text: str, depth: int) -> str:
    return f"{'  ' * depth}- {prose(text)}"
