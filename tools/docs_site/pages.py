"""The pages of the site: their Markdown, their order (docs/navigation.toml), their links."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path, PurePosixPath
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


NAVIGATION = "docs/navigation.toml"


class NavigationError(Exception):
    """The navigation cannot be built: one line that says what to change."""


@dataclass(frozen=True)
class Page:
    path: Path
    source: PurePosixPath
    """Relative to the root of the repository."""
    label: str
    """Label in the navigation; empty: the page's own heading."""

    @cached_property
    def document(self) -> Document:
        return read_document(self.path)

    @property
    def title(self) -> str:
        return self.label or self.document.title or self.source.stem

    @property
    def output(self) -> PurePosixPath:
        """Relative to the site: pages of docs/ are at the top, others below repository/."""
        inside = self.source.is_relative_to("docs")
        place = self.source.relative_to("docs") if inside else "repository" / self.source
        return place.with_suffix(".html")


@dataclass(frozen=True)
class Section:
    title: str
    pages: tuple[Page, ...]


def read_navigation(root: Path) -> tuple[Section, ...]:
    given = tomllib.loads((root / NAVIGATION).read_text(encoding="utf-8"))["section"]
    entries = [entry for section in given for entry in section["pages"]]
    named = [_pattern(entry) for entry in entries if "*" not in _pattern(entry)]
    for name in named:
        if named.count(name) > 1:
            raise NavigationError(f"{NAVIGATION}: {name} is listed twice; remove one")
    return tuple(
        Section(each["title"], tuple(_pages(root, each["pages"], set(named)))) for each in given
    )


def pages_of(sections: tuple[Section, ...]) -> Iterator[Page]:
    for section in sections:
        yield from section.pages


def _pattern(entry: str | list[str]) -> str:
    return entry if isinstance(entry, str) else entry[0]


def _pages(root: Path, entries: list[str | list[str]], named: set[str]) -> Iterator[Page]:
    """An entry is a path, a path with its label, or a pattern. A pattern does not repeat named
    pages."""
    for entry in entries:
        pattern = _pattern(entry)
        label = "" if isinstance(entry, str) else entry[1]
        found = sorted(root.glob(pattern))
        if not found:
            raise NavigationError(f"{NAVIGATION}: there is no {pattern}; correct or remove it")
        for path in found:
            source = path.relative_to(root).as_posix()
            if source == pattern or source not in named:
                yield Page(path, PurePosixPath(source), label)


_cached = lru_cache(maxsize=None)(read_document)


def checked_files(root: Path) -> list[Path]:
    """Every page of docs/ and of the navigation, and the two pages that people read first."""
    named = {page.path for page in pages_of(read_navigation(root))}
    return sorted(
        {*(root / "docs").rglob("*.md"), *named, root / "README.md", root / "CHANGELOG.md"}
    )


def link_faults(root: Path, files: Iterable[Path]) -> list[str]:
    """One line per broken link: file, line, what is wrong."""
    _cached.cache_clear()
    return [
        f"{path.relative_to(root)}:{link.line}: {fault}"
        for path in files
        for link in _cached(path).links
        for fault in _faults(root, path, link)
    ]


def unreachable_pages(root: Path) -> list[str]:
    """Pages of docs/ that are missing in the navigation."""
    named = {page.path for page in pages_of(read_navigation(root))}
    missing = sorted(set((root / "docs").rglob("*.md")) - named)
    return [f"{path.relative_to(root)} is not in {NAVIGATION}; add it" for path in missing]


def _faults(root: Path, page: Path, link: Link) -> Iterator[str]:
    if link.is_foreign:
        if not link.href.startswith(("https://", "mailto:")):
            yield f"{link.href} is neither a file nor an https address"
        return
    target = (page.parent / link.path).resolve() if link.path else page
    if not target.is_relative_to(root.resolve()):
        yield f"{link.href} leads out of the repository"
    elif not target.exists():
        yield f"{link.href}: there is no such file"
    elif link.anchor:
        yield from _anchor_faults(target, link)


def _anchor_faults(target: Path, link: Link) -> Iterator[str]:
    if target.suffix != ".md":
        yield f"{link.href}: only Markdown pages have anchors"
        return
    document: Document = _cached(target)
    if link.anchor not in document.anchors:
        yield f"{link.href}: the page has no such heading"
