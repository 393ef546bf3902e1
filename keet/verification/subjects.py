"""Finds the launches and the places in code that a text names.

A launch by number or by kernel; a place as `slow.cu:7`, `line 7` or an instruction offset.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from keet.profile import Launch
from keet.profile.launch import KernelName, file_name
from keet.profile.run_link import MAX_DECODED

LAUNCH_NUMBER = re.compile(r"\b[Ll]aunch\s+#?(\d+)\b|(?<![\w&])#(\d+)\b")
_WORD = re.compile(r"\w+")
_OBJECT = re.compile(
    r"\b(?:than|so do(?:es)?|(?:un)?like|compared (?:to|with)|relative to|against|versus|vs\.?"
    r"|over|as|of)\s+(?:that of\s+)?(?:the\s+)?(?:kernel\s+)?(?:#\d+\s+)?[`*]*\Z",
    re.IGNORECASE,
)
_MOST_TEXTS = 8
_PLACES = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
_ANY_ORDINAL = rf"(?:{'|'.join(_PLACES)}|last|\d{{1,6}}(?:st|nd|rd|th))"
_ORDINAL = re.compile(rf"\b{_ANY_ORDINAL}\b", re.IGNORECASE)
_ORDINALS = re.compile(
    r"(?<!-)(?<!\bto )(?<!\bto the )\b"
    rf"(?P<ordinals>{_ANY_ORDINAL}(?:(?:,|,?\s+(?:and|or))\s+(?:the\s+)?{_ANY_ORDINAL}){{0,8}})"
    r"\s+(?:(?:profiled|measured|recorded)\s+)?(?P<noun>(?:kernel\s+)?(?:launch|invocation|call|execution)"
    r"|(?P<kernel>kernel))(?:es|s)?\b(?!\s+(?:from|before|after|to|but)\b)"
    r"(?P<of>\s+(?:of|for)\s+(?:the\s+)?(?:kernel\s+)?[`*]*)?",
    re.IGNORECASE,
)
_ORDINAL_BEFORE = re.compile(rf"\b({_ANY_ORDINAL})\s+[`*]*\Z", re.IGNORECASE)
_NOUN = r"(?:launch(?:es)?|kernels?|invocations?|calls?|executions?)"
_NOUN_BEFORE = re.compile(
    rf"\b{_NOUN}\s+(?:(?:of|for|called|named)\s+)?(?:the\s+)?(?:kernel\s+)?[`*]*\Z", re.IGNORECASE
)
_NOUN_BEHIND = re.compile(
    rf"[`*]*(?:['’]s?)?\s+(?:{_ANY_ORDINAL}\s+|\w+\s+)?{_NOUN}\b", re.IGNORECASE
)
_CELL_BEFORE = re.compile(r"(?:\A|[|│\n]|(?:\A|\n)\s*[-*+•])\s*[`*]*\Z")
_CELL_BEHIND = re.compile(r"[`*]*\s*(?:[|│:]|\s{2,})")
"""Around a cell of a table, or the head of an item of a list."""
_BESIDE = re.compile(r"[`*]*\s+\(?[`*]*")
"""Between a kernel and the number of its launch, in any order."""
_ARTICLE = re.compile(
    r"\b(?:the|this|that|a|an|each|every|to|one|per|no|its|which)\s+\Z", re.IGNORECASE
)
_VERB_BEHIND = re.compile(r"[`*]*\s+(?:takes?|took|uses?|has|have|needs?|reaches|reach)\b")
_AND = re.compile(r"[`*]*\s*(?:,|,?\s*\b(?:and|plus|or)\b|[&+])\s*[`*]*")
_OWNS = re.compile(r"[`*]*['’]s?\s+(?:very\s+)?")


class LaunchName(NamedTuple):
    """Launches that a name refers to: several if a kernel was launched several times."""

    start: int
    end: int
    launches: tuple[Launch, ...]


class LaunchLookup(tuple[Launch, ...]):
    """Launches of one or two reports, found by number and by name. Indices are built once, and the
    results of recent sentences are cached: every check asks for them."""

    # No `__slots__`: cached properties need `__dict__`.

    @property
    def are_many(self) -> bool:
        """Too many to read line tables and source files of each."""
        return len(self) > MAX_DECODED

    @cached_property
    def of_each_kernel(self) -> tuple[Launch, ...]:
        """All launches; if there are many, the first of each kernel, because the others have the
        same code."""
        if not self.are_many:
            return self
        return tuple(self[places[0]] for places in self._by_name.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of kernels and GPUs in all forms, the longest first."""
        forms = {form for name in self._by_name for form in _forms(name)}
        forms |= {launch.device.name or "" for launch in self.of_each_kernel}
        return tuple(sorted(forms - {""}, key=len, reverse=True))

    @cached_property
    def _found(self) -> dict[str, list[LaunchName]]:
        return {}

    def named_in(self, text: str) -> list[LaunchName]:
        """Launches by number, and by the name of their kernel, in the order of the text."""
        if text not in self._found:
            if len(self._found) >= _MOST_TEXTS:
                self._found.clear()
            self._found[text] = self._find(text)
        return self._found[text]

    def _find(self, text: str) -> list[LaunchName]:
        names = [
            LaunchName(m.start(), m.end(), self._by_number[number])
            for m in LAUNCH_NUMBER.finditer(text)
            if (number := int(m[1] or m[2])) in self._by_number
        ]
        words: list[LaunchName] = []
        first_words = {"", *_WORD.findall(text)} & self._forms_by_word.keys()
        forms = [form for word in first_words for form in self._forms_by_word[word]]
        # The longest first: `transpose_tiles` may be part of other names.
        for name in sorted(forms, key=lambda form: (-len(form), form)):
            said = [
                LaunchName(m.start(), m.end(), self._owners[name])
                for m in _as_word(name).finditer(text)
                if not any(other.start <= m.start() < other.end for other in names)
            ]
            (words if _is_word(name) else names).extend(said)
        names += _meant(text, words)
        names.sort(key=lambda each: each.start)
        names = _consistent(text, names)
        return self._with_ordinals(text, names) if _ORDINAL.search(text) else names

    def _with_ordinals(self, text: str, names: list[LaunchName]) -> list[LaunchName]:
        """`the first launch of A`, `A's last launch`, `the first and the second launch`. Those
        beyond the last launch name none, nor do those of two reports, nor `A in its first`."""
        if len(self._by_number) < len(self):  # of two reports
            return names
        launch_names: list[LaunchName] = []

        def add(start: int, end: int, launches: Sequence[Launch], ordinal: str) -> None:
            place = _place(ordinal.lower(), len(launches))
            if place is not None:
                launch_names.append(LaunchName(start, end, (launches[place],)))

        kernels = [name for name in names if not LAUNCH_NUMBER.match(text, name.start)]
        for match in _ORDINALS.finditer(text):
            behind = next((n for n in names if n.start == match.end()), None)
            before = next((n for n in names if _OWNS.fullmatch(text, n.end, match.start())), None)
            owner = behind or before
            launches = owner.launches if owner else self
            several = match["kernel"] and len(self._by_name) != len(self)
            others = owner is None and any(name.launches != self for name in kernels)
            if several or others or (match["of"] and behind is None):
                continue
            end = owner.end if owner is behind and owner else match.end("noun")
            for ordinal in _ORDINAL.finditer(text, match.start(), match.end("ordinals")):
                add(ordinal.start(), ordinal.end(), launches, ordinal[0])
            if launch_names and launch_names[-1].start >= match.start():
                launch_names[-1] = launch_names[-1]._replace(end=end)
        for name in names:
            if said := _ORDINAL_BEFORE.search(text[max(0, name.start - 16) : name.start]):
                add(name.start - len(said[0]), name.end, name.launches, said[1])
        taken = [n for n in names if not any(o.start <= n.start < o.end for o in launch_names)]
        taken = [
            n for n in taken if not any(_OWNS.fullmatch(text, n.end, o.start) for o in launch_names)
        ]
        return sorted([*taken, *launch_names], key=lambda each: each.start)

    @cached_property
    def _by_name(self) -> dict[KernelName, list[int]]:
        """Indices of launches."""
        places: dict[KernelName, list[int]] = {}
        for place, launch in enumerate(self):
            places.setdefault(launch.name, []).append(place)
        return places

    @cached_property
    def _by_number(self) -> dict[int, tuple[Launch, ...]]:
        """Launches of two reports may have the same number."""
        by_number: dict[int, tuple[Launch, ...]] = {}
        for launch in self:
            by_number[launch.id] = (*by_number.get(launch.id, ()), launch)
        return by_number

    @cached_property
    def of_second_report(self) -> frozenset[Launch]:
        """Launches of AFTER, if there are two reports: their numbers begin again."""
        ids = [launch.id for launch in self]
        start = next((at for at in range(1, len(ids)) if ids[at] <= ids[at - 1]), len(ids))
        return frozenset(self[start:])

    @cached_property
    def _owners(self) -> dict[str, tuple[Launch, ...]]:
        """Launches by the forms of their kernels' names."""
        owners: dict[str, set[int]] = {}
        for name, places in self._by_name.items():
            for form in {*_forms(name), name.short.split("<")[0]}:
                if len(form) > 1:
                    owners.setdefault(form, set()).update(places)
        return {form: tuple(self[at] for at in sorted(places)) for form, places in owners.items()}

    @cached_property
    def _forms_by_word(self) -> dict[str, list[str]]:
        """Forms of names by their first word; those that begin with a symbol under the empty
        string."""
        forms: dict[str, list[str]] = {}
        for form in self._owners:
            word = _WORD.match(form)
            forms.setdefault(word[0] if word else "", []).append(form)
        return forms


