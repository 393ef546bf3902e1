"""Reads docs/navigation.toml: the pages of the site, their order and sections."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from docs_site.markdown import Document, read_document

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
