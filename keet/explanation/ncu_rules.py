"""The rule of Nsight Compute that estimates the largest gain, and whether keet agrees with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.ledger import LaunchLedger
from keet.analysis.remedy_conditions.grid import EARLY_WARPS, SHORT_BLOCKS
from keet.analysis.time_model import WORTH
from keet.diagnosis.diagnosis import MOSTLY_UNKNOWN
from keet.diagnosis.finding import Finding
from keet.evidence import Sentence
from keet.explanation.finding_notes import LEAST_GAIN
from keet.findings import findings
from keet.profile.metric import RuleResult
from keet.safe_text import shortened
from keet.units import Quantity

_SYMPTOMS = frozenset({
    "AchievedOccupancy", "CPIStall", "HighPipeUtilization", "IssueSlotUtilization",
    "MemoryCacheAccessPattern", "SOLBottleneck", "SOLFPRoofline",
})  # fmt: skip
"""Rules about symptoms: waiting, busy units, cache misses."""
_OF_ACCESSES = "MemoryCacheAccessPattern"
"""A symptom of how memory is accessed: other causes do not have it as a consequence."""
_OF_BALANCE = "WorkloadImbalance"
"""A symptom of blocks of one warp, and of too few blocks."""
_OF_OCCUPANCY = "AchievedOccupancy"
"""A symptom of too few blocks, or of warps and blocks that end early: how threads access memory or
compute does not change how many there are."""


def second_opinion(
    ledger: LaunchLedger, findings: Sequence[Finding], minor: Sequence[Finding], unknown: float
) -> Sentence | None:
    """None if no rule estimates a gain for the whole launch that would be large enough for a
    finding.

    `unknown`: percentage of the time that the account could not attribute.
    """
    first = ledger.launch.leading_rule
    least = 100 * (1 - 1 / WORTH)  # the limit of findings as a percentage of the time
    if first is None or first.global_estimate < least:
        return None
    judged = judge_rule(first, findings, minor, unknown)
    if judged is NOT_JUDGED and (words := _key_sentences(first.message)):
        return _quoted(first, words, ledger)
    rule, name = "The Nsight Compute rule with the largest estimate", rule_name(first)
    if judged.agrees:
        rank = str(judged.finding)
        return Sentence(
            "{rule}, {name}, agrees with finding {rank}.", rule=rule, name=name, rank=rank
        )
    return Sentence("{rule} is {name}. {judged}", rule=rule, name=name, judged=judged.text)


_REPORTS = "Nsight Compute's rule "
_LONGEST_QUOTE = 320
"""Characters of a rule's message: about two sentences."""


def precedes_findings(opinion: str | None) -> bool:
    """Whether it quotes a rule that keet cannot judge: that may name a cause that keet missed."""
    return opinion is not None and opinion.startswith(_REPORTS)


def _quoted(rule: RuleResult, words: str, ledger: LaunchLedger) -> Sentence:
    gain, label = Quantity(rule.global_estimate, "%"), f"gain that ncu's rule {rule.rule} estimates"
    return Sentence(
        "{reports}{rule} estimates a gain of {gain:.4g} of the time and reports: "
        '"{words}" {judged}',
        reports=_REPORTS,
        rule=rule_name(rule),
        gain=ledger.derived("rule_estimate", gain, label),
        words=words,
        judged=NOT_JUDGED.text,
    )


def _key_sentences(message: str) -> str:
    """The sentences of a message that have numbers; empty if there is none.

    Without sentences that name a file (`@source:...@ at FILE`), as older rules do: paths can be
    secret.
    """
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", message)
    measured = [
        sentence for sentence in sentences if re.search(r"\d", sentence) and "@" not in sentence
    ]
    kept = ""
    for each in measured:
        if kept and len(kept) + len(each) >= _LONGEST_QUOTE:
            break
        kept = f"{kept} {each}".lstrip()
    return shortened(kept, _LONGEST_QUOTE)


def rule_name(rule: RuleResult) -> str:
    """`CPIStall (Long Scoreboard Stalls)`: the rule, and the title of its message."""
    return f"{rule.rule} ({rule.title})" if rule.title else rule.rule


