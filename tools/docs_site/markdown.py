"""Parses Markdown files, with the targets that other pages may link to: headings and anchors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ANCHOR = re.compile(r"""<a\s+(?:id|name)=["']([^"']+)["']""")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    slug: str


@dataclass(frozen=True)
class Link:
    """A link or an image as it is written."""

    href: str
    line: int

    @property
    def is_foreign(self) -> bool:
        return _SCHEME.match(self.href) is not None or self.href.startswith("//")

    @property
    def path(self) -> str:
        return unquote(self.href.partition("#")[0])

    @property
    def anchor(self) -> str:
        return unquote(self.href.partition("#")[2])


@dataclass(frozen=True)
class Document:
    tokens: tuple[Token, ...]
    headings: tuple[Heading, ...]
    anchors: frozenset[str]
    links: tuple[Link, ...]

    @property
    def title(self) -> str:
        return next((each.text for each in self.headings if each.level == 1), "")


@cache
def parser() -> MarkdownIt:
    """GitHub's dialect, as far as the documentation uses it."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def read_document(path: Path) -> Document:
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Document:
    tokens = tuple(parser().parse(text))
    headings = tuple(_headings(tokens))
    explicit = {anchor for content in _html(tokens) for anchor in _ANCHOR.findall(content)}
    anchors = frozenset(explicit | {each.slug for each in headings})
    return Document(tokens, headings, anchors, tuple(_links(tokens)))


def plain_text(token: Token) -> str:
    """The text of an inline token without markup; line breaks are kept."""
    return "".join(map(_words, token.children or ())).strip()


def _words(token: Token) -> str:
    if token.type in ("text", "code_inline"):
        return token.content
    if token.type == "html_inline":
        return "\n" if token.content.startswith("<br") else ""
    return " " if token.type in ("softbreak", "hardbreak") else ""


def slug(text: str, taken: set[str]) -> str:
    """GitHub's anchor of a heading; a duplicate gets a number."""
    stem = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    found, number = stem, 0
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    taken.add(found)
    return found


def _headings(tokens: Iterable[Token]) -> Iterator[Heading]:
    taken: set[str] = set()
    level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
        elif token.type == "inline" and level:
            text = plain_text(token)
            yield Heading(level, text, slug(text, taken))
            level = 0


def _html(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            yield token.content
        yield from _html(token.children or ())


def _links(tokens: Iterable[Token]) -> Iterator[Link]:
    line = 0
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        for child in token.children or ():
            href = child.attrGet("href" if child.type == "link_open" else "src")
            if child.type in ("link_open", "image") and href is not None:
                yield Link(str(href), line)
