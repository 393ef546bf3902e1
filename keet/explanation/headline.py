"""The first sentence about a launch: where its time goes, and what could be gained; and which
hardware units texts name, each once, the limiting one first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keet.analysis.archetype import is_debug_build, skipped_ahead_share
from keet.analysis.coverage import has_only_shape
from keet.analysis.decisions.saturated import while_active
from keet.analysis.hardware.ceilings import MEMORY_UNITS, TIE, WHOLE, Ceiling, spoken_unit
from keet.analysis.hardware.stages import SCHEDULERS
from keet.analysis.launch_view import LaunchView
from keet.analysis.parallelism.resident_warps import (
    LIMIT_WORDS,
    blocks_differ,
    does_nothing,
    evenness,
    instructions_per_warp,
    tightest_limits,
)
from keet.analysis.parameters import MAJORITY, NAMED_PART, NOTABLE_PART, Parameter
from keet.analysis.remedy_conditions.waits import warps_sleep
from keet.analysis.roofline.launch_roofline import AT_CEILING, issue_limited, reached_share
from keet.analysis.time_model import BLOCK_STARTS, HOT_LINE, LEADS, WORTH
from keet.catalog import stalls
from keet.diagnosis.advice import advice_for
from keet.diagnosis.diagnosis import Diagnosis
from keet.diagnosis.finding import BETWEEN_LAUNCHES, Finding
from keet.documents.document import computed, live
from keet.documents.explain import LaunchVerdict
from keet.evidence import Evidence, Sentence, finite
from keet.formatting import enumerated
from keet.profile import Launch
from keet.units import Quantity


def distinct_units(ranked: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Without L1 if its busiest stage is the LSU pipe: both would show the same counter."""
    has_lsu = any(each.name == "LSU" for each in ranked)
    return tuple(
        each
        for each in ranked
        if not (has_lsu and each.name == "L1" and each.stage and each.stage.id == "lsu")
    )


