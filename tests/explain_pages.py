"""The page of `keet explain` as text, for tests."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from markdown_it import MarkdownIt

from keet.explanation.explanation_types import Explanation
from keet.formats import markdown, page_text, terminal
from keet.formats.html import blocks as html
from keet.pages.blocks import (
    Block,
    Foot,
    Format,
    Heading,
    Items,
    Notice,
    Reader,
    Table,
    Text,
    Words,
    plain,
)
from keet.pages.explain import Asked, explain_page
from tests.page_blocks import every_block


def explain_terminal(explanation: Explanation, width: int = 80, **asked: bool) -> str:
    make = partial(explain_page, [explanation], asked=Asked(**asked))
    return page_text(make, "terminal", width)


def explain_markdown(explanation: Explanation, **asked: bool) -> str:
    return page_text(partial(explain_page, [explanation], asked=Asked(**asked)), "markdown")


def explain_html(*explanations: Explanation, **asked: Any) -> str:
    asked = {"several": len(explanations) > 1} | asked
    return page_text(partial(explain_page, explanations, asked=Asked(**asked)), "html")


def reader_of(form: Format, width: int = 80) -> Reader:
    if form == "terminal":
        return terminal.reader(width)
    return markdown.reader() if form == "markdown" else html.reader()


def explain_blocks(
    explanation: Explanation, width: int = 80, form: Format = "terminal", **asked: bool
) -> list[Block]:
    """Also those within folds and parts, without those of other formats."""
    page = explain_page([explanation], reader_of(form, width), Asked(**asked))
    return [*every_block(page.blocks, form)]


def words_of(blocks: Sequence[Block]) -> list[Words]:
    """Of texts, remarks and items, in the order of the page."""
    found: list[Words] = []
    for block in blocks:
        if isinstance(block, Heading | Text | Notice | Foot):
            found.append(block.words)
        elif isinstance(block, Items):
            found += [item.words for item in block.items]
    return found


def texts_of(blocks: Sequence[Block]) -> list[str]:
    return [" ".join(plain(words).split()) for words in words_of(blocks)]


def cells_of(blocks: Sequence[Block]) -> list[list[str]]:
    """The rows of all tables whose cells are words."""
    rows = (row for block in blocks if isinstance(block, Table) for row in block.rows)
    return [[plain(cell) for cell in row] for row in rows]  # type: ignore[arg-type]


def html_in(markdown: str) -> set[str]:
    """Elements that keet writes into Markdown apart from those of a fold and of small letters, and
    links and images."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    parts = [part for token in tokens for part in (token, *(token.children or ()))]
    html = {part.content for part in parts if part.type in ("html_block", "html_inline")}
    kinds = {part.type for part in parts}
    known = re.compile(r"</?sub>|(?:</details>|<details><summary>[^<>]*</summary>)\n?")
    others = {each for each in html if not known.fullmatch(each)}
    return others | kinds & {"link_open", "image", "code_block"}
