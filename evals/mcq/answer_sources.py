"""Which of the given texts contain the number that a question asks for. A reader may also infer
it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from evals.contexts import details_page, keet_context
from evals.mcq.option_design import Draft, Fact
from kernels_samples.samples import Sample

Source = Literal["source", "raw", "keet"]
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")


def answerable_from(draft: Draft) -> tuple[Source, ...]:
    found: list[Source] = ["source"] if draft.from_source else []
    if draft.needs and _all_in(draft, details_page):
        found.append("raw")
    if draft.needs and _all_in(draft, keet_context):
        found.append("keet")
    return tuple(found)


def _all_in(draft: Draft, text_of: Callable[[Sample, str], str]) -> bool:
    texts = [text_of(facts.sample, facts.variant) for facts in draft.facts]
    return all(any(holds(text, fact) for text in texts) for fact in draft.needs)


def holds(text: str, fact: Fact) -> bool:
    """Whether a line with these words has the number, at the precision of the line."""
    words = re.compile(fact.words)
    return any(
        words.search(line) is not None
        and any(_tells(number, fact.value) for number in _NUMBER.findall(line))
        for line in text.splitlines()
    )


def _tells(number: str, value: float) -> bool:
    digits = len(number.partition(".")[2])
    step: float = 10.0**-digits
    return abs(float(number.replace(",", "")) - value) <= 0.51 * step
