"""Text that others wrote, made safe to print: names in reports, file names, answers of models.

A terminal obeys control characters (C0, DEL, C1), shows text in another order after bidi marks, and
hides other format characters. Everything that keet prints or writes as text passes `visible`, which
shows them as escapes: stdout and stderr are wrapped for the time of a command, files are written
through `keet.files.replacing_text`, and the console cleans what it lays out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TextIO, cast

from keet.patterns import regex

LONGEST = 32_768
"""Characters of any single text from a report. The longest seen in a real one has 10,549."""
LONGEST_LINE = 2_000
"""Characters of a source line that are analysed and printed. A judgement: no one reads more."""

_SAFE_ASCII = bytes({*range(0x20, 0x7F), 0x09, 0x0A})
_UNSAFE_CHARACTERS = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab, newline and return
    "\\ud800-\\udfff"  # halves of a character
    "\u2028\u2029"  # ends of a line and of a paragraph
    # format characters: Unicode's category Cf, with the marks that turn the direction
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|\r(?!\n)"
)
_UNSAFE = regex(_UNSAFE_CHARACTERS)
_TAGS = b"\xf3\xa0"
"""How the last unsafe characters begin (U+E0000 to U+E0FFF), some of which count as printable."""
_UNSAFE_IN_LINE = regex(f"{_UNSAFE_CHARACTERS}|[\r\n\t]")


def visible(text: str) -> str:
    """The text with control and format characters as escapes; newlines and tabs stay.

    The escapes are those of JSON: in a JSON document such a character stands inside a string, so
    that the document still means the same.
    """
    # Most texts are ASCII but for a few signs: looking at those alone is quick.
    others = text.encode("utf-8", "surrogatepass").translate(None, _SAFE_ASCII)
    if _TAGS not in others and others.decode("utf-8", "surrogatepass").isprintable():
        return text
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


@lru_cache(maxsize=1024)
def _escaped(character: str) -> str:
    """Kept: a text of nothing but control characters takes a tenth of the time."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def one_line(text: str) -> str:
    """For a name or message that has to stay on its line: newlines and tabs are escaped too."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def shortened(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters: the beginning, then the length and a hash, so that two long names
    stay two."""
    if len(text) <= limit:
        return text
    mark = _mark_of(text)[:limit]
    return text[: limit - len(mark)] + mark


def _mark_of(text: str) -> str:
    import hashlib

    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"…[{len(text):,} characters, sha256 {digest}]"


def bounded_line(text: str) -> str:
    """A name or message as readers hand it on: one line of at most `LONGEST` characters, with
    nothing in it that a terminal would obey. Letters that this Python does not know stay."""
    # Cut before and after: escapes make a text longer, and each takes its time.
    line = _as_one_line(text if len(text) <= LONGEST else text[:LONGEST])
    if len(text) <= LONGEST and len(line) <= LONGEST:
        return line
    mark = _mark_of(text)
    return line[: LONGEST - len(mark)] + mark


def _as_one_line(text: str) -> str:
    if text.isprintable():
        return text
    return _UNSAFE_IN_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


def code_lines(text: str) -> list[str]:
    """The lines of a source file as compilers count them: a form feed, which `str.splitlines` takes
    for the end of a line, is none."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


@lru_cache(maxsize=8)
def bounded_lines(text: str) -> tuple[str, ...]:
    """The lines of a source file, each of at most `LONGEST_LINE` characters.

    Kept for a few files: launches of one file come one after the other, and each part of an answer
    asks again.
    """
    lines = code_lines(text)
    if max(map(len, lines), default=0) <= LONGEST_LINE:  # a tenth of the time of the loop
        return tuple(lines)
    return tuple(shortened(line, LONGEST_LINE) for line in lines)


def line_at(text: str, number: int) -> str:
    """One line of `bounded_lines`, from 1, without splitting what follows it; empty where the text
    is shorter than that."""
    lines = text.split("\n", number) if number > 0 else []
    if len(lines) < number or not lines:
        return ""
    return shortened(lines[number - 1].removesuffix("\r"), LONGEST_LINE)


class VisibleStream:
    """A stream that shows control characters as escapes; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def terminal_stream(stream: TextIO) -> TextIO:
    """The stream itself, for code that writes escapes of its own: colours, a line that changes."""
    return stream.stream if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Wrap stdout and stderr, so that no code of a command has to think of it."""
    before = sys.stdout, sys.stderr
    wrapped = [VisibleStream(terminal_stream(stream)) for stream in before]
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in wrapped)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
