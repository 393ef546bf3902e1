"""Splits a text into sentences, list items and table rows, and finds what states nothing in them.

Passages about no launch are blanked out: quoted source, commands, footers. Digits that are no
numbers are skipped: code, places, identifiers, versions, dates.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from keet.profile import Launch
from keet.profile.launch import file_name
from keet.safe_text import code_lines
from keet.verification.subjects import TextPlace

_FENCE = re.compile(r"^(?:```|~~~).*?(?:^(?:```|~~~)[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"\n\s*\n|\n(?=\s*(?:[-*+•]\s|\d+[.)]\s|\||#{1,6} |>|[A-Z][a-z]+(?: [a-z]+)?: ))|(?<=\|)\n"
)
_END = re.compile(r"[.!?]['\")\]*_]*\s+|;\s+(?=[A-Za-z])")
"""A semicolon before a new subject ends a sentence too: `L2 at 83 %; DRAM at 12 %`."""
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|vs|approx|ca|avg|etc|no|fig|max|min|cf)\.\s*$", re.I)


_COLUMNS = re.compile(r"\S {2,}\S|[\u2500-\u259f]")
"""Columns and bars: rows that a program printed."""
_ITEM = ("→", "•", "▸")
"""Begins a row; the row may be wrapped."""
_TITLE = re.compile(r"#\d+ \S")
"""First line of keet's output about a launch."""
_CHANGE = re.compile(r"\d\S{0,30}(?: [^\W\d]\S{0,30})? →(?: \S{0,30}\d|\s*$)")
"""A row of `keet diff`: `Registers Per Thread 16 → 26`."""
_CHANGE_BEFORE = re.compile(r"\d\S{0,30}(?: [^\W\d]\S{0,30})?\s*\Z")
_CHANGE_AFTER = re.compile(r"\s*→ \S{0,30}\d")
"""The two parts of such a row that was wrapped before its arrow."""
_SHORT_LINE = 40
"""Shorter lines were not wrapped."""
_LONGEST_SENTENCE = 1000
"""Characters; longer sentences are cut at a space."""


class Spanned(Protocol):
    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class Span(NamedTuple):
    start: int
    end: int


class SentenceSpan(NamedTuple):
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


CLAUSE_END = re.compile(r"[,;:()]|\b(?:while|whereas|but|and)\b")


def clause_around(text: str, start: int, end: int) -> Span:
    """The clause of a passage."""
    ends = _clause_ends(text)
    before = bisect_right(ends, start, key=lambda span: span.end)
    behind = bisect_left(ends, end, key=lambda span: span.start)
    return Span(
        ends[before - 1].end if before else 0,
        ends[behind].start if behind < len(ends) else len(text),
    )


@lru_cache(maxsize=8)
def _clause_ends(text: str) -> tuple[Span, ...]:
    return tuple(Span(*match.span()) for match in CLAUSE_END.finditer(text))


def split_sentences(text: str) -> Iterator[SentenceSpan]:
    """Sentences, without fenced code."""
    without_code = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    width = max(map(len, text.splitlines()), default=0)
    for start, end in _pieces(without_code, _BLOCK, 0, len(text)):
        for top, bottom in _paragraphs(without_code, start, end, width):
            for first, last in _pieces(without_code, _END, top, bottom):
                yield from _trimmed(text, without_code, first, last)


