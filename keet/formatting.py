"""How keet writes shares, factors, shapes, counts and first letters: one definition each; and how
many tokens a text has.

Amounts with a unit (`69.9 us`, `537 MB`) are written by `keet.units.Quantity`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

_NEXT_TO_NOTHING = 1e-4
"""Per cent: a smaller share is written as 0%."""


def percent_text(percent: float, digits: int = 0) -> str:
    """`83%`; `0.3%` and `99.7%` without digits too: a share that is not zero is not written as 0%,
    and one that is not all is not written as 100%."""
    is_nothing = not f"{percent:.{digits}f}".strip("0.")
    if not digits and 99.5 <= percent < 99.95:
        digits = 1
    elif percent > _NEXT_TO_NOTHING and (is_nothing or (not digits and percent < 0.95)):
        digits = -math.floor(math.log10(percent))
    return f"{percent:.{digits}f}%"


def percent_cell(percent: float) -> str:
    """For a column of a table, where the digits stand below each other: `83.1%`, `<0.1%`."""
    return "<0.1%" if 0 < percent < 0.05 else f"{percent:.1f}%"


def share_text(share: float, digits: int = 0) -> str:
    """`percent_text` of a share from 0 to 1."""
    return percent_text(100 * share, digits)


def share_cell(share: float) -> str:
    """`percent_cell` of a share from 0 to 1."""
    return percent_cell(100 * share)


def time_share_text(percent: float) -> str:
    """With one digit below 10% and just below 100%: `3.4%`, `12%`, `99.7%`, `<0.1%`."""
    return percent_cell(percent) if 0 < percent < 9.95 else percent_text(percent)


def times_text(factor: float) -> str:
    """An estimated factor: `4.5x`, `12x`; `1.07x` where one digit would hide a small gain."""
    digits = 0 if factor >= 9.95 else 1 if factor >= 1.195 or factor < 1.005 else 2
    return f"{factor:,.{digits}f}x"


def speedup_text(factor: float) -> str:
    """A measured factor, with three digits: `1.87x`, `12.3x`, `140x`."""
    digits = 2 if factor < 10 else 1 if factor < 100 else 0
    return f"{factor:,.{digits}f}x"


def count_text(count: float) -> str:
    """`400`, `1,024`, `2.5`. Fractions occur if several profiled launches represent launches that
    the run table does not distinguish."""
    digits = 0 if abs(count - round(count)) < 0.05 or count >= 100 else 1
    return f"{count:,.{digits}f}"


def short_count(count: float) -> str:
    """With three digits, for a chart: `400`, `9,216`, `2.10 M`."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (4, "K")):
        if count >= 0.9995 * 10**power:
            scaled = count / 10 ** (power - power % 3)
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f} {prefix}"
    return count_text(count)


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """`1 kernel`, `2,048 launches`, `3 families`; `plural` where it is irregular."""
    return f"{number:,} {noun_for(number, noun, plural)}"


def noun_for(number: float, noun: str, plural: str = "") -> str:
    """For a number that is printed with at most one digit: `1.0` is one, too."""
    return noun if round(number, 1) == 1 else plural or plural_of(noun)


def plural_of(noun: str) -> str:
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def listed(texts: Sequence[str], most: int) -> str:
    """`a, b, …`: the first ones."""
    return ", ".join(texts[:most]) + (", …" if len(texts) > most else "")


def shape_text(shape: Sequence[int] | None, unknown: str = "unknown") -> str:
    """`64×256` for (64, 256, 1), and `32×1×2` for (32, 1, 2): ones at the end are left out."""
    if not shape:
        return unknown
    last = max((axis for axis, size in enumerate(shape) if size != 1), default=0)
    return "×".join(map(str, shape[: last + 1]))


def shapes_text(grid: Sequence[int] | None, block: Sequence[int] | None) -> str:
    """`grid 256×1024, block 32×8`; what the report does not have is left out."""
    return ", ".join(shape_parts(grid=grid, block=block))


