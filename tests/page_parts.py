"""Parses an HTML page of keet for tests."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from html.parser import HTMLParser

from keet.formats.html.blocks import html_part, with_targets
from keet.formats.html.markup import Html
from keet.pages.blocks import Block

_VOID = frozenset(("br", "meta", "link", "img"))
_NOT_READ = frozenset(("style", "script"))
_APART = frozenset(("td", "th", "p", "li", "dd", "dt", "h2", "h3", "h4"))


class PageParts:
    """Elements with their attributes, and the text that a reader sees."""

    def __init__(self, page: str) -> None:
        self._root = page_tree(page)
        self.elements = [(node.tag, node.attrib) for node in self._root.iter()][1:]

    @cached_property
    def text(self) -> str:
        return " ".join(_text(self._root).split())

    def text_of(self, key: str) -> str:
        """Of the element with an id; one that is not there has none."""
        return " ".join(self.raw_text_of(key).split())

    def raw_text_of(self, key: str) -> str:
        """With its line breaks, as a button copies it."""
        return "".join(_text(node) for node in self._root.iter() if node.get("id") == key)

    @property
    def ids(self) -> list[str]:
        return [found["id"] for _, found in self.elements if "id" in found]

    @property
    def targets(self) -> list[str]:
        """Of links, and of buttons that copy."""
        links = [found.get("href") for name, found in self.elements if name == "a"]
        copied = [found["data-copy"] for _, found in self.elements if "data-copy" in found]
        return [each.removeprefix("#") for each in (*links, *copied) if each]

    def attributes(self, name: str) -> list[dict[str, str]]:
        return [found for element, found in self.elements if element == name]


def _text(node: ET.Element) -> str:
    """Words of two cells are not one word."""
    parts = [node.text or ""] if node.tag not in _NOT_READ else []
    for child in node:
        parts += [_text(child), " " * (child.tag in _APART), child.tail or ""]
    return "".join(parts)


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
    assert not builder._open, "elements are closed"
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
