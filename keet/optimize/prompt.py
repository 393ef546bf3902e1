"""The prompt of a round.

It says first how much work is needed, and only then what limits the present way of doing it: models
that see a profile alone tune the present design, and models without one redesign it.

First what keet knows of a measured program: its report explained, what its kernels take, what is
left to gain, and what changed from one program to the next. Then the prompt that is made of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from keet.analysis.ledger import Ledger
from keet.analysis.several_launches.program_amounts import program_amounts
from keet.collect.plain_run import recorded_run
from keet.collect.recorder import read_recording
from keet.comparison.compare import compare
from keet.comparison.same_kernel import Side, SideCapture
from keet.errors import KeetError, one_line
from keet.evidence import Sentence, constant
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats import page_text
from keet.formatting import count_noun, guess_tokens
from keet.masking.keys import scrub
from keet.optimize.judging import counts
from keet.optimize.measure import paths_in
from keet.optimize.runners import ProfileOutcome, Result, Run, VariantResult, shown_output
from keet.optimize.task import OutputRule, Overlay, Task, text_of
from keet.pages.amounts import short_rows
from keet.pages.blocks import language, longest_run
from keet.pages.context import context_text
from keet.pages.diff import diff_page
from keet.profile import Profile
from keet.profile.run_link import representative
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


def read_report(
    task: Task, variant: VariantResult, result_folder: Path, name: str, known: set[str]
) -> Explanation | None:
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
        return explain(profile, launches, _FINDINGS) if launches else None
    except (KeetError, OSError, ValueError):
        return None


def facts_of(task: Task, result: Result, folder: Path, name: str, known: set[str]) -> Facts:
    """`folder`: of the result. `known`: kernels of the original."""
    runs = result.variants[name].timed
    explained = read_report(task, result.variants[name], folder, name, known)
    listed = kernel_list(task, runs, known)
    if explained is None:
        return Facts(listed)
    left = left_to_gain(explained)
    return Facts(listed, _amounts(task, explained), _limits_of(explained), left)


def kernel_list(task: Task, runs: Sequence[Run], known: set[str]) -> str:
    """Kernels by time, of the first timed run."""
    if not runs or not runs[0].kernels:
        return ""
    kernels = runs[0].kernels
    total = sum(kernel[3] for kernel in kernels) or 1
    lines = []
    for name, full, launches, nanoseconds in kernels[:_KERNELS]:
        took = f"{count_noun(launches, 'launch')}, {Quantity(nanoseconds, 'ns')}"
        aside = "" if counts(task, name, full, known) else " (not part of the task)"
        lines.append(f"- {100 * nanoseconds / total:.1f}%: {one_line(full[:200])}, {took}{aside}")
    more = [f"- and {len(kernels) - _KERNELS} more"] * (len(kernels) > _KERNELS)
    return "\n".join(lines + more)


def _amounts(task: Task, explanation: Explanation) -> str:
    lines: list[str] = []
    launches = explanation.launches
    views = [launch.view for launch in launches if launch.view.code is not None]
    program = program_amounts(explanation.profile, views, Ledger())
    if program is not None:
        of_data = (program.states, program.rereads, program.hand_overs)
        every = [program.texts, *([row.text for row in some] for some in of_data)]
        if task.kernel is not None:  # the others are about the whole program
            every = every[-1:]
        for texts in every:
            lines += [f"- {text}" for text in texts[:_OF_PROGRAM]]
    for each in {launch.launch.name: launch for launch in reversed(launches)}.values():
        if each.main_amounts and (rows := [*short_rows(each.main_amounts)]):
            lines += ["", f"{each.launch.kernel}:"]
            lines += [f"- {label}: {text}" for label, text in rows]
    return "\n".join(lines).strip()


def _limits_of(explanation: Explanation) -> str:
    """Of each kernel that takes much of the time: as many tokens as its share of it."""
    texts: list[str] = []
    explained = {launch.launch.id: launch for launch in explanation.launches}
    total = sum(map(_weight, explained.values()))
    for group in explanation.profile.groups_by_time(each.launch for each in explained.values()):
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
    timed = [launch for launch in explanation.launches if launch.view.value("duration")]
    total = sum(map(_weight, timed))
    if not total:
        return None
    by_findings = sum(_weight(each) * _saved_by_findings(each) for each in timed) / total
    above = [(_weight(each), _above_least_time(each)) for each in timed]
    by_bounds = sum(weight * (share or 0.0) for weight, share in above) / total
    percent = 100 * max(by_findings, by_bounds)
    is_bounded = all(share is not None for _, share in above)
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


def _above_least_time(each: LaunchExplanation) -> float | None:
    """Share of the launch's time above the bounds that hold for any design with this arithmetic and
    these bytes; None if none is known."""
    amounts, duration = each.main_amounts, each.view.value("duration") or math.inf
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
    shown = [*lines[:_DIFF_LINES], *["…"] * (len(lines) > _DIFF_LINES)]
    return re.sub("</?(details|summary|code)>", "", "\n".join(shown))


# --- the prompt

_HOST_COUNTS = (
    "- Work that only moves to the host is no gain: a change is refused if the whole program, with "
    "its start and its allocations, clearly takes longer than before, or if it does not become "
    "faster by a good part of what the kernels save."
)
_OUTPUT_CHARS = 1500
_DIFF_CHARS = 4000
_SOURCE_TOKENS = 24_000
_LISTED_FILES = 200


class Tried(NamedTuple):
    """An earlier round, as the next prompt tells it."""

    number: int
    outcome: str
    reason: str
    summary: str
    """The proposer's words."""
    output: str
    patch: str
    diff: str
    """What it did, by the profiles; empty if it was not measured."""


