"""Counts the terminal cells of a text, and cuts texts to a number of cells."""

from __future__ import annotations

from bisect import bisect

_JOINER, _EMOJI = "\u200d", "\ufe0f"
"""The character after a joiner takes no cell. U+FE0F turns the character before it into an emoji.
"""

Grapheme = tuple[int, int, int]
"""Start, end and number of cells of a unit that is drawn as one character."""


def is_narrow(text: str) -> bool:
    """Whether every character is printable and takes one cell. Two checks in C are enough for most
    texts."""
    if text.isascii():
        return text.isprintable()
    return _WIDTHS.narrow.issuperset(text) or _has_only_narrow(text)


def cell_len(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text)
    if is_joined(text):
        while text.startswith(_JOINER):
            text = text[2:]
        return sum(cells for _, _, cells in _graphemes(text))
    return sum(map(_WIDTHS.__getitem__, text))


def is_joined(text: str) -> bool:
    """Whether the text has characters that combine, so that their cells cannot be counted
    separately."""
    return _JOINER in text or _EMOJI in text


def set_cell_len(text: str, cells: int) -> str:
    """Cut at the right, or padded with blanks. A wide character that is cut in half becomes a
    blank."""
    if is_narrow(text):
        return text[:cells].ljust(cells)
    if cells <= 0:
        return ""
    missing = cells - cell_len(text)
    return text + " " * missing if missing >= 0 else _cut(text, cells)


def _cut(text: str, cells: int) -> str:
    for start, _, size in _graphemes(text):
        if size > cells:
            return text[:start] + " " * cells
        cells -= size
    return text


def folded(text: str, cells: int) -> list[str]:
    """Splits the text into pieces of at most so many cells."""
    if is_narrow(text):
        return [text[at : at + cells] for at in range(0, len(text), cells)]
    pieces, first, used = [], 0, 0
    for start, _, size in _graphemes(text):
        if used + size > cells:
            pieces.append(text[first:start])
            first, used = start, 0
        used += size
    return [*pieces, text[first:]] if used else pieces


class _Widths(dict[str, int]):
    """Cache of the cells per character."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow: set[str] = set()
        """Printable, one cell."""

    def __missing__(self, character: str) -> int:
        from keet.render.terminal.layout.cell_widths import DOUBLE, ZERO

        code = ord(character)
        is_none = code < 0x20 or 0x7F <= code < 0xA0 or bisect(ZERO, code) % 2
        width = 0 if is_none else 2 if bisect(DOUBLE, code) % 2 else 1
        self[character] = width
        if width == 1 and character.isprintable():
            self.narrow.add(character)
        return width


_WIDTHS = _Widths()


def _has_only_narrow(text: str) -> bool:
    """Whether every character takes one cell; fills the cache for those that are new."""
    for character in {*text}:
        _ = _WIDTHS[character]
    return _WIDTHS.narrow.issuperset(text)


def _graphemes(text: str) -> list[Grapheme]:
    """Splits the whole text: a character that takes no cell belongs to the one before it."""
    from keet.render.terminal.layout.cell_widths import WIDENED

    found: list[Grapheme] = []
    at, last = 0, ""
    while at < len(text):
        character = text[at]
        size = 0 if character in (_JOINER, _EMOJI) else _WIDTHS[character]
        end = min(at + 2, len(text)) if character == _JOINER and found else at + 1
        if size or not found:
            found.append((at, end, size))
            last = character if size else last
        else:
            start, _, cells = found[-1]
            is_widened = character == _EMOJI and last in WIDENED
            found[-1] = (start, end, cells + 1 if is_widened else cells)
            last = "" if is_widened else last
        at = end
    return found
