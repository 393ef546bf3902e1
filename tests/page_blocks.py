"""What is on a page, as blocks: its parts, texts, facts and tables, and the listings of its code."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from keet.analysis.hotspots.source_lines import Hotspots, find_hotspots
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html import blocks as html
from keet.formats.html.listing import Listing, source_listing
from keet.formats.terminal import reader
from keet.pages.blocks import (
    Anchors,
    Block,
    Cell,
    Fold,
    Foot,
    Format,
    Heading,
    Items,
    ListingFigure,
    Notice,
    Page,
    Part,
    Table,
    Text,
    Words,
    plain,
    spans,
)
from keet.pages.explain import Asked, explain_page
from keet.pages.listings import listing_block
from keet.report import read_profile


def explain_texts(explanation: Explanation, width: int = 80, **asked: bool) -> list[str]:
    return texts_of(explain_page([explanation], reader(width), Asked(**asked)).blocks)


def explain_html_page(*explanations: Explanation, **asked: Any) -> Page:
    asked = {"several": len(explanations) > 1} | asked
    return explain_page(explanations, html.reader(), Asked(**asked))


def every_block(blocks: Iterable[Block], form: Format | None = None) -> Iterator[Block]:
    """Also those within folds and parts. `form`: only those that this format shows."""
    for block in blocks:
        if form is None or not block.only or form in block.only:
            yield block
            if isinstance(block, Fold | Part):
                yield from every_block(block.blocks, form)


def part_of(page: Page, anchor: str) -> Part:
    (found,) = [
        block
        for block in every_block(page.blocks)
        if isinstance(block, Part) and block.anchor == anchor
    ]
    return found


def anchors_of(page: Page) -> set[str]:
    return {block.anchor for block in every_block(page.blocks) if isinstance(block, Fold | Part)}


def texts_of(blocks: Iterable[Block]) -> list[str]:
    """Of headings, paragraphs, remarks, summaries and items; not those of tables and figures."""
    found = []
    for block in every_block(blocks):
        if isinstance(block, Heading | Text | Notice | Foot):
            found.append(plain(block.words))
        elif isinstance(block, Fold):
            found.append(plain(block.summary))
        elif isinstance(block, Items):
            found += [f"{plain(item.label)} {plain(item.words)}".strip() for item in block.items]
    return found


def facts_of(blocks: Iterable[Block]) -> dict[str, str]:
    """Items by their labels."""
    lists = [block for block in every_block(blocks) if isinstance(block, Items)]
    return {plain(item.label): plain(item.words) for each in lists for item in each.items}


def table_of(block: Part) -> list[dict[str, Cell]]:
    """Rows of its only table, their cells by the name of the column."""
    (table,) = [each for each in every_block([block]) if isinstance(each, Table)]
    names = [column.name for column in table.columns]
    cells = ([cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in table.rows)
    return [dict(zip(names, row, strict=True)) for row in cells]


def links_of(words: Words) -> list[str]:
    return [span.to for span in spans(words) if span.to]


# --- listings of source lines

ROOM = 1_000_000


@cache
def first_launch(path: Path, *, sass: bool = True) -> LaunchExplanation:
    """Of a report."""
    profile = read_profile(path)
    return explain(profile, profile.launches[:1], 5, sass=sass).launches[0]


def hotspots_of(path: Path, *, sass: bool = True) -> Hotspots:
    found = find_hotspots(first_launch(path, sass=sass).launch)
    assert isinstance(found, Hotspots)
    return found


def listing_of(each: LaunchExplanation, room: int = ROOM) -> Listing:
    figure = listing_block(each, Anchors(), room)
    assert isinstance(figure, ListingFigure)
    return source_listing(figure)
