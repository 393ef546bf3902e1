"""Text with styles, and its lines at a width: wrapped at words, cut or folded."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

from keet.render.terminal.layout.cells import cell_len, folded, is_joined, is_narrow, set_cell_len
from keet.render.terminal.layout.styles import Style, StyleName, over, style_of

Justify = Literal["left", "right", "center"]
Overflow = Literal["fold", "ellipsis", "ignore"]
"""What happens to a word that is longer than the line: folded, cut, or left to the terminal."""

Piece = str | tuple[str, Style]
Line = list[Piece]
Span = tuple[int, int, StyleName]
"""Start, end, style."""

_DROPPED = dict.fromkeys((0x07, 0x08, 0x0B, 0x0C, 0x0D))
"""Control characters that would change the layout; others are shown as escapes when printed."""
_TAB = 8
_WORD = re.compile(r"\s*\S+\s*")


class Setting(NamedTuple):
    """Defaults for texts that do not set these options themselves."""

    styled: bool = False
    """Whether styles are computed; they are left out if the output has none."""
    ascii_only: bool = False
    justify: Justify | None = None
    """None: as `left`, without trailing blanks."""
    overflow: Overflow | None = None
    no_wrap: bool = False


class Text:
    """A text with a style, and parts that have other styles."""

    __slots__ = ("no_wrap", "overflow", "plain", "spans", "style")

    def __init__(
        self,
        text: str = "",
        style: StyleName = "",
        *,
        overflow: Overflow | None = None,
        no_wrap: bool | None = None,
    ) -> None:
        self.plain = text if text.isprintable() else text.translate(_DROPPED)
        self.style = style
        self.spans: list[Span] = []
        self.overflow = overflow
        self.no_wrap = no_wrap

    @classmethod
    def assemble(cls, *parts: str | Text | tuple[str, StyleName]) -> Text:
        """Joins parts that have one style each."""
        text = cls()
        for part in parts:
            if isinstance(part, tuple):
                text.append(*part)
            else:
                text.append(part)
        return text

    def __len__(self) -> int:
        return len(self.plain)

    @property
    def cell_len(self) -> int:
        return cell_len(self.plain)

    def append(self, text: str | Text, style: StyleName = "") -> Text:
        if not text:
            return self
        return self.append_text(Text(text, style) if isinstance(text, str) else text)

    def append_text(self, text: Text) -> Text:
        start = len(self.plain)
        self.plain += text.plain
        if text.style:
            self.spans.append((start, start + len(text.plain), text.style))
        self.spans += [(start + first, start + end, style) for first, end, style in text.spans]
        return self

    def join(self, texts: Iterable[Text]) -> Text:
        """Joins the texts, with this one as separator."""
        joined = Text()
        for number, text in enumerate(texts):
            if number:
                joined.append_text(self)
            joined.append_text(text)
        return joined

    def stylize(self, style: StyleName) -> None:
        """Adds a style over the styles of its parts."""
        if self.plain:
            self.spans.append((0, len(self.plain), style))

    def right_crop(self, count: int) -> None:
        self._shorten(self.plain[:-count])

    def truncate(self, width: int, overflow: Overflow) -> bool:
        """Cuts the text; returns whether it was too long."""
        if overflow == "ignore" or cell_len(self.plain) <= width:
            return False
        has_mark = overflow == "ellipsis"
        cut = set_cell_len(self.plain, width - has_mark)
        self._shorten(f"{cut}…" if has_mark else cut)
        return True

    def widest(self) -> int:
        """Number of cells of its longest line."""
        if is_narrow(self.plain):
            return len(self.plain)
        return max(map(cell_len, self.plain.splitlines()), default=0)

    def lines(self, width: int, how: Setting) -> list[Line]:
        plain, is_styled = self.plain, how.styled
        if len(plain) <= width and is_narrow(plain) and not (is_styled and self.spans):
            # Fast path: most texts fit as they are.
            fitting = _justified(plain, width, None if self._is_ignored(how) else how.justify)
            style = style_of(self.style) if is_styled else None
            return [[(fitting, style) if style else fitting]]
        return [_pieces(line) for line in self._wrapped(width, how)]

    # --- implementation

    def _is_ignored(self, how: Setting) -> bool:
        return (self.overflow or how.overflow) == "ignore"

    def _shorten(self, plain: str) -> None:
        """Also removes the styles of the part that was cut."""
        end = len(plain)
        if end < len(self.plain):
            self.spans = [
                (first, min(end, last), style) for first, last, style in self.spans if first < end
            ]
        self.plain = plain

    def _wrapped(self, width: int, how: Setting) -> list[Text]:
        whole = self
        if not how.styled and not is_joined(self.plain):
            whole = Text(self.plain)
        overflow = self.overflow or how.overflow or "fold"
        no_wrap = how.no_wrap if self.no_wrap is None else self.no_wrap
        wrapped: list[Text] = []
        for line in map(_without_tabs, _split(whole)):
            if overflow == "ignore":
                wrapped.append(line)
                continue
            breaks = [] if no_wrap else _breaks(line.plain, width, fold=overflow == "fold")
            for part in _divided(line, breaks):
                if not no_wrap:
                    _strip_end(part, width)
                _justify(part, width, how.justify, overflow)
                wrapped.append(part)
        return wrapped


def _justified(text: str, width: int, justify: Justify | None) -> str:
    """For a text that fits and whose characters take one cell each."""
    if justify == "left":
        return text.ljust(width)
    if justify == "right":
        return text.rstrip().rjust(width)
    if justify == "center":
        text = text.rstrip()
        return (" " * ((width - len(text)) // 2) + text).ljust(width)
    return text


def _justify(line: Text, width: int, justify: Justify | None, overflow: Overflow) -> None:
    if justify in ("right", "center"):
        line._shorten(line.plain.rstrip())
    is_cut = line.truncate(width, overflow)
    missing = width - cell_len(line.plain)
    # A cut text may come out too short if characters are joined: it is not padded then.
    if justify is None or missing <= 0 or (justify == "left" and is_cut):
        return
    left = {"left": 0, "right": missing, "center": missing // 2}[justify]
    line.plain = " " * left + line.plain + " " * (missing - left)
    line.spans = [(first + left, end + left, style) for first, end, style in line.spans]


def _strip_end(line: Text, width: int) -> None:
    """Removes trailing blanks that do not fit."""
    excess = len(line.plain) - width
    if excess > 0:
        blanks = len(line.plain) - len(line.plain.rstrip())
        if blanks:
            line.right_crop(min(blanks, excess))


def _split(text: Text) -> list[Text]:
    """Splits at newlines."""
    at = _places(text.plain, "\n")
    parts = _divided(text, [each for place in at for each in (place, place + 1)])
    return parts[::2]


def _places(text: str, character: str) -> list[int]:
    return [at for at, each in enumerate(text) if each == character] if character in text else []


def _divided(text: Text, places: list[int]) -> list[Text]:
    """Splits the text at the given positions, which may repeat."""
    if not places:
        return [_copy(text)]
    starts, ends = [0, *places], [*places, len(text.plain)]
    parts = [Text(text.plain[start:end], text.style) for start, end in zip(starts, ends)]
    for first, last, style in text.spans:
        for number in range(bisect_right(ends, first), bisect_left(starts, last)):
            start, end = max(first, starts[number]), min(last, ends[number])
            if start < end:
                parts[number].spans.append((start - starts[number], end - starts[number], style))
    return parts


def _copy(text: Text) -> Text:
    copied = Text(text.plain, text.style)
    copied.spans = text.spans.copy()
    return copied


def _without_tabs(line: Text) -> Text:
    """Replaces tabs with blanks, in the style of the text before them."""
    if "\t" not in line.plain:
        return line
    position = 0
    expanded = Text("", line.style)
    for part in _divided(line, [at + 1 for at in _places(line.plain, "\t")]):
        if part.plain.endswith("\t"):
            _fill_tab(part, position)
        position += cell_len(part.plain)
        if part.plain:
            expanded.append_text(part)
    return expanded


def _fill_tab(part: Text, position: int) -> None:
    plain = part.plain[:-1] + " "
    missing = -(position + cell_len(plain)) % _TAB
    end = len(plain)
    part.plain = plain + " " * missing
    part.spans = [
        (first, last + missing if last >= end else last, style) for first, last, style in part.spans
    ]


def _breaks(text: str, width: int, *, fold: bool) -> list[int]:
    """Positions where lines begin, except for the first line."""
    if is_narrow(text) and (easy := _breaks_at_blanks(text, width)) is not None:
        return easy
    breaks: list[int] = []
    used = 0
    for found in _WORD.finditer(text):
        start, word = found.start(), found[0]
        cells = cell_len(word.rstrip())
        if cells <= width - used:
            used += cell_len(word)
        elif cells > width and fold:
            pieces = folded(word, width)
            for piece in pieces:
                breaks += [start] if start else []
                start += len(piece)
            used = cell_len(pieces[-1])
        elif start and (used or cells > width):
            breaks.append(start)
            used = cell_len(word)
        elif cells > width:
            used = cell_len(word)
    return breaks


def _breaks_at_blanks(text: str, width: int) -> list[int] | None:
    """Fast version for words that are separated by single blanks and fit on a line; None for other
    texts."""
    if "  " in text or text[:1] == " " or text[-1:] == " ":
        return None if len(text) > width else []
    breaks, start = [], 0
    while len(text) - start > width:
        start = text.rfind(" ", start, start + width + 1) + 1
        if not start:
            return None
        breaks.append(start)
    return breaks


def _pieces(line: Text) -> Line:
    """Splits the text where a style begins or ends."""
    own = style_of(line.style)
    if not line.spans:
        return [(line.plain, own) if own else line.plain]
    borders = sorted({0, len(line.plain), *(at for span in line.spans for at in span[:2])})
    return [
        _styled(line.plain[start:end], start, own, line.spans) for start, end in pairwise(borders)
    ]


def _styled(text: str, at: int, style: Style | None, spans: Iterable[Span]) -> Piece:
    for first, last, name in spans:
        if first <= at < last:
            style = over(style, style_of(name))
    return (text, style) if style else text
