"""Helpers for sentences: lists of words, names of limiters, counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.hardware.ceilings import spoken_unit
from keet.evidence import Evidence, Reference, Sentence, constant
from keet.formatting import plural_of

_LATENCY = " (no unit is near its peak)"


def spoken(limiter: str) -> str:
    """A limiter as printed in a sentence."""
    return f"latency{_LATENCY}" if limiter == "latency" else spoken_unit(limiter)


def in_table_words(limiter: str) -> str:
    """A limiter as in the tables: `DRAM+L2`, `issue`."""
    return spoken(limiter) if limiter == "latency" else limiter


def be(limiter: str) -> str:
    return "are" if spoken(limiter).endswith("s") else "is"


def latency_explained_once(texts: Iterable[Sentence]) -> Iterator[Sentence]:
    """Keeps only the first explanation of `latency`."""
    is_explained = False
    for text in texts:
        parts: list[str | Reference] = []
        for part in text.parts:
            if isinstance(part, Reference) or _LATENCY not in part:
                parts.append(part)
                continue
            head, mark, rest = part.partition(_LATENCY)
            parts.append(f"{head}{'' if is_explained else mark}{rest.replace(_LATENCY, '')}")
            is_explained = True
        yield Sentence.of(parts)


def joined(words: Sequence[str]) -> Sentence:
    """`a, b and c`"""
    first = Sentence(", ").join(words[:-1])
    return Sentence(" and ").join([*([first] if first else []), *words[-1:]])


def counted(number: Evidence | int, noun: str, plural: str = "") -> Sentence:
    """`1 file`, `2,048 launches`. A number without evidence is a count of files or launches."""
    piece = number if isinstance(number, Evidence) else constant(number, "", plural_of(noun))
    words = noun if piece.value == 1 else plural or plural_of(noun)
    return Sentence("{piece:,.0f} {words}", piece=piece, words=words)
