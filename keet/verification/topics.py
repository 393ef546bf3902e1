"""Tracks what a text is about, from sentence to sentence.

The current launches, table row and source line; and the scopes of quantifiers, which may apply to
later sentences, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from keet.profile import Launch
from keet.profile.launch import file_name
from keet.verification.claims import Claim
from keet.verification.metric_names import terms_in
from keet.verification.numbers import TextNumber
from keet.verification.scope import Domains, Scope, Sentence, find_quantifiers, scope_of
from keet.verification.sentences import SentenceSpan, Spanned, blanked
from keet.verification.subjects import (
    LaunchLookup,
    RowKey,
    TextPlace,
    is_object,
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
        self.topic: tuple[Launch, ...] | None = None
        """What the last sentence was about: `it` in the next one."""
        self.title: tuple[Launch, ...] | None = None
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
        return self.topic or self.title

    def enter(self, sentence: SentenceSpan) -> None:
        """A new paragraph is about all launches again, unless a heading names some."""
        before = self._previous
        self._previous = sentence
        self._head(sentence)
        if before is None or not _BLANK_LINE.search(self._text[before.end : sentence.start]):
            return
        self._row = None
        if not (before.text.startswith("#") or before.text.endswith(":")):
            self.topic = None

    def leave(self, sentence: SentenceSpan) -> None:
        self.topic = self._spoken_of(sentence.text) or self.topic

    def _head(self, sentence: SentenceSpan) -> None:
        heading = _HEADING.match(sentence.text)
        if not heading and not _TITLE.match(sentence.text):
            return
        level = len(heading[1]) if heading else 0
        about = self._spoken_of(sentence.text)
        if about or level <= self._level:
            self.title, self._level = about, level

    def _spoken_of(self, text: str) -> tuple[Launch, ...] | None:
        """What the sentence is about, without what it is compared with."""
        subjects = (name for name in self._launches.named_in(text) if not is_object(text, name))
        return tuple(dict.fromkeys(x for name in subjects for x in name.launches)) or None

    def rows(self, sentence: SentenceSpan, places: Sequence[TextPlace]) -> None:
        """Update the current row, which a sentence begins or (if indented) continues, and the
        source line that a title names. `places`: all places of the sentence."""
        if is_title(sentence.text):
            self.place = title_place(sentence.text, places)
        leading = row_place(sentence.text, places, self.place)
        column = sentence.start - (self._text.rfind("\n", 0, sentence.start) + 1)
        if leading is not None:
            self._row, self._column = _row_key_of(leading), column
        elif column < self._column + _DEEPER:
            self._row = None

    def rows_of(self, claim: Claim) -> tuple[RowKey, ...]:
        """Keys of the place that a number belongs to, and of its row."""
        own = _row_key_of(claim.place) if claim.place else None
        first = _FIRST_CELL.match(claim.sentence.text)
        title = _row_key_of(self.place) if self.place else None
        keys = (own, self._row, first and first[1], title)
        return tuple(key for key in dict.fromkeys(keys) if key is not None)


def _row_key_of(place: TextPlace) -> RowKey:
    """Key of the row of `keet hotspots`."""
    if place.offset is not None:
        return place.offset
    return file_name(place.file or ""), place.line


_Carried = Literal["always", "for pronouns"] | None
_THEY = re.compile(
    r"\b(?:they|them|their|theirs|these|those|likewise|same|also|too|so|ones?)\b", re.IGNORECASE
)
_HIDDEN = re.compile(
    r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|[a-z][\u0370-\u03bb\u03bd-\u052f]|[\u0370-\u03bb\u03bd-\u052f][a-z]",
    re.I,
)
"""Characters that no reader sees, and letters of two scripts in one word: they hide words."""
_LEAD = 80
"""Characters of a sentence that says what the next ones are about, at most."""
_LONGEST_TITLE = 60
"""Characters of a line that may be a title, at most."""
_ITEM = re.compile(r"(?:[-*+•|]|\d+[.)])\s")
_REFERS_BACK = re.compile(
    r"\b(?:this|that|it|which)\s+(?:holds?|applies|goes|is\s+(?:so|true|the))\b|\b(?:so|as)\s+(?:do|does)\b"
    r"|\b(?:others|they|all)\s+(?:do|does|did)\b|\b(?:same|true|likewise|ditto)\b",
    re.IGNORECASE,
)


class ScopeTracker:
    """The scopes of the sentences of a text, in order. A scope may carry over to later sentences:
    `For all launches:`, then a list; `Each launch is alike. Their occupancy is 70 %.`"""

    def __init__(self, text: str, launches: LaunchLookup, selected: Sequence[Launch]) -> None:
        """`text`: without quoted code."""
        self._text = text
        self._launches = launches
        self._report, self._selected = tuple(launches), tuple(selected)
        self._before: SentenceSpan | None = None
        self._carried: _Carried = None
        self._heading = False
        """The last heading is about several launches."""
        self.refers_back = False
        """The last sentence quantifies the one before it: `This holds for every launch.`"""

    def scope_of(
        self, span: SentenceSpan, numbers: Sequence[TextNumber], topics: CurrentTopic
    ) -> Scope | None:
        names, text = self._launches.named_in(span.text), self._text[span.start : span.end]
        terms = [t for t in terms_in(text) if not any(n.start <= t.start < n.end for n in names)]
        sentence = Sentence(text, names, terms, numbers, find_quantifiers(blanked(text, names)))
        domains = Domains(self._report, self._selected, topics.topic, topics.title)
        scope = scope_of(sentence, domains)
        if _HIDDEN.search(text):
            scope = Scope("unclear")
        starts_anew = self._is_new_paragraph(span)
        goes_on = self._before is not None and self._before.text.endswith(";")
        if names or starts_anew or len(self._report) == 1:
            self._carried = None
        back = not (starts_anew or numbers or len(self._report) == 1)
        self.refers_back = back and scope is not None and _refers_back(text, scope, goes_on=goes_on)
        if names or text.startswith("#"):
            about = scope if text.startswith("#") else None
            self._heading = about is not None and _carried(text, numbers, about) is not None
        if scope is None and self._heading and not names and len(self._report) > 1:
            scope = Scope("unclear")
        elif scope is None and self._carried:
            if goes_on or self._carried == "always" or _THEY.search(text):
                scope = Scope("unclear")
        elif scope is not None:
            self._carried = _carried(text, numbers, scope)
        self._before = span
        return scope

    def forget(self) -> None:
        """The last sentence is about no more than itself."""
        self._carried, self._heading, self.refers_back = None, False, False

    def _is_new_paragraph(self, span: SentenceSpan) -> bool:
        before = self._before.text if self._before else ""
        title = (
            self._carried == "always" and len(before) < _LONGEST_TITLE and not before.endswith(".")
        )
        if not before or before.endswith(":") or title:
            return False
        assert self._before is not None
        between = self._text[self._before.end : span.start]
        return bool(_BLANK_LINE.search(between)) and not _ITEM.match(span.text)


def _carried(text: str, numbers: Sequence[Spanned], scope: Scope) -> _Carried:
    """A sentence without numbers says what the next ones are about."""
    kinds = {q.kind for q in scope.quantifiers if q.noun or text.startswith("|")}
    says = kinds - {"plural"} or any(q.of for q in scope.quantifiers)
    if text.endswith(":") or (not numbers and says and len(text) < _LEAD):
        return "always"
    return "for pronouns" if kinds else None


def _refers_back(text: str, scope: Scope, *, goes_on: bool) -> bool:
    if not any(q.kind == "unclear" or (q.noun and q.kind != "plural") for q in scope.quantifiers):
        return False
    return goes_on or bool(_REFERS_BACK.search(text))
