"""Compares a run with an earlier one, prompt by prompt: what became better, what became worse.

Only prompts that were scored in both are compared. Other differences (prompt texts, model) are
listed; the reader has to judge whether they explain the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from evals.bootstrap import Interval, alone
from evals.mcq.scoring import McqScore
from evals.report.documents import AgainstDocument, PairDocument, RunDocument
from evals.report.load_runs import Scored
from evals.runs import CONDITIONS, Condition
from keet.errors import UsageError


class Pair(NamedTuple):
    before: McqScore
    after: McqScore


def against(
    now: Sequence[McqScore], earlier: Sequence[McqScore], runs: tuple[Scored, Scored]
) -> AgainstDocument:
    here, there = (_scored(scores) for scores in (now, earlier))
    pairs = _pairs(here, there, by_model=_shares_a_model(now, earlier))
    outcomes = [(pair.before.outcome, pair.after.outcome) for pair in pairs]
    return AgainstDocument(
        earlier=run_document(runs[1]),
        notes=tuple(_notes(now, earlier, runs)),
        pairs=len(pairs),
        rule="right before, wrong now",
        change=_changes(pairs),
        regressions=tuple(_told(p) for p, o in zip(pairs, outcomes) if o == ("right", "wrong")),
        gains=tuple(_told(p) for p, o in zip(pairs, outcomes) if o == ("wrong", "right")),
        only_here=len(here) - len(pairs),
        only_earlier=len(there) - len(pairs),
    )


def _scored(scores: Sequence[McqScore]) -> list[McqScore]:
    return [score for score in scores if score.outcome != "unscored"]


def _shares_a_model(now: Sequence[McqScore], earlier: Sequence[McqScore]) -> bool:
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
    )


def _pairs(now: Sequence[McqScore], earlier: Sequence[McqScore], *, by_model: bool) -> list[Pair]:
    """By prompt and model; only by prompt if one model replaced another."""

    def key(score: McqScore) -> tuple[str, str]:
        return (score.model if by_model else "", score.id)

    before = {key(score): score for score in earlier}
    return [Pair(before[key(score)], score) for score in now if key(score) in before]


def _changes(pairs: Sequence[Pair]) -> dict[Condition, Interval]:
    changes: dict[Condition, Interval] = {}
    for condition in CONDITIONS:
        own = [pair for pair in pairs if pair.after.condition == condition]
        if own:
            changes[condition] = alone([[gap] for gap in _gaps(own)])
    return changes


def _gaps(pairs: Sequence[Pair]) -> Iterator[float]:
    """One value per sample: attempts are averaged first."""
    grouped: dict[str, list[float]] = {}
    for before, after in pairs:
        gap = float(after.outcome == "right") - float(before.outcome == "right")
        grouped.setdefault(after.sample, []).append(gap)
    for gaps in grouped.values():
        yield fmean(gaps)


def _told(pair: Pair) -> PairDocument:
    return PairDocument(
        id=pair.after.id,
        model=pair.after.model,
        before=_word(pair.before),
        after=_word(pair.after),
    )


def _word(score: McqScore) -> str:
    return f"{score.chosen} ({score.outcome})"


def _notes(
    now: Sequence[McqScore], earlier: Sequence[McqScore], runs: tuple[Scored, Scored]
) -> Iterator[str]:
    here, there = run_document(runs[0]), run_document(runs[1])
    if there.prompt_version is None:
        yield "of the earlier run only its scores are here: its prompt version is not known"
    elif there.prompt_version != here.prompt_version:
        yield f"other prompts: {here.prompt_version} here, {there.prompt_version} earlier"
    if there.keet is not None and there.keet != here.keet:
        yield f"another keet: {here.keet} here, {there.keet} earlier"
    ours, theirs = {score.model for score in now}, {score.model for score in earlier}
    if ours != theirs:
        yield f"other models: {_named(ours)} here, {_named(theirs)} earlier"


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "unknown"
