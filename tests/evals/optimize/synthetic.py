"""Chains that were made up: the gain of each round, or why it has none."""

from collections.abc import Mapping, Sequence

from evals.optimize.conditions import ConditionName
from evals.optimize.rounds import ChainResult, EvalResult, RoundResult
from keet.documents.optimize import RoundOutcome

Outcome = float | RoundOutcome
"""A gain, or the outcome of a round that was not kept."""


def round_of(outcome: Outcome) -> RoundResult:
    return RoundResult(
        outcome="kept" if isinstance(outcome, float) else outcome,
        reason="for a reason",
        gain=outcome if isinstance(outcome, float) else 1.0,
        prompt_tokens=1000,
        answer_tokens=200,
        estimated=True,
    )


Items = Mapping[str, Mapping[ConditionName, Sequence[Sequence[Outcome]]]]


def result_of(items: Items, rounds: int = 2, **best_known: float) -> EvalResult:
    """By program (each from the start `naive`) and condition: the attempts."""
    chains = [
        ChainResult(
            program=program,
            start="naive",
            condition=condition,
            attempt=number,
            original_us=100.0,
            rounds=tuple(map(round_of, outcomes)),
        )
        for program, conditions in items.items()
        for condition, attempts in conditions.items()
        for number, outcomes in enumerate(attempts, 1)
    ]
    return EvalResult(
        keet="7.7",
        date="2026-01-01",
        proposer="test:model",
        gpus=("Test GPU",),
        rounds=rounds,
        repeats=3,
        attempts=max(chain.attempt for chain in chains),
        conditions=tuple(dict.fromkeys(chain.condition for chain in chains)),
        best_known={f"{name}.naive": value for name, value in best_known.items()},
        chains=tuple(chains),
    )
