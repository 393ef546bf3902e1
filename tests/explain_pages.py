"""The page of `keet explain` as text, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from markdown_it import MarkdownIt

from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats import page_text
from keet.formats.html import blocks as html
from keet.formats.terminal import reader
from keet.pages.blocks import Block, Fold, Part
from keet.pages.explain import Asked, explain_page
from keet.pages.launch import Shown, launch_section


def explain_terminal(explanation: Explanation, width: int = 80, **asked: bool) -> str:
    make = partial(explain_page, [explanation], asked=Asked(**asked))
    return page_text(make, "terminal", width)


def explain_markdown(explanation: Explanation, **asked: bool) -> str:
    return page_text(partial(explain_page, [explanation], asked=Asked(**asked)), "markdown")


def explain_html(*explanations: Explanation, **asked: Any) -> str:
    asked = {"several": len(explanations) > 1} | asked
    return page_text(partial(explain_page, explanations, asked=Asked(**asked)), "html")


def launch_html(each: LaunchExplanation, **how: Any) -> str:
    """The section of one launch, without its source."""
    shown = Shown(each, None, html.reader(), **how)
    return html.html_blocks([Part([*launch_section(shown)], anchor=shown.anchor())])


def explain_blocks(explanation: Explanation, width: int = 80, **asked: bool) -> list[Block]:
    """Those of a terminal, also within folds and parts."""
    return [*_all(explain_page([explanation], reader(width), Asked(**asked)).blocks)]


def _all(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold | Part):
            yield from _all(block.blocks)


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
