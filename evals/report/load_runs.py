"""Loads scored runs that are reported together: with the same prompts, each once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evals.mcq.scoring import McqScore
from evals.runs import Run, RunFolder, read_lines
from keet.errors import UsageError


class Scored(NamedTuple):
    """A run, or only its scores if the run is not available."""

    path: Path
    run: Run | None

    @property
    def scores_file(self) -> Path:
        return self.path / "scores.jsonl" if self.path.is_dir() else self.path


def open_runs(paths: Sequence[Path]) -> list[Scored]:
    runs = [Scored(path, RunFolder(path).run) for path in paths]
    _check_one_version(runs)
    return runs


def open_earlier(path: Path) -> Scored:
    """The argument of --against: a run, or the scores.jsonl of one."""
    if path.is_dir():
        return Scored(path, RunFolder(path).run)
    if path.is_file():
        return Scored(path, None)
    raise UsageError(f"{path} is not there; name a run or its scores.jsonl")


def scores_of(runs: Sequence[Scored]) -> list[McqScore]:
    return [score for run in runs for score in _scores(run)]


def _scores(scored: Scored) -> list[McqScore]:
    if not scored.scores_file.is_file():
        raise UsageError(
            f"{scored.path} has no scores yet; score it first: keet eval score {scored.path}"
        )
    found = list(read_lines(scored.scores_file, McqScore))
    if not found:
        raise UsageError(
            f"{scored.scores_file} is empty; score the run again: keet eval score {scored.path}"
        )
    return found


def _check_one_version(runs: Sequence[Scored]) -> None:
    """Scores of other prompts must not be averaged."""
    said = {scored.run.prompt_version: scored.path for scored in runs if scored.run}
    if len(said) > 1:
        named = ", ".join(f"{path} has {value}" for value, path in said.items())
        raise UsageError(
            f"the runs differ in prompt_version ({named}); report them apart, or hold one to the "
            "other with --against"
        )
