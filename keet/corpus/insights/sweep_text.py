"""Writes the text of a sweep; every number in it is recorded in the fact book."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keet.corpus.insights import noise
from keet.corpus.insights.metric_changes import differing_work, label_of, what_fills
from keet.corpus.insights.points import be, in_table_words, joined, latency_explained_once, spoken
from keet.corpus.insights.slow_point_text import (
    SweepFacts,
    amounts,
    slow_point_sentences,
    span_of,
    stretch_of,
)
from keet.corpus.insights.sweeps import limiters, unchanged_work
from keet.documents.insights import InsightDocument, LimiterChangeDocument
from keet.evidence import Evidence, Sentence
from keet.findings import findings
from keet.formatting import capitalized

_FULL = 85.0
"""Share of its peak, in per cent, from which a unit can't do much more."""
_MOST_LEFT_OUT = 5
_MOST_FIXED = 3
_RESULTS = "keet can't see whether the results are the same"
_MOST_THREADS = 1024
"""The largest block."""
_SOURCES = {
    "file name": "taken from the file names",
    "command line": "taken from the command lines",
    "kernel name": "taken from the kernel name",
    "launch": "taken from the launches; no name contains it",
    "report": "taken from the reports",
}


def sweep_insight(facts: SweepFacts) -> InsightDocument:
    sweep, adds = facts.sweep, Sentence()
    text = [_what(facts), *_fixed(facts), *_several_files(facts), *_left_out(facts)]
    if sweep.work == "unknown":
        in_short = Sentence("best value not known")
        text.append(_unknown(facts))
    elif sweep.only_noise or sweep.best is None:
        in_short = Sentence("all differences are within noise")
        text.append(_noise(facts))
        adds = Sentence(
            "The set shows that {knob} does not need tuning within this range; a single profile "
            "can't show that.",
            knob=sweep.knob,
        )
    else:
        text += (_best(facts), *_limiter(facts), *_slow_parts(facts), *_end(facts))
        added = Sentence(" ").join([_best_alone(facts), _set_together(facts)])
        *text, adds = latency_explained_once([*text, added])
        in_short = _in_short(facts)
    fixed = facts.distinguishing[:_MOST_FIXED]
    title = Sentence(
        "{kernel} over {knob}{given}: {what}",
        kernel=sweep.kernel,
        knob=sweep.knob,
        given=Sentence(" (with {fixed})", fixed=_quoted(fixed)) if fixed else "",
        what=in_short,
    )
    return facts.book.insight(title, text, adds, sweep=sweep)


def _in_short(facts: SweepFacts) -> Sentence:
    sweep, best, word = facts.sweep, facts.value(facts.best), "fastest"
    if sweep.work_unit:
        word = "cheapest per unit of work"
    if not facts.is_number or not sweep.changes:
        return Sentence("{word} at {best}", word=word, best=best)
    was, becomes = sweep.limiters_around(sweep.changes[0])
    form = "{word} at {best}; the limiter changes from {was} to {becomes}"
    return Sentence(form, word=word, best=best, was=was, becomes=becomes)


def _quoted(values: Sequence[str]) -> Sentence:
    return joined([f"`{value}`" for value in values])


# --- what the sweep consists of


def _what(facts: SweepFacts) -> Sentence:
    sweep = facts.sweep
    files = sum(point.files for point in sweep.points)
    count = facts.book.computed("files of the sweep", files, "")
    also, moves = sweep.moves_with, Sentence()
    if also:
        change = "change" if len(also) > 1 else "changes"
        moves = Sentence("; {also} {change} with it", also=joined(also), change=change)
    values = [*facts.values().values()]
    span = Sentence("between {values}", values=joined(values))
    if facts.is_number:
        span = Sentence("from {span}", span=span_of(values))
    return Sentence(
        "{knob} varies {span} in {count:,.0f} files ({where}){moves}. {work}",
        knob=capitalized(sweep.knob),
        span=span,
        count=count,
        where=_SOURCES[sweep.source],
        moves=moves,
        work=_work(facts),
    )


