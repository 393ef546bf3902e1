"""Numbers that are right, and said of the wrong thing: L2's percentage given as DRAM's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from keet.catalog import metric_named
from keet.evidence import Evidence
from keet.units import Quantity
from keet.verification.binding import Claim, bind
from keet.verification.lexicon import STALL_SHARE, Term
from keet.verification.matching import agrees, fits
from keet.verification.numbers import SaidNumber
from keet.verification.sentences import sentences

_ANOTHER_CLAUSE = re.compile(
    r"[^\[\]]*\[E\d+[^\]]*\].*\b(?:and|but|while|whereas|so|because|since)\b"
)
"""From a number on: its own clause ends behind its id."""

if TYPE_CHECKING:
    from keet.verification.grounding import Verified


def misnamed(
    text: str, verified: Sequence[Verified], pieces: Mapping[str, Evidence]
) -> dict[SaidNumber, str]:
    """Verified numbers whose clause names other evidence than theirs, with the reason.

    Only where the clause names a metric that the evidence has, and that metric differs: a name
    that no evidence bears proves nothing.
    """
    wrong: dict[SaidNumber, str] = {}
    for sentence in sentences(text):
        here = [v for v in verified if sentence.start <= v.number.start < sentence.end]
        moved = [
            v.number._replace(
                start=v.number.start - sentence.start, end=v.number.end - sentence.start
            )
            for v in here
        ]
        for entry, claim in zip(here, bind(sentence, moved, ())):
            meant = claim.term and claim.firm and not _is_behind(sentence.text, claim)
            if claim.term and meant and (why := _other(entry, claim.term, pieces)):
                wrong[entry.number] = why
    return wrong


def _is_behind(text: str, claim: Claim) -> bool:
    """`holds 67.8 % [E163] and fills the ALU pipe`: the pipe's is another clause."""
    term, number = claim.term, claim.number
    between = text[number.end : term.start] if term else ""
    return bool(_ANOTHER_CLAUSE.match(between))


def _other(entry: Verified, term: Term, pieces: Mapping[str, Evidence]) -> str | None:
    """The evidence that the clause names, where the number is not that."""
    named = [p for p in pieces.values() if _names(term, p) and fits(entry.number, p.unit)]
    if not named or not entry.evidence:
        return None
    own = {pieces[found].metric for found in entry.evidence}
    if any(p.metric in own or agrees(entry.number, Quantity(p.value, p.unit)) for p in named):
        return None
    return (
        f"{named[0].label} is {named[0]}; {entry.number.text} is {pieces[entry.evidence[0]].label}"
    )


def _names(term: Term, piece: Evidence) -> bool:
    spec = metric_named(piece.metric)
    ids = {reading.removeprefix(STALL_SHARE) for reading in term.readings}
    return not term.entry.complement and (piece.metric in ids or bool(spec and spec.id in ids))
