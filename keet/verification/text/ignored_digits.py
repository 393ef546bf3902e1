"""Recognizes text with digits that state nothing: code, places, identifiers, versions, dates.

One pattern for everything would take longer to compile than explaining a launch. So there are
several, chosen by the first character and compiled when a text needs them. The first one that
matches decides; `_ALL` is their order, and a test compares both ways at each position of many
texts.
"""

from __future__ import annotations

import re

_FLAGS = re.VERBOSE | re.MULTILINE | re.DOTALL

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
_WORD = r"[A-Za-z_][\w]*(?:[-.:/]+[A-Za-z_]\w*)*(?:-\d[\w]*)*"
"""Words and identifiers: `sm_90`, `L2`."""
_ORDINAL = r"\b\d+(?:st|nd|rd|th|D|d)\b | \b\d+-(?:[dD]\b|bit|byte|lane|wide)"

_ALL = (
    *(_CODE, _ADDRESS, _HEADING, _LISTED, _PLACE + _MORE_LINES, _OPCODE, _NUMBERED, _REFERENCE),
    *(_DATE, _PRODUCT, _VERSION, _TEMPLATE, _WORD, _ORDINAL),
)


def _first_of(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), _FLAGS)


_ANY = _first_of(*_ALL)
_AT_CODE = _first_of(_CODE)
_AT_HASH = _first_of(_HEADING, _REFERENCE)
_AT_LINE = _first_of(_HEADING, _LISTED)
_AT_PLACE = _first_of(_PLACE)
_AT_MORE_LINES = _first_of(_MORE_LINES)
_AT_DIGIT = _first_of(_LISTED, _DATE, _VERSION, _ORDINAL)
_AT_DIGIT_OF_PATH = _first_of(_LISTED, _PLACE + _MORE_LINES, _DATE, _VERSION, _ORDINAL)
_AT_WORD = _first_of(_TEMPLATE, _WORD)
_AT_NAME = _first_of(_ADDRESS, _OPCODE, _NUMBERED, _PRODUCT, _TEMPLATE, _WORD)
_PATH = re.compile(r"[\w./\\-]{0,212}")
"""Longest path before the colon of a place."""
_IDENTIFIER = re.compile(r"\w+")
_LINES_FOLLOW = re.compile(r"(?:,|\s+and|\s+or|,\s+and)\s+\d")
_NUMBER_BEHIND = re.compile(r"\.?\s+(?:[v#]?\d|[Cc]apability|Compute)")

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAMES = frozenset(
    (
        *("Line", "line", "Lines", "lines", "Launch", "launch", "Launches", "launches", "CUDA"),
        *("ncu", "Driver", "driver", "Version", "version", "cc", "Compute", "compute", "Nsight"),
        *("Python", "PCIe", "PyTorch", "Triton", "RTX", "GTX", "Quadro", "Tesla", "GeForce"),
        *("Figure", "Fig", "Table", "Section", "Step", "PTX"),
    )
)
"""First words of names that include the number after them."""
_NEVER_BEHIND = frozenset(" ,;%\n")
"""Characters that never follow the digits of ignored text."""
_PROSE = re.compile(
    r"(?:[A-Za-z_]\w*(?:[-/][A-Za-z_]\w*)*(?=[ ,;()%]|\Z)(?!\s+(?:[v#]?\d|[Cc]apability|Compute))"
    r"|(?<=[^\n])[ ,;()%])+"
)
"""Plain words, in which no ignored text with digits can begin."""


def skip_prose(text: str, position: int) -> int:
    """End of the plain words at `position`."""
    found = _PROSE.match(text, position)
    return found.end() if found else position


def end_of_ignored(text: str, position: int) -> int:
    """End of the ignored text that begins at `position`; `position` if none does."""
    first = text[position]
    if first in _LETTERS:
        found = _at_letter(text, position)
    elif first in "0123456789":
        known = _AT_DIGIT_OF_PATH if _is_path(text, position) else _AT_DIGIT
        found = known.match(text, position)
    elif first in "`~":
        found = _AT_CODE.match(text, position)
    elif first == "#":
        found = _AT_HASH.match(text, position)
    elif first in " \t*+":
        found = _AT_LINE.match(text, position) if _begins_line(text, position) else None
    elif first in "-./\\" or first.isalnum():
        found = _ANY.match(text, position) if _may_begin(text, position) else None
    else:
        return position
    return found.end() if found else position


def is_ignored(text: str, position: int, end: int) -> bool:
    """Whether the digits from `position` to `end` are part of ignored text."""
    behind = text[end : end + 1]
    if not behind or behind in _NEVER_BEHIND or _is_factor(text, end):
        return False
    return end_of_ignored(text, position) >= end


def _is_factor(text: str, end: int) -> bool:
    """`2.1x`, not followed by something that makes it a name."""
    return text[end] == "x" and (text[end + 1 : end + 2] or " ") in _NEVER_BEHIND


def _begins_line(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _may_begin(text: str, position: int) -> bool:
    """Whether a place or a list item may begin here; letters of other scripts may begin
    anything."""
    first = text[position]
    return not first.isascii() or _begins_line(text, position) or _is_path(text, position)


def _is_path(text: str, position: int) -> bool:
    """Whether a colon and a digit end what may be a path."""
    found = _PATH.match(text, position)
    colon = found.end() if found else position
    return text[colon : colon + 1] == ":" and text[colon + 1 : colon + 2].isdecimal()


def _at_letter(text: str, position: int) -> re.Match[str] | None:
    if _is_path(text, position) and (place := _AT_PLACE.match(text, position)):
        follow = _LINES_FOLLOW.match(text, place.end())
        return _AT_MORE_LINES.match(text, place.end()) if follow else place
    known = _AT_NAME if _may_be_name(text, position) else _AT_WORD
    return known.match(text, position)


def _may_be_name(text: str, position: int) -> bool:
    """Whether a pattern that precedes those of `_AT_WORD` may match."""
    found = _IDENTIFIER.match(text, position)
    word, end = (found[0], found.end()) if found else ("", position)
    if word in _NAMES:
        return _NUMBER_BEHIND.match(text, end) is not None
    if word[0] == "v" and word[1:2].isdecimal():
        return True
    is_opcode = (
        word[0].isupper() and text[end : end + 1] == "." and text[end + 1 : end + 2].isalnum()
    )
    return is_opcode or word in ("http", "https")
