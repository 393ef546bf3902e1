"""Adds to each explained launch which launches of the run it represents, and how its replay
differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from keet.analysis.replay_gap import replay_gap
from keet.analysis.replay_gap_reasons import ReplayReasons
from keet.evidence import Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.launch_in_run import RunShapes, in_run_of, is_shorter, replay_difference
from keet.profile import Profile, RunPositions


def with_run(told: Iterable[LaunchExplanation], profile: Profile) -> Iterator[LaunchExplanation]:
    """Each launch with the part of the run that it represents, and whether its replay took as
    long."""
    positions = profile.in_run
    if positions is None or not positions.table.busy_ns:
        return iter(told)
    reasons, shapes = ReplayReasons(profile, positions), RunShapes(profile, positions)
    return _reasons_once(_launch_with_run(each, positions, reasons, shapes) for each in told)


def _reasons_once(told: Iterable[LaunchExplanation]) -> Iterator[LaunchExplanation]:
    seen: dict[tuple[tuple[str, str], ...], int] = {}
    for each in told:
        if each.replay is None:
            yield each
            continue
        said = tuple((reason.status, reason.text) for reason in each.replay.open_reasons)
        first = seen.setdefault(said, each.launch.id)
        as_for = None if first == each.launch.id or not said else first
        yield each._replace(replay=replace(each.replay, as_for=as_for))


def _launch_with_run(
    each: LaunchExplanation, positions: RunPositions, reasons: ReplayReasons, shapes: RunShapes
) -> LaunchExplanation:
    position = positions.of(each.launch.id)
    if position is None:
        return each
    found = in_run_of(each.view, position, shapes)
    gap = replay_gap(each.launch, position)
    differs = gap and replay_difference(each.view, gap, position, found, (reasons, shapes))
    told = each._replace(in_run=found, replay=differs)
    if found.plain is None or not is_shorter(each.launch, position, found.plain):
        return told
    # The finding about a short kernel names the time under ncu; add the one in the run.
    duration = each.view.get("duration")
    added = Sentence(" under ncu ({plain} in the run)", plain=found.plain).parts
    findings = (
        replace(f, text=Sentence.of((*f.text.parts[:2], *added, *f.text.parts[2:])))
        if f.id == "launch_bound" and duration and f.text.ids[0] == duration.id
        else f
        for f in each.findings
    )
    return told._replace(findings=tuple(findings))
