"""`keet context`: explains one launch to the person or model that will change its code, as a prompt
of at most so many tokens."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import NamedTuple

from keet.analysis.hotspots.examined import NO_CODE, RowCode, RowKey, code_by_row
from keet.analysis.hotspots.source_lines import Hotspots, Spot, find_hotspots, source_lines
from keet.analysis.parallelism.resident_warps import occupancy_limit
from keet.diagnosis.finding import Finding
from keet.documents.finding import Place
from keet.errors import one_line
from keet.evidence import Evidence, Sentence
from keet.explanation.account_texts import account_rows
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.finding_notes import nearest_text, precedents_text
from keet.explanation.headline import distinct_units
from keet.explanation.ncu_rules import precedes_findings
from keet.explanation.run_texts import launches_text
from keet.formatting import count_tokens, shape_parts, share_cell, text_size, tokens_of
from keet.pages.blocks import around, fence, indentation, language
from keet.pages.capture import describe_device
from keet.pages.hotspots import excess_amounts, waiting_for
from keet.pages.launch import certainty_of, forecast_of, place_shares, unplaced_shares
from keet.pages.program import ROWS, reason_texts, run_rows, spread_text
from keet.profile import Absent, Launch, Location, Profile, Workload
from keet.profile.launch import file_name

_VERDICT, _AMOUNTS, _RUN, _REASONS, _TIME, _CAUSES, _ACROSS, _SOURCE, _LIMITS, _CHECK, _GAPS = (
    range(11)
)
_HEADINGS = {
    _AMOUNTS: "## How much work is done, and how much is needed",
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
"""Replaces the headings above if the replay differs from the run."""
_WHY = "why"
"""The group of the first reason. Causes under replay are not printed without it, as they would
mislead."""
_EVIDENCE = 6
"""Maximum number of values printed per finding."""
_UNITS = 6
_PLACES = 3
_ROWS = 6
"""Maximum number of account rows."""
_RESOURCES = {
    "registers": "registers_per_thread",
    "static shared memory": "shared_memory_static",
    "dynamic shared memory": "shared_memory_dynamic",
}
_OCCUPANCY = {"achieved": "achieved_occupancy_pct", "theoretical": "theoretical_occupancy_pct"}
_FIRST_LINES, _HOT = 3, 0.05
"""So many lines with most samples, and all with that share, come before the account and the
constraints."""
_MOST_SAMPLES = 0.9
_LEAST_COST = 0.01
"""Share of the samples: the cost of a line below it is not printed."""
_LONGEST_LINE = 160
"""Maximum number of characters per line of code; generated code has longer lines."""
_NO_TEXT = "(no text)"


def context_of(
    profile: Profile, chosen: Sequence[Launch], budget: int, *, causes: int = 5, sass: bool = True
) -> str:
    """Explains the launch that represents most time: `Profile.representatives`."""
    launches = profile.representatives(chosen)[:1]
    return context_text(explain(profile, launches, causes, sass=sass), budget, of=len(chosen))


def context_text(
    explanation: Explanation, budget: int, of: int = 1, *, launch_only: bool = False
) -> str:
    """The first launch of an explanation in at most `budget` tokens; `of`: number of selected
    launches. `launch_only`: without how much work is done, the kernels of the run and what to check
    afterwards, for a text that has those already."""
    each = explanation.launches[0]
    source = CostedSource(each, find_hotspots(each.launch, table=each.view.table))
    headings = _HEADINGS | (_OF_REPLAY if each.replay else {})

    def compose(number: int, pieces: Sequence[TextPiece]) -> str:
        # Pieces are ordered by importance, but cause 1 must be complete before cause 2 begins.
        texts = [p.text for p in sorted(pieces, key=lambda p: p.group) if p.text]
        shown = source.text({line for piece in pieces for line in piece.lines})
        heading = [headings[number]] if number in headings else []
        return "\n".join([*heading, *shown, *texts])

    pieces = _pieces(explanation, each, source, of)
    left_out = (_AMOUNTS, _RUN, _CHECK) if launch_only else ()
    return fit((each for each in pieces if each.section not in left_out), compose, budget)


def _pieces(
    explanation: Explanation, each: LaunchExplanation, source: CostedSource, of: int
) -> Iterator[TextPiece]:
    """All pieces that could be printed, the most useful first."""
    first, rest = each.findings[:1], each.findings[1:]
    start, opinion = _first_rank(each), [*_opinion(each)]
    is_above = precedes_findings(each.second_opinion)
    yield TextPiece(_VERDICT, _title(each), group="0")
    yield from _reasons(each)
    if each.replay:
        headline = one_line(f"Under replay: {each.verdict.headline}")
        yield TextPiece(_VERDICT, headline, group="0 headline", needs=_WHY)
    yield from opinion if is_above else ()
    for finding in first:
        yield from _cause(start, finding, each)
    yield from _hot_lines(source, slice(1))
    yield from _amounts_of(each)
    yield TextPiece(_VERDICT, _facts(each, of), group="1")
    yield from _run(explanation, each)
    hot = max(_FIRST_LINES, sum(place.share >= _HOT for place in source.hottest))
    yield from _hot_lines(source, slice(1, hot))
    for finding in first:
        yield from _lines(finding.locations)
    yield from _account(each)
    yield from _constraints(each)
    for rank, finding in enumerate(rest, start + 1):
        yield from _cause(rank, finding, each)
        yield from _lines(finding.locations[:2])
    # Findings across launches that concern this one, unless a cause already states them.
    stated = {finding.text for finding in each.findings}
    for joint in explanation.across:
        if each.launch.id in joint.launches and joint.text not in stated:
            yield TextPiece(_ACROSS, f"- {one_line(joint.text)}", group="across")
    yield from _check(each)
    most = max(hot, source.lines_with_most)
    yield from _hot_lines(source, slice(hot, most))
    yield from _evidence(each)
    yield from _hot_lines(source, slice(most, None))
    yield from _rings(source, [p for f in first for p in f.locations], (1, 2, 4))
    yield from () if is_above else opinion
    yield from _gaps(explanation, each, source)
    yield from _rings(source, [p for f in each.findings for p in f.locations], (2, 4, 8, 16))


# --- pieces of text


def _opinion(each: LaunchExplanation) -> Iterator[TextPiece]:
    """Groups are printed in alphabetical order, so the name of the group decides whether it is
    above or below the causes."""
    if each.second_opinion:
        group = "above" if precedes_findings(each.second_opinion) else "second opinion"
        yield TextPiece(_CAUSES, one_line(each.second_opinion), group=group)


def _title(each: LaunchExplanation) -> str:
    launch = each.launch
    what = "Kernel " if launch.workload is Workload.KERNEL else ""
    unlike = each.in_run.warning if each.in_run else None
    verdict = f"{each.replay.measured}." if each.replay else each.verdict.headline
    blocks = (f"# {what}{launch.kernel}", *([unlike] if unlike else []), verdict)
    return "\n\n".join(map(one_line, blocks))


def _first_rank(each: LaunchExplanation) -> int:
    """Rank of the first finding: likely reasons why the run differs from the replay come before
    it."""
    return 1 + (len(each.replay.likely_reasons) if each.replay else 0)


def _reasons(each: LaunchExplanation) -> Iterator[TextPiece]:
    """Why the run differs from the replay; comes before the findings."""
    if not each.replay:
        return
    likely = len(each.replay.likely_reasons)
    for rank, (heading, text, how_to_tell) in enumerate(reason_texts(each.replay), 1):
        mark = f"{rank}." if rank <= likely else "-"
        group = _WHY if rank == 1 else f"{_WHY} {rank}"
        yield TextPiece(_REASONS, one_line(f"{mark} {heading} {text}"), group=group)
        yield TextPiece(_REASONS, f"   {one_line(how_to_tell)}", group=group)


def _facts(each: LaunchExplanation, of: int) -> str:
    launch = each.launch
    duration = launch.get("duration")
    took = f"it took {duration}" if duration else "its duration was not measured"
    device = one_line(describe_device(launch.device))
    stands = why = ""
    if each.in_run:
        before = f"{each.in_run.plain} in the run; "
        text = each.in_run.text.removeprefix(before)
        stands = f" It took {before}it {text}." if text != each.in_run.text else f" It {text}."
    if of > 1:
        why = f", the longest of {of}"
        if each.in_run:
            why = f" (of {of} that were profiled, the one with the largest share of the run)"
    return f"Measured with Nsight Compute on {device}, launch {launch.id}{why}: {took}.{stands}"


def _run(explanation: Explanation, each: LaunchExplanation) -> Iterator[TextPiece]:
    run = explanation.whole_run
    if run is None:
        return
    yield TextPiece(_RUN, " ".join(t for t in run.text if t not in run.warnings), group="run")
    for row in run_rows(run, ROWS):
        share, launches, busy, *_ = row.evidence
        spread = spread_text(row)
        text = Sentence(
            "- {share:share}: {kernel}, {launches}, {busy}{more}{own}",
            share=share,
            kernel=one_line(row.kernel),
            launches=launches_text(launches),
            busy=busy,
            more=Sentence(", {spread}", spread=spread) if spread else "",
            own=", this kernel" if each.launch.id in row.profiled and not row.members else "",
        )
        yield TextPiece(_RUN, text, group="run")


def _amounts_of(each: LaunchExplanation) -> Iterator[TextPiece]:
    """Before the causes: they tune the present way, and the amounts ask whether it is needed."""
    if each.main_amounts:
        from keet.pages.amounts import short_rows

        for label, text in short_rows(each.main_amounts):
            line, needs = one_line(f"- {label}: {text}"), _WHY if each.replay else ""
            yield TextPiece(_AMOUNTS, line, group="amounts", needs=needs)


def _account(each: LaunchExplanation) -> Iterator[TextPiece]:
    """All rows or none, because they add up."""
    if each.verdict.not_judged:
        return
    rows = account_rows(each.view, each.account, _ROWS)
    needs = _WHY if each.replay else ""
    lines = [f"- {row.share:.0f}{f' ({row.time})' if row.us else ''}: {row.label}" for row in rows]
    if lines:
        yield TextPiece(_TIME, "\n".join(lines), group="time 0", needs=needs)
    for note in each.notes:
        yield TextPiece(_TIME, f"- {one_line(note.text)}", group="time 1", needs=needs)


def _cause(rank: int, finding: Finding, each: LaunchExplanation) -> Iterator[TextPiece]:
    gain = f"{forecast_of(each, finding)} if fixed, cause {certainty_of(each, finding)}"
    places = finding.locations[:_PLACES]
    unplaced = (f"no source line ({share})" for share in unplaced_shares(places))
    shares = zip(places, place_shares(places))
    named = (one_line(place.where) + (f" ({share})" if share else "") for place, share in shares)
    where = ", ".join((*named, *unplaced))
    # Why the cause is only possible, unless an earlier cause gave the same reason.
    before = each.findings[: each.findings.index(finding)]
    reason = finding.certainty_reason or ""
    reason = "" if reason in [other.certainty_reason for other in before] else reason
    lines = [
        f"{rank}. {finding.title}: {gain}",
        f"   Do: {one_line(finding.action)}",
        f"   Where: {where}" if where else "",
        f"   Why: {one_line(finding.text)}",
        one_line(f"   {reason}".rstrip()),
    ]
    needs = _WHY if each.replay else ""
    yield from (TextPiece(_CAUSES, x, group=f"cause {rank}", needs=needs) for x in lines if x)


def _evidence(each: LaunchExplanation) -> Iterator[TextPiece]:
    for rank, finding in enumerate(each.findings, _first_rank(each)):
        if numbers := dict.fromkeys(f"{e.label}: {_amount(e)}" for e in finding.evidence):
            line = f"   Evidence: {one_line('; '.join([*numbers][:_EVIDENCE]))}"
            yield TextPiece(_CAUSES, line, group=f"cause {rank}")
        if gained := precedents_text(finding, each.view.ledger):
            yield TextPiece(_CAUSES, f"   Precedents: {gained}", group=f"cause {rank}")
        if case := finding.nearest_case:
            changes = ("```diff", *case.changes, "```") if case.changes else ()  # not list items
            lines = (f"   {nearest_text(case)}", *changes)
            yield TextPiece(_CAUSES, "\n".join(lines), group=f"cause {rank}")


def _amount(evidence: Evidence) -> str:
    """`1 sector`, `16,777,216 sectors`."""
    is_one = evidence.value == 1
    return str(evidence) if is_one or evidence.unit not in _NOUNS else f"{evidence}s"


_NOUNS = frozenset(
    ("block", "conflict", "cycle", "request", "sample", "sector", "thread", "warp", "wavefront")
)
"""Units that are words. `str` of an evidence prints them in the singular."""


def _constraints(each: LaunchExplanation) -> Iterator[TextPiece]:
    launch = each.launch
    facts = {
        "Launch": ", ".join(
            shape_parts(grid=launch.grid, block=launch.block, cluster=launch.cluster)
        ),
        "Resources": _amounts(launch, _RESOURCES),
        "Occupancy": _amounts(launch, _OCCUPANCY),
    }
    if facts["Occupancy"] and (limit := occupancy_limit(launch)):
        facts["Occupancy"] += f"; {limit}"
    for number, (name, text) in enumerate(facts.items()):
        if text:
            yield TextPiece(_LIMITS, f"- {name}: {text}", group=f"limit {number}")
    if rates := [figure.text for figure in each.figures if figure.share_pct is not None]:
        yield TextPiece(_LIMITS, f"- Rates: {'; '.join(rates)}", group="limit 3")
    for note in each.healthy:
        yield TextPiece(_LIMITS, f"- Keep: {one_line(note.text)}", group="limit 4")
    busiest = distinct_units(each.view.ceilings.ranked)[:_UNITS]
    busy = [c for c in busiest if c.share >= 0.01] or busiest[:1]
    units = [f"{c.name} at {c.reached:.0f} of peak" for c in busy]
    if units:
        yield TextPiece(_LIMITS, f"- Units: {'; '.join(units)}", group="limit 3")


def _amounts(launch: Launch, metrics: Mapping[str, str]) -> str:
    known = ((name, launch.get(metric)) for name, metric in metrics.items())
    return ", ".join(f"{name} {amount}" for name, amount in known if amount is not None)


def _check(each: LaunchExplanation) -> Iterator[TextPiece]:
    yield TextPiece(_CHECK, "- The results are the same on the same inputs.", group="check 0")
    if line := _faster(each):
        yield TextPiece(
            _CHECK, f"- Profile again (keet profile -- COMMAND): {line}.", group="check 1"
        )
    first = [e for f in each.findings[:1] for e in f.evidence]
    # What describes the GPU is changed by no fix.
    moving = [e for e in first if e.metric != "sm_count" and not e.metric.startswith("device__")]
    moved = list(dict.fromkeys(f"{e.label} (now {_amount(e)})" for e in moving))[:3]
    if moved:
        numbers, rank = one_line("; ".join(moved)), _first_rank(each)
        line = f"- If cause {rank} is gone, these should change: {numbers}."
        yield TextPiece(_CHECK, line, group="check 2")
    if each.healthy:
        yield TextPiece(_CHECK, "- What is marked Keep above is unchanged.", group="check 3")


def _faster(each: LaunchExplanation) -> str | None:
    """The time to beat: that of the run if it is known. It is the sum over the launches, because
    one launch that does the work of many takes longer than each of them."""
    if not each.replay and each.in_run and not each.in_run.warning:
        launches, _, busy, *_ = each.in_run.evidence
        return f"what these {launches_text(launches)} do takes less than {busy} in the run"
    if not each.replay:
        duration = each.launch.get("duration")
        return f"it takes less than {duration}" if duration else None
    known_by = each.in_run.known_by if each.in_run else None
    whose = "this launch takes" if known_by == "launch" else "launches like this one take"
    return f"in the plain run {whose} less than {each.replay.plain_duration.to_base()}"


def _gaps(
    explanation: Explanation, each: LaunchExplanation, source: CostedSource
) -> Iterator[TextPiece]:
    for note in source.notes:
        yield TextPiece(_GAPS, f"- {one_line(note)}", group="gap")
    hints = explanation._replace(launches=(each,)).capture_hints
    if hints.others:
        yield TextPiece(_GAPS, f"- Not in the report: {', '.join(hints.others)}", group="gap")
    for introduction, command in hints.commands:
        line = one_line(f"{introduction} {command}")
        yield TextPiece(_GAPS, f"- {line}", group="remedy")
    for sentence in hints.sentences:
        yield TextPiece(_GAPS, f"- {one_line(sentence)}", group="remedy")


# --- source lines


def _lines(places: Sequence[Place]) -> Iterator[TextPiece]:
    """One piece per line, so that a few are printed if not all fit."""
    for place in places:
        yield TextPiece(_SOURCE, lines=((place.file, place.line),), needs="hot line 0")


def _hot_lines(source: CostedSource, which: slice) -> Iterator[TextPiece]:
    """Lines with samples in descending order, each with the lines that its warps wait for. If one
    does not fit, those with fewer samples are left out too."""
    for rank in range(len(source.hottest))[which]:
        hot, group = source.hottest[rank], f"hot line {rank}"
        needs = f"hot line {rank - 1}" if rank else ""
        yield TextPiece(_SOURCE, lines=((hot.file, hot.line),), group=group, needs=needs)
        if awaited := source.awaited_lines(hot):
            yield TextPiece(_SOURCE, lines=awaited, group=f"awaited {rank}", needs=group)


def _rings(
    source: CostedSource, places: Sequence[Place], radii: Sequence[int]
) -> Iterator[TextPiece]:
    """Lines around the important ones, with increasing radius, if all hot lines fit."""
    needs = f"hot line {len(source.hottest) - 1}" if source.hottest else ""
    for radius in radii:
        lines = source.around(places or source.hottest[:_FIRST_LINES], radius)
        if lines:
            yield TextPiece(_SOURCE, lines=tuple(lines), group=f"ring {radius}", needs=needs)


class CostedSource:
    """The source lines of one launch, with their costs."""

    def __init__(self, each: LaunchExplanation, hotspots: Hotspots | Absent) -> None:
        self._found = hotspots
        self._text = source_lines(each.launch)
        self._code = each.view.code
        # Kept: a context is composed anew with each piece, and few pieces bring lines.
        self._written = cache(lambda lines: [*self._blocks(lines)])
        self._line = cache(self._line_of)

    @cached_property
    def _spots(self) -> dict[tuple[str, int], Spot]:
        if isinstance(self._found, Absent) or self._found.by != "line":
            return {}
        return {(*spot.location,): spot for spot in self._found.rows if spot.location}

    @cached_property
    def hottest(self) -> Sequence[Place]:
        """The lines with at least `_LEAST_COST` of the samples, in descending order."""
        spots = sorted(self._spots.items(), key=lambda item: -(item[1].share or 0.0))
        return [
            Place(file, line, spot.share, "samples")
            for (file, line), spot in spots
            if spot.share and spot.share >= _LEAST_COST
        ]

    @property
    def lines_with_most(self) -> int:
        """How many of them have `_MOST_SAMPLES` of the samples together."""
        before = accumulate((place.share for place in self.hottest), initial=0.0)
        return sum(share < _MOST_SAMPLES for share in before)

    @cached_property
    def _waits(self) -> Mapping[RowKey, RowCode]:
        return code_by_row(self._code, "line")

    def awaited_lines(self, place: Place) -> tuple[tuple[str, int], ...]:
        """Lines whose results the warps at a line wait for, in at least a tenth of its samples."""
        waits = self._waits.get(Location(place.file, place.line), NO_CODE).waits
        least = (self._spots[place.file, place.line].samples or 0) / 10
        lines = [(*wait.producer,) for wait in waits if wait.producer and wait.samples >= least]
        return tuple(line for line in dict.fromkeys(lines) if line[0] in self._text)

    @cached_property
    def notes(self) -> list[str]:
        """What limits these costs, and how to get better ones."""
        if isinstance(self._found, Absent):
            return []
        partial = self._found.partial
        notes = [f"{partial.text}; {partial.remedy}"] if partial else []
        if self._spots and not self._text:
            notes.append("The text of the source is not in the report: --source DIR finds it")
        return notes

    def around(self, places: Sequence[Place], radius: int) -> list[tuple[str, int]]:
        nearby = []
        for file in dict.fromkeys(place.file for place in places):
            centres = [place.line for place in places if place.file == file]
            length = len(self._text.get(file, ()))
            nearby += [(file, n) for n in around(centres, radius, length)]
        return nearby

    def text(self, lines: Collection[tuple[str, int]]) -> list[str]:
        """The given lines, file by file, each with its share of the samples and its other costs."""
        return self._written(frozenset(lines))

    def _blocks(self, lines: Collection[tuple[str, int]]) -> Iterator[str]:
        for file in sorted({file for file, _ in lines}):
            numbers = sorted(number for path, number in lines if path == file)
            ranked = "" if isinstance(self._found, Absent) else self._found.ranked_by
            costs = {"samples": "share of warp samples", "executed": "share of instructions"}
            unit = f" ({costs[ranked]} in the column left of the code)" if ranked else ""
            yield f"{file_name(file)}{unit}:"
            yield fence(list(self._rows(file, numbers)), language(file))

    def _rows(self, file: str, numbers: Sequence[int]) -> Iterator[str]:
        lines = {n: self._line(file, n) for n in numbers}
        indent = min((x.indent for x in lines.values() if x.indent is not None), default=0)
        width = len(str(numbers[-1]))
        before = numbers[0] - 1
        for n, line in lines.items():
            if n != before + 1:
                yield "..."
            before = n
            code = _NO_TEXT if line.code is None else line.code[indent:]
            code = code if len(code) <= _LONGEST_LINE else f"{code[:_LONGEST_LINE]}..."
            yield f"{n:{width}} {line.share:>5}  {code}".rstrip()
            if line.cost:
                yield f"{'':{width}}        ^ {line.cost}"

    def _line_of(self, file: str, number: int) -> _Line:
        text, spot = self._text.get(file, ()), self._spots.get((file, number))
        code = text[number - 1].expandtabs(4) if 1 <= number <= len(text) else None
        indent = indentation([code]) if code and code.strip() else None
        share = spot.share or 0.0 if spot else 0.0
        shown = share_cell(share) if share >= _LEAST_COST / 10 else ""
        return _Line(code, indent, shown, _cost(spot) if spot else "")


class _Line(NamedTuple):
    code: str | None
    """Without tabs. `None`: the source text is not available."""
    indent: int | None
    """`None`: the line is empty, or its text is not available."""
    share: str
    cost: str


def _cost(spot: Spot) -> str:
    """What the line's warps wait for and how much it transfers; empty if it costs little."""
    if (spot.share or 0.0) < _LEAST_COST and not spot.sectors_global_excess:
        return ""
    parts = [f"waits, of its samples: {waiting}"] if (waiting := waiting_for(spot)) else []
    for what, excess, total in excess_amounts(spot):
        parts.append(f"{excess:,} of {total:,} {what} are excess")
    if spot.sectors_local:
        parts.append(f"{spot.sectors_local:,} local sectors")
    return "; ".join(parts)


