"""The reply of a tool, before its size is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from keet.formatting import count_noun
from keet.serve.results import ToolResult
from keet.serve.size_limits import ResultPage, text_fits

WIDTH = 100
"""Characters of a line of text."""


class ToolReply(NamedTuple):
    result: ToolResult
    text: str
    end: str = ""
    """Last lines of the text, which are kept if the text is cut."""


class PageText(NamedTuple):
    """A page, and a text with the same entries."""

    page: ResultPage
    text: str
    end: str


def with_text(
    page: ResultPage, noun: str, text_of: Callable[[int], str], plural: str = ""
) -> PageText:
    """The page with as many entries, at least one, as fit into the text: clients may show either
    part of a result, so both must have the same entries.

    `text_of`: makes the text for a number of entries. `noun`: what an entry is.
    """
    while True:
        text, end = text_of(len(page.entries)), more_text(page, noun, plural)
        if len(page.entries) <= 1 or text_fits(text, end):
            return PageText(page, text, end)
        page = page._replace(entries=page.entries[: len(page.entries) * 4 // 5])


def page_fields(page: ResultPage, notes: Iterable[str] = ()) -> dict[str, Any]:
    """The common fields of a `PagedToolResult`."""
    return {
        "notes": [*notes, *page.notes],
        "total": page.total,
        "offset": page.offset,
        "more": page.more,
        "next_offset": page.next_offset,
    }


def more_text(page: ResultPage, noun: str, plural: str = "") -> str:
    """The last line of a text if there is another page."""
    if page.next_offset is None:
        return ""
    more = count_noun(page.more, f"more {noun}", f"more {plural}" if plural else "")
    return f"{more}: call again with offset {page.next_offset}"
