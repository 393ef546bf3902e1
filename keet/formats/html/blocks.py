"""Blocks in HTML, and the page around them: one file with its style and script inside.

Words that looks do not name are classes of their elements, so a page may give a text a style of
its own. Large parts (a `Figure`) are drawn by modules of this package, which are imported when a
page has one.

The policy in the page's head allows nothing but this style and this script, which it names by hash:
no address is loaded, no other script runs, and no form or frame works, whatever a report contains.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from itertools import count, groupby
from pathlib import Path

from keet.formats.html.markup import (
    Content,
    Html,
    element,
    escaped,
    fragment,
    meter,
    prose,
    scrolling,
    unbroken,
)
from keet.formatting import capitalized
from keet.pages import blocks
from keet.pages.blocks import EDITOR, Block, Cell, Look, Page, Reader, Span, Words, plain, spans
from keet.pages.short_diff import HUNK
from keet.safe_text import one_line, visible
from keet.version import __version__

STYLES = ("base", "answer", "charts", "source", "diff", "insights", "print")
"""Files of style in the order in which they apply."""
SCRIPTS = ("source", "page")
"""In the order in which they run: ids that `source` adds to lines can be linked to by `page`."""
_ASSETS = Path(__file__).with_name("assets")


def page(title: str, top: Content, *body: Content, footer: Sequence[Content] = ()) -> str:
    """A whole HTML document. `title`: what browsers show in tabs and histories. `top`: its bar."""
    style, script = _assets(STYLES, "css"), _assets(SCRIPTS, "js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="keet {escaped(__version__)}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escaped(visible(title))}</title>\n"
        f"<style>{style}</style>\n"
    )
    whole = fragment(
        element("a", "Skip to the answer", class_="skip", href="#main"),
        top,
        element("main", *body, id="main", tabindex="-1"),
        element("footer", *footer, class_="page-foot"),
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}</head>\n'
        f"<body>\n{visible(whole)}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def bar(name: str, links: Sequence[tuple[str, str]], *tools: Content) -> Html:
    """The bar that stays visible: the name of the page, links to its parts, buttons."""
    return element(
        "header",
        element("span", f"keet: {name}", class_="name"),
        element(
            "nav",
            [element("a", words, href=f"#{target}") for target, words in links],
            aria_label="Parts of the page",
            tabindex="0",
        ),
        element("span", tools, data_toolbar=True),
        class_="bar",
    )


def _hash(text: str) -> str:
    digest = sha256(text.encode()).digest()
    return f"'sha256-{b2a_base64(digest, newline=False).decode()}'"


@cache
def _assets(names: Sequence[str], kind: str) -> str:
    """ASCII without an end tag, so that neither escaping nor a parser changes it."""
    files = [(_ASSETS / f"{name}.{kind}").read_bytes().decode("ascii") for name in names]
    if any("</" in text for text in files):
        raise ValueError(f"a file of {kind} holds an end tag, which would end its element")
    return "\n" + "".join(files)


ROWS = 500
"""Rows of a table: with so many kernels, a page stays below 6 MB."""
FIGURES = {
    "AccountFigure": "account.draw_account",
    "AccountTree": "account.draw_tree",
    "AccountsFigure": "diff.draw_accounts",
    "EvidenceFigure": "markup.draw_evidence",
    "HistoryFigure": "insights.draw_history",
    "ListingFigure": "listing.draw_listing",
    "MemoryFigure": "roofline.draw_memory",
    "OccupancyFigure": "roofline.draw_occupancy",
    "ReportsFigure": "insights.draw_reports",
    "RooflineFigure": "roofline.draw_roofline",
    "SidesFigure": "diff.draw_sides",
    "SweepFigure": "insights.draw_sweep",
}
"""Kinds of figures, and the functions of this package that draw them."""
_ID = re.compile(r' id="([^"]*)"')
_LINK = re.compile(r'<a href="#([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
_TAGS = {"strong": "b", "model": "b", "italic": "em", "underline": "ins", "code": "code"}
_CLASSES = {
    "name": "mono break",
    "place": "mono break",
    "label": "muted",
    "model": "badge",
    "plain": "",
}
_SIGNS = {"+": "added", "-": "removed", "@": "hunk"}


def reader() -> Reader:
    return Reader("html", 10_000, ROWS)


def html_page(shown: Page) -> str:
    """A whole document. What is said at the end of it is the footer of the page."""
    write = _Writer()
    feet = [block for block in shown.blocks if isinstance(block, blocks.Foot)]
    body = [block for block in shown.blocks if not isinstance(block, blocks.Foot)]
    tools = [_copier(*shown.copies)] if shown.copies else []
    top = [bar(one_line(shown.name), [(to, one_line(text)) for to, text in shown.links], *tools)]
    if beside := write.all(shown.beside):
        top.append(element("nav", beside, class_="beside", aria_label="What is on the page"))
    return page(
        shown.title,
        top,
        with_targets(write.all(body)),
        footer=[element("p", html_words(foot.words)) for foot in feet if _is_shown(foot)],
    )


def html_fragment(shown: Iterable[Block]) -> Html:
    """For a notebook, which may have several: without ids, so without links."""
    return with_targets(Html(_ID.sub("", html_part(shown))))


def html_part(shown: Iterable[Block], key: str = "") -> Html:
    """Blocks inside of a page, which may link to other parts of it. `key`: what ids that are not
    those of the blocks begin with."""
    return _Writer(key).all(shown)


def with_targets(html: Html) -> Html:
    """Links whose targets are not on the page become text: a page links to each source line, and
    listings show those that there is room for."""
    ids = {*_ID.findall(html)}

    def kept(link: re.Match[str]) -> str:
        if link[1] in ids:
            return link[0]
        return f"<span{link[2]}>{link[3]}</span>" if link[2] else link[3]

    return Html(_LINK.sub(kept, html))


def html_words(words: Words) -> Html:
    """Names in backticks become code, and spans with an anchor links."""
    return fragment([_span(span) for span in spans(words)])


def _span(span: Span) -> Html:
    if span == blocks.LINE_BREAK:
        return element("br")
    looks = span.look.split()
    is_name = {"code", "name", "place"}.intersection(looks)
    html = fragment(one_line(span.text)) if is_name else prose(span.text)
    if "path" in looks:  # breaks behind its folders, and elsewhere only where there is no other way
        parts = re.findall(r"[^/\\]+[/\\]*|[/\\]+", one_line(span.text))
        html = fragment(" " * span.text.startswith(" "), [element("span", part) for part in parts])
    classes = _classes(span.look)
    tag = next((_TAGS[look] for look in looks if look in _TAGS), "")
    tip = one_line(span.tip) or None
    if span.to:
        inner = element(tag, html) if tag else html
        href = span.to if span.to.startswith(EDITOR) else f"#{span.to}"
        return element("a", inner, href=href, class_=classes, title=tip)
    tag = tag or ("span" if classes or tip else "")
    return element(tag, html, class_=classes, title=tip) if tag else html


def _classes(look: Look, *others: str) -> str | None:
    names = (_CLASSES.get(word, "" if word in _TAGS else word) for word in look.split())
    return " ".join(filter(None, (*others, *names))) or None


def _is_shown(block: Block) -> bool:
    return not block.only or "html" in block.only


def _copier(anchor: str, words: str) -> Html:
    """A button that the page's script shows, where there is something to copy."""
    return element("button", words, type="button", data_copy=anchor, hidden=True)