class RuleAssessment(NamedTuple):
    """How a rule's estimate relates to keet's findings."""

    text: Sentence
    finding: int | None = None
    """Rank of the finding that the rule is about, or a consequence of."""
    agrees: bool = False
    """Whether the rule is about that finding itself."""


NOT_JUDGED = RuleAssessment(Sentence("keet cannot judge it: much of the time is not attributable."))


def judge_rule(
    rule: RuleResult, ranked: Sequence[Finding], minor: Sequence[Finding], unknown: float
) -> RuleAssessment:
    """`unknown`: percentage of the time that the account could not attribute."""
    about = [n for n, finding in enumerate(ranked, 1) if _is_about(rule, finding)]
    # A short kernel has a small grid too: the rule is about the finding that it is a rule of; of
    # two such findings, in whatever order, about the more usual one.
    specs = {n: ranked[n - 1].spec for n in about}
    rank = min(
        about, key=lambda n: (rule.rule not in specs[n].rules, specs[n].edit.usual), default=None
    )
    if rank is not None:
        text = Sentence("It agrees with finding {rank}.", rank=str(rank))
        return RuleAssessment(text, rank, agrees=True)
    if ranked and rule.rule == _OF_OCCUPANCY:
        return _of_occupancy(ranked)
    follows = rule.rule != _OF_ACCESSES or (ranked and rule.rule in ranked[0].spec.credited_rules)
    credited = [n for n, each in enumerate(ranked, 1) if rule.rule in each.spec.credited_rules]
    cause = credited[0] if credited and rule.rule == _OF_BALANCE else 1
    if ranked and ((rule.rule in _SYMPTOMS and follows) or (credited and rule.rule == _OF_BALANCE)):
        text = Sentence("keet considers it a consequence of finding {rank}.", rank=str(cause))
        return RuleAssessment(text, cause)
    if rule.rule not in _SYMPTOMS and not any(rule.rule in s.rules for s in findings().values()):
        return RuleAssessment(Sentence("keet has no check of its own for it."))
    # keet may measure what the rule is about, even if much of the time is not attributable.
    is_known = _title_decides(rule) or any(_is_about(rule, finding) for finding in minor)
    if unknown >= 100 * MOSTLY_UNKNOWN and not is_known:
        return NOT_JUDGED
    is_open = any(each.forecast.likely >= WORTH and rule.rule in each.spec.rules for each in minor)
    words = (
        "keet cannot tell whether fixing it would gain {least:.0f}."
        if is_open
        else "keet estimates that fixing it would gain less than {least:.0f}."
    )
    return RuleAssessment(Sentence(words, least=LEAST_GAIN))


def _of_occupancy(findings: Sequence[Finding]) -> RuleAssessment:
    for n, each in enumerate(findings, 1):
        ends_early = each.variant in (SHORT_BLOCKS, EARLY_WARPS)
        if ends_early or _OF_OCCUPANCY in each.spec.credited_rules:
            # Of exposed latency, few warps are a cause, not a consequence.
            is_idle = each.spec.headline == "idle"
            is_cause = ends_early or is_idle or "waiting" not in each.spec.claims
            said = Sentence("keet considers it a consequence of finding {rank}.", rank=str(n))
            if not is_cause:
                words = "More warps are one way to hide the waits of finding {rank}."
                said = Sentence(words, rank=str(n))
            return RuleAssessment(said, n)
    return RuleAssessment(
        Sentence("No finding explains it; more warps help only as far as there is work for them.")
    )


def _title_decides(rule: RuleResult) -> bool:
    """Whether the rule has messages about several findings, so that the title says which."""
    return any(rule.title in spec.rule_titles for spec in findings().values())


def _is_about(rule: RuleResult, finding: Finding) -> bool:
    if _title_decides(rule):
        spec = finding.spec
        return rule.title in (*spec.rule_titles, *spec.titles_of_variant.get(finding.variant, ()))
    return rule.rule in finding.spec.rules
