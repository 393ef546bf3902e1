"""Builds the whole site: pages, theme, pictures, search index. Stops at links that lead nowhere."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path, PurePosixPath
from string import Template

from docs_site.links import checked_files, link_faults, unreachable_pages
from docs_site.markdown import Link
from docs_site.navigation import Page, Section, pages_of, read_navigation
from docs_site.rendering import COPIED, asset_place, relative, render
from docs_site.search_index import index_script

THEME = Path(__file__).parent / "theme"
_MOST_HEADINGS = 90
_MARK = ".keet-site"
"""Marks a folder as a site that may be replaced."""


class SiteError(Exception):
    """The site is not built; each line says what to fix."""


def build(root: Path, out: Path) -> int:
    """Write the site completely or not at all, and return the number of its pages."""
    faults = unreachable_pages(root) + link_faults(root, checked_files(root))
    if faults:
        raise SiteError("\n".join(faults))
    _check_place(out)
    sections = read_navigation(root)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".site-") as folder:
        made = Path(folder) / "site"
        made.mkdir()
        count = _write(root, made, sections)
        made.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        made.rename(out)
    return count


def _check_place(out: Path) -> None:
    """Only a site or an empty folder is replaced."""
    if out.exists() and not out.is_dir():
        raise SiteError(f"{out} is a file; name a folder")
    if out.is_dir() and not (out / _MARK).exists() and any(out.iterdir()):
        raise SiteError(f"{out} contains other files and is not replaced; name another folder")


def _write(root: Path, out: Path, sections: tuple[Section, ...]) -> int:
    pages = list(pages_of(sections))
    site = _Site(root, out, {page.path.resolve(): page for page in pages})
    for number, page in enumerate(pages):
        path = out / page.output
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = (pages[number - 1] if number else None, *pages[number + 1 : number + 2])
        path.write_text(_html(site, page, sections, beside), encoding="utf-8")
    for name in ("site.css", "site.js"):
        shutil.copyfile(THEME / name, out / name)
    (out / "search_index.js").write_text(index_script(pages), encoding="utf-8")
    (out / _MARK).touch()
    return len(pages)


class _Site:
    """Resolves links, and copies the files that they need."""

    def __init__(self, root: Path, out: Path, pages: dict[Path, Page]) -> None:
        self._root = root.resolve()
        self._out = out
        self._pages = pages

    def resolve(self, page: Page, href: str) -> str | None:
        link = Link(href, 0)
        if not link.path:
            return href
        target = (page.path.parent / link.path).resolve()
        found = self._pages.get(target) or self._first_below(target)
        if found is None:
            return self._copied(page, target)
        return relative(found.output, page.output) + (f"#{link.anchor}" if link.anchor else "")

    def _first_below(self, folder: Path) -> Page | None:
        """A link to a folder leads to the first of its pages."""
        return next((page for path, page in self._pages.items() if path.parent == folder), None)

    def _copied(self, page: Page, target: Path) -> str | None:
        if target.suffix not in COPIED:
            return None
        place = asset_place(self._root, target)
        (self._out / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, self._out / place)
        return relative(place, page.output)


@cache
def _template() -> Template:
    return Template((THEME / "page.html").read_text(encoding="utf-8"))


def _html(
    site: _Site, page: Page, sections: Sequence[Section], beside: Sequence[Page | None]
) -> str:
    top = relative(PurePosixPath("index.html"), page.output).removesuffix("index.html")
    return _template().substitute(
        title=escape(page.document.title or page.title),
        root=top,
        navigation="\n".join(_navigation(sections, page)),
        contents=_contents(page),
        body=_with_short_contents(page, render(page, lambda href: site.resolve(page, href))),
        beside=_beside(page, beside),
    )


def _navigation(sections: Sequence[Section], page: Page) -> Iterator[str]:
    for section in sections:
        if len(section.pages) == 1:
            link = _to(section.pages[0], page, section.title)
            yield f'<p class="single">{link}</p>'
            continue
        opened = " open" if page in section.pages else ""
        yield f"<details{opened}><summary>{escape(section.title)}</summary><ul>"
        yield from (f"<li>{_to(each, page)}</li>" for each in section.pages)
        yield "</ul></details>"


def _to(target: Page, page: Page, words: str = "") -> str:
    here = ' aria-current="page"' if target is page else ""
    href = relative(target.output, page.output)
    return f'<a href="{href}"{here}>{escape(words or target.title)}</a>'


def _headings(page: Page) -> str:
    """Links to the sections of a page, if it has enough of them."""
    shown = [each for each in page.document.headings if each.level in (2, 3)]
    if len(shown) < 2:
        return ""
    if len(shown) > _MOST_HEADINGS:
        shown = [each for each in shown if each.level == 2]
    rows = (
        f'<li class="level{each.level}"><a href="#{each.slug}">{escape(each.text)}</a></li>'
        for each in shown
    )
    return f"<ul>{''.join(rows)}</ul>"


def _contents(page: Page) -> str:
    """Next to the text, if the window is wide enough."""
    start = '<nav class="contents" tabindex="0" aria-label="On this page"><p>On this page</p>'
    headings = _headings(page)
    return f"{start}{headings}</nav>" if headings else ""


def _with_short_contents(page: Page, body: str) -> str:
    """Below the heading, closed, in narrow windows."""
    headings = _headings(page)
    title, end, rest = body.partition("</h1>\n")
    if not headings or not end:
        return body
    opening = '<details class="short-contents"><summary>On this page</summary>'
    return f"{title}{end}{opening}{headings}</details>\n{rest}"


def _beside(page: Page, pages: Sequence[Page | None]) -> str:
    previous, following = (*pages, None)[:2]
    links = (("prev", "Previous:", previous), ("next", "Next:", following))
    return "".join(
        f'<a rel="{rel}" href="{relative(each.output, page.output)}">{words} '
        f"{escape(each.title)}</a>"
        for rel, words, each in links
        if each
    )
