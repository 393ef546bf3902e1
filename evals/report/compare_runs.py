"""Compares a run with an earlier one, prompt by prompt: what became better, what became worse.

Only prompts that were scored in both are compared. Other differences (prompt texts, model) are
listed; the reader has to judge whether they explain the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Generic, NamedTuple, Protocol, TypeVar

from evals.bootstrap import Interval, alone
from evals.optimize.changed_lines import GAIN
from evals.optimize.measured_file import read_machines
from evals.optimize.metrics import kept_speedup
from evals.optimize.scoring import OptimizeScore
from evals.report.documents import AgainstDocument, PairDocument, RunDocument
from evals.report.load_runs import Scored
from evals.runs import CONDITIONS, Condition
from keet.errors import UsageError


class Score(Protocol):
    """The common fields of both tasks' scores."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def sample(self) -> str: ...
    @property
    def condition(self) -> Condition: ...


_Score = TypeVar("_Score", bound=Score)


class Pair(NamedTuple, Generic[_Score]):
    before: _Score
    after: _Score


class Reading(NamedTuple, Generic[_Score]):
    """How the scores of a task are compared."""

    value: Callable[[_Score], float | None]
    """None: unscored."""
    word: Callable[[_Score], str]
    is_worse: Callable[[_Score, _Score], bool]
    """Whether the first is worse than the second."""
    rule: str
    """The same in words."""


def against(
    now: Sequence[_Score],
    earlier: Sequence[_Score],
    runs: tuple[Scored, Scored],
    reading: Reading[_Score],
) -> AgainstDocument:
    pairs = _pairs(now, earlier, reading, by_model=_shares_a_model(now, earlier))
    worse = [pair for pair in pairs if reading.is_worse(pair.after, pair.before)]
    better = [pair for pair in pairs if reading.is_worse(pair.before, pair.after)]
    here = [score for score in now if reading.value(score) is not None]
    there = [score for score in earlier if reading.value(score) is not None]
    return AgainstDocument(
        earlier=run_document(runs[1]),
        notes=tuple(_notes(now, earlier, runs)),
        pairs=len(pairs),
        rule=reading.rule,
        change=_changes(pairs, reading),
        regressions=tuple(_told(pair, reading) for pair in worse),
        gains=tuple(_told(pair, reading) for pair in better),
        only_here=len(here) - len(pairs),
        only_earlier=len(there) - len(pairs),
    )


def _shares_a_model(now: Sequence[_Score], earlier: Sequence[_Score]) -> bool:
    """If the runs share no model, each must have exactly one, so that the pairing is clear."""
    ours, theirs = {score.model for score in now}, {score.model for score in earlier}
    for models in (ours, theirs):
        if not ours & theirs and len(models) > 1:
            raise UsageError(
                f"the runs share no model, and which of {_named(models)} to hold to the other is "
                "open; name runs of one model each"
            )
    return bool(ours & theirs)


def run_document(scored: Scored) -> RunDocument:
    run = scored.run
    if run is None:
        return RunDocument(path=str(scored.path))
    return RunDocument(
        path=str(scored.path),
        created=run.created,
        keet=run.keet,
        prompt_version=run.prompt_version,
        machines=read_machines(scored.path),
    )


def _pairs(
    now: Sequence[_Score], earlier: Sequence[_Score], reading: Reading[_Score], *, by_model: bool
) -> list[Pair[_Score]]:
    """By prompt and model; only by prompt if one model replaced another."""

    def key(score: _Score) -> tuple[str, str]:
        return (score.model if by_model else "", score.id)

    before = {key(score): score for score in earlier if reading.value(score) is not None}
    scored = [score for score in now if reading.value(score) is not None]
    return [Pair(before[key(score)], score) for score in scored if key(score) in before]


def _changes(pairs: Sequence[Pair[_Score]], reading: Reading[_Score]) -> dict[Condition, Interval]:
    changes: dict[Condition, Interval] = {}
    for condition in CONDITIONS:
        own = [pair for pair in pairs if pair.after.condition == condition]
        if own:
            changes[condition] = alone([[gap] for gap in _gaps(own, reading)])
    return changes


def _gaps(pairs: Sequence[Pair[_Score]], reading: Reading[_Score]) -> Iterator[float]:
    """One value per sample: attempts are averaged first."""
    grouped: dict[str, list[float]] = {}
    for before, after in pairs:
        gap = _scored_value(after, reading) - _scored_value(before, reading)
        grouped.setdefault(after.sample, []).append(gap)
    for gaps in grouped.values():
        yield fmean(gaps)


def _scored_value(score: _Score, reading: Reading[_Score]) -> float:
    value = reading.value(score)
    assert value is not None, f"{score.id} is unscored, and pairs are of scored ones"
    return value


def _told(pair: Pair[_Score], reading: Reading[_Score]) -> PairDocument:
    return PairDocument(
        id=pair.after.id,
        model=pair.after.model,
        before=reading.word(pair.before),
        after=reading.word(pair.after),
    )


def _notes(
    now: Sequence[_Score], earlier: Sequence[_Score], runs: tuple[Scored, Scored]
) -> Iterator[str]:
    here, there = run_document(runs[0]), run_document(runs[1])
    if there.prompt_version is None:
        yield "of the earlier run only its scores are here: its prompt version is not known"
    elif there.prompt_version != here.prompt_version:
        yield f"other prompts: {here.prompt_version} here, {there.prompt_version} earlier"
    if there.keet is not None and there.keet != here.keet:
        yield f"another keet: {here.keet} here, {there.keet} earlier"
    if _gpus(there) and _gpus(here) != _gpus(there):
        yield f"another GPU: {_named(_gpus(here))} here, {_named(_gpus(there))} earlier"
    ours, theirs = {score.model for score in now}, {score.model for score in earlier}
    if ours != theirs:
        yield f"other models: {_named(ours)} here, {_named(theirs)} earlier"


def _gpus(run: RunDocument) -> set[str]:
    return {machine.gpu or "unknown" for machine in run.machines}


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "unknown"


# --- optimize


def _level(score: OptimizeScore) -> float | None:
    return None if score.status is None else math.log2(kept_speedup(score.speedup))


def word_of(score: OptimizeScore) -> str:
    if score.status is None:
        return "unscored"
    return score.status if score.speedup is None else f"{score.speedup:.2f}x"


def _is_worse(after: OptimizeScore, before: OptimizeScore) -> bool:
    """It no longer passes, or is slower by 10 % and by more than the spread of rounds."""
    if before.speedup is None or after.speedup is None:
        return before.speedup is not None
    return after.speedup * GAIN < before.speedup and _apart(after, before)


def _apart(low: OptimizeScore, high: OptimizeScore) -> bool:
    if low.speedup_high is None or high.speedup_low is None:
        return True
    return low.speedup_high < high.speedup_low


_RULE = f"it no longer passes, or is slower by more than {GAIN:g}x and beyond the spread of rounds"
OPTIMIZE: Reading[OptimizeScore] = Reading(_level, word_of, _is_worse, _RULE)