def _work(facts: SweepFacts) -> Sentence:
    sweep = facts.sweep
    if sweep.kind in ("gpu", "version"):
        return Sentence("The launches are the same.")
    if sweep.work == "same":
        return _same_problem(facts)
    if sweep.work_unit:
        form = "The work varies with it, so the time per {unit} is compared."
        return Sentence(form, unit=sweep.work_unit)
    return Sentence("The store has no counters of the work.")


def _same_problem(facts: SweepFacts) -> Sentence:
    """Equal bytes or instructions show that; the work of single units may vary."""
    varying = differing_work(facts.points)
    if not varying:
        form = "The work is the same, so the times can be compared; {results}."
        return Sentence(form, results=_RESULTS)
    said = []
    for column, least, most in varying[:3]:
        points = {point.number(column): point for point in facts.points}
        ends = [facts.book.measured(points[value], column) for value in (least, most)]
        said.append(Sentence("{label} ({ends})", label=label_of(column), ends=amounts(ends)))
    said += [Sentence("others")] if len(varying) > 3 else []
    return Sentence(
        "{same} are about the same at all values, so the times are compared; {results}. The "
        "work of the units differs: {said}.",
        same=joined(unchanged_work(facts.points)).capitalized(),
        results=_RESULTS,
        said=joined(said),
    )


def _fixed(facts: SweepFacts) -> Iterator[Sentence]:
    fixed = [value for value in facts.sweep.fixed if value not in facts.distinguishing]
    if fixed:
        yield Sentence("The same in all files: {fixed}.", fixed=_quoted(fixed[:_MOST_FIXED]))


def _several_files(facts: SweepFacts) -> Iterator[Sentence]:
    """Which file is shown, and where they differ most."""
    times = facts.times_us
    counts = {len(some) for some in times}
    if not times or max(counts) < 2:
        return
    most = facts.book.computed("files per value", max(counts), "")
    i = max(range(len(times)), key=lambda i: max(times[i]) / min(times[i]))
    at = facts.value(i)
    yield Sentence(
        "{up_to}{most:.0f} files per value; {which} is shown. Their times differ most at "
        "{at}: {low} to {high}.",
        up_to="" if len(counts) == 1 else "Up to ",
        most=most,
        which=_which_file(counts),
        at=at,
        low=facts.book.computed(f"shortest time at {at}", min(times[i]), "us"),
        high=facts.book.computed(f"longest time at {at}", max(times[i]), "us"),
    )


def _which_file(counts: set[int]) -> str:
    """As `representatives` chooses it, from the numbers of files per value."""
    if counts <= {1, 2}:
        return "the faster one"
    if all(count % 2 for count in counts):
        return "the one with the median time"
    return "the one with the median time (of the middle two, the faster one)"


def _left_out(facts: SweepFacts) -> Iterator[Sentence]:
    left, knob = facts.sweep.left_out, facts.sweep.knob
    values = [facts.book.computed(knob, file.value, "") for file in left]
    said = [
        Sentence("{value:knob} ({why})", value=value, why=file.why)
        for value, file in zip(values[:_MOST_LEFT_OUT], left)
    ]
    said += [Sentence("others")] if len(left) > _MOST_LEFT_OUT else []
    if said:
        form = "Left out, because more than {knob} differs: {said}."
        yield Sentence(form, knob=knob, said=joined(said))


def _unknown(facts: SweepFacts) -> Sentence:
    times = [facts.book.time(point) for point in facts.points]
    return Sentence(
        "The times are between {low} and {high}, but the counters do not show whether the "
        "work is the same: profile with instruction and DRAM counters (keet profile does).",
        low=min(times, key=_value),
        high=max(times, key=_value),
    )


