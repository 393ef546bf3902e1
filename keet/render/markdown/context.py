"""`keet context`: one launch explained for the person or model that will change its code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.findings import Finding, Place
from keet.analysis.source_lines.hotspots import Hotspots, find_hotspots
from keet.errors import one_line
from keet.explanation.account_rows import AccountRow, account_rows
from keet.explanation.analyst import explain
from keet.explanation.busy_units import distinct_units
from keet.explanation.confidence import why_low
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.precedents import precedents_text
from keet.explanation.run_texts import launches_text
from keet.explanation.token_budget import TextPiece, fit
from keet.formatting import shape_parts
from keet.profile import Absent, Launch, Profile, Workload
from keet.profile.time_order import longest
from keet.render.common.device import describe_device
from keet.render.common.finding import confidence_of, forecast_of
from keet.render.common.occupancy import occupancy_limit
from keet.render.common.places import place_shares, unplaced_shares
from keet.render.markdown.costed_source import CostedSource
from keet.verification.explanation_check import ExplanationCheck

_VERDICT, _RUN, _REASONS, _TIME, _CAUSES, _ACROSS, _SOURCE, _LIMITS, _CHECK, _GAPS = range(10)
_HEADINGS = {
    _RUN: "## What the whole run spends its time on",
    _REASONS: "## Causes: why the run differs from the replay",
    _TIME: "## Where the time of this launch goes",
    _CAUSES: "## Causes, by gain",
    _ACROSS: "## This and other launches",
    _SOURCE: "## Source lines and what they cost",
    _LIMITS: "## Constraints",
    _CHECK: "## Check afterwards",
    _GAPS: "## Not known",
}
_OF_REPLAY = {
    _TIME: "## Where the time of this launch goes under replay",
    _CAUSES: "## Causes seen under replay only",
}
"""Instead of the headings above, where the replay is not what happened in the run."""
_WHY = "why"
"""The group of the first reason: causes of the replay alone would mislead."""
_EVIDENCE = 6
"""Numbers of a finding that are told."""
_UNITS = 6
_PLACES = 3
_ROWS = 6
"""Parts of the time that are told."""


def context_of(
    profile: Profile, chosen: Sequence[Launch], budget: int, *, causes: int = 5, sass: bool = True
) -> str:
    """Explains the launch that matters most of those chosen: the one that stands for the most time
    of the run where that is known, else the longest."""
    launch = profile.by_run_time(chosen)[0] if profile.run else longest(chosen)
    return context_text(explain(profile, [launch], causes, sass=sass), budget, of=len(chosen))


def context_text(
    explanation: Explanation, budget: int, of: int = 1, hotspots: Hotspots | Absent | None = None
) -> str:
    """The first launch of an explanation in at most `budget` tokens; `of`: launches chosen from.

    `hotspots`: of that launch, where they were found before.
    """
    each = explanation.launches[0]
    found = hotspots or find_hotspots(each.launch, table=each.view.table)
    source = CostedSource(each.launch, found)
    headings = _HEADINGS | (_OF_REPLAY if each.replay else {})

    def compose(number: int, pieces: Sequence[TextPiece]) -> str:
        # Pieces come by worth; a reader wants cause 1 whole before cause 2.
        texts = [p.text for p in sorted(pieces, key=lambda p: p.group) if p.text]
        shown = source.text({line for piece in pieces for line in piece.lines})
        heading = [headings[number]] if number in headings else []
        return "\n".join([*heading, *shown, *texts])

    return fit(_pieces(explanation, each, source, of), compose, budget)


def _pieces(
    explanation: Explanation, each: LaunchExplanation, source: CostedSource, of: int
) -> Iterator[TextPiece]:
    """Everything that could be told, the most useful first."""
    first, rest = each.findings[:1], each.findings[1:]
    start = _first_rank(each)
    yield TextPiece(_VERDICT, _title(each), group="0")
    yield from _reasons(each)
    if each.replay:
        headline = one_line(f"Under replay: {each.verdict.headline}")
        yield TextPiece(_VERDICT, headline, group="0 headline", needs=_WHY)
    if precedes_findings(each.second_opinion):
        yield from _opinion(each)
    for finding in first:
        yield from _cause(start, finding, each)
    yield TextPiece(_VERDICT, _facts(each, of), group="1")
    yield from _run(explanation, each)
    for finding in first:
        yield from _lines(finding.places)
    yield from _account(each)
    yield from _constraints(each)
    for rank, finding in enumerate(rest, start + 1):
        yield from _cause(rank, finding, each)
        yield from _lines(finding.places[:2])
    yield from _across(explanation, each)
    yield from _check(each)
    yield from _lines(source.hottest[:3])
    yield from _rings(source, [p for f in first for p in f.places] or source.hottest[:3], (1, 2, 4))
    yield from _evidence(each)
    yield from _lines(source.hottest[3:])
    if not precedes_findings(each.second_opinion):
        yield from _opinion(each)
    yield from _gaps(explanation, each, source)
    yield from _rings(source, [p for f in each.findings for p in f.places], (2, 4, 8, 16))


# --- what is told


def _opinion(each: LaunchExplanation) -> Iterator[TextPiece]:
    """Groups are printed in alphabetical order: above the causes, or below them."""
    if each.second_opinion:
        group = "above" if precedes_findings(each.second_opinion) else "second opinion"
        yield TextPiece(_CAUSES, one_line(each.second_opinion), group=group)


def _title(each: LaunchExplanation) -> str:
    launch = each.launch
    what = "Kernel " if launch.workload is Workload.KERNEL else ""
    unlike = each.in_run.unlike if each.in_run else None
    verdict = f"{each.replay.measured}." if each.replay else each.verdict.headline
    blocks = (f"# {what}{launch.kernel}", *([unlike] if unlike else []), verdict)
    return "\n\n".join(map(one_line, blocks))


def _first_rank(each: LaunchExplanation) -> int:
    """Of the findings: likely reasons why the run differs from the replay come before them."""
    return 1 + (len(each.replay.likely_reasons) if each.replay else 0)


def _reasons(each: LaunchExplanation) -> Iterator[TextPiece]:
    """Why the run differs from the replay, before what the replay shows."""
    if each.replay is None:
        return
    from keet.render.common.whole_run import reason_texts

    likely = len(each.replay.likely_reasons)
    for rank, (heading, text, tell) in enumerate(reason_texts(each.replay), 1):
        mark = f"{rank}." if rank <= likely else "-"
        group = _WHY if rank == 1 else f"{_WHY} {rank}"
        yield TextPiece(_REASONS, one_line(f"{mark} {heading} {text}"), group=group)
        yield TextPiece(_REASONS, f"   {one_line(tell)}", group=group)


def _facts(each: LaunchExplanation, of: int) -> str:
    launch = each.launch
    duration = launch.get("duration")
    took = f"it took {duration}" if duration else "its duration was not measured"
    device = one_line(describe_device(launch.device))
    stands = f" It {each.in_run.text}." if each.in_run else ""
    which = f"launch {launch.id}{_why_this(each, of)}"
    return f"Measured with Nsight Compute on {device}, {which}: {took}.{stands}"


def _why_this(each: LaunchExplanation, of: int) -> str:
    if of == 1:
        return ""
    if each.in_run is None:
        return f", the longest of {of}"
    return f" (of {of} that were profiled, the one with the largest share of the run)"


def _run(explanation: Explanation, each: LaunchExplanation) -> Iterator[TextPiece]:
    run = explanation.whole_run
    if run is None:
        return
    from keet.render.markdown.whole_run import run_lines

    texts = [text for text, launch in run.sentences if launch is None]
    for text in (" ".join(texts), *run_lines(run, each.launch.id)):
        yield TextPiece(_RUN, text, group="run")


def _account(each: LaunchExplanation) -> Iterator[TextPiece]:
    """All rows or none: they add up."""
    if each.verdict.not_judged:
        return
    rows = account_rows(each.view, each.account, _ROWS)
    needs = _WHY if each.replay else ""
    told = [f"{'  ' * row.depth}- {row.share:.0f}{_took(row)}: {row.label}" for row in rows]
    if told:
        yield TextPiece(_TIME, "\n".join(told), group="time 0", needs=needs)
    for note in each.notes:
        yield TextPiece(_TIME, f"- {one_line(note.text)}", group="time 1", needs=needs)


def _took(row: AccountRow) -> str:
    return f" ({row.time})" if row.us else ""


def _across(explanation: Explanation, each: LaunchExplanation) -> Iterator[TextPiece]:
    """What this launch and others show together, unless a cause says it."""
    said = {finding.text for finding in each.findings}
    for found in explanation.across:
        if each.launch.id in found.launches and found.text not in said:
            yield TextPiece(_ACROSS, f"- {one_line(found.text)}", group="across")


def _cause(rank: int, finding: Finding, each: LaunchExplanation) -> Iterator[TextPiece]:
    gain = f"{forecast_of(each, finding)} if fixed, confidence {confidence_of(each, finding)}"
    places = finding.places[:_PLACES]
    unplaced = (f"no source line ({share})" for share in unplaced_shares(places))
    shares = zip(places, place_shares(places, "it"))
    named = (one_line(place.where) + (f" ({share})" if share else "") for place, share in shares)
    where = ", ".join((*named, *unplaced))
    told = [
        f"{rank}. {finding.title}: {gain}",
        f"   Do: {one_line(finding.action)}",
        f"   Where: {where}" if where else "",
        f"   Why: {one_line(finding.text)}",
        one_line(f"   {_why_low(finding, each)}".rstrip()),
    ]
    needs = _WHY if each.replay else ""
    yield from (TextPiece(_CAUSES, x, group=f"cause {rank}", needs=needs) for x in told if x)


def _why_low(finding: Finding, each: LaunchExplanation) -> str:
    """Empty where a cause before it has said the same."""
    before = each.findings[: each.findings.index(finding)]
    said = [why_low(other, each.view, each.account) for other in before]
    told = why_low(finding, each.view, each.account)
    return "" if told in said else told


def _evidence(each: LaunchExplanation) -> Iterator[TextPiece]:
    for rank, finding in enumerate(each.findings, _first_rank(each)):
        numbers = list(dict.fromkeys(f"{e.label} {e}" for e in finding.evidence))[:_EVIDENCE]
        if numbers:
            told = f"   Evidence: {one_line('; '.join(numbers))}"
            yield TextPiece(_CAUSES, told, group=f"cause {rank}")
        gained = precedents_text(finding)
        if gained:
            yield TextPiece(_CAUSES, f"   Precedents: {gained}", group=f"cause {rank}")


def _constraints(each: LaunchExplanation) -> Iterator[TextPiece]:
    launch = each.launch
    for number, told in enumerate((_shape(launch), _resources(launch), _occupancy(launch))):
        if told:
            yield TextPiece(_LIMITS, f"- {told}", group=f"limit {number}")
    for note in each.healthy:
        yield TextPiece(_LIMITS, f"- Keep: {one_line(note.text)}", group="limit 4")
    busiest = distinct_units(each.ceilings)[:_UNITS]
    busy = [c for c in busiest if c.share >= 0.01] or busiest[:1]
    units = [f"{c.name} at {c.reached:.0f} of peak" for c in busy]
    if units:
        yield TextPiece(_LIMITS, f"- Units: {'; '.join(units)}", group="limit 3")


def _shape(launch: Launch) -> str:
    shapes = shape_parts(grid=launch.grid, block=launch.block, cluster=launch.cluster)
    told = ", ".join(shapes)
    return f"Launch: {told}" if told else ""


def _resources(launch: Launch) -> str:
    known = {
        "registers": launch.get("registers_per_thread"),
        "static shared memory": launch.get("shared_memory_static"),
        "dynamic shared memory": launch.get("shared_memory_dynamic"),
    }
    told = [f"{name} {amount}" for name, amount in known.items() if amount is not None]
    return f"Resources: {', '.join(told)}" if told else ""


def _occupancy(launch: Launch) -> str:
    achieved, possible = (
        launch.get(f"{which}_occupancy_pct") for which in ("achieved", "theoretical")
    )
    told = [
        f"{name} {amount}" for name, amount in (("achieved", achieved), ("possible", possible))
        if amount is not None
    ]  # fmt: skip
    if not told:
        return ""
    limit = occupancy_limit(launch)
    return f"Occupancy: {'; '.join(filter(None, (', '.join(told), limit)))}"


def _check(each: LaunchExplanation) -> Iterator[TextPiece]:
    yield TextPiece(_CHECK, "- The results are the same on the same inputs.", group="check 0")
    if told := _faster(each):
        yield TextPiece(
            _CHECK, f"- Profile again (keet profile -- COMMAND): {told}.", group="check 1"
        )
    first = (e for f in each.findings[:1] for e in f.evidence)
    moved = list(dict.fromkeys(f"{e.label} (now {e})" for e in first))[:3]
    if moved:
        numbers, rank = one_line("; ".join(moved)), _first_rank(each)
        told = f"- If cause {rank} is gone, these have moved: {numbers}."
        yield TextPiece(_CHECK, told, group="check 2")
    if each.healthy:
        yield TextPiece(_CHECK, "- What is marked Keep above is unchanged.", group="check 3")


def _faster(each: LaunchExplanation) -> str | None:
    """The time to beat: that of the run where it is known. One launch that does the work of many
    takes longer than each of them."""
    if each.replay is None and each.in_run and not each.in_run.unlike:
        launches = launches_text(each.in_run.launches)
        return f"what these {launches} do takes less than {each.in_run.busy} in the run"
    if each.replay is None:
        duration = each.launch.get("duration")
        return f"it takes less than {duration}" if duration else None
    known_by = each.in_run.known_by if each.in_run else None
    whose = "this launch takes" if known_by == "launch" else "launches like this one take"
    return f"in the plain run {whose} less than {each.replay.plain}"


def _gaps(
    explanation: Explanation, each: LaunchExplanation, source: CostedSource
) -> Iterator[TextPiece]:
    for note in source.notes:
        yield TextPiece(_GAPS, f"- {one_line(note)}", group="gap")
    hints = explanation._replace(launches=(each,)).capture_hints
    if hints.lacking:
        yield TextPiece(_GAPS, f"- Not in the report: {', '.join(hints.lacking)}", group="gap")
    if hints.command:
        told = one_line(f"{hints.introduction} {hints.command}")
        yield TextPiece(_GAPS, f"- {told}", group="remedy")
    for sentence in hints.sentences:
        yield TextPiece(_GAPS, f"- {one_line(sentence)}", group="remedy")
    for claim in ExplanationCheck(explanation).unchecked:
        yield TextPiece(_GAPS, f"- not supported by the report: {one_line(claim)}", group="gap")


# --- source lines


def _lines(places: Sequence[Place]) -> Iterator[TextPiece]:
    """Each line on its own: a few fit where many do not."""
    for place in places:
        yield TextPiece(_SOURCE, lines=((place.file, place.line),), group="source")


def _rings(
    source: CostedSource, places: Sequence[Place], radii: Sequence[int]
) -> Iterator[TextPiece]:
    """Code around lines that matter, wider and wider."""
    for radius in radii:
        lines = source.around(places, radius)
        if lines:
            yield TextPiece(_SOURCE, lines=tuple(lines), group="source")
