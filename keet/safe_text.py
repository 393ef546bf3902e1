"""Makes untrusted text safe to print: names in reports, file names, answers of models.

A terminal executes control characters (C0, DEL, C1), reorders text after bidi marks, and hides
other format characters. All text that keet prints or writes goes through `visible`, which replaces
them by escapes: stdout and stderr are wrapped while a command runs, files are written through
`keet.files.replacing_text`, and the console cleans its input.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TextIO, TypeVar, cast

LONGEST = 32_768
"""Characters of any single text from a report. The longest seen in a real report has 10,549."""
LONGEST_LINE = 2_000
"""Characters of a source line that are analysed and printed. Chosen by judgement."""

_SAFE_ASCII = bytes({*range(0x20, 0x7F), 0x09, 0x0A})
_UNSAFE_CHARACTERS = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters except tab, newline and return
    "\\ud800-\\udfff"  # surrogates
    "\u2028\u2029"  # line and paragraph separators
    # format characters: Unicode's category Cf, including bidi marks
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|\r(?!\n)"
)
_UNSAFE = re.compile(_UNSAFE_CHARACTERS)
_TAGS = b"\xf3\xa0"
"""First bytes of the unsafe characters U+E0000 to U+E0FFF, some of which count as printable."""
_UNSAFE_IN_LINE = re.compile(f"{_UNSAFE_CHARACTERS}|[\r\n\t]")


def visible(text: str) -> str:
    """The text with control and format characters as escapes, except newlines and tabs.

    The escapes are those of JSON: in a JSON document such characters are always inside strings, so
    the document keeps its meaning.
    """
    # Most texts are ASCII with a few other characters: checking only those is fast.
    others = text.encode("utf-8", "surrogatepass").translate(None, _SAFE_ASCII)
    if _TAGS not in others and others.decode("utf-8", "surrogatepass").isprintable():
        return text
    return _UNSAFE.sub(lambda match: _escaped(match[0]), text)


@lru_cache(maxsize=1024)
def _escaped(character: str) -> str:
    """Cached: ten times faster for a text that consists of control characters."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def one_line(text: str) -> str:
    """The text on one line: newlines and tabs are escaped, too."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def flat(text: str) -> str:
    """One paragraph: blanks and newlines become one space, other unprintable characters escapes."""
    return one_line(" ".join(text.split()))


def shortened(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters: the beginning, then the length and a hash, so that different long
    names stay different."""
    if len(text) <= limit:
        return text
    mark = _mark_of(text)[:limit]
    return text[: limit - len(mark)] + mark


def _mark_of(text: str) -> str:
    import hashlib

    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"…[{len(text):,} characters, sha256 {digest}]"


def bounded_line(text: str) -> str:
    """A name or message from a file as one line of at most `LONGEST` characters, without control
    and format characters. Characters that this Python's Unicode version does not know are kept."""
    # Cut before escaping, to save time, and after it, since escapes make a text longer.
    line = _as_one_line(text if len(text) <= LONGEST else text[:LONGEST])
    if len(text) <= LONGEST and len(line) <= LONGEST:
        return line
    mark = _mark_of(text)
    return line[: LONGEST - len(mark)] + mark


def _as_one_line(text: str) -> str:
    if text.isprintable():
        return text
    return _UNSAFE_IN_LINE.sub(lambda match: ascii(match[0])[1:-1], text)


_Value = TypeVar("_Value")


def bounded(value: _Value) -> _Value:
    """The value with every text limited in length, in tuples too, as `.ncu-rep` texts are."""
    if isinstance(value, str):
        return bounded_line(value)  # type: ignore[return-value]
    if isinstance(value, tuple):
        parts = [bounded(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def code_lines(text: str) -> list[str]:
    """The lines of a source file as compilers count them: unlike `str.splitlines`, a form feed does
    not end a line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


@lru_cache(maxsize=8)
def bounded_lines(text: str) -> tuple[str, ...]:
    """The lines of a source file, each of at most `LONGEST_LINE` characters.

    Cached for a few files: neighbouring launches are often from the same file.
    """
    lines = code_lines(text)
    if max(map(len, lines), default=0) <= LONGEST_LINE:  # ten times faster than the loop
        return tuple(lines)
    return tuple(shortened(line, LONGEST_LINE) for line in lines)


def line_at(text: str, number: int) -> str:
    """One line of `bounded_lines`, counted from 1, without splitting the rest; empty if there are
    fewer lines."""
    lines = text.split("\n", number) if number > 0 else []
    if len(lines) < number or not lines:
        return ""
    return shortened(lines[number - 1].removesuffix("\r"), LONGEST_LINE)


class VisibleStream:
    """A stream that writes control characters as escapes and is otherwise unchanged."""

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
    """The original stream, for code that writes its own escape sequences: colours, progress."""
    return stream.stream if isinstance(stream, VisibleStream) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Wrap stdout and stderr, so that commands need not clean their output themselves."""
    before = sys.stdout, sys.stderr
    wrapped = [VisibleStream(terminal_stream(stream)) for stream in before]
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in wrapped)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