class _Writer:
    """Numbers what has no anchor of its own: commands and code that can be copied."""

    def __init__(self, key: str = "") -> None:
        self._keys = (f"{key}copied-{number}" for number in count(1))

    def all(self, shown: Iterable[Block]) -> Html:
        return fragment([self._block(block) for block in shown if _is_shown(block)])

    def _block(self, block: Block) -> Content:
        kind = next(kind for kind in type(block).__mro__ if kind in _RENDERERS)
        return _RENDERERS[kind](self, block)

    # --- one function per kind of block

    def heading(self, block: blocks.Heading) -> Content:
        look = _classes(block.look)
        words = html_words(block.words)
        return element(f"h{block.level}", words, class_=look, id=block.anchor or None)

    def text(self, block: blocks.Text) -> Content:
        words = html_words((block.mark, block.words))
        if "strong" in block.look.split():
            words = element("strong", words)
        return element("p", words, class_=_classes(block.look))

    def notice(self, block: blocks.Notice) -> Content:
        return element("p", html_words(block.words), class_=_classes(block.look, "note"))

    def foot(self, block: blocks.Foot) -> Content:
        """Of a part of a page."""
        return element("p", html_words(block.words), class_="muted")

    def items(self, block: blocks.Items) -> Content:
        name = None
        if block.name:
            name = element("p", element("b", html_words(capitalized(block.name))), class_="group")
        if any(plain(item.label).strip() for item in block.items):
            kind = block.kind or ("facts shares" if block.is_right else "facts")
            return fragment(name, element("dl", map(_fact, block.items), class_=kind))
        kind = block.kind or ("" if block.mark else "unmarked")
        return fragment(name, _list(block.items, kind or None))

    def table(self, block: blocks.Table) -> Content:
        head = element("tr", [_head(column) for column in block.columns])
        foot = [element("tr", _cells(block.columns, row)) for row in block.last]
        table = element(
            "table",
            element("thead", head) if block.has_heading else None,
            element("tbody", [element("tr", _cells(block.columns, row)) for row in block.rows]),
            element("tfoot", foot) if foot else None,
            class_=block.kind or None,
            data_sortable=block.has_heading and block.is_sortable,
            data_filter=block.is_sortable,
        )
        caption = element("p", prose(block.caption), class_="muted") if block.caption else None
        return fragment(scrolling(block.name or "Table", table), caption)

    def bars(self, block: blocks.Bars) -> Content:
        rows = [
            element(
                "li",
                f"{bar.mark} " if bar.mark.strip() else None,
                element("b", html_words(bar.amount), class_="number"),
                meter(100 * bar.share),
                element("span", html_words(bar.aside), class_="number") if bar.aside else None,
                element("span", html_words(bar.label), class_=_depth(bar.depth)),
            )
            for bar in block.bars
        ]
        return element("ul", rows, class_="bars", aria_label=block.name or None)

    def code(self, block: blocks.Code) -> Content:
        kinds = _diff_kinds(block.lines) if block.language == "diff" else [None] * len(block.lines)
        numbers = block.numbers if any(block.numbers) else [""] * len(block.lines)
        width = max(map(len, numbers), default=0)
        lines = []
        for number, line, kind in zip(numbers, block.lines, kinds):
            before = element("i", f"{number:>{width}}  ") if width else None
            lines.append(element("span", before, f"{line}\n", class_=kind))
        look = "context" if block.language == "markdown" else "patch"
        key = block.anchor or (next(self._keys) if block.copied else None)
        return fragment(
            element("p", _copier(key, block.copied)) if key and block.copied else None,
            scrolling("Code", element("code", lines, id=key), tag="pre", kind=look),
        )

    def command(self, block: blocks.Command) -> Content:
        key = next(self._keys)
        return fragment(
            element("pre", unbroken(one_line(block.command)), class_="command", id=key),
            element("p", _copier(key, "Copy command")),
        )

    def fold(self, block: blocks.Fold) -> Content:
        inner = self.all(block.blocks)
        if not inner:
            return None
        summary = html_words(block.summary)
        anchor: str | None = block.anchor or None
        if block.level:  # a link leads to the heading, since its target is highlighted
            summary, anchor = element(f"h{block.level}", summary, id=anchor), None
        return element(
            "details",
            element("summary", summary),
            inner,
            class_=block.kind,
            id=anchor,
            open=block.is_open,
            data_print=block.is_printed,
        )

    def part(self, block: blocks.Part) -> Content:
        first = next(filter(_is_shown, block.blocks), None)
        tag = block.tag or ("section" if isinstance(first, blocks.Heading) else "div")
        inner = self.all(block.blocks)
        return element(tag, inner, class_=block.kind or None, id=block.anchor or None)

    def figure(self, block: blocks.Figure) -> Content:
        """By the function of its kind; as its short form, where there is none."""
        kinds = [kind.__name__ for kind in type(block).__mro__]
        drawn = next((FIGURES[name] for name in kinds if name in FIGURES), None)
        if drawn is None:
            return self.all(block.short)
        module, _, function = drawn.rpartition(".")
        draw: Callable[[Block], Content]
        draw = getattr(import_module(f"keet.formats.html.{module}"), function)
        return draw(block)


