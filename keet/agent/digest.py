"""What a model is given unasked: the analyst's findings, and what it would surely ask for next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet_tools.analyst_findings import ACCOUNT, account_lines
from keet_tools.case import Case
from keet_tools.registry import call_tool
from keet_tools.telling import Telling

from keet.comparison.difference import PairDifference
from keet.evidence import Evidence
from keet.explanation.analyst import LaunchExplanation
from keet.profile import shape_text

_AHEAD = ("analyst_findings", "check_roofline", "source_hotspots", "stall_reasons")
"""Most kernels need no more than these."""
_FACTS = (
    "duration",
    "registers_per_thread",
    "shared_memory_static",
    "shared_memory_dynamic",
    "waves_per_sm",
    "theoretical_occupancy_pct",
    "achieved_occupancy_pct",
    "active_threads_per_warp",
    "spilling_requests",
)


_LEAST_BUSY = 3.0
"""Per cent of its peak: a unit below it has no part in the matter."""


def digest(case: Case) -> str:
    """Of the launch in focus."""
    each = case.launch()
    told = [f"launch: {', '.join(_facts(each))}", f"busy: {', '.join(_units(each))}"]
    answers = {name: call_tool(case, name, {}).text for name in _AHEAD}
    if not any(ACCOUNT in answer for answer in answers.values()):
        told += ["\n".join(account_lines(each, Telling()))]
    told += [f"{name}:\n{answer}" for name, answer in answers.items()]
    if len(case.explanations) > 1:
        told.append(f"diff_profiles, report 1 is before and 0 after:\n{_changes(case)}")
    if not any(each.launch.source_files.values()):
        told.append(f"read_sass:\n{call_tool(case, 'read_sass', {}).text}")
    return "\n\n".join(told)


def _changes(case: Case) -> str:
    """From the report that this one is held against; of the launch in focus where it has a
    counterpart by itself, else of the reports."""
    launch = case.launch().launch.id
    pairs = case.difference(1, 0, (None, None)).pairs
    ids = next((_one_to_one(pair) for pair in pairs if _one_to_one(pair)[1:] == (launch,)), ())
    chosen = {"before_launch": ids[0], "after_launch": ids[1]} if ids else {}
    return call_tool(case, "diff_profiles", {"before": 1, "after": 0, **chosen}).text


def _one_to_one(pair: PairDifference) -> tuple[int, ...]:
    """A launch before and its counterpart after, where each is one."""
    groups = (*pair.pairing.before, *pair.pairing.after)
    alone = len(groups) == 2 and all(len(group.launches) == 1 for group in groups)
    return tuple(group.launches[0].id for group in groups) if alone else ()


def _facts(each: LaunchExplanation) -> Iterator[str]:
    launch = each.launch
    for name, shape in (("grid", launch.grid), ("block", launch.block)):
        if shape:
            yield f"{name} {shape_text(shape)}"
    for metric in _FACTS:
        piece = each.view.get(metric)
        if piece is not None:
            yield f"{piece.label} {piece} [{piece.id}]"


def _units(each: LaunchExplanation) -> Iterator[str]:
    """Shares of peak over the whole launch, idle SMs included."""
    for ceiling in each.ceilings:
        if ceiling.reached.value >= _LEAST_BUSY:
            yield f"{ceiling.spoken} {ceiling.reached:.1f} [{ceiling.reached.id}]"


def overview(case: Case) -> str:
    """Of every report, for a question: its launches, and the findings of the longest."""
    return "\n\n".join(_report(case, number) for number in range(len(case.explanations)))


def _report(case: Case, number: int) -> str:
    name = f"report {number}" if len(case.explanations) > 1 else "the report"
    launches = call_tool(case, "list_launches", {"report": number}).text
    each = case.launch(None, number)
    chosen = {"report": number, "launch": each.launch.id}
    findings = call_tool(case, "analyst_findings", chosen).text
    facts = ", ".join(_facts(each))
    return f"{name}:\n{launches}\nlaunch {each.launch.id} of {name}: {facts}\n{findings}"


def evidence_lines(evidence: Sequence[Evidence]) -> str:
    return "\n".join(
        f"{piece.id} {piece.label}{f' at {piece.line}' if piece.line else ''}: {piece}"
        for piece in evidence
    )