def _paragraphs(text: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """Joins the lines of wrapped paragraphs; rows of tables stay separate."""
    begin = place = start
    before: str | None = None
    for line in text[start:end].splitlines(keepends=True):
        if before is not None and not _goes_on(before, line, width):
            yield begin, place
            begin = place
        before, place = line, place + len(line)
    yield begin, end


def _goes_on(before: str, line: str, width: int) -> bool:
    indents = [len(part) - len(part.lstrip()) for part in (before, line)]
    if _TITLE.match(before):
        return False
    if _CHANGE_AFTER.match(line) and _CHANGE_BEFORE.search(before):
        return len(before.rstrip()) >= _SHORT_LINE
    if _CHANGE.search(before) or _CHANGE.search(line):
        # A row was wrapped only if the next word did not fit.
        size = len(before.rstrip())
        return size >= _SHORT_LINE and size + len((line.split() or [""])[0]) >= width
    laid_out = any(_COLUMNS.search(part.strip()) for part in (before, line))
    laid_out = laid_out or line.lstrip().startswith(_ITEM)
    return indents[0] >= indents[1] - 4 and not laid_out and len(before.rstrip()) >= _SHORT_LINE


def _trimmed(text: str, without_code: str, first: int, last: int) -> Iterator[SentenceSpan]:
    while first < last:
        cut = last
        if last - first > _LONGEST_SENTENCE:
            cut = (
                without_code.rfind(" ", first + 1, first + _LONGEST_SENTENCE) + 1
                or first + _LONGEST_SENTENCE
            )
        part = without_code[first:cut]
        if part.strip():
            start = first + len(part) - len(part.lstrip())
            yield SentenceSpan(text[start : first + len(part.rstrip())], start)
        first = cut


def _pieces(text: str, cut: re.Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for match in cut.finditer(text, start, end):
        if not _ABBREVIATED.search(text[max(begin, match.end() - 12) : match.end()]):
            yield begin, match.end()
            begin = match.end()
    yield begin, end


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
_SHORTEST_QUOTATION = 8
"""Characters of a line of code, at least, that a quotation must contain."""
_SHORTEST_CODE_LINE = 4
"""Shorter lines of code occur in many texts by chance."""
_REACH = 600
"""Characters after a place in which its code is searched."""


def without_citations(text: str) -> str:
    """The text with blanks for ids of evidence, whose words must not be taken for metric names. The
    length is the same."""
    return _CITATION.sub(lambda citation: _blank(citation[0]), text)


def without_asides(text: str) -> str:
    """The text with blanks for commands and the like. The length is the same."""
    return _ASIDE.sub(lambda aside: _blank(aside[0]), text)


def _blank(passage: str) -> str:
    """Blanks of the same length; line breaks are kept."""
    return re.sub(r"[^\n]", " ", passage)


def blanked(text: str, spans: Iterable[Spanned]) -> str:
    """The text with spaces in place of the spans; the length is the same."""
    characters = list(text)
    for span in spans:
        characters[span.start : span.end] = " " * (span.end - span.start)
    return "".join(characters)


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
        cited = {lines[place.line - 1].strip() for lines in texts}
        return {line for line in cited if len(line) >= _SHORTEST_CODE_LINE}

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
        if matched >= min(_SHORTEST_QUOTATION, len(code)):
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


_CODE = r"```.*?(?:```|\Z) | ~~~.*?(?:~~~|\Z) | `[^`\n]*`"
_ADDRESS = r"https?://\S+"
_HEADING = r"^[ ]{0,3}\#{1,6}[ ][^\n]*"
_LISTED = r"^[ \t]*(?:[-*+][ \t]+)?\d+[.)]\s"
"""The number of a list item."""
_PLACE = r"[\w./\\-]{0,200}\w\.[A-Za-z]\w{0,9}:\d+(?:[-–:]\d+|\s+to\s+\d+)?"
"""`file.cu:31`; `_MORE_LINES` are the other lines in `file.cu:31, 32 and 40`."""
_MORE_LINES = r"""
    (?:(?:,|\s+and|\s+or|,\s+and)\s+\d++(?!\.[\d.]*\d)(?!\s*(?:%|×|\[|percent|times|[nuµm]?s\b|x\b
      |[kKMGT]?i?B\b|[a-z]*\s?(?:sector|sample|wavefront|request|thread|block|warp|cycle|byte|inst
      |register|wave|conflict|load|store|flop|point|of\b|per\b))))*
"""
_OPCODE = r"\b[A-Z][A-Z0-9]+(?:\.[A-Za-z0-9]+)+"
"""`LDS.128`."""
_NUMBERED = r"""
      \b[Ll]ines?\s+\d++(?!\.\d|\s?%)(?:\s*(?:[-–,]|to|and)\s*\d+)*
    | \b[Ll]aunch(?:es)?\s+\#?\d+(?:\s*(?:[-–,]|to|and)\s*\#?\d+)*(?![\w.,]{0,40}\s*(?:%|us|ms|ns))
"""
_REFERENCE = r"\#\d+"
_DATE = r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)? | \b\d+:\d+(?::\d+)?\b"
_PRODUCT = r"""
    \b(?:CUDA|ncu|[Dd]river|[Vv]ersion|cc|[Cc]ompute\s[Cc]apability|Nsight\sCompute|Python|PCIe
        |PyTorch|Triton|RTX|GTX|Quadro|Tesla|GeForce|Figure|Fig\.|Table|Section|Step|PTX)
      \s+v?\d[\w.]*(?!\w|\s?(?:%|[nuµm]?s\b|x\b|×|[kKMGT]?B\b))
    | \bv\d[\w.]*
"""
_VERSION = r"\b\d+\.\d+\.\d[\w.]* | \b0x[0-9A-Fa-f]+\b"
_TEMPLATE = r"\b[A-Za-z_]\w*(?:::\w+)*<[^<>\n]*(?:<[^<>\n]*>[^<>\n]*)*>"
"""`tile<float, 32>`."""
_INDEX = r"(?:\[\d{1,4}\])*"
_WORD = rf"[A-Za-z_]\w*{_INDEX}(?:[-.:/]+[A-Za-z_]\w*{_INDEX})*(?:-\d[\w]*)*"
"""Words and identifiers: `sm_90`, `L2`, `nodes.parts[2]`."""
_ORDINAL = r"\b\d+(?:st|nd|rd|th|D|d)\b | \b\d+-(?:[dD]\b|bit|byte|lane|wide)"

_IGNORED = re.compile(
    "|".join(
        (
            *(_CODE, _ADDRESS, _HEADING, _LISTED, _PLACE + _MORE_LINES, _OPCODE, _NUMBERED),
            *(_REFERENCE, _DATE, _PRODUCT, _VERSION, _TEMPLATE, _WORD, _ORDINAL),
        )
    ),
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
"""The first one that matches decides."""


def end_of_ignored(text: str, position: int) -> int:
    """End of the text that begins at `position` and whose digits state no number: code, a place, a
    name, a version, a date. `position` if none does."""
    match = _IGNORED.match(text, position)
    return match.end() if match else position
