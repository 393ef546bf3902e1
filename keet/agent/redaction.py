"""`--redact`: replaces names by placeholders in what is sent, and back in what is received.

Names are replaced only in fenced data: a report may name a kernel like a word of keet's own prompt,
and the prompt must not change. Keys are removed in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from keet.agent import prompts
from keet.agent.model.settings import Redaction
from keet.errors import one_line
from keet.explanation.explanation_types import Explanation
from keet.masking.keys import scrub
from keet.profile import Launch
from keet.profile.launch import file_name

_QUOTED_CODE = re.compile(r" \(`[^`\n]*`(?:, `[^`\n]*`)*\)")
"""Code that the analyst quotes: ` (`out[x * n + y]`)`."""
_SHORTEST = 3
"""Characters of a name: shorter ones would be found inside other words."""
_FENCED = re.compile(r"\[data [0-9a-f]+: ([^\n]*)\]\n(.*?)\n\[end of data [0-9a-f]+\]", re.DOTALL)
_CUT = re.compile(r"(?<![^`\n…])[^`\n…]*…")
"""A shortened quotation: a name in it may have lost its end. Starts only after a delimiter:
starting at every character of a long line would take quadratic time."""
_LEAST_OF_A_NAME = 4
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
"""A header of the project; system headers are in angle brackets."""


class Redactor:
    """Without a mode, only keys are removed."""

    def __init__(self, explanations: Iterable[Explanation], mode: Redaction | None) -> None:
        self.hides_source = mode in ("source", "all")
        self._placeholders: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._taken: list[str] = []
        if mode in ("names", "all"):
            self._collect(list(explanations))
        self._names = _any_of(self._placeholders)
        self._tokens = _any_of(self._real)

    def out(self, text: str) -> str:
        """The text as it is sent."""
        if text in (prompts.rules(), prompts.answer_now()):
            return text
        if not any(map(_is_valid, _FENCED.finditer(text))):
            return self.hide(text)
        return scrub(_FENCED.sub(self._with_hidden_content, text))

    def _with_hidden_content(self, fence: re.Match[str]) -> str:
        if not _is_valid(fence):
            return fence[0]
        start, end = (place - fence.start() for place in fence.span(2))
        return fence[0][:start] + self.hide(fence[2]) + fence[0][end:]

    def back(self, text: str) -> str:
        """A received text with the real names."""
        text = scrub(text)
        return self._tokens.sub(self._restored, text) if self._tokens else text

    def _restored(self, match: re.Match[str]) -> str:
        """Inside the name of a number (`samples_share@file_1:31`), a file is written as in ids."""
        name = self._real[match[0]]
        before = match.string[max(0, match.start() - 2) : match.start()]
        return _in_ids(name) if before.endswith("@") or before == ".." else name

    def hide(self, text: str) -> str:
        """As sent, for a model's own words: they contain no fences of keet."""
        text = scrub(text)
        if self.hides_source:
            text = _QUOTED_CODE.sub("", text)
        if self._names is None:
            return text
        text = self._names.sub(lambda match: self._placeholders[match[0]], text)
        return _CUT.sub(lambda match: self._without_beginning(match[0][:-1]) + "…", text)

    def _without_beginning(self, text: str) -> str:
        """Replaces the beginning of a name at the end of the text."""
        found = (
            (length, placeholder)
            for name, placeholder in self._placeholders.items()
            for length in range(_LEAST_OF_A_NAME, min(len(name), len(text)) + 1)
            if text.endswith(name[:length]) and not text[-length - 1 : -length].isalnum()
        )
        best, chosen = max(found, key=lambda each: each[0], default=(0, ""))
        return text[:-best] + chosen if best else text

    def _collect(self, explanations: Sequence[Explanation]) -> None:
        launches = [each.launch for told in explanations for each in told.launches]
        self._taken = [text for launch in launches for text in _sources(launch)]
        for explanation in explanations:
            self._hide(explanation.profile.provenance.path, "report")
        for launch in launches:
            name = launch.name
            for form in (name.full, name.mangled, name.short, name.function):
                self._hide(form, "kernel")
            # Headers as the sources name them: the report may not contain them.
            headers = {header for text in _sources(launch) for header in _INCLUDED.findall(text)}
            files = {location.file for location in launch.locations.values()}
            for path in [*sorted(files | set(launch.source_files)), *sorted(headers)]:
                self._hide(path, "file")
                self._hide(file_name(path), "file")
            for mark in launch.nvtx:
                self._hide(mark.name, "range")

    def _hide(self, name: str | None, kind: str) -> None:
        if name and len(name) >= _SHORTEST and name not in self._placeholders:
            # A word that does not occur in the source: otherwise it would be replaced back.
            count = 1 + sum(known.startswith(f"{kind}_") for known in self._real)
            while any(f"{kind}_{count}" in text for text in self._taken):
                count += 1000
            placeholder = f"{kind}_{count}"
            self._real[placeholder] = name
            shown = one_line(name.expandtabs(4)).replace("`", "'")
            for form in (name, one_line(name), shown, _in_ids(name)):
                self._placeholders.setdefault(form, placeholder)


def _in_ids(name: str) -> str:
    """The name as ids of evidence contain it (keet/analysis/ledger.py)."""
    return re.sub(r"[^\w.:+-]+", "_", name).strip("_")


def _sources(launch: Launch) -> list[str]:
    return [text for text in launch.source_files.values() if text]


def _is_valid(fence: re.Match[str]) -> bool:
    """Whether the fence is keet's: a model can't write a mark that fits the content."""
    return prompts.fenced(fence[1], fence[2]) == fence[0]


def _any_of(words: Iterable[str]) -> re.Pattern[str] | None:
    """The longest first: a path contains its file's name."""
    ordered = sorted(words, key=len, reverse=True)
    if not ordered:
        return None
    return re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in ordered))
