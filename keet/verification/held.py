"""A text sentence by sentence: what stands of it, and what does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from keet.verification.sentences import sentences


class Part(NamedTuple):
    """A sentence, and why it can't stand, if it can't."""

    text: str
    reason: str | None = None
    ends: str = " "
    """What follows it: a blank, or the end of a line or paragraph."""


class Held(NamedTuple):
    """A text sentence by sentence."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The sentences that hold, in their paragraphs."""
        kept = "".join(part.text + part.ends for part in self.parts if not part.reason)
        return re.sub(r"\n{3,}", "\n\n", kept).strip()

    @property
    def let_go(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.reason)

    def mended(self, at: int, other: Held) -> Held:
        """With another text in place of one sentence."""
        end = self.parts[at].ends
        new = [part._replace(ends=" ") for part in other.parts[:-1]]
        last = [part._replace(ends=end) for part in other.parts[-1:]]
        return Held((*self.parts[:at], *new, *last, *self.parts[at + 1 :]))


def paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and list items, each with what ends it."""
    for part in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s))", text.strip())[::2]:
        yield part, "\n" if re.match(r"\s*(?:[-*+•]|\d+[.)])\s", part) else "\n\n"


def whole_sentences(text: str, end: str) -> Iterator[tuple[str, str]]:
    """Whole ones: what a semicolon joins stands or falls together."""
    pieces = [sentence.text for sentence in sentences(text)]
    joined: list[str] = []
    for piece in pieces:
        if joined and joined[-1].endswith(";"):
            joined[-1] += f" {piece}"
        else:
            joined.append(piece)
    for i, piece in enumerate(joined):
        yield piece, " " if i + 1 < len(joined) else end
