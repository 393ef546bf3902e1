"""What a tool hands back, before it is bounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from keet.serve.bounds import Page
from keet.serve.results import Result

WIDTH = 100
"""Characters of a line of text."""


class Reply(NamedTuple):
    result: Result
    text: str


def page_fields(page: Page, total: int, offset: int, notes: Iterable[str] = ()) -> dict[str, Any]:
    """Of a `PagedResult`."""
    return {
        "notes": [*notes, *page.notes],
        "total": total,
        "offset": offset,
        "more": page.more,
        "next_offset": page.next_offset,
    }


def more_text(page: Page, what: str) -> str:
    """The last line of a text whose list goes on."""
    if page.next_offset is None:
        return ""
    return f"\n{page.more} more {what}: call again with offset {page.next_offset}\n"


def view_text(view: Any) -> str:
    """What the command would print. `view`: of a module of `render.terminal`."""
    from keet.render.terminal.console import to_text

    return to_text(view, WIDTH)
