"""Runs whose answers are known: attempts written down as speed-ups and statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evals.optimize.scoring import OptimizeScore
from evals.runs import Condition, Prompt, Run, RunFolder, write_lines

Outcome = float | str | None
"""A speed-up, a status, or None: unscored."""
Outcomes = Mapping[str, Mapping[Condition, Sequence[Outcome]]]
VERSION = "abc123abc123"


def score(
    sample: str,
    condition: Condition,
    outcome: Outcome,
    attempt: int = 1,
    model: str = "test:model",
    **more: object,
) -> OptimizeScore:
    speedup = outcome if isinstance(outcome, float) else None
    status = "PASSED" if speedup is not None else outcome
    given = {
        "id": f"optimize.{sample}.{condition}.{attempt}",
        "model": model,
        "sample": sample,
        "condition": condition,
        "attempt": attempt,
        "status": status,
        "why": f"{outcome} for a reason",
        "speedup": speedup,
    }
    return OptimizeScore.model_validate({**given, **more})


def scores(outcomes: Outcomes, model: str = "test:model", **more: object) -> list[OptimizeScore]:
    return [
        score(sample, condition, outcome, attempt, model, **more)
        for sample, conditions in outcomes.items()
        for condition, attempts in conditions.items()
        for attempt, outcome in enumerate(attempts, 1)
    ]


def scored_run(path: Path, found: Sequence[OptimizeScore], version: str = VERSION) -> Path:
    """A folder with its scores, as `keet eval score` leaves it."""
    run = Run(
        task="optimize",
        created="2026-01-01T00:00:00+00:00",
        keet="7.7",
        prompt_version=version,
        conditions=tuple(dict.fromkeys(each.condition for each in found)),
        samples=tuple(dict.fromkeys(each.sample for each in found)),
    )
    prompts = [
        Prompt(
            id=each.id,
            sample=each.sample,
            condition=each.condition,
            attempt=each.attempt,
            system="s",
            user="u",
        )
        for each in {each.id: each for each in found}.values()
    ]
    RunFolder.create(path, run, prompts)
    write_lines(path / "scores.jsonl", found)
    return path