def _diff_kinds(lines: Sequence[str]) -> Iterator[str | None]:
    """Lines of a hunk are counted, because `--- x` may be a removed line."""
    old = new = 0
    has_hunks = any(map(HUNK.match, lines))
    for line in lines:
        sign = line[:1]
        if head := HUNK.match(line):
            old, new = (int(number or 1) for number in head.group(2, 3))
            yield "hunk"
        elif has_hunks and old <= 0 and new <= 0:
            yield "file"
        else:
            old -= sign not in ("+", "\\")
            new -= sign not in ("-", "\\")
            yield _SIGNS.get(sign)


def _fact(item: blocks.Item) -> Html:
    label, words = html_words(item.label), html_words(item.words)
    return element("div", element("dt", label), element("dd", words, class_=_depth(item.depth)))


def _list(items: Sequence[blocks.Item], kind: str | None) -> Html:
    """Deeper items are lists inside of the items before them."""
    least = min((item.depth for item in items), default=0)
    rows: list[list[Content]] = []
    for is_inner, group in groupby(items, key=lambda item: item.depth > least):
        if is_inner:
            rows = rows or [[]]
            rows[-1].append(_list([*group], None))
        else:
            rows += [[html_words(item.words)] for item in group]
    return element("ul", [element("li", row) for row in rows], class_=kind)