def _is_word(name: str) -> bool:
    """`add` or `kernel` may be an ordinary word of the text."""
    return len(name) <= 3 or (name.isalpha() and len(name) <= 7)


def _meant(text: str, words: list[LaunchName]) -> list[LaunchName]:
    """The kernels among ordinary words: `launches of scale`, `fill and scale take`."""
    words = sorted(words, key=lambda word: word.start)
    sure = [_is_beside_noun(text, word) for word in words]
    for at in (*reversed(range(len(words) - 1)), *range(1, len(words))):
        for other in {max(0, at - 1), min(at + 1, len(words) - 1)} - {at}:
            first, second = sorted((at, other))
            joined = _AND.fullmatch(text, words[first].end, words[second].start)
            sure[at] = sure[at] or (sure[other] and joined is not None)
    return [word for word, is_sure in zip(words, sure) if is_sure]


def _is_beside_noun(text: str, name: LaunchName) -> bool:
    before = text[max(0, name.start - 40) : name.start]
    if _NOUN_BEFORE.search(before) or _NOUN_BEHIND.match(text, name.end):
        return True
    if _CELL_BEFORE.search(before) and _CELL_BEHIND.match(text, name.end):
        return True
    return not _ARTICLE.search(before) and _VERB_BEHIND.match(text, name.end) is not None


