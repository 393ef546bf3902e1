"""Compares a scored run with an earlier one, prompt by prompt: part of `keet eval report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from evals.bootstrap import Interval, alone, clusters
from evals.mcq.scoring import McqScore
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell
from evals.runs import CONDITIONS, Condition, Record, Run, RunFolder, read_lines
from keet.errors import UsageError


class Scored(NamedTuple):
    """A run, or only its scores if the run is not available."""

    path: Path
    run: Run | None

    @property
    def scores_file(self) -> Path:
        return self.path / "scores.jsonl" if self.path.is_dir() else self.path

    @property
    def scores(self) -> list[McqScore]:
        if not self.scores_file.is_file():
            raise UsageError(
                f"{self.path} has no scores yet; score it first: keet eval score {self.path}"
            )
        if scores := list(read_lines(self.scores_file, McqScore)):
            return scores
        raise UsageError(
            f"{self.scores_file} is empty; score the run again: keet eval score {self.path}"
        )

    @property
    def document(self) -> RunDocument:
        run = self.run
        if run is None:
            return RunDocument(path=str(self.path))
        return RunDocument(
            path=str(self.path),
            created=run.created,
            keet=run.keet,
            prompt_version=run.prompt_version,
        )


def open_runs(paths: Sequence[Path]) -> list[Scored]:
    """Scores of other prompts must not be averaged."""
    runs = [Scored(path, RunFolder(path).run) for path in paths]
    versions = {scored.run.prompt_version: scored.path for scored in runs if scored.run}
    if len(versions) > 1:
        named = ", ".join(f"{path} has {version}" for version, path in versions.items())
        raise UsageError(
            f"the runs differ in prompt_version ({named}); report them apart, or hold one to the "
            "other with --against"
        )
    return runs


def open_earlier(path: Path) -> Scored:
    """The argument of --against: a run, or the scores.jsonl of one."""
    if path.is_dir():
        return Scored(path, RunFolder(path).run)
    if path.is_file():
        return Scored(path, None)
    raise UsageError(f"{path} is not there; name a run or its scores.jsonl")


class RunDocument(Record):
    """Where the scores come from."""

    path: str
    created: str | None = None
    keet: str | None = None
    prompt_version: str | None = None
    """None: only the scores are available."""


class PairDocument(Record):
    """One prompt in two runs."""

    id: str
    model: str
    before: str
    after: str


class AgainstDocument(Record):
    """This run compared with an earlier one, by prompt."""

    earlier: RunDocument
    notes: tuple[str, ...]
    """Other differences between the runs."""
    pairs: int
    rule: str
    """When a prompt counts as a regression; the reverse is a gain."""
    change: dict[Condition, Interval]
    """Share of right answers minus that of the earlier run."""
    regressions: tuple[PairDocument, ...]
    gains: tuple[PairDocument, ...]
    only_here: int
    only_earlier: int


def against(
    now: Sequence[McqScore], earlier: Sequence[McqScore], runs: tuple[Scored, Scored]
) -> AgainstDocument:
    here, there = (
        [score for score in scores if score.outcome != "unscored"] for scores in (now, earlier)
    )
    models, earlier_models = ({score.model for score in scores} for scores in (now, earlier))
    _check_pairing(models, earlier_models)
    shares_a_model = bool(models & earlier_models)

    def key(score: McqScore) -> tuple[str, str]:
        """By prompt and model; only by prompt if one model replaced another."""
        return (score.model if shares_a_model else "", score.id)

    before = {key(score): score for score in there}
    pairs = [(before[key(score)], score) for score in here if key(score) in before]
    changes = {condition: _change(pairs, condition) for condition in CONDITIONS}
    return AgainstDocument(
        earlier=runs[1].document,
        notes=tuple(_notes(runs, models, earlier_models)),
        pairs=len(pairs),
        rule="right before, wrong now",
        change={condition: change for condition, change in changes.items() if change},
        regressions=tuple(_changed(pairs, "right", "wrong")),
        gains=tuple(_changed(pairs, "wrong", "right")),
        only_here=len(here) - len(pairs),
        only_earlier=len(there) - len(pairs),
    )


Pairs = Sequence[tuple[McqScore, McqScore]]
"""The scores of a prompt before and after."""


def _check_pairing(models: set[str], earlier_models: set[str]) -> None:
    """If the runs share no model, each must have exactly one, so that the pairing is clear."""
    for several in (models, earlier_models):
        if not models & earlier_models and len(several) > 1:
            raise UsageError(
                f"the runs share no model, and which of {_named(several)} to hold to the other is "
                "open; name runs of one model each"
            )


def _change(pairs: Pairs, condition: Condition) -> Interval | None:
    """One value per sample: attempts are averaged first."""
    gaps = clusters(
        (pair for pair in pairs if pair[1].condition == condition),
        lambda pair: pair[1].sample,
        lambda pair: float(pair[1].outcome == "right") - float(pair[0].outcome == "right"),
    )
    return alone([[fmean(of_sample)] for of_sample in gaps]) if gaps else None


def _changed(pairs: Pairs, before: str, after: str) -> Iterator[PairDocument]:
    for old, new in pairs:
        if (old.outcome, new.outcome) == (before, after):
            told, now = (f"{score.chosen} ({score.outcome})" for score in (old, new))
            yield PairDocument(id=new.id, model=new.model, before=told, after=now)


def _notes(
    runs: tuple[Scored, Scored], models: set[str], earlier_models: set[str]
) -> Iterator[str]:
    here, there = (scored.document for scored in runs)
    if there.prompt_version is None:
        yield "of the earlier run only its scores are here: its prompt version is not known"
    elif there.prompt_version != here.prompt_version:
        yield f"other prompts: {here.prompt_version} here, {there.prompt_version} earlier"
    if there.keet is not None and there.keet != here.keet:
        yield f"another keet: {here.keet} here, {there.keet} earlier"
    if models != earlier_models:
        yield f"other models: {_named(models)} here, {_named(earlier_models)} earlier"


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "unknown"


def against_parts(beside: AgainstDocument) -> Iterator[Part]:
    yield Heading(f"Against {beside.earlier.path}")
    yield Prose(
        f"{beside.pairs} prompts scored in both; {beside.only_here} here only, "
        f"{beside.only_earlier} there only. Change of the share of right answers:"
    )
    if beside.notes:
        yield Points(beside.notes)
    rows = [(name, interval_cell(change)) for name, change in beside.change.items()]
    yield Table([("condition", "change"), *rows])
    yield Prose(f"Regressions ({beside.rule}): {len(beside.regressions)} of {beside.pairs}")
    yield Points(list(_pair_lines(beside.regressions)))
    yield Prose(f"Gains (the other way round): {len(beside.gains)} of {beside.pairs}")
    yield Points(list(_pair_lines(beside.gains)))


def _pair_lines(pairs: Sequence[PairDocument]) -> Iterator[str]:
    for pair in pairs:
        yield f"{pair.id} ({pair.model}): {pair.before} to {pair.after}"
