"""Checks claims of a highest or lowest value: `Drain is the largest stall reason`.

Called by `relation_check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from keet.catalog import stalls
from keet.documents.verify import ClaimVerdict
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.verification.text.clauses import qualified
from keet.verification.text.metric_names import STALL_SHARE, Term, find_terms
from keet.verification.text.metric_names_in_context import terms_in
from keet.verification.text.relations import Relation
from keet.verification.values.report_values import ReportValues

_PIPES = ("FMA pipe", "ALU pipe", "FP64 pipe", "FP16 pipe", "tensor pipe", "LSU pipe", "XU pipe")
_UNITS = ("DRAM throughput", "L2 throughput", "L1 throughput")
_OF_ACTIVE = frozenset({"L1 throughput"})
"""Small metric sets have it over active cycles only, which is not comparable with the others."""
_NO_STALLS = ("selected",)
_MAYBE = ("not_selected",)
"""The warp was ready to run; not everybody calls that a stall."""
_STALL_NOUN = re.compile(r"\s*(?:\w+\s+)?stall|\s*reason", re.IGNORECASE)
_PIPE_NOUN = re.compile(r"\s*(?:\w+\s+)?pipe(?:line)?s?\b", re.IGNORECASE)
_UNIT_NOUN = re.compile(r"\s*(?:hardware |memory )?(?:unit|level)s?\b", re.IGNORECASE)
_LAUNCH_NOUN = re.compile(
    r"(?:[^.;]{0,40}?\bof (?:all|the|these|those)\b[^.;]{0,12}?)?"
    r"\b(?:launch(?:es)?|kernels?|all|run)\b",
    re.IGNORECASE,
)
_TIME = re.compile(r"longest|slowest|shortest|fastest|quickest", re.IGNORECASE)


class _Ranked(NamedTuple):
    """Values by name, and the name that the text ranks first."""

    values: Mapping[str, float]
    said: str
    unsure: frozenset[str] = frozenset()
    """Names that may not belong to the ranking."""


def check_ranking(
    relation: Relation, text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> tuple[ClaimVerdict, str] | None:
    """None: keet does not know what is ranked."""
    ranked = _ranked(relation, text, facts, spoken_of)
    if ranked is None or ranked.said not in ranked.values or len(ranked.values) < 2:
        return None
    sign = 1 if relation.kind == "most" else -1
    order = sorted(ranked.values, key=lambda name: -sign * ranked.values[name])
    best = next(name for name in order if name not in ranked.unsure or name == ranked.said)
    words = [
        Sentence("{name} {n:.4g}", name=name, n=constant(ranked.values[name], "", name))
        for name in order[:3]
    ]
    reason = Sentence("in order: {words}", words=Sentence(", ").join(words))
    if ranked.said == order[0] or ranked.values[ranked.said] == ranked.values[order[0]]:
        is_so = True
    elif ranked.said == best or (_is_close(ranked, order[0]) and _is_printed(facts)):
        return None
    else:
        is_so = False
    is_right = is_so is not relation.is_negated
    return "confirmed" if is_right else "contradicted", reason


def _is_printed(facts: ReportValues) -> bool:
    return any(launch.is_printed for launch in facts.launches.of_each_kernel)


def _is_close(ranked: _Ranked, first: str) -> bool:
    """So close to the first that the rounding of an export may hide the order."""
    said, most = ranked.values[ranked.said], ranked.values[first]
    return abs(said - most) <= max(0.02 * abs(most), 0.1)


def _ranked(
    relation: Relation, text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> _Ranked | None:
    behind = text[relation.end :]
    if _STALL_NOUN.match(behind):
        return _of_stalls(relation, text, facts, spoken_of)
    if _PIPE_NOUN.match(behind):
        return _of_terms(_PIPES, relation, text, facts, spoken_of)
    if _UNIT_NOUN.match(behind):
        return _of_terms(_UNITS, relation, text, facts, spoken_of)
    if _LAUNCH_NOUN.match(behind):
        return _of_launches(relation, text, facts)
    return None


def _of_stalls(
    relation: Relation, text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> _Ranked | None:
    launches = _subjects(text, facts, spoken_of)
    named = _nearest(relation, text, lambda term: term.metric_ids[0].startswith(STALL_SHARE))
    if named is None or len(launches) != 1:
        return None
    shares = {
        reason: found[0].quantity.value
        for reason in stalls()
        if reason not in _NO_STALLS and (found := facts.read([STALL_SHARE + reason], launches[0]))
    }
    labels = {reason: stalls()[reason].label for reason in shares}
    said = labels.get(named.metric_ids[0].removeprefix(STALL_SHARE), "")
    values = {labels[reason]: value for reason, value in shares.items()}
    return _Ranked(values, said, frozenset(stalls()[each].label for each in _MAYBE))


def _of_terms(
    names: Sequence[str],
    relation: Relation,
    text: str,
    facts: ReportValues,
    spoken_of: Sequence[Launch],
) -> _Ranked | None:
    """By the first metric of each name: the share of its peak over elapsed cycles."""
    launches = _subjects(text, facts, spoken_of)
    if len(launches) != 1:
        return None
    first = {find_terms(name)[0].metric_ids[0]: name for name in names}
    named = _nearest(relation, text, lambda term: term.metric_ids[0] in first)
    values = {
        name: found[0].quantity.value
        for report_value, name in first.items()
        if (found := facts.read([report_value], launches[0]))
    }
    return _Ranked(values, first[named.metric_ids[0]], _OF_ACTIVE) if named else None


def _of_launches(relation: Relation, text: str, facts: ReportValues) -> _Ranked | None:
    names = [name for name in facts.launches.named_in(text) if len(name.launches) == 1]
    before = [name for name in names if name.start < relation.start] or names
    term = _nearest(relation, text, lambda term: not (term.entry.weak or term.entry.verb))
    is_time = _TIME.search(text, relation.start, relation.end)
    if not before or (term is None and not is_time):
        return None
    ids = ("duration",) if is_time or term is None else qualified(term.metric_ids, text)
    values = {
        f"#{launch.id}": found[0].quantity.value
        for launch in facts.launches
        if (found := facts.read(ids, launch))
    }
    return _Ranked(values, f"#{before[-1].launches[0].id}")


def _subjects(text: str, facts: ReportValues, spoken_of: Sequence[Launch]) -> Sequence[Launch]:
    named = [launch for name in facts.launches.named_in(text) for launch in name.launches]
    return list(dict.fromkeys(named)) or spoken_of


def _nearest(relation: Relation, text: str, fits: Callable[[Term], bool]) -> Term | None:
    """The name that the text ranks first: the nearest on either side."""
    terms = [term for term in terms_in(text) if fits(term)]
    return min(terms, key=lambda term: _distance(term, relation), default=None)


def _distance(term: Term, relation: Relation) -> int:
    return max(relation.start - term.end, term.start - relation.end)
