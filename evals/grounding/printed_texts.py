"""Runs `keet verify` on keet's own pages about the samples.

They are true if keet is right, so a refuted number is either a mistake of keet or a false alarm of
the check. Texts of NVIDIA's rules from the same reports are checked as well, as true texts that
keet did not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from evals.contexts import details_page
from evals.grounding.explanations import SampleExplanations
from keet.explanation.analyst import explain
from keet.formats import page_text
from keet.pages.context import context_text
from keet.pages.explain import explain_page
from keet.profile import Launch
from keet.profile.run_link import longest
from keet.verification.verify import verify_text

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
    subject: str
    numbers: int
    verified: int
    wrong: tuple[Wrong, ...]


def texts_of_sample(explained: SampleExplanations, turn: int) -> Iterator[Checked]:
    """As printed, checked like any text by `keet verify`. `turn`: the number of the sample. ncu's
    pages are long and similar, so only some are checked."""
    told, launches = explained.slow, explained.slow.profile.launches
    one = explain(told.profile, [longest(launches)], _TOP)
    messages = [rule.message for launch in launches for rule in launch.rules]
    page = partial(explain_page, [told])
    texts = {
        "`keet explain`, terminal": page_text(page, "terminal", _WIDTH),
        "`keet explain`, Markdown": page_text(page, "markdown"),
        "`keet context`": context_text(one, _TOKENS, of=len(launches)),
        "NVIDIA's rules in the reports": "\n\n".join(messages),
    }
    if turn % _DETAILS == 0:
        texts["`ncu --page details`"] = details_page(explained.sample, "slow")
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
        if check.verdict == "contradicted"
    )
    confirmed = sum(check.verdict == "confirmed" for check in checks)
    return Checked(form, explained.name, len(checks), confirmed, tuple(wrong))
