"""What Nsight Compute's own rules say."""

from __future__ import annotations

import re

from keet.explanation.analyst import LaunchExplanation
from keet.profile.rules import RuleKind, RuleResult, SpeedupScope
from keet.units import Quantity
from keet_tools.case import Abstention, Answer, Case
from keet_tools.telling import Telling, one_page, quote_prose

_SIZE = 5
_LENGTH = 250
_LINK = re.compile(r"@(?:url:([^:@]*):[^@]*|\w+:[^:@]*:([^@]*))@")
"""`@url:words:address@`, `@section:id:words@`: the words are what is meant to be read."""
_RANK = {SpeedupScope.GLOBAL: 0, SpeedupScope.LOCAL: 1, SpeedupScope.UNKNOWN: 2}


def nvidia_rules(case: Case, launch: int | None = None, report: int = 0, page: int = 1) -> Answer:
    """Nsight Compute's rule results, largest estimated gain first; a second opinion."""
    each = case.launch(launch, report)
    rules = sorted(filter(_says_something, each.launch.rules), key=_order)
    if not rules:
        raise Abstention("the report holds no rule results; profile with `--apply-rules yes`")
    shown, more = one_page(list(enumerate(rules)), page, _SIZE)
    say = Telling()
    rows = [_row(each, number, rule, say) for number, rule in shown]
    return say.answer("NVIDIA's words, quoted: numbers in quotes are no evidence.", *rows, more)


def _says_something(rule: RuleResult) -> bool:
    return bool(rule.message.strip()) and (
        rule.kind is not RuleKind.OK or rule.speedup is not None or bool(rule.title)
    )


def _order(rule: RuleResult) -> tuple[int, float]:
    if rule.speedup is None:
        return 3, 0.0
    return _RANK[rule.speedup.scope], -rule.speedup.percent


def _row(each: LaunchExplanation, number: int, rule: RuleResult, say: Telling) -> str:
    said = _LINK.sub(lambda link: link[1] or link[2] or "", rule.message)
    title = f"{rule.title}: " if rule.title else ""
    return f"{quote_prose(rule.rule, 40)}{_estimate(each, number, rule, say)} " + quote_prose(
        title + said, _LENGTH
    )


def _estimate(each: LaunchExplanation, number: int, rule: RuleResult, say: Telling) -> str:
    if rule.speedup is None:
        return ""
    # A rule may speak more than once: its place among the sorted tells its estimates apart.
    estimate = each.view.ledger.derived(
        f"nvidia_estimate_{rule.rule}.{number}",
        Quantity(rule.speedup.percent, "%"),
        f"NVIDIA's {rule.speedup.scope} estimate by {rule.rule}",
    )
    return f" {rule.speedup.scope} estimate {say(estimate)}:"
