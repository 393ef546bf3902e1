"""The search index of the site: one entry per heading, and per table row with an anchor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from docs_site.markdown import Document, plain_text
from docs_site.navigation import Page

_ROW = re.compile(r'<a id="([^"]+)"></a>')
_BARS = re.compile("[█░]+")
_TEXT_LIMIT = 6_000
"""Characters per entry: longer ones are tables, whose rows have their own entries or are
similar."""


def index_script(pages: Iterable[Page]) -> str:
    """A script, because a page that was opened from a folder may not read JSON files."""
    entries = [
        {"page": page.title, "href": str(page.output), **entry}
        for page in pages
        for entry in _entries(page.document)
    ]
    return f"window.keetSearch={json.dumps(entries, ensure_ascii=False, separators=(',', ':'))};\n"


def _entries(document: Document) -> Iterator[dict[str, str]]:
    headings = iter(document.headings)
    entry = {"anchor": "", "title": "", "text": ""}
    opened = False
    for token in document.tokens:
        if token.type == "heading_open":
            opened = True
        elif token.type == "inline" and opened:
            opened = False
            yield from _finished(entry)
            heading = next(headings)
            anchor = "" if heading.level == 1 else heading.slug
            entry = {"anchor": anchor, "title": heading.text, "text": ""}
        elif token.type == "inline":
            if token.children and (found := _ROW.search(token.content)):
                yield from _finished(entry)
                entry = {"anchor": found[1], "title": found[1], "text": ""}
            entry["text"] += " " + plain_text(token)
        elif token.type in ("fence", "code_block"):
            entry["text"] += " " + token.content
    yield from _finished(entry)


def _finished(entry: dict[str, str]) -> Iterator[dict[str, str]]:
    text = " ".join(_BARS.sub(" ", entry["text"]).split())[:_TEXT_LIMIT]
    if entry["title"] or text:
        yield {**entry, "text": text}
