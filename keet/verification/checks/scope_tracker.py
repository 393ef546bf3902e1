"""The scopes of the sentences of a text: a quantifier may apply to later sentences, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from keet.profile import Launch
from keet.verification.checks.scope import Domains, Scope, Sentence, blanked, scope_of
from keet.verification.text.claims import Spanned
from keet.verification.text.current_topic import CurrentTopic
from keet.verification.text.launch_names import LaunchLookup
from keet.verification.text.metric_names_in_context import terms_in
from keet.verification.text.numbers import TextNumber
from keet.verification.text.quantifiers import find_quantifiers
from keet.verification.text.sentences import SentenceSpan

_Carried = Literal["always", "for pronouns"] | None
_THEY = re.compile(
    r"\b(?:they|them|their|theirs|these|those|likewise|same|also|too|so|ones?)\b", re.IGNORECASE
)
_HIDDEN = re.compile(
    r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|[a-z][\u0370-\u03bb\u03bd-\u052f]|[\u0370-\u03bb\u03bd-\u052f][a-z]",
    re.I,
)
"""Characters that no reader sees, and letters of two scripts in one word: they hide words."""
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_LEAD = 80
"""Characters of a sentence that says what the next ones are about, at most."""
_TITLE = 60
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
        title = self._carried == "always" and len(before) < _TITLE and not before.endswith(".")
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
