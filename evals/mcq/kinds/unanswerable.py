"""Makes questions of which some cannot be answered from the report, mixed with similar ones.

Each has the option “It can't be known from the report”, which is right for one in four of each
form.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from evals.mcq.answer_sources import answerable_from
from evals.mcq.kinds.units_stalls_lines import file_of, launch_of
from evals.mcq.option_design import Draft, Fact
from evals.mcq.report_facts import Facts

UNKNOWN = "It can't be known from the report"
_PART = "What you see of the report may be a part of it."
"""A page without a number does not show that the report lacks it."""
_EACH = 8
"""Questions per form."""
_KERNEL = re.compile(r"__global__[^;{(]*?(?:__launch_bounds__\([^)]*\)[^;{(]*?)?(\w+)\s*\(")
_APART, _FAR = 1.3, 6.0
SEED = "unknown 25"
"""Seeds for which the right number is equally often the smallest, the middle and the largest of
three."""


def unknown_drafts(reports: Sequence[Facts]) -> list[Draft]:
    forms = (_other_kernel(reports), _all_kernels(reports), _shares(reports))
    return [draft for form in forms for draft in _one_in_four(list(form))]


def _one_in_four(drafts: list[Draft]) -> list[Draft]:
    """At most this many, a quarter of them without an answer."""
    draws = random.Random("unknown")
    draws.shuffle(drafts)
    without = [draft for draft in drafts if draft.options[0] == UNKNOWN]
    known = [draft for draft in drafts if draft.options[0] != UNKNOWN and _is_shown(draft)]
    count = min(_EACH // 4, len(without), (len(known) + 1) // 3)
    return [*_samples_apart(without)[:count], *_samples_apart(known)[: 3 * count]]


def _is_shown(draft: Draft) -> bool:
    """Whether one of the texts contains the number."""
    return bool({"raw", "keet"} & set(answerable_from(draft)))


def _samples_apart(drafts: list[Draft]) -> list[Draft]:
    """One per sample before the second of any."""
    by_sample: dict[str, list[Draft]] = {}
    for draft in drafts:
        by_sample.setdefault(draft.facts[0].sample.name, []).append(draft)
    rounds = zip_longest(*by_sample.values())
    return [draft for turn in rounds for draft in turn if draft is not None]


# --- another kernel of the program


def _other_kernel(reports: Sequence[Facts]) -> Iterator[Draft]:
    """The other kernel, if there is exactly one, so that no name is needed."""
    question = (
        "The source has exactly one other kernel, which the program launches as well. How long "
        "does one launch of that other kernel take in this run?"
    )
    others = {facts: kernels(facts) - {facts.sample.kernel} for facts in reports}
    alone = {facts: names for facts, names in others.items() if len(names) == 1}
    times = {facts: _time_of(facts, *names) for facts, names in alone.items()}
    known = [time for time in times.values() if time is not None]
    for facts, value in times.items():
        why = f"the report holds launches of {', '.join(sorted(captured(facts)))}"
        yield _draft(facts, Asked("other", question, value, _times(reports), "us", why, known))


def _time_of(facts: Facts, kernel: str) -> float | None:
    seen = [one for one in facts.profile.launches if one.name.function == kernel]
    return seen[0].rank_time / 1e3 if seen else None


def kernels(facts: Facts) -> set[str]:
    """Kernels that the source defines."""
    if facts.sample.language != "cuda":
        return {facts.sample.kernel}
    text = facts.sample.source(facts.variant).read_text(encoding="utf-8")
    return set(_KERNEL.findall(text))


def captured(facts: Facts) -> set[str]:
    return {launch.name.function for launch in facts.profile.launches}


def _times(reports: Sequence[Facts]) -> list[float]:
    return [launch.rank_time / 1e3 for facts in reports for launch in facts.profile.launches]


# --- all that the program runs


def _all_kernels(reports: Sequence[Facts]) -> Iterator[Draft]:
    times = _times(reports)
    question = (
        "The program goes through its whole input once. How long do all of its kernel launches "
        "together take on the GPU, by the report?"
    )
    for facts in reports:
        left_out = kernels(facts) - captured(facts)
        again = facts.sample.name in _LAUNCHED_AGAIN and facts.variant != "fast"
        if not left_out and not again and len(facts.profile.launches) > 1:
            continue
        value = None if left_out or again else facts.microseconds
        missing = (
            f"no launch of {', '.join(sorted(left_out))}" if left_out else "one of its launches"
        )
        why = "it launches one kernel, once" if value else f"the report holds {missing}"
        taken_for_all = [facts.microseconds]
        yield _draft(facts, Asked("all", question, value, times, "us", why, taken_for_all))


_LAUNCHED_AGAIN = ("ring_steps", "fan_update")
"""Several launches of the same kernel, one of which is in the report."""


# --- the share of a line


def _shares(reports: Sequence[Facts]) -> Iterator[Draft]:
    places = [(facts, line) for facts in reports for line in facts.lines[:4] if facts.samples > 100]
    shares = [100 * line.samples / facts.samples for facts, line in places]
    draws = random.Random("shares")
    for facts in reports:
        told = [line for line in facts.lines[:3] if facts.samples > 100 and line.samples > 20]
        if told:
            line = draws.choice(told)
            share = 100 * line.samples / facts.samples
            why = f"{line.samples} of {facts.samples} samples are of line {line.line}"
            yield _share_draft(facts, line.line, share, shares, why)
        elif not facts.samples:
            line_asked = facts.sample.truth.cause[0].line
            yield _share_draft(facts, line_asked, None, shares, "the report holds no warp samples")


def _share_draft(
    facts: Facts, line: int, share: float | None, shares: list[float], why: str
) -> Draft:
    question = (
        f"Which share of the launch's warp samples fell on line {line} of {file_of(facts)} in the "
        "profiler's sampling of warp states?"
    )
    words = rf"^\s*{line}\b"
    return _draft(facts, Asked("line", question, share, shares, "%", why, shares, words))


# --- three numbers and the way out


class Asked(NamedTuple):
    """A number that a report has, or lacks."""

    form: str
    question: str
    value: float | None
    others: Sequence[float]
    """Numbers of the same kind, of all reports."""
    unit: str
    why: str
    likely: Sequence[float]
    """If there is no answer, one of these is among the options."""
    words: str = "[Dd]uration|took"
    """Words of the line that contains it."""


def _draft(facts: Facts, asked: Asked) -> Draft:
    name = f"{facts.sample.name}-{facts.variant}-{asked.form}"
    draws = random.Random(f"{SEED} {name}")
    options, why, why_wrong = (
        _known(asked, asked.value, draws) if asked.value is not None else _not_known(asked, draws)
    )
    text = f"{launch_of()} {asked.question} {_PART}"
    return Draft("unknown", name, (facts,), text, options, why, why_wrong, _needed(asked))


_Told = tuple[tuple[str, ...], str, tuple[str, ...]]


def _known(asked: Asked, value: float, draws: random.Random) -> _Told:
    told = _shown(value, asked.unit)
    wrong = [_shown(n, asked.unit) for n in _near(value, asked.others, 2, draws)]
    says = f"the report says {told}"
    return (told, *wrong, UNKNOWN), f"{told}: {asked.why}", (says, says, f"{says}: {asked.why}")


def _not_known(asked: Asked, draws: random.Random) -> _Told:
    start = draws.choice(asked.likely)
    near = _near(start, asked.others, 2, draws)
    numbers = [_shown(n, asked.unit) for n in (start, *near)]
    return (UNKNOWN, *numbers), asked.why, (f"{asked.why}: nothing in it says so",) * 3


def _needed(asked: Asked) -> tuple[Fact, ...]:
    if asked.value is None:
        return ()
    in_its_unit = asked.value / 1e3 if asked.unit == "us" and asked.value >= 1e3 else asked.value
    return (Fact(in_its_unit, asked.words),)


def _shown(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def _near(value: float, others: Sequence[float], count: int, draws: random.Random) -> list[float]:
    """Numbers of other reports that differ from it and from each other, but not by much. One side
    is drawn first, so that the value is equally often the largest and the smallest."""
    pool = [n for n in others if 1 / _FAR <= n / value <= _FAR]
    draws.shuffle(pool)
    side = draws.choice((-1, 0, 1))
    pool.sort(key=lambda n: side and (n > value) != (side > 0))
    kept: list[float] = []
    for number in pool:
        if all(max(number, n) / min(number, n) >= _APART for n in [value, *kept]):
            kept.append(number)
    return _two_sided(kept, value, count) if side == 0 else kept[:count]


def _two_sided(numbers: list[float], value: float, count: int) -> list[float]:
    below = [n for n in numbers if n < value]
    above = [n for n in numbers if n > value]
    mixed = [n for pair in zip_longest(below, above) for n in pair if n is not None]
    return mixed[:count]
