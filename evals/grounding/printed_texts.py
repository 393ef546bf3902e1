"""Checks the numbers of keet's own texts about the samples and the test reports.

These texts are true if keet is right, so a refuted number is either a mistake of keet or a false
alarm of the check. Texts of NVIDIA's rules from the same reports are checked as well, as true texts
that keet did not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evals.contexts import details_page
from evals.grounding.explanations import SampleExplanations
from keet.comparison.sentences import texts_of as texts_of_difference
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, texts_of
from keet.ingest import read_profile
from keet.profile import Launch
from keet.profile.time_order import longest
from keet.render.markdown.context import context_text
from keet.render.markdown.explain import explain_markdown
from keet.render.terminal.console import to_text
from keet.render.terminal.explain import explain_view
from keet.verification.grounding import check_grounding
from keet.verification.verdicts import ClaimVerdict
from keet.verification.verify import verify_text

REPORTS = Path(__file__).parents[2] / "tests" / "data" / "reports"
_WIDTH = 80
_TOKENS = 2000
_TOP = 5
_DETAILS = 5
"""Every fifth sample's page."""


class Wrong(NamedTuple):
    """A number that a check refutes, in a text that should be true."""

    where: str
    number: str
    reason: str


class Checked(NamedTuple):
    """The numbers of one text."""

    form: str
    checker: str
    subject: str
    numbers: int
    verified: int
    wrong: tuple[Wrong, ...]


def texts_of_sample(explained: SampleExplanations, turn: int) -> Iterator[Checked]:
    """`turn`: the number of the sample. ncu's pages are long and similar, so only some are
    checked."""
    for explanation in (explained.slow, explained.fast):
        yield _own("sentences of `keet explain`", explained.name, explanation)
    yield _difference(explained)
    yield from _whole(explained)
    if turn % _DETAILS == 0:
        page, launches = details_page(explained.sample, "slow"), explained.slow.profile.launches
        yield _verified("`ncu --page details`", explained, page, launches)


def texts_of_reports() -> Iterator[Checked]:
    for path in sorted(REPORTS.glob("*.ncu-rep*")):
        profile = read_profile(path)
        told = explain(profile, profile.launches, _TOP)
        yield _own("sentences of `keet explain`, test reports", path.name, told)


def _own(form: str, subject: str, explanation: Explanation) -> Checked:
    checks = [
        check_grounding(text, each.evidence, launch=each.launch)
        for each in explanation.launches
        for text in texts_of(each)
    ]
    wrong = (Wrong(subject, s.text, s.reason) for found in checks for s in found.unsupported)
    numbers, held = sum(f.numbers for f in checks), sum(len(f.verified) for f in checks)
    return Checked(form, "own", subject, numbers, held, tuple(wrong))


def _difference(explained: SampleExplanations) -> Checked:
    evidence = list(explained.difference.evidence.values())
    checks = [check_grounding(t, evidence) for t in texts_of_difference(explained.difference)]
    wrong = (Wrong(explained.name, s.text, s.reason) for found in checks for s in found.unsupported)
    numbers, held = sum(f.numbers for f in checks), sum(len(f.verified) for f in checks)
    form = "sentences of `keet diff`, slow to fast"
    return Checked(form, "own", explained.name, numbers, held, tuple(wrong))


def _whole(explained: SampleExplanations) -> Iterator[Checked]:
    """As printed, checked like any text by `keet verify`."""
    told, launches = explained.slow, explained.slow.profile.launches
    first = longest(launches)
    one = explain(told.profile, [first], _TOP)
    messages = [rule.message for launch in launches for rule in launch.rules]
    texts = {
        "`keet explain`, terminal": to_text(explain_view(told, _WIDTH), _WIDTH),
        "`keet explain`, Markdown": explain_markdown(told),
        "`keet context`": context_text(one, _TOKENS, of=len(launches)),
        "NVIDIA's rules in the reports": "\n\n".join(messages),
    }
    for form, text in texts.items():
        yield _verified(form, explained, text, launches)


def _verified(
    form: str, explained: SampleExplanations, text: str, launches: Sequence[Launch]
) -> Checked:
    verified = verify_text(text, launches, known=explained.known)
    checks = [check for found in verified for check in found.checks]
    wrong = (
        Wrong(explained.name, check.number.text, check.reason)
        for check in checks
        if check.verdict is ClaimVerdict.CONTRADICTED
    )
    confirmed = sum(check.verdict is ClaimVerdict.CONFIRMED for check in checks)
    return Checked(form, "verify", explained.name, len(checks), confirmed, tuple(wrong))
