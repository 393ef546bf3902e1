"""Marks a model's sentences that the facts of a launch contradict or leave open.

The words are checked as `keet verify` checks them (`RelationChecker`); the numbers are references,
which were resolved before.
"""

from __future__ import annotations

import re

from keet.evidence import Reference, Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.known_facts import known_facts
from keet.verification.fact_check import is_about_run
from keet.verification.relation_check import OPEN, RelationChecker
from keet.verification.report_values import ReportValues
from keet.verification.sentences import SentenceSpan
from keet.verification.subjects import LaunchLookup

_OF_LINE = re.compile(r"@([\w-]+\.\w+:\d+)")
_HAS = re.compile(
    r"\b([\w-]+\.\w+:\d+)\s+(?:alone\s+)?(?:has|takes|accounts for|gets|holds|collects|receives)"
    r"\s+(?:(?:only|about|just|over)\s+)?\Z"
)
_SUPERLATIVE = re.compile(r"\b(?:\w+est|most|dominant|main|leading|top|dominates?)\b", re.I)
_NEEDS_SUPPORT = ("limiter", "occupancy.limit", "busiest", "top_wait", "hottest", "dram_direction")
"""Topics of rankings and limiters begin so: a number in the sentence is no support for them."""
_LIMITS = re.compile(
    r"\b(?:limit(?:s|ed|ing)?|caps?|capped|saturat\w+|bottleneck\w*|bound by|pile up|hot spot"
    r"|fully (?:used|occupied|busy|loaded))\b",
    re.IGNORECASE,
)
"""What no rule understands of these is no more supported by a number beside it."""
_EXISTENCE = ("uses.", "local_memory")
"""That a kernel has atomics does not support what else is said of them."""


class WordChecker:
    def __init__(self, each: LaunchExplanation) -> None:
        self._launch = each.launch
        facts = known_facts(each)
        self._checker = RelationChecker(
            ReportValues(LaunchLookup([each.launch]), tuple), lambda _: facts
        )

    def marked(self, sentence: Sentence) -> Sentence:
        """The sentence, with a problem if a fact contradicts it or none decides it."""
        text = "".join(
            p if isinstance(p, str) else "{" + "_" * len(p.text) + "}" for p in sentence.parts
        )
        sentences = self._checker.check(SentenceSpan(text, 0), (), [self._launch])
        # Other comparisons are written as references: {a > 2 * b}.
        checked = [each for each in sentences if each.topic or _SUPERLATIVE.search(each.text)]
        wrong = [each.reason for each in checked if each.verdict == "contradicted"]
        wrong += filter(None, [_other_line(sentence)])
        if wrong:
            also = f"; {sentence.problem}" if sentence.problem else ""
            return Sentence.of(sentence.parts, f"{wrong[0]}{also}", sentence.ends, "contradicted")
        if sentence.references:
            open_topics = (each.topic or "" for each in sentences if each.verdict == "not_found")
            is_open = any(topic.startswith(_NEEDS_SUPPORT) for topic in open_topics)
            is_open = is_open or (not sentences and bool(_LIMITS.search(text)))
        else:
            is_open = is_about_run(text)
        supports = (each for each in sentences if not (each.topic or "").startswith(_EXISTENCE))
        is_supported = any(support.verdict == "confirmed" for support in supports)
        if sentence.problem or not is_open or is_supported:
            return sentence
        return Sentence.of(sentence.parts, OPEN, sentence.ends, "undecided")


def _other_line(sentence: Sentence) -> str | None:
    """The problem if a number of one line is stated of another: `a.cu:3 takes {n@a.cu:7}`."""
    before = ""
    for part in sentence.parts:
        if isinstance(part, Reference):
            lines = _OF_LINE.findall(" ".join(part.ids))
            named = _HAS.search(before)
            if named and lines and named[1] not in lines:
                return f"{part.text} is a number of {lines[0]}, not of {named[1]}"
        before += str(part)
    return None
