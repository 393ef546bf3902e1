"""Blanks out passages that state nothing about a launch: quoted source, commands, footers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from keet.profile import Launch
from keet.profile.names import file_name
from keet.safe_text import code_lines
from keet.verification.text.source_places import TextPlace

_ASIDE = re.compile(
    r"""
      \b\d+\s+of\s+\d+\s+numbers\b                                    # verified against the report
    | \b\d[\d,]{0,14}\s+more\s+(?:line|instruction|pointer|launche?|kernel|reason)s?\b
      (?=\s*[:;,)]|\s*$)
    | \band\s+\d+\s+more\b(?=\s*:)
    | `(?:[^`\n]|\n(?!\s*\n)){1,160}`                                # code, wrapped or not
    | (?<![\w:])[A-Za-z_][\w:]{0,200}\\<(?:[^<>\\\n]|\\<[^<>\\\n]*\\>)*\\>   # tile\<float, 32\>
    | \b(?:[Cc]ause|[Ff]inding)s?\s+\d+\b(?![.,]?\d|\s?%)              # by its rank
    | \bwithin\s+\d+\s+points\s+of\s+it\b                             # a legend
    | (?<![\w./+~-])[\w./+~-]{0,300}\w\.(?:cuh?|c?pp|hpp|h|py|jl|F90|csv|keet\.json|ncu-repz?)
      \b(?!:\d)
    | (?<=\+[ ])\d{1,18}\*[A-Za-z_][\w.*]{0,80}                        # a term of an address
    | \b[A-Z][A-Z0-9_.]{1,30}[ ]+[-!|]?(?:U?[RP]\d|U?[RP][ZT]\b|desc\[|\[)[^\n]{0,200}   # SASS
    | (?<=\+[ ])\[[\d,\s…-]{1,160}\]                                # constants of addresses
    | \bsince\s+20\d\d\.\d\b                                         # of Nsight Compute
    | (?<![\w-])--[a-z][\w-]*(?:=\S+|\s+\d+(?![\w.%]|\s?%))?          # options
    | (?<!\S)(?:ncu|keet\s+profile)\s+(?=--?[a-z]|--\s)               # commands, up to the next
      (?:[^\n`]|\n(?!\s*\n|\s*[A-Z][a-z]+[\s:]|\s*[-*#|>]\s))*        # paragraph, item or sentence
    """,
    re.VERBOSE | re.MULTILINE,
)
_ID = r"[^\[\],\s#]{1,120}#[\w.]{1,40}"
_CITATION = re.compile(rf"\[{_ID}(?:,\s?{_ID}){{0,20}}\]")
"""Ids of evidence, as keet and models cite them: `[l2_hit_rate_pct#0]`."""
_LEAST = 8
"""Characters of a line of code, at least, that a quotation must contain."""
_SHORTEST = 4
"""Shorter lines of code occur in many texts by chance."""
_REACH = 600
"""Characters after a place in which its code is searched."""


def without_citations(text: str) -> str:
    """The text with blanks for ids of evidence, whose words must not be taken for metric names. The
    length is the same."""
    return _CITATION.sub(lambda found: _blank(found[0]), text)


def without_asides(text: str) -> str:
    """The text with blanks for commands and the like. The length is the same."""
    return _ASIDE.sub(lambda found: _blank(found[0]), text)


def _blank(passage: str) -> str:
    """Blanks of the same length; line breaks are kept."""
    return re.sub(r"[^\n]", " ", passage)


def without_quotes(text: str, launches: Iterable[Launch], places: Iterable[TextPlace]) -> str:
    """The text with blanks for quoted source lines. `places`: all places of the text; the quotation
    follows its place."""
    characters = list(text)
    source = _Source(launches)
    for place in places:
        for line in source.lines(place):
            start, end = _quotation(text, line, place.end)
            characters[start:end] = _blank(text[start:end])
    return "".join(characters)


class _Source:
    """Lines of the launches' files, by the name of the file without its folder."""

    def __init__(self, launches: Iterable[Launch]) -> None:
        self._launches = tuple(launches)
        self._files: dict[str, list[list[str]]] = {}

    def lines(self, place: TextPlace) -> set[str]:
        """The line in each of the files with this name."""
        if place.file is None:
            return set()
        name = file_name(place.file)
        if name not in self._files:
            self._files[name] = list(self._texts(name))
        texts = (lines for lines in self._files[name] if 1 <= place.line <= len(lines))
        found = {lines[place.line - 1].strip() for lines in texts}
        return {line for line in found if len(line) >= _SHORTEST}

    def _texts(self, name: str) -> Iterator[list[str]]:
        texts = {
            launch.source_text(path)
            for launch in self._launches
            for path in launch.source_files
            if file_name(path) == name
        }
        yield from (code_lines(text) for text in texts if text)


def _quotation(text: str, line: str, after: int) -> tuple[int, int]:
    """Start and end of the quotation of a line after its place, whole or cut, wrapped or not."""
    code = "".join(line.split())
    start = text.find(code[0], after, after + _REACH)
    while start >= 0:
        end, matched = _matching(text, code, start)
        if matched >= min(_LEAST, len(code)):
            return start, end
        start = text.find(code[0], start + 1, after + _REACH)
    return after, after


def _matching(text: str, code: str, start: int) -> tuple[int, int]:
    """End of the text that equals the code, and how many characters match; ignores whitespace."""
    at = end = start
    for count, letter in enumerate(code):
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text) or text[at] != letter:
            return end, count
        at = end = at + 1
    return end, len(code)
