"""Tracks what the text is about: the current launches, table row and source line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.profile import Launch
from keet.profile.names import file_name
from keet.verification.text.claims import Claim
from keet.verification.text.launch_names import LaunchLookup, LaunchName, is_object
from keet.verification.text.sentences import SentenceSpan
from keet.verification.text.source_places import (
    RowKey,
    TextPlace,
    is_title,
    row_place,
    title_place,
)

_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TITLE = re.compile(r"#\d+ [^\n]*?:\s|#\d+ \S[^\n]{0,200}\Z")
"""How keet begins what it prints of a launch: `#0 flip: grid 256×1024`."""
_HEADING = re.compile(r"(#{1,6}) ")
_FIRST_CELL = re.compile(r"(\S+) {2,}")
_DEEPER = 3
"""Smallest indentation, in columns, of lines that belong to a row."""


class CurrentTopic:
    """The launches that the text is about, updated per sentence."""

    def __init__(self, text: str, launches: LaunchLookup) -> None:
        self._text = text
        self._launches = launches
        self._topic: LaunchName | None = None
        """What the last sentence was about: `it` in the next one."""
        self._title: LaunchName | None = None
        """What the heading is about; applies to all paragraphs below it."""
        self._level = 0
        self._previous: SentenceSpan | None = None
        self._row: RowKey | None = None
        self._column = 0
        self.place: TextPlace | None = None
        """The source line that the last title names; the numbers below belong to it."""

    @property
    def launches(self) -> tuple[Launch, ...] | None:
        """`None` if the text has not named any."""
        named = self._topic or self._title
        return named.launches if named else None

    @property
    def topic(self) -> tuple[Launch, ...] | None:
        """Launches that the sentences before named."""
        return self._topic.launches if self._topic else None

    @property
    def title(self) -> tuple[Launch, ...] | None:
        """Launches that the heading names."""
        return self._title.launches if self._title else None

    def enter(self, sentence: SentenceSpan) -> None:
        """A new paragraph is about all launches again, unless a heading names some."""
        before = self._previous
        self._previous = sentence
        self._head(sentence)
        if before is None or not _BLANK_LINE.search(self._text[before.end : sentence.start]):
            return
        self._row = None
        if not (before.text.startswith("#") or before.text.endswith(":")):
            self._topic = None

    def leave(self, sentence: SentenceSpan) -> None:
        self._topic = self._spoken_of(sentence.text) or self._topic

    def _head(self, sentence: SentenceSpan) -> None:
        heading = _HEADING.match(sentence.text)
        if not heading and not _TITLE.match(sentence.text):
            return
        level = len(heading[1]) if heading else 0
        about = self._spoken_of(sentence.text)
        if about or level <= self._level:
            self._title, self._level = about, level

    def _spoken_of(self, text: str) -> LaunchName | None:
        """What the sentence is about, without what it is compared with."""
        names = self._launches.named_in(text)
        subjects = [name for name in names if not is_object(text, name)]
        launches = dict.fromkeys(launch for name in subjects for launch in name.launches)
        return names[0]._replace(launches=tuple(launches)) if launches else None

    def rows(self, sentence: SentenceSpan, places: Sequence[TextPlace]) -> None:
        """Update the current row, which a sentence begins or (if indented) continues, and the
        source line that a title names. `places`: all places of the sentence."""
        if is_title(sentence.text):
            self.place = title_place(sentence.text, places)
        leading = row_place(sentence.text, places, self.place)
        column = sentence.start - (self._text.rfind("\n", 0, sentence.start) + 1)
        if leading is not None:
            self._row, self._column = row_key_of(leading), column
        elif column < self._column + _DEEPER:
            self._row = None

    def rows_of(self, claim: Claim) -> tuple[RowKey, ...]:
        """Keys of the place that a number belongs to, and of its row."""
        own = row_key_of(claim.place) if claim.place else None
        first = _FIRST_CELL.match(claim.sentence.text)
        title = row_key_of(self.place) if self.place else None
        keys = (own, self._row, first and first[1], title)
        return tuple(key for key in dict.fromkeys(keys) if key is not None)


def row_key_of(place: TextPlace) -> RowKey:
    """Key of the row of `keet hotspots`."""
    if place.offset is not None:
        return place.offset
    return file_name(place.file or ""), place.line
