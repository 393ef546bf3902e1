"""What a measurement says about a proposal: kept, or dropped for which reason."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.documents.optimize import RoundOutcome
from keet.evidence import Sentence, constant
from keet.optimize.runners import Command, Result, Run, VariantResult, shown_output
from keet.optimize.task import Task

BEFORE, AFTER, ORIGINAL = "before", "after", "original"
"""Programs of a request. The original is there if outputs are compared with its outputs."""
_LEAST_GAIN = 0.005
"""A smaller gain is none, however small the noise of a few runs happens to be."""
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by degrees of freedom from 1."""
_SEEN_SHARE, _CLEAR = 0.25, 3.0
"""At least this share of the saved GPU time has to be missing in the program's time, if the saved
time is so many times the noise; a slower program is one by so many times the noise. Chosen by
judgement."""


class Times(NamedTuple):
    """A comparison of paired runs. Times in microseconds (medians)."""

    before: float
    after: float
    speedup: float
    """Mean of the ratios of neighbouring runs."""
    noise: float
    """Half of the 95 % interval of `speedup`, as a share of it."""

    @property
    def is_faster(self) -> bool:
        return math.log(self.speedup) > max(self.noise, _LEAST_GAIN)

    @property
    def is_slower(self) -> bool:
        return -math.log(self.speedup) > max(self.noise, _LEAST_GAIN)


class Judgement(NamedTuple):
    outcome: RoundOutcome
    reason: Sentence
    times: Times | None = None
    output: str = ""
    """Of the compiler, the program or the check."""


def compare_times(before: Sequence[float], after: Sequence[float]) -> Times | None:
    """None if a time is missing. Runs are paired as they were made, so that a GPU that becomes warm
    changes both."""
    pairs = [pair for pair in zip(before, after) if min(pair) > 0]
    if not pairs or len(pairs) < len(before) or len(before) != len(after):
        return None
    ratios = [math.log(old / new) for old, new in pairs]
    error = math.inf
    if len(ratios) > 1:
        quantile = _T[min(len(ratios) - 2, len(_T) - 1)]
        error = quantile * statistics.stdev(ratios) / math.sqrt(len(ratios))
    old, new = (statistics.median(some) / 1e3 for some in (before, after))
    return Times(old, new, math.exp(statistics.fmean(ratios)), error)


def goal_times(task: Task, variant: VariantResult, known: set[str]) -> list[float]:
    """Nanoseconds of each timed run that the goal counts. `known`: kernels of the original. One
    that is not among them counts in any case: renaming a kernel must not hide it."""
    if task.goal == "wall":
        return [run.seconds * 1e9 for run in variant.timed]
    if task.kernel is None:
        return [float(run.busy_ns or 0) for run in variant.timed]
    return [
        float(sum(ns for name, full, _, ns in run.kernels if counts(task, name, full, known)))
        for run in variant.timed
    ]


def counts(task: Task, name: str, full: str, known: set[str]) -> bool:
    return known.isdisjoint((name, full)) or task.is_goal(name, full)


def kernels_of(variant: VariantResult) -> set[str]:
    """Mangled and full names: only the latter stay the same in an anonymous namespace."""
    return {name for run in variant.runs for kernel in run.kernels for name in kernel[:2]}


def judge(task: Task, result: Result, known: set[str]) -> Judgement:
    """Of the program `after`, compared with `before`. `known`: kernels of the original."""
    after = result.variants[AFTER]
    references = [result.variants[name] for name in (ORIGINAL, BEFORE) if name in result.variants]
    reference = next((problem for each in references if (problem := problem_of(each))), None)
    if reference is not None:
        words = "the program as it was before this round failed, too: {why}"
        reason = Sentence(words, why=reference.reason)
        return Judgement("not_measured", reason, None, reference.output)
    return problem_of(after) or _judge_times(task, result, known)


def problem_of(variant: VariantResult) -> Judgement | None:
    """Why a program can't be timed: it does not build, fails, or is wrong."""
    if variant.build is None:
        return Judgement("not_measured", Sentence("it was not built"))
    return _problem_of_command("the build", variant.build, "no_build", variant.tampered) or next(
        (problem for run in variant.runs if (problem := _problem_of_run(run))), None
    )


