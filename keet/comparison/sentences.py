"""Sentences about a comparison, used by all output formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.comparison.causes.explained_pair import WeightedLaunch, longest_launch
from keet.comparison.number_change import NumberChange, count_text
from keet.comparison.pairing.sides import KernelGroup, Side
from keet.comparison.result import Difference, PairDifference
from keet.comparison.timing.pair_timing import Timing
from keet.comparison.timing.time_ledger import Speedup
from keet.documents.diff import How
from keet.formatting import capitalized, shapes_text, speedup_text, uncapitalized
from keet.profile.run_table import RECORDER_NAMES, RunPositions
from keet.verification.grounding import EvidenceIndex, GroundingResult

_HOW: dict[How, str] = {
    "same": "",
    "reshaped": "launched in another shape",
    "template": "its template arguments or parameters changed",
    "renamed": "matched by position and name",
    "fused": "matched as one fused kernel by position, name and source",
    "split": "matched as a kernel that was split, by position, name and source",
    "removed": "only before",
    "added": "only after",
}


_IN_RUN, _PER_LAUNCH = " in the run", " per launch"
_CHOSEN = ", the chosen launches only"
_ONLY_THESE = "Only these launches were compared; the program's total time is not known."
_LAUNCHES_TOO = ", and from how much the launches of one kernel differ in these reports"
_NO_TIMES = "no times that could be compared"
_ADD_UP = "durations add up to "
NOT_PROFILED = "kernels that were not profiled"
_SHAPES = 3
"""Shapes of one kernel that are listed."""
_LIMITED = "limited "
_MOSTLY = 50.0
"""Per cent of the time from which SMs are called mostly idle."""
_SAME_SPAN = 1.05
"""Ratio of two spans below which no factor is printed."""


def headline(difference: Difference) -> str:
    """The verdict, and if needed a second sentence about it."""
    verdict, more = headline_parts(difference)
    return f"{verdict}. {more}".rstrip()


def headline_parts(difference: Difference) -> tuple[str, str]:
    """The verdict without a full stop, and separately what it does not cover, or what to do if
    there is no verdict, so that a heading is short."""
    if why := difference.no_total:
        return f"No total can be given: {why.cause}, and {why.why}", f"{capitalized(why.remedy)}."
    if difference.time is None:
        return "The reports have no times that could be compared", ""
    of = "" if difference.rows == 1 else " in total"
    verdict = _verdict(difference.timing, difference.speedup)
    noise = f"noise {difference.noise:.1f}{_noise_origin(difference)}"
    text = f"{verdict}{of}: {_whose(difference)} ({noise})"
    return text, _ONLY_THESE if difference.run_unknown else ""


def _noise_origin(difference: Difference) -> str:
    """Empty if a report is compared with itself."""
    if not difference.timing.noise:
        return ""
    if _repeats_runs(difference):
        return ", from repeated runs"
    return f", assumed{' and from repeated launches' * _repeats_launches(difference)}"


def _repeats_runs(difference: Difference) -> bool:
    return any(len(side.captures) > 1 for side in (difference.before, difference.after))


def noise_text(difference: Difference) -> str | None:
    """What the noise of the headline means, and how it was obtained."""
    if difference.time is None or difference.no_total or not difference.timing.noise:
        return None
    text = f"{difference.noise:.1f}: a smaller difference may be chance"
    if _repeats_runs(difference):
        counts = [len(side.captures) for side in (difference.before, difference.after)]
        return (
            f"{text}. Computed from how much the runs differ ({counts[0]} before, {counts[1]} "
            "after) and from what keet assumes for such runs."
        )
    return (
        f"{text}. Assumed, not measured in these reports: taken from repeated captures of other "
        f"kernels on an H200{_LAUNCHES_TOO if _repeats_launches(difference) else ''}. Further runs "
        "(--before-run, --after-run) would measure it."
    )


def _repeats_launches(difference: Difference) -> bool:
    """Repeated launches of one kernel contribute to the noise of the reports."""
    if difference.basis == "run":
        return False
    sides = (side for pair in difference.pairs for side in pair.pairing.sides)
    return any(len(group.launches) > 1 for side in sides if len(side) == 1 for group in side)


def not_compared_text(difference: Difference) -> str | None:
    """Says that kernels of the program are not in the reports and may have changed too; None if the
    reports have all kernels."""
    sides = (difference.before, difference.after)
    if all(side.knows_run and not side.first.partial for side in sides):
        return None
    count = len(difference.pairs)
    what = "1 kernel was" if count == 1 else f"{count} kernels were"
    return f"only {what} compared; what changed in other kernels of the program is not known"


def _whose(difference: Difference) -> str:
    """The times, and what they cover."""
    times = _times(difference.time) if difference.time else ""
    if difference.basis == "run":
        of = _ADD_UP if difference.by_durations else "GPU time "
        return f"{of}{times}{_IN_RUN}{_CHOSEN if difference.chosen_only else ''}"
    if not difference.run_unknown:
        return times
    return f"{times}{_PER_LAUNCH if difference.per_launch else ' for the captured launches'}"


def basis_text(difference: Difference) -> str | None:
    """What the times cover, if they are not those of the reports."""
    if difference.launches is None:
        return None
    before, after = (
        count_text(each) for each in (difference.launches.before, difference.launches.after)
    )
    tables = (_run_of(side).table.recorder for side in (difference.before, difference.after))
    recorded = ", ".join(dict.fromkeys(RECORDER_NAMES[each] for each in tables))
    of = "of the chosen launches " if difference.chosen_only else ""
    what = "the sums of durations" if difference.by_durations else "the GPU time"
    noun = "launch" if before == "1" else "launches"
    counted = f"{before} {noun} before, {after} after"
    text = f"Times are {what} {of}in the whole run ({recorded}): {counted}."
    if difference.shared and not difference.by_durations:
        text += " Time in which several kernels ran is divided equally among them."
    return text


def span_text(difference: Difference) -> str | None:
    """Length of the runs from the first to the last kernel, if the GPU was idle for much of it."""
    if difference.span is None:
        return None
    time, factor = difference.span.time, difference.span.factor
    word = "shorter" if time.fell > 0 else "longer"
    ratio = f", {speedup_text(factor.value)} {word}" if factor.value >= _SAME_SPAN else ""
    return f"From the first to the last kernel: {time.before} → {time.after}{ratio}."


def unprofiled_text(difference: Difference) -> str | None:
    share = difference.unprofiled_share
    if share is None:
        return None
    what = "durations" if difference.by_durations else "GPU time"
    return f"{share:.0f} of the {what} after is in {NOT_PROFILED}"


def _run_of(side: Side) -> RunPositions:
    positions = side.first.profile.in_run
    if positions is None:
        raise ValueError("the run of this report is not known")
    return positions


def not_profiled_text(difference: Difference) -> str | None:
    if difference.not_profiled is None:
        return None
    time = difference.not_profiled
    return f"{NOT_PROFILED}: {time.before} before, {time.after} after"


def counted_launches(launches: NumberChange, noun: str = " launches") -> str:
    """`400 launches → 1`, or `400 launches` if both are equal."""
    one, other = (count_text(each) for each in (launches.before, launches.after))
    text = f"{one}{noun[:-2] if noun and one == '1' else noun}"
    return text if one == other else f"{text} → {other}"


def pair_headline(pair: PairDifference) -> str:
    if pair.time is None:
        return _unknown_in_run(pair) if pair.basis == "run" else _NO_TIMES
    if not pair.on_both:
        return _one_sided(pair, pair.time)
    verdict = _verdict(pair.timing, pair.speedup)
    limited = limits(pair)
    per = _PER_LAUNCH if pair.basis == "per_launch" else ""
    of = _ADD_UP if pair.by_durations else ""
    text = f"{uncapitalized(verdict)}{per}: {of}{_times(pair.time)}{_in_run(pair)}"
    return f"{text}{f'; {limited}' if limited else ''}"


def _unknown_in_run(pair: PairDifference) -> str:
    """With the time of the known side."""
    if pair.known_time is None:
        return "its time in the run is not known"
    known, lacks = ("before", "after") if pair.timing.after is None else ("after", "before")
    return f"its time in the {lacks.upper()} run is not known; {known} {pair.known_time}"


def _in_run(pair: PairDifference) -> str:
    if pair.basis != "run":
        return ""
    return _IN_RUN + (f" ({counted_launches(pair.counted)})" if pair.counted else "")


def _one_sided(pair: PairDifference, time: NumberChange) -> str:
    word, ns = ("gone", time.before) if pair.pairing.before else ("new", time.after)
    count = ""
    if pair.counted:
        number = count_text(pair.counted.before if pair.pairing.before else pair.counted.after)
        count = f" ({number} {'launch' if number == '1' else 'launches'})"
    where = {"run": _IN_RUN, "per_launch": _PER_LAUNCH, "reports": ""}[pair.basis]
    return f"{word}: {ns}{where}{count}"


def _verdict(timing: Timing, speedup: Speedup | None) -> str:
    if speedup is None or timing.word in ("unchanged", "inconclusive"):
        return capitalized(timing.word)
    return f"{speedup_text(speedup.factor.value)} {timing.word}"


def _times(time: NumberChange) -> str:
    return str(time).removeprefix("time ")


def limits(pair: PairDifference) -> str | None:
    """The limiters of both sides, if they differ."""
    if pair.limiters is None or pair.limiters[0] == pair.limiters[1]:
        return None
    before, after = map(_limit_text, pair.limiters, pair.weighted)
    if before.startswith(_LIMITED):
        after = after.removeprefix(_LIMITED)
    return f"{before} before, {after} after"


def _limit_text(limiter: str, launches: Sequence[WeightedLaunch]) -> str:
    """Idle SMs are named, because the headline of `keet explain` names them, too."""
    idle = longest_launch(launches).explanation.account.part("idle")
    if limiter == "latency" and idle is not None and idle.share.value >= _MOSTLY:
        return "SMs mostly idle"
    return f"{_LIMITED}by {_units_text(limiter)}"


def _units_text(limiter: str) -> str:
    """`issue slots, L1 and LSU` for `issue+L1+LSU`."""
    *first, last = ("issue slots" if unit == "issue" else unit for unit in limiter.split("+"))
    return f"{', '.join(first)} and {last}" if first else last


def how_paired(pair: PairDifference) -> str:
    if pair.on_both and not (pair.pairing.before and pair.pairing.after):
        return f"profiled {_HOW[pair.how]}"
    if pair.how == "reshaped":
        return f"{_HOW[pair.how]}: {' → '.join(map(_shapes, pair.pairing.sides))}"
    return _HOW[pair.how]


def _shapes(groups: Sequence[KernelGroup]) -> str:
    """`grid 64×64, block 32×8`; each distinct shape once."""
    keys = (group.key for group in groups)
    shapes = [shapes_text(key.grid, key.block) for key in keys]
    shown = list(dict.fromkeys(shapes))
    more = f" and {len(shown) - _SHAPES} more" if len(shown) > _SHAPES else ""
    return f"{'; '.join(shown[:_SHAPES])}{more}"


def nothing_next(difference: Difference) -> str:
    """Why there is no next step: what limits the kernel that takes longest after."""
    left = [each for pair in difference.pairs for each in pair.weighted[1]]
    blind = [each.explanation for each in left if each.explanation.verdict.not_judged]
    if blind:
        names = ", ".join(dict.fromkeys(each.launch.kernel for each in blind))
        return f"not known: the report after lacks the metrics that show what limits {names}."
    found = _verdict_after(difference)
    if found is None:
        return "no kernel after was explained."
    kernel, text = found
    return text if difference.rows == 1 else f"{kernel}: {text}"


def _verdict_after(difference: Difference) -> tuple[str, str] | None:
    """The kernel that takes longest after, and what limits it."""
    left = [each for pair in difference.pairs for each in pair.weighted[1]]
    longest = max(left, key=lambda each: each.time or 0.0, default=None)
    if longest is None:
        return None
    return longest.explanation.launch.kernel, longest.explanation.verdict.headline


def texts_of(difference: Difference) -> Iterator[str]:
    """Every printed sentence with numbers; forecasts are checked in the explanation."""
    yield headline(difference)
    texts = (basis_text(difference), span_text(difference), not_profiled_text(difference))
    yield from filter(None, (*texts, unprofiled_text(difference)))
    if (step := difference.next_step) and (step.share or step.reason):
        yield step.of_whole if step.finding else step.text
    if step is None and (limits_after := _verdict_after(difference)):
        yield limits_after[1]
    for pair in difference.pairs:
        yield pair_headline(pair)
        yield from (each.what.removeprefix(each.where) for each in pair.attribution)


def check_sentences(difference: Difference) -> GroundingResult:
    """Check the numbers of these sentences against the evidence."""
    checked = list(map(EvidenceIndex(difference.evidence).check, texts_of(difference)))
    return GroundingResult(
        sum(each.numbers for each in checked),
        tuple(number for each in checked for number in each.verified),
        tuple(unsupported for each in checked for unsupported in each.unsupported),
    )