def _consistent(text: str, names: list[LaunchName]) -> list[LaunchName]:
    """`normalise #0` names no launch if launch 0 is of another kernel."""
    for at, (one, two) in enumerate(pairwise(names)):
        if not set(one.launches) & set(two.launches) and _BESIDE.fullmatch(
            text, one.end, two.start
        ):
            names[at : at + 2] = one._replace(launches=()), two._replace(launches=())
    return names


def _forms(name: KernelName) -> set[str]:
    return {name.short, name.full, name.function, name.mangled}


@lru_cache(maxsize=1024)
def _as_word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w:]){re.escape(name)}(?!\w)")


def _place(ordinal: str, count: int) -> int | None:
    """Index of the n-th of so many; None if there is none."""
    if ordinal == "last":
        place = count - 1
    else:
        named = ordinal in _PLACES
        place = _PLACES.index(ordinal) if named else int(ordinal.rstrip("stndrh")) - 1
    return place if 0 <= place < count else None


def is_object(text: str, name: LaunchName) -> bool:
    """Whether the sentence compares another launch with this one: `than X`."""
    return bool(_OBJECT.search(text[max(0, name.start - 40) : name.start]))


_LINE = re.compile(r"(?<=\w):(\d{1,9})(?!\d)|\b[Ll]ine\s(\d{1,9})(?!\d)")
"""Up to nine digits."""
_FILE = re.compile(r"[\w./\\-]*\w\.[A-Za-z]\w*")
_NO_LINE = re.compile(r"\bno source line\b|(?<![\w+])0x(?P<at>[0-9a-f]{4,6})\b")
_WORD_AND_LINE = re.compile(r"\b([^\W\d]\w*):\d")
_ROW_HEAD = re.compile(r"\s*-?\d[\d.,]*\s?%?(?:\s{2,}[\d.,]+)*\s{2,}")
_TITLE = re.compile(r"#\d+ \S")

