"""Builds the whole site: pages, theme, pictures, search index. Stops at links that lead nowhere."""

from __future__ import annotations

import json
import os.path
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path, PurePosixPath
from string import Template

from markdown_it.token import Token

from docs_site.pages import (
    Document,
    Heading,
    Link,
    Page,
    Section,
    checked_files,
    link_faults,
    pages_of,
    parser,
    plain_text,
    read_navigation,
    unreachable_pages,
)

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


Resolve = Callable[[str], str | None]
"""Maps a link as written to the link in the site; None if the site has no such page."""

COPIED = {".png", ".svg", ".json", ".csv"}
"""Files that are copied to the site when a page links to them."""
SHORT, LONG = 22, 60
"""Characters in the longest cell of a column."""


def render(page: Page, resolve: Resolve) -> str:
    document = page.document
    tokens = list(_laid_out(document.tokens, document.headings, resolve))
    html: str = parser().renderer.render(tokens, parser().options, {})
    return html


def asset_place(root: Path, path: Path) -> PurePosixPath:
    """Where a copied file is in the site."""
    source = PurePosixPath(path.relative_to(root).as_posix())
    inside = source.is_relative_to("docs")
    return source.relative_to("docs") if inside else "repository" / source


def relative(target: PurePosixPath, page: PurePosixPath) -> str:
    return PurePosixPath(os.path.relpath(target, page.parent)).as_posix()


def _laid_out(
    tokens: Sequence[Token], headings: Sequence[Heading], resolve: Resolve
) -> Iterator[Token]:
    slugs = iter(headings)
    heading = None
    widths = column_widths(tokens)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = next(slugs)
            yield _with(token, id=heading.slug)
        elif token.type == "inline":
            yield _inline(token, resolve)
        elif token.type == "heading_close" and heading:
            yield _raw(_permalink(heading))
            yield token
        elif token.type == "table_open":
            yield _raw('<div class="table" tabindex="0" role="group" aria-label="Table">')
            yield token
        elif token.type == "table_close":
            yield token
            yield _raw("</div>\n")
        elif token.type in ("th_open", "td_open"):
            yield _cell(token, widths[number])
        elif token.type == "fence":
            yield _raw(_code(token.content, token.info.strip()))
        else:
            yield token


def column_widths(tokens: Sequence[Token]) -> dict[int, int]:
    """For the index of each token that opens a cell: the longest text in its column."""
    found: dict[int, int] = {}
    columns: dict[int, list[int]] = {}
    longest: dict[int, int] = {}
    column = 0
    for number, token in enumerate(tokens):
        if token.type == "table_open":
            columns, longest = {}, {}
        elif token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            columns.setdefault(column, []).append(number)
            lines = plain_text(tokens[number + 1]).splitlines()
            longest[column] = max(longest.get(column, 0), *map(len, lines), 0)
            column += 1
        elif token.type == "table_close":
            found |= {cell: longest[at] for at, cells in columns.items() for cell in cells}
    return found


def _with(token: Token, **attributes: str) -> Token:
    return token.copy(attrs={**token.attrs, **attributes})


def _raw(html: str) -> Token:
    return Token("html_block", "", 0, content=html)


def _permalink(heading: Heading) -> str:
    words = escape(f"Link to: {heading.text}", quote=True)
    return f' <a class="here" href="#{heading.slug}" aria-label="{words}">#</a>'


def _cell(token: Token, longest: int) -> Token:
    """Classes for the style sheet: numbers, columns that need room, columns without line breaks."""
    names = ["number"] if "right" in str(token.attrs.get("style", "")) else []
    names += ["short"] if longest <= SHORT else ["long"] if longest > LONG else []
    attributes: dict[str, str | int | float] = {"class": " ".join(names)} if names else {}
    return token.copy(attrs=attributes)


def _inline(token: Token, resolve: Resolve) -> Token:
    children: list[Token] = []
    closing: list[Token] = []
    for child in token.children or ():
        if child.type == "link_open":
            opened, closed = _link(child, resolve)
            closing.append(closed)
            children.append(opened)
        elif child.type == "link_close":
            children.append(closing.pop())
        elif child.type == "image":
            children.append(
                _with(child, src=resolve(str(child.attrs["src"])) or "", loading="lazy")
            )
        else:
            children.append(child)
    return token.copy(children=children)


def _link(token: Token, resolve: Resolve) -> tuple[Token, Token]:
    """Opening and closing tag. Targets that the site does not have are named, not linked."""
    href = str(token.attrs["href"])
    end = Token("html_inline", "", 0, content="</a>")
    if Link(href, 0).is_foreign:
        return _with(token, rel="noreferrer"), end
    target = resolve(href)
    if target is not None:
        return _with(token, href=target), end
    start = Token("html_inline", "", 0, content='<span class="file" title="In the repository">')
    return start, Token("html_inline", "", 0, content="</span>")


def _code(text: str, language: str) -> str:
    body = _coloured(text, language) if language else escape(text, quote=False)
    return f'<pre tabindex="0" role="group" aria-label="Code"><code>{body}</code></pre>\n'


def _coloured(text: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(text, quote=False)
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


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