# --- a text of at most so many tokens

_ELLIPSIS = " ..."


class TextPiece(NamedTuple):
    """A part of a text that is dropped if it does not fit."""

    section: int
    """Its place in the text. Lists of pieces are ordered by importance."""
    text: str = ""
    lines: tuple[tuple[str, int], ...] = ()
    """Source lines to show, by file and number."""
    group: str = ""
    """If the first piece of a group does not fit, the others are dropped too."""
    needs: str = ""
    """A group of earlier pieces that this one needs to be understood."""


Compose = Callable[[int, Sequence[TextPiece]], str]
"""Composes the text of a section from its number and its pieces, which are ordered by
importance."""


class _Sizes(dict[str, int]):
    """Sizes of lines, each with the newline before it."""

    def __missing__(self, line: str) -> int:
        return self.setdefault(line, text_size(f"\n{line}"))


def fit(pieces: Iterable[TextPiece], compose: Compose, budget: int) -> str:
    """The text of as many pieces as fit, the most important first. When a piece is added, only its
    section is composed again, and only new lines are counted."""
    chosen: dict[int, list[TextPiece]] = {}
    blocks: dict[int, str] = {}
    sizes, begun = _Sizes(), dict[str, bool]()
    for piece in pieces:
        if not (begun.get(piece.group, True) and begun.get(piece.needs, True)):
            begun.setdefault(piece.group, False)
            continue
        together = [*chosen.get(piece.section, ()), piece]
        more = blocks | {piece.section: compose(piece.section, together)}
        text = _text_of(more)
        first, *others = text.split("\n")
        fits = tokens_of(sum(map(sizes.__getitem__, others), text_size(first))) <= budget
        if not (fits or begun):  # not even the first piece fits: cut it
            return cut(text, budget)
        if fits:
            chosen[piece.section], blocks = together, more
        begun.setdefault(piece.group, fits)
    return _text_of(blocks)


def _text_of(blocks: Mapping[int, str]) -> str:
    """The sections in their order."""
    return "\n\n".join(block for _, block in sorted(blocks.items()) if block) + "\n"


def cut(text: str, budget: int) -> str:
    """As many whole words as fit; empty if none fits."""
    words = text.split()

    def size(count: int) -> int:
        return count_tokens(_shortened(words, count))

    return _shortened(words, bisect(range(1, len(words) + 1), budget, key=size))


def _shortened(words: Sequence[str], count: int) -> str:
    return " ".join(words[:count]) + _ELLIPSIS + "\n" if count else ""
