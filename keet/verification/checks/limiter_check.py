"""Checks claims of a limiter: `is DRAM bound`, `limited by L2`.

Uses only how busy the units are. If that does not decide it, the claim is not checked, so never
confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from keet.documents.verify import ClaimVerdict, RelationDocument
from keet.evidence import Sentence, constant
from keet.profile import Launch
from keet.verification.values.report_values import ReportValues

_UNIT = (
    r"(?:(?P<dram>DRAM|HBM|device[ -]memory|(?:global[ -])?memory[ -]bandwidth|bandwidth)"
    r"|(?P<l2>L2)|(?P<l1>L1(?:/TEX|TEX)?)|(?P<memory>memory)"
    r"|(?P<sm>compute|computation|arithmetic|ALU|FMA|FLOPs?|tensor(?: core)?s?|instruction issue)"
    r"|(?P<other>latency|issue|instruction|cache|occupancy|synchroni[sz]ation|barrier|registers?"
    r"|shared[ -]memory|IO|I/O|throughput))"
)
_CLAIM = re.compile(
    rf"\b{_UNIT}(?:[ -](?:cache|bandwidth|throughput|pipes?))?[ -](?:bound|limited)\b"
    r"(?! (?:to|check|value)\b)",
    re.IGNORECASE,
)
_BY = re.compile(
    r"\b(?:bound|limited|bottlenecked|constrained|throttled)(?: (?:only|mainly|mostly))? (?:by|on)"
    rf"(?: the| its)? {_UNIT}\b|\bbottleneck is(?: the| its)? {_UNIT.replace('?P<', '?P<is_')}\b",
    re.IGNORECASE,
)
_OCCUPANCY = re.compile(r"\boccupancy\b|\bblocks\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:not|isn't|aren't|never|no longer|neither|nor|rather than)\b[^,;]{0,20}\Z")
_SHARES = {
    "dram": ("DRAM", "dram_throughput_pct"),
    "l2": ("L2", "l2_throughput_pct"),
    "l1": ("L1", "l1tex_throughput_pct"),
    "sm": ("SM", "sm_throughput_pct"),
}
UNIT_SHARES = tuple(metric for _, metric in _SHARES.values())
"""Ids of the metrics that decide a claim of a limiter."""
_MEMORY = ("dram", "l2", "l1")
_LIMITS, _BUSY = 80.0, 60.0
"""Per cent of peak from which a unit surely limits, and from which a less busy unit does not."""
_BEHIND = 20.0
"""A unit that is less busy than another by this many percentage points is not the limiter."""
_UNCLEAR = "not checked: how busy the units are does not decide it; `keet explain` says what limits"


def limiter_checks(
    text: str, facts: ReportValues, spoken_of: Sequence[Launch]
) -> Iterator[RelationDocument]:
    """One for each claim of a limiter in the sentence."""
    named = [launch for name in facts.launches.named_in(text) for launch in name.launches]
    launches = list(dict.fromkeys(named)) or spoken_of
    for match in (*_CLAIM.finditer(text), *_BY.finditer(text)):
        groups = (name for name, words in match.groupdict().items() if words)
        unit = next(groups).removeprefix("is_")
        if unit == "other" and _OCCUPANCY.search(text):
            continue  # `occupancy is limited by registers`: not the kernel
        verdict, reason = _judged(unit, facts, launches)
        if verdict != "not_found" and _NOT.search(text, 0, match.start()):
            is_so = verdict == "contradicted"
            verdict = "confirmed" if is_so else "contradicted"
        yield RelationDocument(
            text=match[0],
            start=match.start(),
            end=match.end(),
            sentence=text,
            verdict=verdict,
            reason=reason,
        )


def _judged(unit: str, facts: ReportValues, launches: Sequence[Launch]) -> tuple[ClaimVerdict, str]:
    found = {_verdict(unit, _shares(facts, launch)) for launch in launches}
    if len(found) != 1 or "not_found" in found:
        return "not_found", _UNCLEAR
    shares = _shares(facts, launches[0])
    order = sorted(shares, key=lambda each: -shares[each])
    words = [
        Sentence("{unit} {share:.4g}%", unit=label, share=constant(shares[each], "", label))
        for each in order
        for label in _SHARES[each][:1]
    ]
    return found.pop(), Sentence("busy, in order: {units}", units=Sentence(", ").join(words))


def _shares(facts: ReportValues, launch: Launch) -> Mapping[str, float]:
    read = {unit: facts.read([metric], launch) for unit, (_, metric) in _SHARES.items()}
    return {unit: found[0].quantity.value for unit, found in read.items() if found}


def _verdict(unit: str, shares: Mapping[str, float]) -> ClaimVerdict:
    units = _MEMORY if unit == "memory" else (unit,)
    own = [shares[each] for each in units if each in shares]
    rest = [each for each in shares if each not in units]
    if not own or not rest:
        return "not_found"
    if max(own) >= _LIMITS and max(own) > max(shares[each] for each in rest):
        return "confirmed"
    # L1 may be over active cycles only, which is not comparable with the others.
    busiest = max((shares[each] for each in rest if each != "l1"), default=0.0)
    clear = busiest >= _BUSY and max(own) < busiest - _BEHIND
    return "contradicted" if clear else "not_found"
