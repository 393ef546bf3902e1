"""Renders one page as HTML: links to other pages of the site, tables that scroll, code colours."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path, PurePosixPath

from markdown_it.token import Token

from docs_site.markdown import Heading, Link, parser, plain_text
from docs_site.navigation import Page

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