NO_LINE = 0
RowKey = tuple[str, int] | int | str
"""Key of a table row: (file name, line), the offset of an instruction in its function, or the text
of the first cell, such as the name of a pointer."""


class TextPlace(NamedTuple):
    """A source line that a sentence names."""

    start: int
    end: int
    file: str | None
    """`None`: not given; matches any file."""
    line: int
    """`NO_LINE` for code without a source line."""
    offset: int | None = None
    """Offset of an instruction in its function, if the text names that instead of a line."""


def find_places(text: str, files: Collection[str] = ()) -> list[TextPlace]:
    """In order. `files`: names of source files that look like words (`cmath`)."""
    lines = list(_lines(text))
    for name in files:
        odd = re.finditer(rf"(?<![\w./]){re.escape(name)}:(\d{{1,9}})(?!\d)", text)
        lines += [TextPlace(m.start(), m.end(), name, int(m[1])) for m in odd]
    lines += [
        TextPlace(m.start(), m.end(), None, NO_LINE, int(m["at"], 16) if m["at"] else None)
        for m in _NO_LINE.finditer(text)
    ]
    return sorted(lines, key=lambda place: place.start)


def _lines(text: str) -> Iterator[TextPlace]:
    """Searches backwards from the colon: a pattern that begins with the file name would take
    quadratic time on long words."""
    last = 0
    for match in _LINE.finditer(text):
        if match[2]:
            yield TextPlace(match.start(), match.end(), None, int(match[2]))
        elif (start := _path_start(text, match.start(), last)) is not None:
            file = text[start : match.start()]
            yield TextPlace(start, match.end(), file, int(match[1]))
        last = match.end()


def _path_start(text: str, end: int, first: int) -> int | None:
    """Start of the file name that ends at `end`; None if there is none."""
    start = end
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "_./\\-"):
        start -= 1
    return start if _FILE.fullmatch(text, start, end) else None


def places_within(places: Sequence[TextPlace], start: int, end: int) -> list[TextPlace]:
    """The places of one sentence, with positions relative to the sentence."""
    first = bisect_left(places, start, key=lambda place: place.start)
    last = bisect_left(places, end, key=lambda place: place.start)
    inside = (place for place in places[first:last] if place.end <= end)
    return [p._replace(start=p.start - start, end=p.end - start) for p in inside]


def row_place(
    text: str, places: Sequence[TextPlace], title: TextPlace | None = None
) -> TextPlace | None:
    """`53.4%  141  slow.cu:21  Long Scoreboard 99% for the load at slow.cu:18`: the place that the
    row is about stands behind nothing but numbers, and all numbers are its own. Below the title of
    a source line, rows begin with the offset of an instruction."""
    first = places[0] if places else None
    if first and title and first.start == 0 and first.offset is not None:
        return first
    return first if first and _ROW_HEAD.fullmatch(text, 0, first.start) else None


def is_title(text: str) -> bool:
    """Whether it is the first line of keet's output about a launch."""
    return bool(_TITLE.match(text))


def title_place(text: str, places: Sequence[TextPlace]) -> TextPlace | None:
    """`#0 flip slow.cu:7`, as `keet hotspots --line` begins: the numbers below are that line's."""
    last = places[-1] if places else None
    return last if last and last.end == len(text) and last.file and is_title(text) else None


def wordlike_files(text: str, launches: Iterable[Launch]) -> set[str]:
    """Files without an extension that the text names: `cmath:31`, of the standard library.

    Line tables are read only if the text contains something of this form.
    """
    said = {match[1] for match in _WORD_AND_LINE.finditer(text)}
    if not said:
        return said
    files = {location.file for launch in launches for location in launch.locations.values()}
    return said.intersection(name for name in map(file_name, files) if name.isidentifier())
