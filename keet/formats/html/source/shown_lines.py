"""Which lines of the source files a listing shows: all of a file, or as many as fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.formats.html.markup import escaped
from keet.pages.source_text import around

TAB = 4
_WHOLE_FILE = 5_000
"""Most lines of a file that is shown in full. A judgement: generated code and headers have more."""
_CUT_RADII = (30, 3)
"""Lines around executed ones that are shown of a file that is not shown in full, and if there is
still less room."""
OF_ID = 80
"""Bytes of the anchor of a line that can be linked to."""
_OF_FILE, _OF_LINE, _OF_GAP = 1_000, 10, 60
"""Bytes besides the text: of a file its heading and the names of the columns, of a line its
element, and what is said of lines left out before an executed one."""


class ShownLines(NamedTuple):
    """What a listing shows of one file."""

    numbers: Sequence[int]
    """Of the lines, in order."""
    note: str = ""
    """Says which part of the text is shown; empty if it is all of it."""


class FileLines(NamedTuple):
    """One file of a listing."""

    text: Sequence[str]
    """Empty if the text is not available."""
    executed: Sequence[int]
    """Line numbers, those with the most samples first."""
    named: Collection[int]
    """Lines that findings name."""

    def extents(self) -> Iterator[ShownLines]:
        """From the whole file to the executed lines alone."""
        length = len(self.text)
        must = {*self.executed, *self.named}
        if length <= _WHOLE_FILE:
            yield ShownLines(sorted({*must, *range(1, length + 1)}))
        note = f"{length:,} lines, of which the text near executed lines is shown"
        for radius in _CUT_RADII:
            yield ShownLines(sorted({*must, *around(must, radius, length)}), note)
        yield ShownLines(sorted(must), f"{length:,} lines, of which the executed ones are shown")

    def hottest(self, room: int) -> ShownLines:
        """As many of the executed lines as there is room for."""
        kept: list[int] = []
        room -= _OF_FILE
        for number in dict.fromkeys((*self.named, *self.executed)):
            room -= self._written([number]) + OF_ID + _OF_GAP
            if room < 0:
                break
            kept.append(number)
        return ShownLines(sorted(kept), "only the hottest lines are shown")

    def size(self, numbers: Sequence[int]) -> int:
        """Bytes of these lines on a page, about."""
        linked = len({*self.executed, *self.named}.intersection(numbers))
        return _OF_FILE + self._written(numbers) + (OF_ID + _OF_GAP) * linked

    def _written(self, numbers: Sequence[int]) -> int:
        length = len(self.text)
        shown = "\n".join([self.text[n - 1] for n in numbers if n <= length])
        text = escaped(shown.expandtabs(TAB))
        return len(text.encode("utf-8", "backslashreplace")) + _OF_LINE * len(numbers)


def extents_of(files: Mapping[str, FileLines]) -> dict[str, ShownLines]:
    """Where text is not counted."""
    return {path: next(file.extents()) for path, file in files.items()}


def extents_within(files: Mapping[str, FileLines], room: int) -> tuple[dict[str, ShownLines], int]:
    """What fits, starting with the first file, and how many bytes it takes. A file for which not
    even one line fits is left out."""
    found: dict[str, ShownLines] = {}
    used = 0
    for path, file in files.items():
        left = room - used
        fitting = (each for each in file.extents() if file.size(each.numbers) <= left)
        chosen = next(fitting, None) or file.hottest(left)
        if chosen.numbers:
            found[path] = chosen
            used += file.size(chosen.numbers)
    return found, used
