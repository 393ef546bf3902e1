"""Keeps names and source at home: what leaves has placeholders, what comes back has them undone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from keet.explanation.analyst import Explanation
from keet.profile import Launch
from keet.profile.names import file_name

Redaction = Literal["names", "source", "all"]

_QUOTED_CODE = re.compile(r" \(`[^`\n]*`(?:, `[^`\n]*`)*\)")
"""What the analyst quotes of a line: ` (`out[x * n + y]`)`."""
_SHORTEST = 3
"""Letters of a name: a shorter one would be found inside other words."""


class Redactor:
    """Without a mode, nothing is changed."""

    def __init__(self, explanations: Iterable[Explanation], mode: Redaction | None) -> None:
        self.hides_source = mode in ("source", "all")
        self._placeholders: dict[str, str] = {}
        if mode in ("names", "all"):
            self._collect(explanations)
        self._names = _any_of(self._placeholders)
        self._real = {placeholder: name for name, placeholder in self._placeholders.items()}
        self._tokens = _any_of(self._real)

    def out(self, text: str) -> str:
        """As it is sent."""
        if self.hides_source:
            text = _QUOTED_CODE.sub("", text)
        if self._names is None:
            return text
        return self._names.sub(lambda match: self._placeholders[match[0]], text)

    def back(self, text: str) -> str:
        """As people here know it."""
        return self._tokens.sub(lambda m: self._real[m[0]], text) if self._tokens else text

    def _collect(self, explanations: Iterable[Explanation]) -> None:
        for explanation in explanations:
            self._hide(explanation.profile.provenance.path, "report")
            for each in explanation.launches:
                self._collect_launch(each.launch)

    def _collect_launch(self, launch: Launch) -> None:
        name = launch.name
        for form in (name.full, name.mangled, name.short, name.function):
            self._hide(form, "kernel")
        files = {location.file for location in launch.locations.values()}
        for path in sorted(files | set(launch.source_files)):
            self._hide(path, "file")
            self._hide(file_name(path), "file")
        for mark in launch.nvtx:
            self._hide(mark.name, "range")

    def _hide(self, name: str | None, kind: str) -> None:
        if name and len(name) >= _SHORTEST and name not in self._placeholders:
            count = sum(known.startswith(f"{kind}_") for known in self._placeholders.values())
            self._placeholders[name] = f"{kind}_{count + 1}"


def _any_of(words: Iterable[str]) -> re.Pattern[str] | None:
    """The longest first: a path holds its file's name."""
    ordered = sorted(words, key=len, reverse=True)
    if not ordered:
        return None
    return re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in ordered))