class PromptFacts(NamedTuple):
    """All that a prompt may carry."""

    task: Task
    number: int
    gpu: str | None
    folder: Path
    """The source as it is now."""
    overlay: Overlay
    """What earlier rounds changed."""
    now: Facts
    """Of the source as it is now."""
    speedup: float
    """Of the source as it is now, compared with the original."""
    tried: Sequence[Tried]
    answer: str
    """How the proposer has to answer."""
    profile: ProfileOutcome | None
    """Of the source as it is now; None: it was not profiled."""
    files: Path
    """What its files of the measurement begin with: `.details.txt` and others follow."""


def build_prompt(facts: PromptFacts) -> str:
    return prompt_with(facts, _limits(facts.now))


def prompt_with(facts: PromptFacts, profile: str) -> str:
    """`profile`: the part about the profile; may be empty. Without keys: outputs of programs may
    contain what is in the environment."""
    now = _task(facts.task, facts.gpu), _work(facts), _time(facts)
    parts = *now, *_history(facts), profile, _source(facts), facts.answer
    return scrub("\n\n".join(part for part in parts if part)) + "\n"


def _task(task: Task, gpu: str | None) -> str:
    goal = "the whole program takes as little time as possible"
    if task.goal == "gpu":
        goal = "the GPU kernels of the whole program take as little time as possible together"
    if task.goal == "gpu" and task.kernel:
        goal = f"the kernels that match `{task.kernel}` take as little time as possible"
        goal += " (new kernels count, too, and all kernels together must not become slower)"
    lines = [
        "# Task",
        "",
        f"Change this program so that {goal}{f' on {gpu}' if gpu else ''}, and stays correct.",
        "",
        f"- Build: `{task.build}`",
        f"- Run: `{task.run}`",
        *([f"- Check: `{task.check}` has to exit with 0 after every run"] if task.check else []),
        *(f"- Output {_named(rule)}" for rule in task.outputs),
        f"- Only these files may change: {', '.join(f'`{each}`' for each in task.may_change)}",
        "- Every run is checked and starts in a fresh copy of the folder. The times come from a "
        "recorder outside of the program. Keep doing all of the work in every run: results that "
        "are stored for a later run, changed inputs or checks, and anything that works around "
        "the measurement are refused.",
        *([_HOST_COUNTS] if task.goal == "gpu" and task.wall_check else []),
    ]
    return "\n".join(lines)