def _noise(facts: SweepFacts) -> Sentence:
    shortest = min(point.duration_us for point in facts.points)
    sd = 100 * noise.between_sessions(shortest)
    return Sentence(
        "All differences are within noise: {cost} is between {low} and {high}, and two "
        "captures of one kernel differ by {sd:.1f} (one standard deviation).",
        cost=f"the time per {facts.sweep.work_unit}" if facts.sweep.work_unit else "the time",
        low=facts.said(min(facts.costs, key=_value)),
        high=facts.said(max(facts.costs, key=_value)),
        sd=facts.book.computed("noise between captures", sd, "%"),
    )


def _value(piece: Evidence) -> float:
    return float(piece.value)


# --- a sweep with a best point


def _best(facts: SweepFacts) -> Sentence:
    best, slow = facts.best, facts.slowest
    is_dear = bool(facts.sweep.work_unit)
    return Sentence(
        "{fastest} at {best} ({best_cost}), {slowest} at {slow} ({slow_cost}, {worth:.2f}).{ties}",
        fastest="Cheapest" if is_dear else "Fastest",
        best=facts.value(best),
        best_cost=facts.said(facts.costs[best]),
        slowest="most expensive" if is_dear else "slowest",
        slow=facts.value(slow),
        slow_cost=facts.said(facts.costs[slow]),
        worth=facts.worth(),
        ties=_ties(facts),
    )


def _ties(facts: SweepFacts) -> Sentence:
    """Begins with a space."""
    best, costs = facts.best, facts.costs
    tied = [i for i, point in enumerate(facts.sweep.points) if point.tied and i != best]
    if not tied:
        return Sentence()
    values = [facts.value(i) for i in tied]
    last = max(tied, key=lambda i: costs[i].value)
    ratio = 100 * (costs[last].value / costs[best].value - 1)
    slower = facts.book.computed("slower within noise", ratio, "%", costs[last], costs[best])
    shortest = min(p.duration_us for p, c in zip(facts.points, facts.sweep.points) if c.tied)
    limit = 100 * math.expm1(noise.TIED * noise.between_sessions(shortest))
    verb, most = ("is", "") if len(values) == 1 else ("are", "up to ")
    return Sentence(
        " {values} {verb} as fast within noise: {most}{slower:.1f} slower, within two "
        "standard deviations of the noise ({limit:.1f}).",
        values=joined(values),
        verb=verb,
        most=most,
        slower=slower,
        limit=facts.book.computed("two standard deviations of the noise", limit, "%"),
    )


def _limiter(facts: SweepFacts) -> Iterator[Sentence]:
    points, values = facts.sweep.points, facts.values()
    named = {point.limiter for point in points if point.limiter}
    first = limiters(points[0].limiter)[:1]
    if not named:
        yield Sentence(
            "The limiters are not known: the reports do not have how busy the units were."
        )
    elif facts.sweep.changes and facts.is_number:
        said = []
        for change in facts.sweep.changes:
            was, becomes = map(in_table_words, facts.sweep.limiters_around(change))
            after, until = values[change.after], values[change.until]
            form = "from {was} to {becomes} between {after} and {until}"
            said.append(Sentence(form, was=was, becomes=becomes, after=after, until=until))
        yield Sentence("The limiter changes {said}.", said=joined(said))
    elif facts.sweep.changes:
        said = [
            Sentence("{limiter} with {value}", limiter=in_table_words(point.limiter), value=value)
            for point, value in zip(points, values.values())
            if point.limiter
        ]
        yield Sentence("The limiter differs: {said}.", said=joined(said))
    elif len(named) == 1:
        limiter = in_table_words(named.pop())
        yield Sentence("The limiter is the same at all values: {limiter}.", limiter=limiter)
    elif first and all(first[0] in limiters(limiter) for limiter in named):
        lead = capitalized(in_table_words(first[0]))
        yield Sentence("{lead} is among the limiters at all values.", lead=lead)


