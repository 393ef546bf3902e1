"""Digits in the words of a sentence: those of names and places are allowed, others are numbers.

Names with digits are `L2`, `FP64`, `sm_90`, `float4` and those of the source. A place is
`file.cu:31` or `line 31`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

HOW = "write it as {name} or as an expression, {dram_bytes / (N * 4 B)}"
CODE = re.compile(r"`([^`]*)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)\w+)*", re.ASCII)
_TAG = re.compile(
    r"</?(?:b|i|u|s|em|strong|sub|sup|span|code|mark|small|br|p|wbr)\b[^<>]{0,80}>", re.I
)
_MARKUP = re.compile(r"[*~]+|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])")
_COMPLEXITY = re.compile(r"\bO\([^(){}]{1,30}\)")
_COUNTED_PLACE = re.compile(
    r"\bplace\s+(?:sectors?|bytes?|cycles?|requests?|samples?|times|[kMG]?B)\b"
)
KNOWN_NAME = re.compile(
    r"L[0-3]|L1D|L1TEX|(?:FP|BF|TF|INT|UINT|F|S|U|B)(?:4|8|16|19|32|64|128)|E[45]M[23]|HBM[23]?e?|"
    r"(?:FP|BF|F|INT|S|U)(?:8|16|32)x[24]|P[0-7]|[AH]100|H200|H20|H800|B[123]00|GB[123]00|GH200|V100|P100|A10|A30|A40|L4|L40S?|T4|"
    r"(?:sm_?|SM|compute_)(?:5[023]|6[012]|7[025]|8[0679]|9[0]|10[013]|110|12[01])[af]?|"
    r"(?:float|double|half|u?int|u?long|u?short|u?char|bool|__half|longlong)[1-4]|"
    r"u?int(?:8|16|32|64|128)(?:_t)?|b?float(?:8|16|32|64)|nv_bfloat16|bfloat16|bfloat162|"
    r"O[0-3]|log2f?|log10f?|log1pf?|exp2f?|exp10f?|expm1f?|atan2f?|ex2|lg2|x86|sha256|"
    r"F2F|F2I|I2F|I2I|F2FP|I2FP|R2P|P2R|S2R|S2UR|R2UR|CS2R|B2R|I2IP|IADD3|LOP3|LEA3|UIADD3|ULOP3|"
    r"FADD2|FFMA2|HADD2|HMUL2|HFMA2|HMNMX2|HSETP2|HSET2|VIADD3|IMAD3|"
    r"tcgen05|dp[24]a|v(?:add|maxu)[24]|CUBLAS_COMPUTE_32F_FAST_TF32",
    re.ASCII,
)
WIDTHS = frozenset({"8", "16", "32", "64", "128", "256", "884", "1688", "16816", "16832"})
"""After a dot in an instruction: `LDG.E.128`, `HMMA.16816.F32`."""
SIZED = re.compile(
    r"(?<![\w.])(?:(?:4|8|16|32|64|128|256)[- ]bit\b|(?:1|2|4|8|16|32|64|128)-byte(?=\s+(?:aligned|"
    r"alignment|sectors?|lines?|cache lines?|loads?|stores?|words?|elements?|vectors?|"
    r"access(?:es)?|transactions?|segments?|boundar\w+|entr(?:y|ies)|records?|structs?|structures?|"
    r"fields?|values?|types?|code))|[1-4]-?D\b|\d{1,2}-point\b|"
    r"32 (?:lanes|banks|threads (?:of|in) (?:a|the|each|one) warp)\b|32-(?:lane|thread|bank)\b|"
    r"4 bytes (?:each|wide)\b)|\b(?:thread|lane|warp|block|rank) 0(?![\w.])|"
    r"\bCUDA 1\d(?:\.\d)?(?!\w)",
    re.IGNORECASE,
)
"""Terms: 128-bit loads, 32-byte sectors, a 2-D grid, a warp's 32 lanes, thread 0, CUDA 12."""
PLACE = re.compile(
    r"(?<![\w./+-])(?P<file>[\w./+-]*\w\.[A-Za-z]\w{0,9}):(?P<line>\d+)"
    r"(?P<more>(?:\s?[-–]\s?:?\d+\b(?![.,]?\d))?(?:(?:, ?| and | or ):\d+)*)|"
    r"\blines?\s+(?P<lines>\d+"
    r"(?:(?:\s?[-–]\s?|, (?:and )?| (?:and|to|or|through) )(?:line )?\d+\b(?![.,]\d))*)",
    re.IGNORECASE,
)
LISTED = re.compile(r"\s*\(?(\d{1,2})[.)]\s")
SOURCE_FILE = re.compile(r"\.(?:cuh?|h|hh|hpp|cpp|cxx|cc|c|inl|inc|py|ptx|sass|f90)$", re.I)


class TokenizedCode(NamedTuple):
    """The source as tokens, for searching quotes."""

    text: str
    """One token per line, so that a search cannot start or end inside a token."""
    words: frozenset[str]


NO_CODE = TokenizedCode("", frozenset())


def number_in(words: str) -> str | None:
    """The first number in words of keet's own; None if digits occur only in names."""
    if words.isascii() and not unknown_digits(words, NO_CODE):  # `L2`: no need for the rest
        return None
    for match in CODE.finditer(words):
        if not is_code(match[1], "", frozenset(), is_proposal=False):
            return match[0]
    plain, problem = without_places(as_read(CODE.sub(" code ", words)), None)
    return problem or unknown_digits(SIZED.sub(" sized ", plain), NO_CODE)


