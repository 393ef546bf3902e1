"""HTML that is escaped by construction, and small parts that many pages have.

`element` escapes all text that it is given; only `Html`, which it returns itself, is taken as
markup. Names of elements and attributes come from fixed lists: none of them runs code, loads
anything or leaves the page. Joining or formatting `Html` gives plain text again, so a mistake shows
as visible markup on the page and never as markup from a report.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, final

from keet.analysis.ledger import OF_RUN
from keet.catalog import metric_named
from keet.evidence import Evidence
from keet.formatting import count_noun
from keet.pages.blocks import EDITOR, EvidenceFigure
from keet.safe_text import one_line

_TEXT_ELEMENTS = """a abbr article aside b br button code dd del details div dl dt em figcaption
figure footer h1 h2 h3 h4 h5 header i ins li main mark nav ol p pre s section small span strong sub
summary sup table tbody td tfoot th thead tr ul"""
_SVG_ELEMENTS = "svg g rect line path circle polygon polyline text tspan title desc"
ELEMENTS = frozenset(f"{_TEXT_ELEMENTS} {_SVG_ELEMENTS}".split())
_EMPTY_ELEMENTS = frozenset(("br",))
_TAGS = {name: (f"<{name}", "" if name in _EMPTY_ELEMENTS else f"</{name}>") for name in ELEMENTS}
"""The first and the last part of each tag."""
_TEXT_ATTRIBUTES = """class id href title lang hidden open role tabindex scope colspan rowspan
headers type start"""
_SVG_ATTRIBUTES = """x y x1 x2 y1 y2 width height cx cy r rx ry d dx dy points viewBox
preserveAspectRatio transform overflow text-anchor dominant-baseline"""
ATTRIBUTES = frozenset(f"{_TEXT_ATTRIBUTES} {_SVG_ATTRIBUTES}".split())
"""Besides `data-…` and `aria-…`. Neither `style` nor any `on…`: the page's policy forbids both."""


@final
class Html(str):
    """Markup. Make it with `element` and `fragment`, never from text of a report."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"
"""What an element may hold: markup, text (which is escaped), nothing, or several of these."""

NOTHING = Html()


def escaped(text: str) -> str:
    """Text escaped for an element or a quoted attribute."""
    for character, name in _NAMES:
        if character in text:  # a third of the time that replacing nothing takes
            text = text.replace(character, name)
    return text


_NAMES = (
    ("&", "&amp;"),  # first: the others bring some
    ("<", "&lt;"),
    (">", "&gt;"),
    ('"', "&quot;"),
    ("'", "&#39;"),
    # A parser of HTML turns CR LF into LF; a patch that is copied from the page must keep it.
    ("\r", "&#13;"),
)


def element(name: str, *content: Content, **attributes: object) -> Html:
    """An element. `class_` stands for `class`, `data_value` for `data-value`; an attribute that is
    `None` or `False` is left out, one that is `True` has no value."""
    if name not in _TAGS:
        raise ValueError(f"{name!r} is not an element of keet's pages")
    opening, closing = _TAGS[name]
    parts = [opening]
    for key, value in attributes.items():
        parts.append(_written(key, value) if type(value) is str else _attribute(key, value))
    parts.append(">")
    if closing:
        _add(parts, content)
        parts.append(closing)
    return Html("".join(parts))


def fragment(*content: Content) -> Html:
    """Several pieces one after the other, text among them escaped."""
    parts: list[str] = []
    _add(parts, content)
    return Html("".join(parts))


def joined(pieces: Iterable[Content], between: Content) -> Html:
    """The pieces with something between them."""
    return Html(fragment(between).join([fragment(piece) for piece in pieces]))


def from_svg(drawing: str) -> Html:
    """A drawing of `keet.formats.svg`, whose `tag` and `text_of` escape what they are given."""
    return Html(drawing)


def _add(parts: list[str], content: Iterable[Content]) -> None:
    for each in content:
        if type(each) is Html:
            parts.append(each)
        elif isinstance(each, str):
            parts.append(each if each.isalnum() else escaped(each))
        elif each is not None:
            _add(parts, each)


def _attribute(key: str, value: object) -> str:
    if isinstance(value, str):
        return _written(key, value)
    if value is None or value is False:
        return ""
    name = _attribute_name(key)
    if value is True:
        return f" {name}"
    # Coordinates need four digits. What is sorted by (data-value) keeps all of them.
    is_rounded = isinstance(value, float) and not name.startswith("data-")
    return _written(key, f"{value:.4g}" if is_rounded else str(value))


@lru_cache(maxsize=1024)
def _written(key: str, text: str) -> str:
    """Kept: most attributes of a page are one of a few classes."""
    name = _attribute_name(key)
    if name == "href" and not text.startswith(("#", EDITOR)):
        raise ValueError("links of a page stay on the page, or open a file in an editor")
    return f' {name}="{escaped(text)}"'


@lru_cache(maxsize=256)
def _attribute_name(key: str) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name not in ATTRIBUTES and not name.startswith(("data-", "aria-")):
        raise ValueError(f"{name!r} is not an attribute of keet's pages")
    return name


# --- small parts

_CODE_SPAN = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]{0,39})(?![\w-])")
"""Of a command. Longer words may have to be broken on a narrow screen."""
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the samples from which a line has the next step of heat: about twice each. A judgement:
equal colours mean equal shares, in all launches and pages."""