def _slow_parts(facts: SweepFacts) -> Iterator[Sentence]:
    if facts.sweep.kind == "size":
        yield from (_dear_run(facts, run) for run in facts.slow_runs())
    elif facts.is_number:
        yield from slow_point_sentences(facts)


def _dear_run(facts: SweepFacts, run: Sequence[int]) -> Sentence:
    """Problem sizes at which a unit of work takes more time."""
    values = [facts.value(i) for i in run]
    worst = max(run, key=lambda i: facts.costs[i].value)
    at = values[run.index(worst)]
    costs = facts.costs[worst], facts.costs[facts.best]
    ratio = facts.book.times(f"more per unit at {at}", *costs)
    return Sentence(
        "At {where} a unit of work takes up to {ratio:.2f}{worst} the time of the best: {why}",
        where=stretch_of(values),
        ratio=ratio,
        worst=Sentence(" (at {at})", at=at) if len(run) > 1 else "",
        why=_why_dear(facts, run),
    )


def _why_dear(facts: SweepFacts, run: Sequence[int]) -> Sentence:
    """A cause must hold for the neighbours of the stretch, too."""
    edges = [i for i in (run[-1] + 1, run[0] - 1) if 0 <= i < len(facts.points)]
    here = sorted({*run, *edges})
    here = here if len(here) > 2 else [*range(len(facts.points))]  # two points always correlate
    filled = what_fills([facts.points[i] for i in here], [_value(facts.costs[i]) for i in here])
    if filled is None:
        return Sentence("waves and warps do not explain it; compare the profiles with keet diff.")
    edge = edges[0]
    points = [facts.points[i] for i in (run[0] if run[0] < edge else run[-1], edge)]
    ends = [facts.book.measured(point, filled) for point in points]
    return Sentence(
        "towards {value} it takes less time with more {label} ({ends}), as when a problem is "
        "too small to fill the GPU.",
        value=facts.value(edge),
        label=label_of(filled),
        ends=amounts(ends),
    )


def _end(facts: SweepFacts) -> Iterator[Sentence]:
    best = facts.best
    lead = limiters(facts.sweep.points[best].limiter)[:1]
    share = facts.sweep.points[best].units.get(lead[0]) if lead else None
    if lead and share is not None and share >= _FULL:
        reached = facts.book.share(facts.points[best], lead[0], share)
        yield Sentence(
            "At the best value, {unit} {be} at {reached:.0f} of peak: only less work for it "
            "would gain more.",
            unit=spoken(lead[0]),
            be=be(lead[0]),
            reached=reached,
        )
    elif facts.is_number and _is_open_end(facts, best):
        yield Sentence(
            "The best value is at the end of the tried range, and better than the one next to "
            "it: try {other} ones.",
            other="larger" if best else "smaller",
        )


def _is_open_end(facts: SweepFacts, best: int) -> bool:
    """The time still falls there by more than noise, and no value beyond was tried."""
    points, curve = facts.points, facts.sweep.points
    last = len(points) - 1
    sizes = [math.prod(size or 1 for size in point.block) for point in points]
    is_largest_block = sizes[-1] >= _MOST_THREADS and sizes[0] < sizes[-1]
    if best not in (0, last) or (best == last and is_largest_block):
        return False
    end = float(curve[best].value)
    if best == 0 and end <= 1:
        return False
    inner, outer = (_value(facts.costs[i]) for i in (1 if best == 0 else best - 1, best))
    sd = noise.between_sessions(min(point.duration_us for point in points))
    is_tried = any((file.value > end) == bool(best) for file in facts.sweep.left_out)
    return not is_tried and math.log(inner / outer) > noise.BEYOND * sd


# --- what the set adds over its best profile


