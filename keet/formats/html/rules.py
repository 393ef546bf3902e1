"""What Nsight Compute's own rules say about a launch, beside keet's answer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.ncu_rules import judge_rule, rule_name
from keet.formats.html.markup import Content, Html, element
from keet.formatting import count_noun
from keet.pages.anchors import Anchors
from keet.pages.figures import RulesFigure
from keet.profile.rules import RuleKind, RuleResult, SpeedupScope

_ADVICE = frozenset((RuleKind.OPTIMIZATION, RuleKind.WARNING, RuleKind.ERROR))
_ESTIMATES = {
    SpeedupScope.GLOBAL: "ncu's estimate: saves {} of the launch's time",
    SpeedupScope.LOCAL: "ncu's local estimate: {} (efficiency of the unit alone, not time)",
    SpeedupScope.UNKNOWN: "ncu's estimate: {} (it does not say of what)",
}
"""NVIDIA: a local estimate is the increase in efficiency of the hardware unit, when the problem is
viewed in isolation."""
_LINK = re.compile(r"@(?:section|url|source|metric):([^:@]*):[^@]*@")
_SECTION = re.compile(r"@section:[^:@]*:([^@]*)@")


def draw_rules(block: RulesFigure) -> Html | None:
    return rules_section(block.each, block.anchors)


def rules_section(each: LaunchExplanation, anchors: Anchors) -> Html | None:
    """Closed at first, with the largest estimate above it; None if no rule has a message."""
    rules = each.launch.rules
    if not rules:
        return None
    advice = sorted((rule for rule in rules if rule.kind in _ADVICE), key=_worth)
    others = [rule for rule in rules if rule.kind not in _ADVICE]
    return element(
        "section",
        element("h3", "Nsight Compute's rules"),
        element("p", each.second_opinion) if each.second_opinion else None,
        _fold(count_noun(len(advice), "message with advice", "messages with advice"),
              [_rule(rule, each, anchors) for rule in advice]),
        _fold(count_noun(len(others), "message without advice", "messages without advice"),
              [_plain(rule) for rule in others]),
        class_="rules",
    )  # fmt: skip


def _worth(rule: RuleResult) -> tuple[bool, float]:
    """The largest estimate of the whole launch first."""
    if not rule.speedup or not math.isfinite(rule.speedup.percent):
        return True, 0.0
    return rule.speedup.scope is not SpeedupScope.GLOBAL, -rule.speedup.percent


def _fold(title: str, items: Sequence[Html]) -> Html | None:
    if not items:
        return None
    return element("details", element("summary", title), element("ul", items), class_="fold")


def _rule(rule: RuleResult, each: LaunchExplanation, anchors: Anchors) -> Html:
    return element(
        "li",
        element("p", element("strong", rule_name(rule)), _estimate(rule)),
        element("p", message_text(rule.message)),
        _judged(rule, each, anchors),
    )


def _plain(rule: RuleResult) -> Html:
    return element("li", element("strong", rule_name(rule)), ": ", message_text(rule.message))


def _estimate(rule: RuleResult) -> Content:
    if not rule.speedup or not math.isfinite(rule.speedup.percent):
        return None
    text = _ESTIMATES[rule.speedup.scope].format(f"{rule.speedup.percent:.0f}%")
    return [" ", element("span", text, class_="muted")]


def _judged(rule: RuleResult, each: LaunchExplanation, anchors: Anchors) -> Html | None:
    """The note for a rule that estimates a gain, with a link to keet's finding if there is one."""
    if rule.speedup is None:
        return None
    found = (*each.findings, *each.unlisted)
    judged = judge_rule(rule, found, each.minor, each.account.unknown)
    if judged.finding is None or judged.finding > len(each.findings):
        return element("p", judged.text, class_="judged")
    before, named, behind = judged.text.partition(f"finding {judged.finding}")
    target = anchors.finding(each.launch.id, judged.finding)
    link = element("a", named, href=f"#{target}")
    return element("p", before, link, behind, class_="judged")


def message_text(message: str) -> str:
    """Without ncu's own markup: `@section:ID:Name@` is `Name`, `@url:Name:ADDRESS@` too."""
    return _LINK.sub(r"\1", _SECTION.sub(r"\1", message)) if "@" in message else message
