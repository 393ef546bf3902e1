"""Which lines of its source files a listing shows: all of a file, or what there is room for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from keet.records import NamedTuple
from keet.render.common.excerpt import around
from keet.render.html.markup import escaped

TAB = 4
_WHOLE_FILE = 5_000
"""Lines of a file that is shown in full. A judgement: generated code and headers have more."""
_CUT_RADII = (30, 3)
"""Lines around executed ones that are kept of a file that is not shown in full, and of one that
there is less room for."""
OF_ID = 80
"""Bytes of what lines have that can be linked to."""
_OF_FILE, _OF_LINE, _OF_GAP = 1_000, 10, 60
"""Bytes besides the text: of a file its heading and the names of the columns, of a line its
element, and what is said of lines left out before an executed one."""


class Extent(NamedTuple):
    """What a listing shows of one file."""

    numbers: Sequence[int]
    """Of the lines, in order."""
    note: str = ""
    """Which part of the text this is; empty where it is all of it."""


class FileLines(NamedTuple):
    """One file of a listing."""

    text: Sequence[str]
    """Empty where the text is not at hand."""
    executed: Sequence[int]
    """Line numbers, those with most samples first."""
    named: Collection[int]
    """Lines that findings name."""

    def extents(self) -> Iterator[Extent]:
        """From the whole file to the executed lines alone."""
        length = len(self.text)
        must = {*self.executed, *self.named}
        if length <= _WHOLE_FILE:
            yield Extent(sorted({*must, *range(1, length + 1)}))
        note = f"{length:,} lines, of which the text near executed lines is shown"
        for radius in _CUT_RADII:
            yield Extent(sorted({*must, *around(must, radius, length)}), note)
        yield Extent(sorted(must), f"{length:,} lines, of which the executed ones are shown")

    def hottest(self, room: int) -> Extent:
        """As many of the executed lines as there is room for."""
        kept: list[int] = []
        room -= _OF_FILE
        for number in dict.fromkeys((*self.named, *self.executed)):
            room -= self._written([number]) + OF_ID + _OF_GAP
            if room < 0:
                break
            kept.append(number)
        return Extent(sorted(kept), "only the hottest lines are shown")

    def size(self, numbers: Sequence[int]) -> int:
        """Bytes of these lines on a page, about."""
        linked = len({*self.executed, *self.named}.intersection(numbers))
        return _OF_FILE + self._written(numbers) + (OF_ID + _OF_GAP) * linked

    def _written(self, numbers: Sequence[int]) -> int:
        length = len(self.text)
        shown = "\n".join([self.text[n - 1] for n in numbers if n <= length])
        text = escaped(shown.expandtabs(TAB))
        return len(text.encode("utf-8", "backslashreplace")) + _OF_LINE * len(numbers)


def extents_of(files: Mapping[str, FileLines]) -> dict[str, Extent]:
    """Where text is not counted."""
    return {path: next(file.extents()) for path, file in files.items()}


def extents_within(files: Mapping[str, FileLines], room: int) -> tuple[dict[str, Extent], int]:
    """What there is room for, the first file first, and how many bytes that takes. Of a file with
    no room for a line nothing is shown."""
    found: dict[str, Extent] = {}
    used = 0
    for path, file in files.items():
        left = room - used
        fitting = (each for each in file.extents() if file.size(each.numbers) <= left)
        chosen = next(fitting, None) or file.hottest(left)
        if chosen.numbers:
            found[path] = chosen
            used += file.size(chosen.numbers)
    return found, used