def _best_alone(facts: SweepFacts) -> Sentence:
    best = facts.best
    point = facts.points[best]
    limiter = point.texts["limiter"] or ""
    lead = limiters(limiter)
    reached = facts.book.cell(point, "reached_pct")
    where = Sentence("The best profile alone ({value})", value=facts.value(best))
    if not lead or reached is None:
        return Sentence("{where} does not show its limiter.", where=where)
    share = facts.sweep.points[best].units.get(lead[0])
    if lead[0] != "latency" and share is not None:
        reached = facts.book.share(point, lead[0], share)
    if lead[0] == "latency":
        form = "{where} shows no unit above {reached:.0f} of peak{judged}."
    elif not point.texts["healthy"]:
        form = "{where} shows {lead} at {reached:.0f} of peak{judged}."
    elif limiter == lead[0]:
        form = "{where} shows the limiter {limiter} ({reached:.0f} of peak)."
    else:
        form = "{where} shows the limiter {limiter} ({unit} at {reached:.0f} of peak)."
    finding = findings().get(point.texts["top_finding"] or "")
    return Sentence(
        form,
        where=where,
        reached=reached,
        limiter=limiter,
        lead=spoken(lead[0]),
        unit=lead[0],
        judged=f" and has the finding {finding.label}" if finding else " and has no finding",
    )


def _set_together(facts: SweepFacts) -> Sentence:
    parts = [*_free_choice(facts), *_costly_choice(facts), *_other_limiter(facts)]
    return Sentence("The set also shows {parts}.", parts=joined(parts))


def _free_choice(facts: SweepFacts) -> Iterator[Sentence]:
    tied = [i for i, point in enumerate(facts.sweep.points) if point.tied]
    if len(tied) > 1:
        values = joined([facts.value(i) for i in tied])
        yield Sentence("that {values} are equally fast within noise", values=values)


def _costly_choice(facts: SweepFacts) -> Iterator[Sentence]:
    last, ratio = len(facts.points) - 1, facts.worth()
    inner = [i for run in facts.slow_runs() if run[0] > 0 and run[-1] < last for i in run]
    if facts.is_number and inner:
        verb = "are" if len(inner) > 1 else "is"
        values = joined([facts.value(i) for i in inner])
        yield Sentence("that {values} in between {verb} slower", values=values, verb=verb)
    forms = {
        "size": "that a unit of work takes {ratio:.2f} as long at {slow}",
        "version": "that it takes {ratio:.2f} with {slow} (what else changed is not known)",
    }
    form = forms.get(
        facts.sweep.kind, "that the choice of {knob} makes a difference of {ratio:.2f}"
    )
    slow = facts.value(facts.slowest)
    yield Sentence(form, ratio=ratio, slow=slow, knob=facts.sweep.knob)


def _other_limiter(facts: SweepFacts) -> Iterator[Sentence]:
    """Limiters that the best profile does not show."""
    changes = facts.sweep.changes
    if not facts.is_number:
        if changes:
            yield Sentence("that a fix for one of them may not help the other")
        return
    if facts.sweep.kind == "size":
        return
    slow = [i for run in facts.slow_runs() for i in run]
    starved = [facts.value(i) for i in slow if facts.judgement(i).starved]
    if starved:
        yield Sentence(
            "that at {starved} the limit is too few warps, not a unit", starved=joined(starved)
        )
    elif changes:
        yield _first_limiter(facts, changes[0])


def _first_limiter(facts: SweepFacts, change: LimiterChangeDocument) -> Sentence:
    """At the values below the first change of the limiter."""
    names = [point.shown for point in facts.sweep.points]
    number, at = names.index(change.after) + 1, facts.values()[change.after]
    named = {point.limiter for point in facts.sweep.points[:number] if point.limiter}
    form = "that {where} {at} {limiter} is among the limiters"
    limiter = change.was
    if len(named) == 1:
        form = "that {where} {at} the limiter is {limiter}"
        limiter = named.pop()
    where = "up to" if number > 1 else "at"
    return Sentence(form, where=where, at=at, limiter=in_table_words(limiter))
