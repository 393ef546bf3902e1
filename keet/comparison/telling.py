"""The sentences of a comparison, for every form in which it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keet.analysis.findings import Finding
from keet.comparison.account import Change, Part
from keet.comparison.difference import Difference, PairDifference, Speedup
from keet.comparison.pairing import How
from keet.comparison.timing import Timing
from keet.evidence import Evidence
from keet.explanation.analyst import forecast_text
from keet.explanation.grounding import Grounding, check_grounding

_HOW: dict[How, str] = {
    "same": "",
    "reshaped": "launched in another shape",
    "template": "its template arguments or parameters changed",
    "renamed": "taken for the same kernel by its place and name",
    "fused": "taken for one fused kernel by place, name and source",
    "split": "taken for a kernel that was split, by place, name and source",
    "removed": "only before",
    "added": "only after",
}


def headline(difference: Difference) -> str:
    """The verdict in one sentence."""
    if difference.time is None:
        return "The reports have no times that could be compared."
    of = "" if len(difference.pairs) == 1 else " in total"
    told = _verdict(difference.timing, difference.speedup)
    return f"{told}{of}: {_times(difference.time)}, noise {difference.noise:.1f}."


def pair_headline(pair: PairDifference) -> str:
    if pair.time is None:
        return "no times that could be compared"
    if pair.how == "removed":
        return f"gone: {pair.time.before}"
    if pair.how == "added":
        return f"new: {pair.time.after}"
    told = _verdict(pair.timing, pair.speedup)
    limited = limits(pair)
    return f"{told[:1].lower()}{told[1:]}: {_times(pair.time)}{f'; {limited}' if limited else ''}"


def _verdict(timing: Timing, speedup: Speedup | None) -> str:
    if speedup is None or timing.word in ("unchanged", "inconclusive"):
        return timing.word.capitalize()
    return f"{_factor(speedup.factor)} {timing.word}"


def _factor(factor: Evidence) -> str:
    digits = 2 if factor.value < 10 else 1 if factor.value < 100 else 0
    return f"{factor.value:,.{digits}f}x"


def _times(time: Change) -> str:
    return str(time).removeprefix("time ")


def limits(pair: PairDifference) -> str | None:
    """What limits it on either side, where that changed."""
    if pair.limiters is None or pair.limiters[0] == pair.limiters[1]:
        return None
    return f"limited by {pair.limiters[0]} before, by {pair.limiters[1]} after"


def how_paired(pair: PairDifference) -> str:
    return _HOW[pair.how]


class NextStep(NamedTuple):
    """The costliest thing that is left."""

    part: Part
    finding: Finding
    saved: float
    """Nanoseconds that it would save, by its forecast."""
    whole: float
    """Nanoseconds of everything."""

    @property
    def text(self) -> str:
        share = self.saved / self.whole if self.whole else 0.0
        gain = f"{share:.0%}" if share >= 0.01 else "less than 1%"
        return (
            f"{self.part.told.launch.kernel}: {self.finding.title.lower()}"
            f"{self.finding.here}, {forecast_text(self.finding)}; that is {gain} of the whole"
        )


def next_step(difference: Difference) -> NextStep | None:
    """What to fix next: after, the finding that costs most time."""
    whole = difference.timing.after or 0.0
    left = [
        NextStep(part, finding, _cost(part, finding), whole)
        for pair in difference.pairs
        for part in pair.parts[1]
        for finding in part.told.findings
    ]
    return max(left, key=lambda step: step.saved, default=None)


def _cost(part: Part, finding: Finding) -> float:
    return part.weight * part.told.launch.rank_time * (1 - 1 / finding.forecast.likely)


def nothing_next(difference: Difference) -> str:
    """Why there is no next step."""
    parts = [part for pair in difference.pairs for part in pair.parts[1]]
    blind = [part.told.launch.kernel for part in parts if part.told.verdict.not_judged]
    if blind:
        names = ", ".join(dict.fromkeys(blind))
        return f"what is left to fix can't be told, the report lacks what would show it: {names}"
    if any(part.told.minor for part in parts):
        return "nothing that is left gains a tenth by itself"
    return "nothing that the reports show is left to fix"


def texts_of(difference: Difference) -> Iterator[str]:
    """Every sentence that is printed; forecasts are checked where they are made."""
    yield headline(difference)
    for pair in difference.pairs:
        yield pair_headline(pair)
        yield from (each.what.removeprefix(each.where) for each in pair.attribution)


def grounded(difference: Difference) -> Grounding:
    """The numbers of these sentences, held to the evidence."""
    checked = [check_grounding(text, difference.evidence) for text in texts_of(difference)]
    return Grounding(
        sum(each.numbers for each in checked),
        tuple(number for each in checked for number in each.verified),
        tuple(stray for each in checked for stray in each.stray),
    )
