"""Checks the links of the documentation: files of the repository and headings of its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from docs_site.markdown import Document, Link, read_document
from docs_site.navigation import NAVIGATION, pages_of, read_navigation

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