def _depth(depth: int) -> str | None:
    return f"within within-{depth}" if depth else None


def _head(column: blocks.Column) -> Html:
    first = None if column.is_number else "ascending"
    look = " ".join(["number"] * column.is_number + ["wide"] * column.wide) or None
    return element("th", one_line(column.name), scope="col", class_=look, data_first=first)


def _cells(columns: Sequence[blocks.Column], row: Sequence[Words | Cell]) -> Iterator[Html]:
    """The first name among them names the row; if there is none, the first cell does."""
    named = next((at for at, column in enumerate(columns) if column.look in ("name", "label")), 0)
    for at, (column, each) in enumerate(zip(columns, row)):
        cell = each if isinstance(each, Cell) else Cell(each)
        detail = element("span", html_words(cell.below), class_="muted detail")
        below = [element("br"), detail] if cell.below else None
        looks = {word for word in column.look.split() if word not in ("name", "label")}
        looks |= {"wide"} if column.wide else set()
        words = cell.words
        if isinstance(words, Span):  # good and bad colour the whole cell
            looks.update(word for word in words.look.split() if word in ("good", "bad", "warn"))
        classes = _classes(" ".join(sorted(looks)), *(["number"] if column.is_number else []))
        if column.look == "name":
            classes = " ".join(filter(None, (classes, "break")))
        make = partial(element, "th", scope="row") if at == named else partial(element, "td")
        bar = meter(100 * cell.share) if cell.share is not None else None
        # All digits: an attribute of type float is cut to four.
        value = None if cell.value is None else str(cell.value)
        anchor = cell.anchor or None
        yield make(html_words(words), bar, below, class_=classes, data_value=value, id=anchor)


_RENDERERS: dict[type[Block], Callable[..., Content]] = {
    blocks.Gap: lambda *_: None,
    blocks.Heading: _Writer.heading,
    blocks.Text: _Writer.text,
    blocks.Notice: _Writer.notice,
    blocks.Foot: _Writer.foot,
    blocks.Items: _Writer.items,
    blocks.Table: _Writer.table,
    blocks.Bars: _Writer.bars,
    blocks.Code: _Writer.code,
    blocks.Command: _Writer.command,
    blocks.Fold: _Writer.fold,
    blocks.Part: _Writer.part,
    blocks.Figure: _Writer.figure,
}
