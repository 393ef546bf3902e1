"""Sentences about a comparison, used by all output formats.

The texts of caveats name options of `keet diff`. The Python API and the MCP tools have their own
names for them, and other commands (`keet explain --against`) do not have them at all:
`check_comparable` and `name_keet_diff_options` put in what the caller has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from keet.comparison.causes.explained_pair import WeightedLaunch, longest_launch
from keet.comparison.comparability import Caveat, naming_keet_diff
from keet.comparison.numbers import NumberChange, Speedup, launch_count
from keet.comparison.result import Difference, PairDifference
from keet.comparison.same_kernel import KernelGroup
from keet.documents.diff import ComparabilityDocument, How, VerdictWord
from keet.documents.document import numbers_in
from keet.documents.explain import GroundingDocument
from keet.errors import NotComparable
from keet.evidence import Reference, Sentence, constant
from keet.formatting import capitalized, enumerated, shapes_text
from keet.profile.run_table import RECORDER_NAMES

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


def with_sentences(difference: Difference) -> Difference:
    """The difference with its headline, all caveats, and how many numbers its texts print."""
    verdict, more = headline_parts(difference)
    headline = Sentence("{verdict}. {more}" if more else "{verdict}.", verdict=verdict, more=more)
    numbers = numbers_in(tuple(texts_of(difference)))
    return replace(
        difference,
        verdict=replace(difference.verdict, headline=headline),
        comparability=ComparabilityDocument(
            ok=not difference.forbidden, notes=difference.all_caveats
        ),
        grounding=GroundingDocument(numbers=numbers, verified=numbers, unchecked=[]),
    )


def headline_parts(difference: Difference) -> tuple[Sentence, Sentence]:
    """The verdict without a full stop, and separately what it does not cover, or what to do if
    there is no verdict, so that a heading is short."""
    if why := difference.no_total:
        text = Sentence("No total can be given: {cause}, and {why}", cause=why.cause, why=why.why)
        return text, Sentence("{remedy}.", remedy=why.remedy.capitalized())
    if difference.time is None:
        return Sentence("The reports have no times that could be compared"), Sentence("")
    text = Sentence(
        "{verdict}{of}: {whose} (noise {noise:.1f}{origin})",
        verdict=_verdict(difference.verdict.word, difference.measured),
        of="" if difference.rows == 1 else " in total",
        whose=_whose(difference, difference.time),
        noise=difference.noise,
        origin=_noise_origin(difference),
    )
    return text, Sentence(_ONLY_THESE if difference.run_unknown else "")


def _noise_origin(difference: Difference) -> str:
    """Empty if a report is compared with itself."""
    if not difference.verdict.noise:
        return ""
    if _repeats_runs(difference):
        return ", from repeated runs"
    return f", assumed{' and from repeated launches' * _repeats_launches(difference)}"


def _repeats_runs(difference: Difference) -> bool:
    return any(len(side.captures) > 1 for side in difference.sides)


def noise_text(difference: Difference) -> Sentence | None:
    """What the noise of the headline means, and how it was obtained."""
    if difference.time is None or difference.no_total or not difference.verdict.noise:
        return None
    if _repeats_runs(difference):
        before, after = (constant(len(side.captures), "", "runs") for side in difference.sides)
        how = Sentence(
            "Computed from how much the runs differ ({before} before, {after} after) and from what "
            "keet assumes for such runs.",
            before=before,
            after=after,
        )
    else:
        how = Sentence(
            "Assumed, not measured in these reports: taken from repeated captures of other kernels "
            "on an H200{launches}. Further runs (--before-run, --after-run) would measure it.",
            launches=_LAUNCHES_TOO if _repeats_launches(difference) else "",
        )
    text = "{noise:.1f}: a smaller difference may be chance. {how}"
    return Sentence(text, noise=difference.noise, how=how)


def _repeats_launches(difference: Difference) -> bool:
    """Repeated launches of one kernel contribute to the noise of the reports."""
    if difference.verdict.basis == "run":
        return False
    sides = (side for pair in difference.pairs for side in pair.pairing.sides)
    return any(len(group.launches) > 1 for side in sides if len(side) == 1 for group in side)


def not_compared_text(difference: Difference) -> Sentence | None:
    """Says that kernels of the program are not in the reports and may have changed too; None if the
    reports have all kernels."""
    if all(side.knows_run and not side.first.partial for side in difference.sides):
        return None
    kernels = constant(len(difference.pairs), "", "kernels that were compared")
    were = "kernel was" if kernels.value == 1 else "kernels were"
    return Sentence(
        "only {kernels} {were} compared; what changed in other kernels of the program is not known",
        kernels=kernels,
        were=were,
    )


def _whose(difference: Difference, time: NumberChange) -> Sentence:
    """The times, and what they cover."""
    before = behind = ""
    if difference.verdict.basis == "run":
        before = _ADD_UP if difference.verdict.measure == "durations" else "GPU time "
        behind = f"{_IN_RUN}{_CHOSEN if difference.chosen_only else ''}"
    elif difference.run_unknown:
        behind = _PER_LAUNCH if difference.per_launch else " for the captured launches"
    return Sentence("{before}{times}{behind}", before=before, times=time.numbers, behind=behind)


def basis_text(difference: Difference) -> Sentence | None:
    """What the times cover, if they are not those of the reports."""
    if difference.launches is None:
        return None
    durations = difference.verdict.measure == "durations"
    runs = [side.first.profile.in_run for side in difference.sides]
    recorded = dict.fromkeys(RECORDER_NAMES[run.table.recorder] for run in runs if run)
    divided = difference.shared and not durations
    return Sentence(
        "Times are {what} {of}in the whole run ({recorded}): {before} before, {after:count} after."
        "{more}",
        what="the sums of durations" if durations else "the GPU time",
        of="of the chosen launches " if difference.chosen_only else "",
        recorded=", ".join(recorded),
        before=launch_count(difference.launches.before),
        after=difference.launches.after,
        more=" Time in which several kernels ran is divided equally among them." * divided,
    )


def span_text(difference: Difference) -> Sentence | None:
    """Length of the runs from the first to the last kernel, if the GPU was idle for much of it."""
    if difference.span is None:
        return None
    time, factor = difference.span.time, difference.span.factor
    ratio = Sentence("")
    if factor and factor.value >= _SAME_SPAN:
        word = "shorter" if time.fell > 0 else "longer"
        ratio = Sentence(", {factor:speedup} {word}", factor=factor, word=word)
    return Sentence(
        "From the first to the last kernel: {before} → {after}{ratio}.",
        before=time.before,
        after=time.after,
        ratio=ratio,
    )


def unprofiled_text(difference: Difference) -> Sentence | None:
    share = difference.unprofiled_share
    if share is None:
        return None
    what = "durations" if difference.verdict.measure == "durations" else "GPU time"
    return Sentence(
        "{share:.0f} of the {what} after is in {rest}", share=share, what=what, rest=NOT_PROFILED
    )


def not_profiled_text(difference: Difference) -> Sentence | None:
    if difference.not_profiled is None:
        return None
    time = difference.not_profiled.time
    return Sentence(
        "{rest}: {before} before, {after} after",
        rest=NOT_PROFILED,
        before=time.before,
        after=time.after,
    )


def counted_launches(launches: NumberChange, *, noun: bool = True) -> Sentence:
    """`400 launches → 1`, or `400 launches` if both are equal."""
    before, after = launches.evidence
    text = launch_count(before) if noun else Sentence("{n:count}", n=before)
    if f"{before:count}" == f"{after:count}":
        return text
    return Sentence("{text} → {after:count}", text=text, after=after)


def pair_headline(pair: PairDifference) -> Sentence:
    basis = pair.verdict.basis
    if pair.time is None:
        return _unknown_in_run(pair) if basis == "run" else Sentence(_NO_TIMES)
    if not pair.on_both:
        return _one_sided(pair, pair.time)
    limited = limits(pair)
    counted = pair.counted if basis == "run" else None
    return Sentence(
        "{verdict}{per}: {of}{times}{where}{launches}{limited}",
        verdict=_verdict(pair.verdict.word, pair.measured).uncapitalized(),
        per=_PER_LAUNCH if basis == "per_launch" else "",
        of=_ADD_UP if pair.verdict.measure == "durations" else "",
        times=pair.time.numbers,
        where=_IN_RUN if basis == "run" else "",
        launches=Sentence(" ({n})", n=counted_launches(counted)) if counted else "",
        limited=Sentence("; {limited}", limited=limited) if limited else "",
    )


def _unknown_in_run(pair: PairDifference) -> Sentence:
    """With the time of the known side."""
    if pair.known_time is None:
        return Sentence("its time in the run is not known")
    known, lacks = ("before", "after") if pair.timing.after is None else ("after", "before")
    return Sentence(
        "its time in the {side} run is not known; {known} {time}",
        side=lacks.upper(),
        known=known,
        time=pair.known_time,
    )


def _one_sided(pair: PairDifference, time: NumberChange) -> Sentence:
    which = 0 if pair.before else 1
    count = launch_count(pair.counted.evidence[which]) if pair.counted else None
    return Sentence(
        "{word}: {time}{where}{count}",
        word=("gone", "new")[which],
        time=time.evidence[which],
        where={"run": _IN_RUN, "per_launch": _PER_LAUNCH, "reports": ""}[pair.verdict.basis],
        count=Sentence(" ({count})", count=count) if count else "",
    )


def _verdict(word: VerdictWord, speedup: Speedup | None) -> Sentence:
    if speedup is None or word in ("unchanged", "inconclusive"):
        return Sentence(capitalized(word))
    return Sentence("{factor:speedup} {word}", factor=speedup.factor, word=word)


def limits(pair: PairDifference, *, also_same: bool = False) -> str | None:
    """The limiters of both sides, if they differ."""
    if pair.limiter is None or (pair.limiter[0] == pair.limiter[1] and not also_same):
        return None
    before, after = map(_limit_text, pair.limiter, pair.weighted)
    if before == after:
        return f"{before} before and after"
    if before.startswith(_LIMITED):
        after = after.removeprefix(_LIMITED)
    return f"{before} before, {after} after"


def _limit_text(limiter: str, launches: Sequence[WeightedLaunch]) -> str:
    """Idle SMs are named, because the headline of `keet explain` names them, too."""
    idle = longest_launch(launches).explanation.account.part("idle")
    if limiter == "latency" and idle is not None and idle.percent.value >= _MOSTLY:
        return "SMs mostly idle"
    units = ["issue slots" if unit == "issue" else unit for unit in limiter.split("+")]
    return f"{_LIMITED}by {enumerated(units)}"


def how_paired(pair: PairDifference) -> Sentence:
    how = Sentence(_HOW[pair.how])
    if pair.on_both and not (pair.before and pair.after):
        return Sentence("profiled {how}", how=how)
    if pair.how == "reshaped":
        shapes = Sentence(" → ").join(map(_shapes, pair.pairing.sides))
        return Sentence("{how}: {shapes}", how=how, shapes=shapes)
    return how


def _shapes(groups: Sequence[KernelGroup]) -> Sentence:
    """`grid 64×64, block 32×8`; each distinct shape once."""
    keys = (group.key for group in groups)
    shapes = list(dict.fromkeys(shapes_text(key.grid, key.block) for key in keys))
    text = Sentence("; ").join(Sentence.of((Reference(shape, ()),)) for shape in shapes[:_SHAPES])
    if len(shapes) <= _SHAPES:
        return text
    more = constant(len(shapes) - _SHAPES, "", "shapes that are not listed")
    return Sentence("{text} and {more} more", text=text, more=more)


def nothing_next(difference: Difference) -> Sentence:
    """Why there is no next step: what limits the kernel that takes longest after."""
    left = [each for pair in difference.pairs for each in pair.weighted[1]]
    blind = [each.explanation for each in left if each.explanation.verdict.not_judged]
    if blind:
        names = ", ".join(dict.fromkeys(each.launch.kernel for each in blind))
        text = "not known: the report after lacks the metrics that show what limits {names}."
        return Sentence(text, names=names)
    longest = _longest_after(difference)
    if longest is None:
        return Sentence("no kernel after was explained.")
    text = longest.explanation.verdict.headline
    if difference.rows == 1:
        return text
    return Sentence("{kernel}: {text}", kernel=longest.explanation.launch.kernel, text=text)


def _longest_after(difference: Difference) -> WeightedLaunch | None:
    left = (each for pair in difference.pairs for each in pair.weighted[1])
    return max(left, key=lambda each: each.time or 0.0, default=None)


def texts_of(difference: Difference) -> Iterator[str]:
    """The printed sentences about the difference; those about one launch are the explanation's."""
    yield from filter(None, headline_parts(difference))
    texts = (basis_text(difference), span_text(difference), not_profiled_text(difference))
    yield from filter(None, (*texts, unprofiled_text(difference)))
    if step := difference.next:
        if step.cause is None or difference.verdict.basis == "run":
            yield step.of_whole if step.cause else step.text
    elif longest := _longest_after(difference):
        yield longest.explanation.verdict.headline
    for pair in difference.pairs:
        yield pair.verdict.headline
        yield from (each.what for each in pair.attribution)


def check_comparable(
    difference: Difference, force: str, options: Mapping[str, str] | None = None
) -> None:
    """Raise if the sides are not comparable. `force`: how to compare anyway. `options`: the
    caller's names for options of `keet diff`; None: the same."""
    forbidden = difference.forbidden
    if not forbidden:
        return
    texts = (each.text if options is None else each.text_with(options) for each in forbidden)
    raise NotComparable(f"{'; '.join(texts)}; to compare anyway: {force}")


def name_keet_diff_options(difference: Difference) -> Difference:
    """Texts that name `keet diff` together with its options."""
    why = difference.no_total
    return with_sentences(
        replace(
            difference,
            caveats=_named(difference.caveats),
            pairs=[replace(pair, caveats=_named(pair.caveats)) for pair in difference.pairs],
            no_total=why and why._replace(remedy=naming_keet_diff(why.remedy)),
        )
    )


def _named(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    return tuple(
        replace(caveat, text=naming_keet_diff(caveat.text))
        if isinstance(caveat.text, Sentence)
        else caveat
        for caveat in caveats
    )