def _problem_of_run(run: Run) -> Judgement | None:
    if problem := _problem_of_command("the run", run, "failed", run.tampered):
        return problem
    wrong = [
        f"{'standard output' if output.file == '-' else output.file}: {output.problem}"
        for output in run.outputs
        if output.problem
    ]
    if wrong:
        why = Sentence("an output differs from that of the original by more than the tolerance")
        return Judgement("wrong", why, None, "\n".join(wrong))
    return _problem_of_command("the check", run.check, "wrong") if run.check else None


def _problem_of_command(
    what: str, done: Command | Run, failed: RoundOutcome, tampered: Sequence[str] = ()
) -> Judgement | None:
    """`failed`: the outcome if it ends with an error. `tampered`: files that it changed although
    they may not change."""
    if done.timed_out:
        return Judgement("too_long", Sentence("{what} took too long", what=what), None, done.output)
    if done.exit:
        number = constant(abs(done.exit), "", "exit code" if done.exit > 0 else "signal")
        words = "failed with exit code" if done.exit > 0 else "was ended by signal"
        why = Sentence(f"{{what}} {words} {{number}}", what=what, number=number)
        return Judgement(failed, why, None, done.output)
    if tampered:
        words = "{what} changes files that may not change: {files}"
        return Judgement("refused", Sentence(words, what=what, files=_listed(tampered)))
    return None


def _listed(names: Sequence[str]) -> str:
    return shown_output(", ".join(names[:5]), 300).replace("\n", " ")


def _judge_times(task: Task, result: Result, known: set[str]) -> Judgement:
    before, after = result.variants[BEFORE], result.variants[AFTER]
    times = compare_times(*(goal_times(task, side, known) for side in (before, after)))
    if times is None:
        return _not_timed(task, result, before, after)
    doubt = next(_doubts(task, before, after, times), None)
    if doubt is not None and times.is_faster:
        return Judgement("refused", doubt, times)
    noise = 100 * times.noise if math.isfinite(times.noise) else 100.0
    values = {
        "speedup": constant(times.speedup, "", "speed-up"),
        "change": constant(100 * (1 - 1 / times.speedup), "%", "change"),
        "slower": constant(100 * (1 / times.speedup - 1), "%", "additional time"),
        "noise": constant(noise, "%", "noise"),
    }
    outcome: RoundOutcome
    if times.is_faster:
        outcome, words = "kept", "{speedup:times} as fast as before this round"
    elif times.is_slower:
        outcome, words = "slower", "the time is {slower:.1f} longer than before this round"
    elif times.speedup < 1:
        outcome, words = "no_gain", "it takes {slower:.1f} longer; noise: {noise:.1f}"
    else:
        outcome, words = "no_gain", "it saves {change:.1f} of the time; noise: {noise:.1f}"
    return Judgement(outcome, Sentence(words, **values), times)


def _not_timed(
    task: Task, result: Result, before: VariantResult, after: VariantResult
) -> Judgement:
    if task.goal == "gpu" and result.recorder is None:
        words = "kernel times were not recorded: {why}"
        return Judgement("not_measured", Sentence(words, why=_listed([result.no_recorder])))
    if task.goal == "gpu" and not kernels_of(after) and kernels_of(before):
        return Judgement("refused", Sentence("no kernel launch was recorded any more"))
    return Judgement("not_measured", Sentence("not all runs have a time"))


def _doubts(
    task: Task, before: VariantResult, after: VariantResult, times: Times
) -> Iterator[Sentence]:
    """Why a gain is none: work that was only moved, or is not seen in the program's time."""
    wall = compare_times(*([run.seconds * 1e9 for run in v.timed] for v in (before, after)))
    if task.kernel is not None and task.goal == "gpu":
        whole = compare_times(*([float(r.busy_ns or 0) for r in v.timed] for v in (before, after)))
        if whole and whole.is_slower:
            yield Sentence("these kernels are faster, but all kernels together are slower")
    if wall is None or task.goal == "wall" or not task.wall_check:
        return
    clear = _CLEAR * max(wall.noise, _LEAST_GAIN)
    if -math.log(wall.speedup) > clear:  # by chance, one of 40 is slower by more than the noise
        yield Sentence(
            "the kernels are faster, but the program is slower ({wall:times} as fast)",
            wall=constant(wall.speedup, "", "speed-up"),
        )
    saved = times.before - times.after
    if saved > wall.before * clear and wall.before - wall.after < _SEEN_SHARE * saved:
        yield Sentence(
            "the recorded kernel times are {saved} less, but the program takes as long as before",
            saved=constant(saved, "us", "saved time"),
        )