def _named(rule: OutputRule) -> str:
    name = "on standard output" if rule.file == "-" else f"`{rule.file}`"
    if rule.type == "bytes" or not (rule.relative or rule.absolute):
        return f"{name} ({rule.type}): exactly as before"
    return f"{name} ({rule.type}): within {rule.absolute:g} + {rule.relative:g} * |value|"


def _work(facts: PromptFacts) -> str:
    known = facts.now.amounts or "Not measured: count it from the source."
    return (
        "# How much work is needed\n\n"
        "Before you look at what limits the program, ask how much work the result needs at all, "
        "and whether another algorithm, data layout, precision (within the tolerance), fusion of "
        "kernels or division of the work does less. A new design may gain more than any tuning of "
        f"the present one. What is done now:\n\n{known}"
    )


def _time(facts: PromptFacts) -> str:
    gained = facts.speedup
    so_far = f"It is {gained:.2f} times as fast as the original by now.\n\n" if gained != 1 else ""
    if not (facts.now.kernels or so_far):
        return ""
    return f"# Where the GPU time goes\n\n{so_far}{facts.now.kernels}".rstrip()


def _limits(now: Facts) -> str:
    if not now.limits:
        return ""
    left = f"\n\nIn short: {now.left.text}." if now.left else ""
    limits = re.sub("^(?=#+ )", "#", now.limits, flags=re.MULTILINE)
    return f"# What limits the present way of doing it\n\n{limits}{left}"


def _history(facts: PromptFacts) -> Iterator[str]:
    if not facts.tried:
        return
    last = facts.tried[-1]
    lines = [f"# What the last change did\n\nRound {last.number}, {_in_words(last)}"]
    if last.diff:
        lines.append(short_diff_text(last.diff))
    elif last.output:
        lines.append(block(shown_output(last.output, _OUTPUT_CHARS), "text"))
    if last.outcome != "kept" and last.patch:
        cut = "\n[...]" if len(last.patch) > _DIFF_CHARS else ""
        patch = block(last.patch[:_DIFF_CHARS] + cut, "diff")
        lines += ["The change, which was undone:", patch]
    yield "\n\n".join(lines)
    for is_kept in (True, False):
        rounds = [each for each in facts.tried[:-1] if (each.outcome == "kept") is is_kept]
        listed = "\n".join(f"- Round {each.number}: {_in_words(each)}" for each in rounds)
        if rounds:
            wish = "" if is_kept else "\n\nDo not propose these again as they are."
            yield f"# What was {'kept' if is_kept else 'dropped'} before\n\n{listed}{wish}"


def _in_words(tried: Tried) -> str:
    what = f" It was: {tried.summary}" if tried.summary else ""
    return f"{tried.outcome.replace('_', ' ')}: {tried.reason}.{what}"


def _source(facts: PromptFacts) -> str:
    """Files that may change in full, then others that fit; the names of all."""
    every = sorted(paths_in(facts.folder))
    changeable = {path for path in every if facts.task.is_changeable(path)}
    shown: dict[str, str] = {}
    left = _SOURCE_TOKENS
    for path in sorted(every, key=lambda path: path not in changeable):
        text = text_of(facts.folder / path)
        if text is not None and (tokens := guess_tokens(text)) <= left:
            shown[path] = text
            left -= tokens
    parts = ["# Files"]
    for path, text in shown.items():
        aside = "" if path in changeable else " (may not change)"
        parts.append(f"`{one_line(path)}`{aside}:\n\n{block(text.rstrip(), language(path, ''))}")
    if names := [path for path in every if path not in shown]:
        more = f" and {len(names) - _LISTED_FILES} more" if len(names) > _LISTED_FILES else ""
        listed = ", ".join(f"`{one_line(name)}`" for name in names[:_LISTED_FILES])
        parts.append(f"Files that are not shown: {listed}{more}")
    return "\n\n".join(parts)


def block(text: str, language: str) -> str:
    """A code block that its text can't close. Tabs stay: they are part of the source."""
    ticks = "`" * max(3, 1 + longest_run(text))
    return f"{ticks}{language}\n{text}\n{ticks}"
