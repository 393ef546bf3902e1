"""Parses an HTML page of keet for tests."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from html.parser import HTMLParser

from keet.formats.html.blocks import html_part, with_targets
from keet.formats.html.markup import Html
from keet.pages.blocks import Block

_VOID = frozenset(("br", "meta", "link"))
_NOT_READ = frozenset(("style", "script"))


class PageParts(HTMLParser):
    """Elements with their attributes, and the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.unbalanced: list[str] = []
        self._text: list[str] = []
        self._by_id: dict[str, list[str]] = {}
        self._open: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()
        self.unbalanced += [name for name, _ in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in _VOID:
            self._open.append((tag, found.get("id")))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.unbalanced.append(tag)
            return
        self._open.pop()
        # Words of two cells are not one word.
        self._add(" " if tag in ("td", "th", "p", "li", "dd", "dt", "h2", "h3", "h4") else "")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] not in _NOT_READ:
            self._add(data)

    def _add(self, text: str) -> None:
        self._text.append(text)
        for _, key in self._open:
            if key:
                self._by_id.setdefault(key, []).append(text)

    @cached_property
    def text(self) -> str:
        return " ".join("".join(self._text).split())

    def text_of(self, key: str) -> str:
        """Of the element with an id; one that is not there has none."""
        return " ".join(self.raw_text_of(key).split())

    def raw_text_of(self, key: str) -> str:
        """With its line breaks, as a button copies it."""
        return "".join(self._by_id.get(key, ()))

    @property
    def ids(self) -> list[str]:
        return [found["id"] or "" for _, found in self.elements if "id" in found]

    @property
    def targets(self) -> list[str]:
        """Of links, and of buttons that copy."""
        links = [found.get("href") for name, found in self.elements if name == "a"]
        copied = [found["data-copy"] for _, found in self.elements if "data-copy" in found]
        return [each.removeprefix("#") for each in (*links, *copied) if each]

    def attributes(self, name: str) -> list[dict[str, str | None]]:
        return [found for element, found in self.elements if element == name]


def broken_links(page: PageParts) -> list[str]:
    """Targets that are not there, and ids that are there twice."""
    ids = Counter(page.ids)
    twice = [f"{key} is there {count} times" for key, count in ids.items() if count > 1]
    return twice + [f"{target} is not there" for target in page.targets if target not in ids]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.built = ET.TreeBuilder()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.built.start(tag, {name: value or "" for name, value in attrs})
        self._open.append(tag)
        if tag in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements are closed in order"
        self.built.end(tag)

    def handle_data(self, data: str) -> None:
        self.built.data(data)


def html_blocks(blocks: Iterable[Block]) -> Html:
    """Without a page around them."""
    return with_targets(html_part(blocks))


def page_tree(markup: str) -> ET.Element:
    """A page, or a part of one, as elements inside each other."""
    builder = _Builder()
    builder.feed(f"<div>{markup}</div>")
    builder.close()
    return builder.built.close()


def with_class(root: ET.Element, *names: str) -> Iterator[ET.Element]:
    """Elements that have all these classes."""
    return (node for node in root.iter() if {*names} <= {*node.get("class", "").split()})


def with_id(root: ET.Element, key: str) -> ET.Element:
    """The only element with this id."""
    (found,) = [node for node in root.iter() if node.get("id") == key]
    return found


def words(node: ET.Element) -> str:
    return " ".join("".join(node.itertext()).split())


def table_rows(root: ET.Element) -> list[dict[str, ET.Element]]:
    """Rows of the only table, their cells by the name of the column."""
    (table,) = root.iter("table")
    (head,), (body,) = table.iter("thead"), table.iter("tbody")
    names = [words(cell) for cell in head.iter("th")]
    return [dict(zip(names, row, strict=True)) for row in body.iter("tr")]


def value_of(cell: ET.Element) -> float | None:
    """What the cell is sorted by."""
    text = cell.get("data-value")
    assert text is not None, "the cell has nothing to sort by"
    return float(text) if text else None


def links_in(node: ET.Element) -> list[str]:
    """Ids that it links to."""
    return [link.get("href", "").removeprefix("#") for link in node.iter("a")]
