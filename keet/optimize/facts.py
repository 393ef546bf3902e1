"""What keet knows of a measured program: its report explained, what its kernels take, what is left
to gain, and what changed from one program to the next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.several_launches.program_amounts import program_amounts
from keet.collect.plain_run import recorded_run
from keet.collect.recorder import read_recording
from keet.comparison.compare import compare
from keet.comparison.sides import Side, SideCapture
from keet.errors import KeetError, one_line
from keet.evidence import Sentence, constant
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats import page_text
from keet.formatting import count_noun
from keet.optimize.judging import counts
from keet.optimize.protocol import Result, Run, VariantResult
from keet.optimize.task import Task
from keet.pages.amounts import short_rows
from keet.pages.context import context_text
from keet.pages.diff import diff_page
from keet.profile import Profile
from keet.profile.launch_sequences import representative
from keet.profile.run_table import RunTable
from keet.report import read_profile
from keet.units import Quantity

_FINDINGS = 5
_CONTEXT_TOKENS = 5000
"""Of all kernels together. One alone rarely has so much to tell."""
_LEAST_TOKENS, _LEAST_SHARE = 400, 0.05
"""A kernel with less than that share of the time is only listed."""
_OF_ANY_DESIGN = ("bytes_once", "arithmetic")
_DIFF_LINES = 40
_KERNELS = 12
_OF_PROGRAM = 4
"""Texts of each kind about the launches together."""


class Facts(NamedTuple):
    """Of one program. Empty texts: not known, for lack of a profile."""

    kernels: str = ""
    """Its kernels by time, as a list."""
    amounts: str = ""
    """How much work is done, and how much is needed."""
    limits: str = ""
    """What limits the present way of doing it."""
    left: Left | None = None


class Left(NamedTuple):
    """What is left to gain."""

    percent: float
    """Of the time of the explained kernels: the larger one of what fixing all findings would save,
    and what is above the least time of the amounts."""
    is_bounded: bool
    """Whether the least time is known for all kernels; if not, a redesign may gain more."""
    text: Sentence


class ReadReport(NamedTuple):
    profile: Profile
    explanation: Explanation


def read_report(
    task: Task, variant: VariantResult, result_folder: Path, name: str, known: set[str]
) -> ReadReport | None:
    """Explained for the kernels whose time counts. None without a profile of them. Reports of
    damaged or hostile results are left out: they are an addition to the times."""
    path = result_folder / f"{name}.ncu-rep"
    if not path.exists():
        return None
    try:
        profile = read_profile(path)
        where = profile.provenance._replace(path=path.name)  # paths of this machine are not sent
        profile = replace(profile, provenance=where)
        recorded = read_recording(result_folder / f"{name}.records").records
        if recorded:
            created = profile.provenance.created
            table = recorded_run(recorded, RunTable((), "cupti")).table
            profile = replace(profile, run=table._replace(report_created=created))
        kernels = {kernel[:2] for run in variant.runs for kernel in run.kernels}
        is_goal = {names[0]: counts(task, *names, known) for names in kernels}
        launches = [
            launch
            for launch in profile.launches
            if is_goal.get(launch.name.mangled, task.is_goal(launch.name.mangled, launch.name.full))
        ]
        return ReadReport(profile, explain(profile, launches, _FINDINGS)) if launches else None
    except (KeetError, OSError, ValueError):
        return None


def facts_of(task: Task, result: Result, folder: Path, name: str, known: set[str]) -> Facts:
    """`folder`: of the result. `known`: kernels of the original."""
    runs = result.variants[name].timed
    report = read_report(task, result.variants[name], folder, name, known)
    listed = kernel_list(task, runs, known)
    if report is None:
        return Facts(listed)
    left = left_to_gain(report.explanation)
    return Facts(listed, _amounts(task, report), _limits(report), left)


def kernel_list(task: Task, runs: Sequence[Run], known: set[str]) -> str:
    """Kernels by time, of the first timed run."""
    if not runs or not runs[0].kernels:
        return ""
    kernels = runs[0].kernels
    total = sum(kernel[3] for kernel in kernels) or 1
    lines = []
    for name, full, launches, nanoseconds in kernels[:_KERNELS]:
        time = Quantity(nanoseconds, "ns")
        share = 100 * nanoseconds / total
        aside = "" if counts(task, name, full, known) else " (not part of the task)"
        lines.append(
            f"- {share:.1f}%: {one_line(full[:200])}, {count_noun(launches, 'launch')}, "
            f"{time}{aside}"
        )
    if len(kernels) > _KERNELS:
        lines.append(f"- and {len(kernels) - _KERNELS} more")
    return "\n".join(lines)


def _amounts(task: Task, report: ReadReport) -> str:
    lines: list[str] = []
    launches = report.explanation.launches
    views = [launch.view for launch in launches if launch.view.code is not None]
    program = program_amounts(report.profile, views, Ledger())
    if program is not None:
        of_data = (program.states, program.rereads, program.hand_overs)
        every = [program.texts, *([row.text for row in some] for some in of_data)]
        if task.kernel is not None:  # the others are about the whole program
            every = every[-1:]
        for texts in every:
            lines += [f"- {text}" for text in texts[:_OF_PROGRAM]]
    for each in {launch.launch.name: launch for launch in reversed(launches)}.values():
        amounts = each.main_amounts
        rows = [*short_rows(amounts)] if amounts else []
        if rows:
            lines += ["", f"{each.launch.kernel}:"]
            lines += [f"- {label}: {text}" for label, text in rows]
    return "\n".join(lines).strip()


def _limits(report: ReadReport) -> str:
    """Of each kernel that takes much of the time: as many tokens as its share of it."""
    explanation, texts = report.explanation, list[str]()
    explained = {launch.launch.id: launch for launch in explanation.launches}
    total = sum(map(_weight, explained.values()))
    for group in report.profile.groups_by_time(each.launch for each in explained.values()):
        share = sum(_weight(explained[each.id]) for each in group) / (total or 1)
        if texts and share < _LEAST_SHARE:
            break
        one = explanation._replace(launches=(explained[representative(group).id],))
        budget = max(_LEAST_TOKENS, round(share * _CONTEXT_TOKENS))
        texts.append(context_text(one, budget, of=len(group), launch_only=True))
        explanation = explanation._replace(across=())  # told once
    return "\n\n".join(text.strip() for text in texts)


def _weight(each: LaunchExplanation) -> float:
    """Share of the run, or duration where the run was not recorded."""
    return each.in_run.share_pct if each.in_run else each.view.value("duration") or 0.0


# --- what is left


def left_to_gain(explanation: Explanation) -> Left | None:
    """None if no explained launch has a duration."""
    weights, saved, above = [], [], []
    for launch in explanation.launches:
        duration = launch.view.value("duration")
        if not duration:
            continue
        weights.append(_weight(launch))
        saved.append(_saved_by_findings(launch))
        above.append(_above_least_time(launch, duration))
    total = sum(weights)
    if not total:
        return None
    by_findings = sum(w * s for w, s in zip(weights, saved)) / total
    known = [(w, a) for w, a in zip(weights, above) if a is not None]
    by_bounds = sum(w * a for w, a in known) / total
    percent = 100 * max(by_findings, by_bounds)
    is_bounded = len(known) == len(weights)
    text = Sentence(
        "fixing all findings would save {findings:.0f} of the time; {bounds}",
        findings=constant(100 * by_findings, "%", "saved by findings"),
        bounds=Sentence(
            "{share:.0f} of it is above the least time for the work that is needed",
            share=constant(100 * by_bounds, "%", "above the least time"),
        )
        if is_bounded
        else "the least time for the work that is needed is not known",
    )
    return Left(percent, is_bounded, text)


def _saved_by_findings(each: LaunchExplanation) -> float:
    forecast = each.all_fixed or (each.findings[0].forecast if each.findings else None)
    is_known = forecast is not None and forecast.is_known and forecast.likely > 0
    return max(0.0, 1 - 1 / forecast.likely) if forecast and is_known else 0.0


def _above_least_time(each: LaunchExplanation, duration: float) -> float | None:
    """Share of the launch's time above the bounds that hold for any design with this arithmetic and
    these bytes; None if none is known."""
    amounts = each.main_amounts
    known = [b.us for b in amounts.bounds if b.id in _OF_ANY_DESIGN] if amounts else []
    return max(0.0, 1 - 1e3 * max(known) / duration) if known else None


# --- what changed


def diff_text(before: Profile, after: Profile) -> str:
    """The page of `keet diff` in Markdown; empty if the two can't be compared."""
    sides = (Side((SideCapture(each, each.launches),)) for each in (before, after))
    try:
        difference = compare(*sides)
    except (KeetError, ValueError):
        return ""
    if difference.forbidden:
        return ""
    return page_text(lambda reader: diff_page(difference, reader, _KERNELS), "markdown")


def short_diff_text(text: str) -> str:
    """The beginning, which has the times and the causes, without what is said of the program as it
    is now: the prompt has that elsewhere."""
    lines = [row for row in text.splitlines() if not row.startswith(("- **Next:**", "- **Do:**"))]
    shown = "\n".join([*lines[:_DIFF_LINES], *(["…"] if len(lines) > _DIFF_LINES else [])])
    return re.sub("</?(details|summary|code)>", "", shown)