def nearest_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The busiest units by share of their peak, ties included."""
    return distinct_units(diagnosis.view.ceilings.nearest)


def leading_units(diagnosis: Diagnosis) -> tuple[Ceiling, ...]:
    """The units that limit the launch: the one with the largest load in the time model, if that is
    large, then those that are as busy, by load or by share of their peak.

    The load takes into account what a unit can reach in practice and how long SMs are active.
    Therefore the first unit may differ from the one with the largest share of its peak.
    """
    model = diagnosis.model
    units = distinct_units(diagnosis.view.ceilings.ranked)
    if model.pressure < LEADS or model.busiest == BLOCK_STARTS:
        return ()
    if model.busiest in WHOLE:
        return tuple(unit for unit in units if unit.name == model.busiest)
    if model.busiest == HOT_LINE:
        return tuple(unit for unit in units if unit.name == "L2")
    loads = {unit.name: model.loads.get(unit.name, 0.0) for unit in units}
    by_load = sorted(units, key=lambda each: -loads[each.name])
    first = by_load[0]
    leading = [
        each
        for each in by_load
        if loads[each.name] >= loads[first.name] - TIE / 100
        or each.share >= first.share - TIE / 100
    ]
    names = [unit.name for unit in units]
    if first.name == "L2" and "DRAM" in names[: names.index("L2")]:
        # L2 only passes on what DRAM delivers.
        dram = units[names.index("DRAM")]
        leading = [dram, *(each for each in leading if each is not dram)]
    return tuple(leading)


class Verdict(LaunchVerdict):
    """What limits the launch, in one sentence."""

    headline: Sentence
    reached: Evidence | None = live()
    """Of its peak, by the unit nearest to it."""
    reached_pct: float | None = computed(lambda verdict: finite(verdict.reached))
    healthy: str | None = live(default=None)
    """`at_dram_roofline` or `at_compute_roofline`, if the launch is near a roofline and has no
    other cause."""
    not_judged: bool = live(default=False)
    """Nothing was measured that says where the time goes."""
    is_open: bool = live(default=False)
    """The report does not show whether a change would gain: no finding is then no verdict."""


DEBUG_BUILD_STARTS = "This looks like a debug build (-G)"
"""How the headline of a debug build begins: a store has no other sign of it."""
DEBUG_BUILD_TEXT = Sentence(
    f"{DEBUG_BUILD_STARTS}: build without -G and profile again. keet does not estimate gains of "
    "debug code."
)


def verdict_of(diagnosis: Diagnosis, line_note: str = "") -> Verdict:
    """`line_note`: words after the source line of the first finding."""
    view, model = diagnosis.view, diagnosis.model
    if does_nothing(view) and model.is_measured and (each := instructions_per_warp(view)):
        words = "The kernel does nothing: a warp executes {n:.0f} instructions and ends."
        return Verdict(limiter=None, reached=None, headline=Sentence(words, n=each))
    failed = _not_measured(diagnosis)
    if failed:
        return Verdict(limiter=None, reached=None, headline=Sentence(failed), not_judged=True)
    nearest = nearest_units(diagnosis)
    leading = () if _outside(diagnosis) else leading_units(diagnosis)
    limiter = "+".join(c.name for c in leading) or ("latency" if nearest else None)
    headline = _headline(diagnosis, leading, line_note)
    if is_debug_build(view):
        headline = _of_debug_build(diagnosis, leading)
    # The report does not show whether a change would gain.
    is_open = (
        not (diagnosis.findings or diagnosis.healthy or _outside(diagnosis))
        and not _issue_limited(diagnosis, leading_units(diagnosis))
        and bool(_lacking(view))
    )
    return Verdict(
        limiter=limiter,
        reached=next((each.reached for each in (*leading, *nearest)), None),
        headline=headline,
        healthy=diagnosis.healthy,
        not_judged=not diagnosis.findings and not model.is_measured,
        is_open=is_open,
    )


def _of_debug_build(diagnosis: Diagnosis, leading: tuple[Ceiling, ...]) -> Sentence:
    """It has no findings, so that what takes most of the time in any build is said here."""
    cause, share = diagnosis.in_any_build, skipped_ahead_share(diagnosis.view)
    text = " In any build: {text} {action}"
    shape = Sentence(text, text=cause.text, action=cause.action) if cause else ""
    is_setup = share is not None and share.value > 100 * MAJORITY
    return Sentence(
        "{debug}{shape} What follows describes the debug code. {where}.{setup}",
        debug=DEBUG_BUILD_TEXT,
        shape=shape,
        setup=Sentence(" {n:.0f} {what}.", n=share, what=share.label) if share and is_setup else "",
        where=(_busy(diagnosis, leading) or _not_near(diagnosis)).capitalized(),
    )


def without_code(verdict: Verdict, launch: Launch, instead: int | None) -> Verdict:
    """The verdict of a launch whose machine code was left out, though that of others was analysed.
    `instead`: a launch of its kernel and shape of which it was."""
    to_do = f"see launch #{instead}, which has the same kernel and shape"
    if instead is None:
        to_do = f"to include it: --launch {launch.id}"
    words = "{said} Its machine code was not analysed, so causes may be missing; {to_do}."
    return replace(verdict, headline=Sentence(words, said=verdict.headline, to_do=to_do))


def _not_measured(diagnosis: Diagnosis) -> str:
    launch = diagnosis.view.launch
    recorded = launch.block is None or 0 not in launch.block
    if launch.grid and 0 in launch.grid and recorded:
        return "This launch failed: its grid has no blocks, so nothing ran."
    measured = diagnosis.view.get("duration") is not None or diagnosis.model.is_measured
    if not measured and not diagnosis.findings:  # the launch shape alone shows some causes
        if launch.rank_cycles:
            return (
                "Only the launch's shape and its cycles were collected: they do not show what "
                "limits the kernel."
            )
        if has_only_shape(launch):
            return "Nothing was measured for this launch: ncu collected no section for it."
        return "Nothing was measured for this launch: the launch or its profiling failed."
    return ""


# --- with a finding


def _headline(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...], line_note: str) -> Sentence:
    # A suspicion about several launches does not say what limits this one: it is named only where
    # nothing else is found.
    first = min(diagnosis.findings, key=lambda each: each.variant in BETWEEN_LAUNCHES, default=None)
    is_shared = first is not None and first.variant in BETWEEN_LAUNCHES
    if first is None or is_shared or (diagnosis.healthy and nearest):
        said = _without_findings(diagnosis, nearest)
        if first is None or not is_shared:
            return said
        return Sentence("{said} There may be {cause}.", said=said, cause=first.label)
    where = _where(diagnosis, first, nearest)
    cause = cause_and_line(first, line_note)
    if first.brief is not None:
        cause = Sentence("{cause}: {amount}", cause=cause, amount=first.brief)
    text = "{where}; {rank} cause: {cause}."
    rank = "possible" if first.cause_certainty == "possible" else "main"
    names = {each.name for each in nearest}
    if first.variant == "sleep":  # said already
        text = "{where}."
    elif (
        # A busy unit is not the consequence of a cause that leaves it as much work.
        nearest
        and where == _busy(diagnosis, nearest)
        and first.relieves is not None
        and names.isdisjoint((*WHOLE, *first.relieves))
    ):
        text, rank = "{rank} cause: {cause}; {where}, which limits the gain.", rank.capitalize()
        return Sentence(text, where=where, rank=rank, cause=cause)
    return Sentence(text, where=where.capitalized(), rank=rank, cause=cause)


def cause_and_line(finding: Finding, line_note: str = "") -> Sentence:
    if not finding.locations:
        return Sentence("{cause}", cause=finding.label)
    line = finding.locations[0].where
    return Sentence("{cause} at {line}{note}", cause=finding.label, line=line, note=line_note)


def _where(diagnosis: Diagnosis, first: Finding, nearest: tuple[Ceiling, ...]) -> Sentence:
    """Where the time goes, as far as it belongs to the first cause."""
    if asleep := _asleep(diagnosis):
        return asleep
    if first.spec.headline == "idle" and (idle := _idle(diagnosis, first)):
        return idle
    hot = diagnosis.model.hot_line
    names_line = first.spec.headline == "hot line" and diagnosis.model.busiest == HOT_LINE
    if names_line and hot is not None:
        text = "one slice of L2 looks up {skew:.1f} times the sectors of an average one{limit}"
        if hot.is_in_host:
            text = "one slice of L2 is active {skew:.1f} times as long as an average one{limit}"
        if hot.is_counted:
            text = "one slice of L2 serves {skew:.2f} atomics on one address per cycle{limit}"
        return Sentence(text, skew=hot.skew, limit=_next_limit(diagnosis))
    if nearest:
        return _busy(diagnosis, nearest)
    return _not_near(diagnosis)


def _next_limit(diagnosis: Diagnosis) -> Sentence:
    """The unit that limits the gain of a fix that relieves one slice of L2."""
    loads = diagnosis.model.loads
    others = [c for c in distinct_units(diagnosis.view.ceilings.ranked) if c.name != "L2"]
    busiest = max(others, key=lambda each: loads.get(each.name, 0.0), default=None)
    if busiest is None or loads.get(busiest.name, 0.0) < LEADS:
        return Sentence()
    return Sentence(" ({peak}, which limits the gain)", peak=_at_peak((busiest,)))


def _asleep(diagnosis: Diagnosis) -> Sentence:
    """Warps that sleep: idle SMs and units follow from it. Empty where they do not."""
    view = diagnosis.view
    cycles = view.get("stall_sleeping")
    if cycles is None or not warps_sleep.test(view):
        return Sentence()
    text = "warps sleep for most of their waiting ({cycles:.0f}; nanosleep, or a lock or a flag "
    return Sentence(text + "that sleeps between two looks)", cycles=cycles)


def _idle(diagnosis: Diagnosis, first: Finding) -> Sentence:
    """The idle share as in the account; empty if it is small."""
    idle, few = (diagnosis.account.part(name) for name in ("idle", "idle.small_grid"))
    # A grid with a block for every SM does not explain idle SMs.
    cause = few if first.id == "small_grid" else idle
    if idle is None or cause is None or cause.percent.value < 100 * NOTABLE_PART:
        return Sentence()
    own = Sentence(" ({part:.0f} of the time because they have no block)", part=cause.percent)
    return Sentence(
        "SMs are idle for {idle:.0f} of the time{own}",
        idle=idle.percent,
        own="" if f"{idle.percent:.0f}" == f"{cause.percent:.0f}" else own,
    )


def _not_near(diagnosis: Diagnosis) -> Sentence:
    nearest = nearest_units(diagnosis)
    if not nearest:
        return Sentence("the report does not say how busy the units were")
    if diagnosis.view.ceilings.are_counted:
        return Sentence(
            "the work that was counted takes {unit} to {reached:.0f} of its peak; how busy the "
            "units were in all is not known",
            unit=nearest[0].spoken,
            reached=nearest[0].reached,
        )
    text = "no unit is above {reached:.0f} of its peak ({unit}: {reached:.0f}){waits}"
    unmeasured = diagnosis.view.ceilings.unmeasured
    if unmeasured:
        were = "was" if len(unmeasured) == 1 else "were"
        text = (
            "of the units that were measured, none is above {reached:.0f} of its peak ({unit}: "
            f"{{reached:.0f}}){{waits}}; {enumerated(unmeasured)} {were} not measured as a whole"
        )
    return _outside(diagnosis) or Sentence(
        text,
        reached=nearest[0].reached,
        unit=nearest[0].spoken.removeprefix("the "),
        waits=_longest_wait(diagnosis),
    )


def _outside(diagnosis: Diagnosis) -> Sentence:
    """Used if no SM is active for most of the time: busy units do not explain that."""
    launch = diagnosis.account.part("launch")
    if launch is None or launch.percent.value < 100 * MAJORITY:
        return Sentence()
    return Sentence("for {share:.0f} of the time no SM is active", share=launch.percent)


def _longest_wait(diagnosis: Diagnosis) -> Sentence:
    waiting = diagnosis.account.part("waiting")
    if waiting is None or not waiting.children or not diagnosis.view.stalls:
        return Sentence()
    part = waiting.children[0]
    if not part.part.startswith("latency of") or part.percent.value < NAMED_PART:
        return Sentence()
    return Sentence(
        ", and {share:.0f} of the time is spent waiting for the {latency}",
        share=part.percent,
        latency=part.part,
    )


# --- without one


def _without_findings(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...]) -> Sentence:
    view = diagnosis.view
    if not diagnosis.model.is_measured:
        return Sentence(
            "Where the time goes is unknown: the report does not say how busy any unit was."
        )
    if diagnosis.healthy and nearest:
        return _at_roofline(diagnosis, nearest)
    if outside := _outside(diagnosis).capitalized():
        return Sentence("{outside}: before, between and after the kernels.", outside=outside)
    if said := _issue_limited(diagnosis, nearest):
        return said
    lacking = _lacking(view)
    tells_more = Sentence("")
    if lacking:
        what = enumerated(lacking)
        tells_more = Sentence("The report lacks {what}, which would tell more.", what=what)
    if said := _saturated_memory(diagnosis, nearest):
        return Sentence(" ").join(filter(None, (said, tells_more)))
    said = Sentence(
        "{first}. The report does not show whether a change would gain {least:.0f}."
        if lacking
        else "{first}, and keet sees no cause that is likely to gain {least:.0f}.",
        first=(_asleep(diagnosis) or _at_peak(nearest) or _not_near(diagnosis)).capitalized(),
        least=least_gain(view),
    )
    parts = [said, _bound(diagnosis), _last_wave(diagnosis), _hottest(view)]
    parts.append(_rarely_issuing(view) or _nearest_cause(diagnosis))
    possible = view.get("theoretical_occupancy_pct") if lacking else None
    # A limit on the warps of an SM may matter, if no warp states show whether it does.
    if possible is not None and possible.value <= 100 * MAJORITY and not view.stalls:
        words = "An SM can hold {possible:.0f} of its warps, limited by {by}: whether that exposes "
        words += "latency is not known."
        if limits := tightest_limits(view):
            parts.append(Sentence(words, possible=possible, by=LIMIT_WORDS[limits[0]]))
    return Sentence(" ").join(filter(None, (*parts, tells_more)))


def _saturated_memory(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...]) -> Sentence:
    """L1 or L2 at its ceiling: it has no roofline, and which of its work is needed is not known."""
    view, model = diagnosis.view, diagnosis.model
    unit = model.busiest or ""
    if not nearest or unit not in ("L1", "LSU", "L2") or reached_share(model, unit) < AT_CEILING:
        return Sentence()
    is_once = unit == "L2" and view.streaming is not None and view.streaming.verdict == "once"
    bound = _bound(diagnosis, unit)
    has_more = bound and reached_share(model, unit) < 1 / WORTH
    said = Sentence(
        "{units}{once}.{bound} {only} fewer requests to {unit}, or fewer bytes, help{unknown}.",
        units=_at_peak(nearest).capitalized(),
        once=", and every byte is read once" if is_once else "",
        bound=Sentence(" {bound}", bound=bound) if bound else "",
        only="Beyond that, only" if has_more else "Only",
        unit="L2" if unit == "L2" else "L1",
        unknown="" if is_once else "; the report does not show which of them are not needed",
    )
    stages = {stage.id: stage.busy for stage in view.ceilings.stages(unit)} if unit == "L2" else {}
    to, back = stages.get("sm_to_l2"), stages.get("l2_to_sm")
    busiest = max(stages.values(), key=lambda busy: float(busy.value), default=None)
    if to is None or back is None or busiest not in (to, back):
        return said
    words = "{said} More goes to L2 ({to:.0f} of peak) than comes back ({back:.0f}): save stores, "
    words += "atomics and requests first."
    if back.value > to.value:
        words = "{said} More comes back from L2 ({back:.0f} of peak) than goes to it ({to:.0f}): "
        words += "save bytes that are read first."
    return Sentence(words, said=said, to=to, back=back)


def _bound(diagnosis: Diagnosis, name: str = "") -> Sentence:
    """How much could be left at most if the units did the same work, and the unit that bounds
    it: `name`, or the one nearest to its peak."""
    view = diagnosis.view
    busiest = view.ceilings.get(name) if name else next(iter(view.ceilings.ranked), None)
    if busiest is None or view.ceilings.unmeasured == MEMORY_UNITS:  # memory may be the limit
        return Sentence()
    unit, left = spoken_unit(busiest.name), _left(view, busiest)
    return Sentence("With the same work of {unit}, {left}.", unit=unit, left=left)


def _last_wave(diagnosis: Diagnosis) -> Sentence:
    """Idle time of a partial last wave that is a notable part of the time, and what it costs at
    most: units that all SMs share are less busy in it, so that a fix saves a part of it only."""
    last, view = diagnosis.account.part("idle.tail"), diagnosis.view
    waves = view.get("waves_per_sm")
    if last is None or waves is None or last.percent.value < 100 * NOTABLE_PART:
        return Sentence()
    if (even := evenness(view)) is not None and blocks_differ(view, even):
        return Sentence()  # a few long blocks may be why, which whole waves do not change
    gain = Quantity(1 / (1 - float(last.percent.value) / 100), "")
    label = "times faster at most without the idle time of the last wave"
    most = view.ledger.derived("left.last_wave", gain, label, last.percent)
    words = "SMs are idle for {share:.0f} of the time in the last wave of blocks ({waves:.1f} "
    words += "waves): a grid that fills whole waves gains at most {most:.2f}x."
    return Sentence(words, share=last.percent, waves=waves._replace(unit=""), most=most)


def _hottest(view: LaunchView) -> Sentence:
    """The line with most samples and what warps wait for there; empty where no line stands out."""
    first = next(iter(view.sampled_places()), None)
    if first is None or first.share < NOTABLE_PART:
        return Sentence()
    share = Quantity(100 * first.share, "%")
    part = view.ledger.derived("hottest_line", share, "samples at the line with most of them")
    states = {
        reason: place.share * sum(samples.values())
        for reason, samples in view.table.stall_samples.items()
        for place in view.places_by(reason, samples)
        if (place.file, place.line) == (first.file, first.line)
    }
    waits = [reason for reason in states if stalls()[reason].counts_as_stall]
    longest = max(waits, key=lambda reason: states[reason], default=None)
    is_most = longest is not None and states[longest] > MAJORITY * sum(states.values())
    often = "mostly wait" if is_most else "wait most often"
    return Sentence(
        "The line with most samples is {line} ({part:.0f}){why}.",
        line=first.where,
        part=part,
        why=f": warps {often} for {stalls()[longest].waits_for} there" if longest else "",
    )


QUEUED = Parameter(
    1000.0, "cycles per instruction of a warp: longer than a load takes without queues", "judgement"
)


def _rarely_issuing(view: LaunchView) -> Sentence:
    """How long a warp takes from one instruction to the next, where no level of memory was
    measured: if longer than a load takes, accesses queue, and more warps do not help."""
    warps, issue = view.get("achieved_warps_per_sm"), view.ceilings.reached("issue")
    if view.ceilings.unmeasured != MEMORY_UNITS or not (warps and issue and issue.value > 0):
        return Sentence()
    each = 100 * float(warps.value) / SCHEDULERS / float(issue.value)
    label = "cycles from one instruction of a warp to the next"
    cycles = view.ledger.derived("warp_pace", Quantity(each, "cycle"), label, warps, issue)
    words = "{warps:.0f}s are active per SM, and each issues an instruction every {cycles:.0f}s"
    words += ": longer than a load takes, so memory is likely busy." if each >= QUEUED else "."
    return Sentence(words, warps=warps, cycles=cycles)


def _nearest_cause(diagnosis: Diagnosis) -> Sentence:
    """The likeliest cause that would gain 10 % if it is there: what shows it, how much, and what to
    do; empty where there is none."""
    view = diagnosis.view
    first = next((each for each in diagnosis.minor if each.forecast.likely >= WORTH), None)
    if first is None:
        return Sentence()
    label = f"times faster if it is {first.label}"
    gain = view.ledger.derived(f"if_there.{first.id}", first.forecast.likely, label)
    is_shared = first.variant in BETWEEN_LAUNCHES  # its text is about several launches: said once
    if not is_shared:
        first = replace(first, advice=advice_for(first, view))
    return Sentence(
        "Possible, but more often not there: {cause}, {gain:.2f}x if it is.{text}",
        cause=first.label,
        gain=gain,
        text="" if is_shared else Sentence(" {text} {do}", text=first.text, do=first.action),
    )


def _lacking(view: LaunchView) -> list[str]:
    """What the report lacks that would show more."""
    lacking = {
        "warp states": not view.stalls,
        "the load of the issue slots": view.ceilings.reached("issue") is None,
        "counts per instruction": view.lacks_counts,
        "the machine code": view.code_absent is not None and not view.lacks_counts,
        "the load of DRAM, L2 and L1": view.ceilings.unmeasured == MEMORY_UNITS,
    }
    return [what for what, is_lacking in lacking.items() if is_lacking]


def _issue_limited(diagnosis: Diagnosis, nearest: tuple[Ceiling, ...]) -> Sentence:
    """The issue slots are no roofline of arithmetic: what the instructions are for is said."""
    model = diagnosis.model
    if not nearest or not issue_limited(model) or reached_share(model, "issue") < AT_CEILING:
        return Sentence()
    said = Sentence(
        "{units}. The slots limit the number of instructions, not the arithmetic: fewer "
        "instructions help. keet sees no cause that is likely to gain {least:.0f}.{work}",
        units=_at_peak(nearest).capitalized(),
        least=least_gain(diagnosis.view),
        work=_needed_work(diagnosis),
    )
    return Sentence(" ").join(part for part in (said, _nearest_cause(diagnosis)) if part)


def least_gain(view: LaunchView) -> Evidence:
    percent = Quantity(round(100 * (WORTH - 1), 6), "%")
    return view.ledger.derived("least_gain", percent, "gain from which on a cause is a finding")


SAID_LEFT = Parameter(1.05, "times faster at the full peak from which that is said", "judgement")
_NOTHING_LEFT = Sentence("no speed-up is left")


def _busy(diagnosis: Diagnosis, units: tuple[Ceiling, ...]) -> Sentence:
    """How busy the units are. Where few SMs work, the busiest unit of those: its share of the whole
    GPU is that of idle SMs."""
    reached = while_active(diagnosis.view, diagnosis.model) if units else None
    if reached is None or units[0].name != diagnosis.model.busiest:
        return _at_peak(units)
    text = "{unit} {verb} at {reached:.0f} of its peak on the SMs that work"
    return Sentence(text, unit=units[0].spoken, verb=units[0].verb, reached=reached)


def _at_peak(units: tuple[Ceiling, ...]) -> Sentence:
    """`L1 is at 99% of peak and the issue slots are at 88% of peak`."""
    return Sentence(" and ").join(
        Sentence(
            "{unit} {verb} {most}at {reached:.0f} of peak",
            unit=unit.spoken,
            verb=unit.verb,
            most="at most " if unit.stage is not None and unit.stage.at_most else "",
            reached=unit.reached,
        )
        for unit in units[:2]
    )


def _left(view: LaunchView, ceiling: Ceiling) -> Sentence:
    """Times faster, if the unit did the same work at its full peak."""
    times = 1 / min(1.0, max(ceiling.share, 0.01))
    if times < SAID_LEFT:
        return _NOTHING_LEFT
    label = f"times faster at most with the same work of {spoken_unit(ceiling.name)}"
    name = f"left.{ceiling.name}"
    most = view.ledger.derived(name, times, label, ceiling.reached)
    return Sentence("a speed-up of at most {most:.1f}x is left", most=most)


def _at_roofline(diagnosis: Diagnosis, leading: tuple[Ceiling, ...]) -> Sentence:
    """The headline of a launch near a roofline."""
    view = diagnosis.view
    dram, streaming = view.ceilings.get("DRAM"), view.streaming
    # The unit nearest to its peak bounds the speed-up that is possible with the same work.
    nearest = max(leading, key=lambda each: each.share)
    if diagnosis.healthy != "at_dram_roofline" or dram is None:
        left = _left(view, nearest)
        return Sentence(
            "{units}: {left} with the same work; {beyond} fewer or cheaper instructions help."
            "{work}",
            units=_at_peak(leading).capitalized(),
            left=left,
            beyond="only" if left == _NOTHING_LEFT else "beyond that, only",
            work=_needed_work(diagnosis),
        )
    if nearest.name != "L2":
        nearest = dram
    at = _at_peak((dram,) if nearest is dram else (nearest, dram))
    left = _left(view, nearest)
    # Good kernels come nearer to the peak: more bytes in flight help a part of the way.
    more = (
        ""
        if 1 / max(nearest.share, 0.01) < WORTH
        else ", by more bytes in flight (wide loads, several per thread)"
    )
    if streaming is not None and streaming.verdict == "once":
        return Sentence(
            "{at}, and every byte comes from DRAM once: with the same bytes, {left}{more}. "
            "{beyond} moving fewer bytes helps: smaller types, or a pass less over the data.",
            at=at,
            left=left,
            more=more,
            beyond="Beyond that, only" if more else "Only",
        )
    why = "the report has no machine code that keet can analyse"
    if streaming is not None and streaming.reason:
        why = streaming.reason
    elif view.lacks_counts:
        why = "the report has no counts per instruction"
    elif view.code_state == "off":
        why = "the machine code was not analysed"
    return Sentence(
        "{at}: {left}{more} unless fewer bytes are moved. keet can't tell whether bytes are read "
        "twice: {why}.",
        at=at,
        left=left,
        more=more,
        why=why,
    )


def _needed_work(diagnosis: Diagnosis) -> Sentence:
    """What the instructions are for, if issuing them takes most of the time."""
    issuing = diagnosis.account.part("issuing")
    if issuing is None or len(issuing.children) < 2:
        return Sentence()
    named = Sentence(", ").join(
        Sentence("{share:.0f} {purpose}", share=part.percent, purpose=part.part)
        for part in issuing.children[:3]
        if part.percent.value >= NAMED_PART
    )
    return Sentence(" Of the time: {named}.", named=named) if named else Sentence()
