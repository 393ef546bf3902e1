"""What a model said, in words that every output shares. Its texts are a stranger's: made inert."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PureWindowsPath

from keet.catalog import findings
from keet.errors import one_line
from keet.evidence import Evidence
from keet.explanation.analyst import Explanation, LaunchExplanation
from keet.explanation.statement import Authorship, Cause, Dropped, Edit, Statement, Usage

MARKS = {"confirmed": "✓", "refuted": "✗", "inconclusive": "?"}
"""Never without the word behind it: a terminal without these signs shows `?` for each."""
_CITED = re.compile(r"\bE\d+\b")
_CHANGED = re.compile(r"(?:@@|[-+])")


def flat(text: str) -> str:
    """Prose on one line; what is no blank and can't be printed is shown as an escape."""
    return one_line(" ".join(text.split()))


def code_lines(code: str) -> list[str]:
    """Without the blank lines around it; the indent is kept."""
    return code.expandtabs(4).strip("\r\n").splitlines()


def is_diff(lines: Sequence[str]) -> bool:
    return any(_CHANGED.match(line) for line in lines)


def with_citations(text: str, evidence: Iterable[str]) -> str:
    """The text, with the ids that it rests on behind it unless it names them itself."""
    named = set(_CITED.findall(text))
    missing = [flat(entry) for entry in evidence if entry not in named]
    return f"{flat(text)} [{', '.join(missing)}]" if missing else flat(text)


def title_of(finding: str) -> str:
    """What people call a finding; the id where the vocabulary does not have it."""
    spec = findings().get(finding)
    label = spec.label if spec else flat(finding)
    return label[:1].upper() + label[1:]


def place_of(edit: Edit) -> str | None:
    """`slow.cu:96`: folders are left out, as they are for findings."""
    if not edit.file:
        return f"line {edit.line}" if edit.line else None
    name = flat(PureWindowsPath(edit.file).name or edit.file)
    return f"{name}:{edit.line}" if edit.line else name


# --- causes


def causes_of(each: LaunchExplanation, finding: str) -> tuple[Cause, ...]:
    causes = each.statement.causes if each.statement else ()
    return tuple(cause for cause in causes if cause.finding == finding)


def objections_to(each: LaunchExplanation, finding: str) -> tuple[Cause, ...]:
    objections = each.statement.objections if each.statement else ()
    return tuple(cause for cause in objections if cause.finding == finding)


def objections_beyond(each: LaunchExplanation) -> tuple[Cause, ...]:
    """To what is not listed: folded symptoms, say."""
    listed = {finding.id for finding in each.findings}
    objections = each.statement.objections if each.statement else ()
    return tuple(cause for cause in objections if cause.finding not in listed)


def causes_beyond(each: LaunchExplanation) -> tuple[Cause, ...]:
    """Those of findings that are not listed: they have no forecast."""
    listed = {finding.id for finding in each.findings}
    causes = each.statement.causes if each.statement else ()
    return tuple(cause for cause in causes if cause.finding not in listed)


def standing(cause: Cause, each: LaunchExplanation) -> str:
    """How the analyst sees what it did not list."""
    if any(finding.id == cause.finding for finding in each.findings):
        return ""
    if any(finding.id == cause.finding for finding in each.minor):
        return "by keet's account it would gain less than 10 % alone"
    return "not among keet's findings: no forecast"


# --- the evidence


def cited(each: LaunchExplanation) -> list[Evidence]:
    """What the model's part rests on, in the order in which it is named."""
    known = {evidence.id: evidence for evidence in each.evidence}
    named = dict.fromkeys(each.statement.cited) if each.statement else {}
    return [known[entry] for entry in named if entry in known]


# --- the closing lines


def statements(explanation: Explanation) -> list[Statement]:
    return [each.statement for each in explanation.launches if each.statement]


def numbers_told(explanation: Explanation) -> str:
    """That the model's numbers were checked; empty where it said none. Wrong ones were dropped."""
    count = sum(statement.numbers for statement in statements(explanation))
    if not count:
        return ""
    those = "1 number" if count == 1 else f"{count} numbers"
    return (
        f"keet checked {those} in the model's words too: measured, computed from measured ones in "
        "the same text, or constants of the source."
    )


def dropped_claims(explanation: Explanation) -> Iterator[str]:
    """Of all launches, in one line each."""
    several = len(explanation.launches) > 1
    for each in explanation.launches:
        for claim in each.statement.dropped if each.statement else ():
            prefix = f"launch {each.launch.id}, " if several else ""
            yield prefix + claim_text(claim)


def claim_text(claim: Dropped) -> str:
    return f"{flat(claim.where)}: “{flat(claim.text)}” ({flat(claim.reason)})"


def usage_text(author: Authorship) -> str:
    """`openai:gpt-5: 3 calls (1 more from the cache), 8,214 tokens in, 1,022 out, $0.021, 12 s`"""
    usage = author.usage
    parts = [_calls(usage), *_tokens(usage), *_price(usage), f"{usage.seconds:,.0f} s"]
    return f"{flat(author.model)}: {', '.join(parts)}"


def _calls(usage: Usage) -> str:
    if usage.cached and not usage.calls:
        return f"no call ({usage.cached:,} from the cache)"
    calls = f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}"
    return f"{calls} ({usage.cached:,} more from the cache)" if usage.cached else calls


def _tokens(usage: Usage) -> list[str]:
    if not (usage.calls or usage.input_tokens or usage.output_tokens):
        return []
    about, whose = ("about ", " (counted by keet)") if usage.estimated else ("", "")
    return [f"{about}{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out{whose}"]


def _price(usage: Usage) -> list[str]:
    """Nothing where no call was made: then there is no price to know."""
    if usage.cost is None or not math.isfinite(usage.cost):
        return ["price unknown"] if usage.calls else []
    if 0 < usage.cost < 0.0001:
        return ["under $0.0001"]
    digits = f"{usage.cost:.2f}" if usage.cost >= 1 or not usage.cost else f"{usage.cost:.2g}"
    return [f"${digits}"]