def as_read(text: str) -> str:
    """Without markup."""
    return _MARKUP.sub("", _TAG.sub("", decoded(text)))


def decoded(text: str) -> str:
    """Without zero-width characters, and with Unicode digits as ASCII digits."""
    if not text.isascii() or "&" in text:
        import html  # slow, and keet's own texts do not need it

        text = unicodedata.normalize("NFKC", html.unescape(_COMPLEXITY.sub(" ", text)))
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn", "Me", "Co"))
    return text


def unknown_digits(plain: str, source: TokenizedCode) -> str | None:
    """A name with digits that is not known, or a number that is not in a name."""
    for match in NAME.finditer(plain):
        if not is_known_name(match[0], source):
            return match[0][:20]
    number = re.search(r"\d[^\s]{0,19}", NAME.sub(" ", plain))
    return number and number[0]


def is_known_name(name: str, source: TokenizedCode) -> bool:
    """A name without digits, a name of the source, or a well-known one: `L2`, `LDG.E.128`."""
    known = KNOWN_NAME.fullmatch
    if name in source.words or not re.search(r"\d", name) or known(name):
        return True
    first, *rest = re.split(r"[._]+|::", name.strip("._:"))
    unknown = [p for p in (first, *rest) if not (p.isalpha() or known(p) or known(p.upper()))]
    return first not in unknown and WIDTHS.issuperset(unknown)


def without_places(plain: str, lines: Mapping[str, int] | None) -> tuple[str, str | None]:
    for match in PLACE.finditer(plain):
        file = (match["file"] or "").rpartition("/")[2]
        numbers = re.findall(r"\d+", match["lines"] or f"{match['line']} {match['more']}")
        if not _exists(file, max(int(n[:9]) for n in numbers), lines):
            return plain, f"there is no {match[0]} in the source"
    plain = PLACE.sub(" place ", plain)
    for file in (file for file in lines or () if file in plain):
        plain = re.sub(rf"(?<![\w./]){re.escape(file)}(?!\w)", " file ", plain)
    if counted := _COUNTED_PLACE.search(plain):
        return plain, f"`{counted[0]}` counts with the number of a line; {HOW}"
    return plain, None


def _exists(file: str, line: int, lines: Mapping[str, int] | None) -> bool:
    if lines is None:
        return not file or bool(SOURCE_FILE.search(file))
    last = lines.get(file, 0) if file else max(lines.values(), default=0)
    return 0 < line <= last


# --- code spans

_NOT_CODE = re.compile(
    r'"""[\s\S]*?(?:"""|\Z)|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"'
    r"|#(?!\s*(?:define|pragma|if|ifdef|ifndef|else|elif|endif|include|undef|error|line)\b)[^\n]*"
)
"""Comments and strings: they can contain claims."""
_CODE_TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+\w*|\d(?:[eE][-+]\d|[\w.])*|\S", re.ASCII)
_PERCENT = re.compile(r"\d\s*%(?!\s*[\w(])")
"""`82 %`: a remainder operator would be followed by an operand."""
_PLAIN_NUMBER = re.compile(r"[-+]?[\d,]+(?:\.\d+)?")
_ASSIGNED = re.compile(r"(?<![=<>!])=\s*\d")
"""`n = 32`: may be a value that the source does not have."""


@lru_cache(maxsize=8)
def source_of(code: str) -> TokenizedCode:
    tokens = _CODE_TOKEN.findall(_NOT_CODE.sub(" ", code))
    return TokenizedCode(_joined(tokens), frozenset(tokens))


def _joined(tokens: Sequence[str]) -> str:
    return "\n".join(["", *tokens, ""])


def is_code(span: str, code: str, literals: frozenset[float], *, is_proposal: bool) -> bool:
    """It is in the source, or it has no other numbers than the source and the suggested edits.

    A plain number (`256`) is one of the sentence, whatever it stands in, except in a proposal.
    """
    from keet.evidence import number_words  # most sentences of keet need none of its expressions

    source, tokens = source_of(code), _CODE_TOKEN.findall(span)
    numbers = {_number(token) for token in tokens if token[0].isdigit()}
    is_plain = bool(_PLAIN_NUMBER.fullmatch(span.strip()))
    if _joined(tokens) in source.text and not is_plain:
        return True
    # `thirty percent`, but `%` is the remainder in code, and `half` is a type.
    plain = re.sub(r"\bhalf\b|%", " ", span)
    stated = (number_words.COUNT.search(plain), number_words.RATIO.search(plain))
    if _PERCENT.search(span) or _ASSIGNED.search(span) or any(stated):
        return False
    # New code that uses known names: `COLS * (COLS + 1) / 2`.
    if is_plain:
        return is_proposal and numbers <= literals
    return not numbers or (not source.words.isdisjoint(tokens) and numbers <= literals)


def _number(token: str) -> float:
    try:
        if token[:2].lower() == "0x":
            return float(int(token.rstrip("uUlL"), 16))
        return float(token.rstrip("uUlLfF").replace("'", ""))
    except (ValueError, OverflowError):
        return float("nan")