def prose(text: str) -> Html:
    """A sentence of keet, whatever names are in it: names in backticks become code."""
    # A split at a group gives text and code by turns.
    parts = _CODE_SPAN.split(one_line(text))
    return fragment(
        [element("code", part) if i % 2 else unbroken(part) for i, part in enumerate(parts)]
    )


def unbroken(text: str) -> Html:
    """Text whose options (`-G`, `--section`) are not broken behind their hyphens."""
    if "-" not in text:
        return fragment(text)
    parts: list[Content] = [*_OPTION.split(text)]
    parts[1::2] = [element("span", part, class_="unbroken") for part in parts[1::2]]
    return fragment(parts)


def table(
    heads: Mapping[str, str], rows: Content, foot: Content = None, **attributes: object
) -> Html:
    """A row of headings above the others. `heads`: with the class of each, if it has one."""
    names = [element("th", name, scope="col", class_=kind or None) for name, kind in heads.items()]
    return element(
        "table",
        element("thead", element("tr", names)),
        element("tbody", rows),
        element("tfoot", foot) if foot else None,
        **attributes,
    )


def small_print(text: str) -> Html:
    """A paragraph of small letters."""
    return element("p", element("small", text), class_="muted")


def scrolling(label: str, *content: Content, tag: str = "div", kind: str = "scroll") -> Html:
    """Wide content in a box that scrolls and can be reached with the keyboard. `kind`: its
    class."""
    name = one_line(label)
    return element(tag, *content, class_=kind, tabindex="0", role="region", aria_label=name)


def meter(share_pct: float) -> Html:
    """A bar beside a number that says the same."""
    bar = element("rect", width=f"{min(max(share_pct, 0.0), 100.0):.1f}%", height="100%", rx=2)
    return element("svg", bar, class_="meter", width=128, height=4, aria_hidden="true")


def heat_class(share: float | None) -> str | None:
    """`heat-1` to `heat-8`; None: nothing to see."""
    step = bisect_right(STEPS, share or 0.0)
    return f"heat-{step}" if step else None


# --- the numbers behind a text: what each one is, its value, and its source

_HEADINGS = ("Value", "What it is, and its id", "Metric, or where else it is from")


def draw_evidence(block: EvidenceFigure) -> Html | None:
    """Closed at first; None if nothing is cited."""
    cited = block.cited
    if not cited:
        return None
    pieces = with_sources(cited, {piece.id: piece for piece in block.known})
    cited_ids = {piece.id for piece in cited}
    sources = len(pieces) - len(cited_ids)
    summary = f"Evidence: {count_noun(len(cited_ids), 'number')}"
    ids = {piece.id: f"{block.anchor}-{number}" for number, piece in enumerate(pieces, 1)}
    rows = [_row(piece, ids, is_source=piece.id not in cited_ids) for piece in pieces]
    return element(
        "details",
        element("summary", summary + (f", computed from {sources} more" if sources else "")),
        scrolling("Evidence", table(dict.fromkeys(_HEADINGS, ""), rows)),
        class_="fold evidence",
        data_print=True,
    )


def with_sources(cited: Sequence[Evidence], known: Mapping[str, Evidence]) -> list[Evidence]:
    """The numbers that a text cites, then all that they were computed from, each once."""
    by_id = {piece.id: piece for piece in cited}
    queue = list(by_id.values())
    for piece in queue:
        for name in piece.derived_from or ():
            if name not in by_id and name in known:
                by_id[name] = known[name]
                queue.append(known[name])
    return queue


def _row(piece: Evidence, ids: Mapping[str, str], *, is_source: bool) -> Html:
    at = f" at {one_line(piece.line)}" if piece.line else ""
    name = element("code", one_line(piece.id), class_="break muted")
    return element(
        "tr",
        element("td", str(piece), class_="number"),
        element("td", f"{one_line(piece.label)}{at}", element("br"), name),
        element("td", _origin(piece, ids)),
        id=ids[piece.id],
        class_="source" if is_source else None,
    )


def _origin(piece: Evidence, ids: Mapping[str, str]) -> Content:
    """ncu's name of a metric, or what the number was computed from."""
    if piece.derived_from:
        names = {name: element("code", one_line(name)) for name in piece.derived_from}
        links = [
            element("a", shown, href=f"#{ids[name]}") if name in ids else shown
            for name, shown in names.items()
        ]
        return ["from ", joined(links, ", ")]
    # A report may have it: ncu's names have two underscores, or the catalog knows them.
    is_metric = "__" in piece.metric or metric_named(piece.metric) is not None
    if piece.derived_from is None and is_metric:
        return element("code", one_line(piece.metric), class_="break")
    if piece.metric == "sm_count":
        return "device attribute"
    if "(assumed)" in piece.label:
        return "assumed by keet: not in the report"
    if piece.id.rpartition("#")[2].rpartition(".")[2] == OF_RUN:
        return "computed by keet over several launches"
    return "computed by keet"