def shape_parts(**shapes: Sequence[int] | None) -> Iterator[str]:
    return (f"{name} {shape_text(shape)}" for name, shape in shapes.items() if shape)


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence, which is printed as a headline, and the others."""
    first, stop, others = text.partition(". ")
    return f"{first}{stop.rstrip()}", others


_CLAUSE = re.compile(r"[;:] (?![^(]*\))")
"""Its end, which is not within parentheses."""


def first_clause(sentence: str) -> tuple[str, str]:
    """Up to the first semicolon or colon, and the rest, which begins with it."""
    end = _CLAUSE.search(sentence)
    return (sentence[: end.start()], sentence[end.start() :]) if end else (sentence, "")


def enumerated(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def capitalized(text: str) -> str:
    """With a capital first letter; the rest stays: `L2` is not `l2`."""
    return text[:1].upper() + text[1:]


def uncapitalized(text: str) -> str:
    """With a small first letter, unless it begins an acronym: `FP64 may not be needed` and `L2`
    stay."""
    if text[1:2].isupper() or text[1:2].isdigit():
        return text
    return text[:1].lower() + text[1:]


_SHELL_WORD = r"""(?x)
    --(?:section|set|import-source|metrics)\ \S+ | (?: "[^"]*" | '[^']*' | [^\s"'] )+ | \S+"""
"""A word of a command: quoted text stays together, and an option keeps its value."""


def command_lines(command: str, width: int) -> Iterator[str]:
    """A command to copy from the screen, broken only where a shell continues it: between words,
    and in a list behind a comma, where the next line must not begin with a blank. What is longer
    than a line and no list stays whole."""
    room = width - 2
    line = " "
    for word in re.findall(_SHELL_WORD, command):
        is_list = "," in word and len(word) > room - 5 and not {*"'\""} & {*word}
        first, *more = re.findall("[^,]*,|[^,]+", word) if is_list else [word]
        if len(line) + 1 + len(first) > room and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {first}"
        for part in more:
            if len(line) + len(part) > room:
                yield f"{line}\\"
                line = ""
            line += part
    yield line


# --- tokens without a tokenizer. Tokenizers differ, and keet has none. The count is the largest of
# three estimates: by bytes, by words, and by the parts of code and numbers. On keet's own contexts
# it is above the counts of all tokenizers it was compared with (docs/decisions/0006-context.md).

_BYTES_A_TOKEN = 3.5
_TOKENS_A_WORD = 1.35
_USUAL_BYTES = 3.4
_PARTS = re.compile(
    r"[A-Za-z]{1,5}|[0-9]|\n[ \t]*|[ \t]{2,}|[ \t](?=[0-9])|[^\sA-Za-z0-9]", re.ASCII
)
"""Parts that tokenizers do not join: pieces of words, digits (many join three) and the blank before
them, punctuation, indentation."""


def count_tokens(text: str) -> int:
    """An upper bound of the tokens of English text, code and numbers."""
    return tokens_of(text_size(text))


_BITS = 40
"""Bits per count in a size."""


def text_size(text: str) -> int:
    """Bytes of UTF-8, words and parts, packed into one integer. Sizes of lines add up to that of
    the text, because nothing that is counted spans a newline."""
    characters = len(text)
    length = characters if text.isascii() else _length(text)
    # A non-ASCII character may take a token per byte.
    parts = len(_PARTS.findall(text)) + length - characters
    return length | len(text.split()) << _BITS | parts << 2 * _BITS


def _length(text: str) -> int:
    return len(text.encode("utf-8", errors="backslashreplace"))


def tokens_of(size: int) -> int:
    length, words, parts = (size >> bits & (1 << _BITS) - 1 for bits in (0, _BITS, 2 * _BITS))
    return math.ceil(max(length / _BYTES_A_TOKEN, words * _TOKENS_A_WORD, parts))


def guess_tokens(text: str) -> int:
    """A usual number of tokens: for planning, not an upper bound."""
    return math.ceil(_length(text) / _USUAL_BYTES)
