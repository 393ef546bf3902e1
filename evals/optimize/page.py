"""The page of an evaluation over rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.optimize.conditions import CONDITIONS
from evals.optimize.rounds import (
    FAILURES,
    SATURATED,
    EvalResult,
    Score,
    ratios,
    saturated,
    scores,
)
from evals.pages import Heading, Part, Points, Prose, Table, interval_cell

TITLE = "keet eval: optimize"
_BY_ROUND = (
    "Speed-up over the original of the program that was kept by then: a round that fails or is "
    "slower keeps the program before it. `gain`: of this round alone; `of best`: share of the best "
    "known speed-up. Geometric means over programs and starts, of attempts first. `chains`: those "
    "that have done the round; others are left out. `prompt`, `answer`: tokens, means per round."
)
_FAILURES = (
    "Rounds whose change was not kept. `repaired`: chains whose change was kept after it was not "
    "in the round before."
)
_RATIOS = (
    "Speed-up under the first condition over that under the second, over the `programs` (with each "
    "start) that both have done: above 1 the first is faster. From round 2 on: over the program "
    "after round 1. 95 % intervals; programs are drawn "
    "with both conditions together, then attempts within each. Not corrected for the number of "
    "pairs."
)
_SATURATED = f"All conditions come within {100 * (1 - SATURATED):.0f} % of the best known speed-up:"
_CHAINS = "Speed-up over the original after each round, per attempt."


def parts_of(result: EvalResult) -> Iterator[Part]:
    found = [*scores(result)]
    yield Points([*_answers(result, found)])
    if left := len(result.unfinished):
        yield Prose(
            f"{left} of {len(result.chains)} chains are not finished. They count in the rounds "
            "that they have done, and are left out of the others."
        )
    yield Points([*_about(result)])
    if found:
        yield from _tables(result, found)


def _tables(result: EvalResult, found: Sequence[Score]) -> Iterator[Part]:
    yield Heading("By round")
    yield Prose(_BY_ROUND)
    yield Table([*_round_rows(found)], keys=2)
    yield Heading("Failures")
    yield Prose(_FAILURES)
    yield Table([*_failure_rows(found)], keys=2)
    yield Heading("Conditions against each other")
    yield Prose(_RATIOS)
    yield Table([*_ratio_rows(result)], keys=3)
    yield Heading("Saturation")
    yield Prose(_SATURATED)
    yield Points([f"{item}: from round {first} on" for item, first in saturated(result).items()])
    yield Heading("Chains")
    yield Prose(_CHAINS)
    yield Table([*_chain_rows(result)], keys=2)


def _answers(result: EvalResult, found: Sequence[Score]) -> Iterator[str]:
    """The result in a line per condition."""
    last = {score.condition: score for score in found if score.round == result.rounds}
    for name in result.conditions:
        gained = "no chain has done all rounds"
        if name in last:
            score = last[name]
            gained = f"{score.speedup:.2f}x, {100 * score.share:.0f} % of the best known"
            if score.missing:
                gained += f" ({_chains(score)} chains)"
        yield f"{name} ({CONDITIONS[name].meaning}): {gained}"


def _about(result: EvalResult) -> Iterator[str]:
    items = len({chain.item for chain in result.chains})
    yield (
        f"programs and starts: {items}; attempts at each: {result.attempts}; rounds: "
        f"{result.rounds}; timed runs per program and round: {result.repeats}"
    )
    gpus = ", ".join(result.gpus) or "not yet"
    yield f"proposer: {result.proposer}; measured on: {gpus}"
    yield f"keet {result.keet}, {result.date}"
    if any(each.estimated for chain in result.chains for each in chain.rounds):
        yield "tokens are estimated from the texts where nobody counted them"


def _round_rows(found: Sequence[Score]) -> Iterator[tuple[str, ...]]:
    yield ("condition", "round", "chains", "speed-up", "gain", "of best", "prompt", "answer")
    for each in found:
        gains = (f"{value:.2f}" for value in (each.speedup, each.gain, each.share))
        tokens = (f"{value:,.0f}" for value in (each.prompt_tokens, each.answer_tokens))
        yield (each.condition, str(each.round), _chains(each), *gains, *tokens)


def _chains(score: Score) -> str:
    return f"{score.chains} of {score.chains + score.missing}"


def _failure_rows(found: Sequence[Score]) -> Iterator[tuple[str, ...]]:
    yield ("condition", "round", *FAILURES, "repaired")
    for each in found:
        counts = (each.round, *each.failures.values(), each.repaired)
        yield (each.condition, *map(str, counts))


def _ratio_rows(result: EvalResult) -> Iterator[tuple[str, ...]]:
    yield ("condition", "than", "rounds", "programs", "ratio")
    for each in ratios(result):
        rounds = f"{each.first} to {each.round}" if each.round > each.first else str(each.round)
        pair = (each.condition, each.than, rounds, str(each.items))
        yield (*pair, interval_cell(each.ratio))


def _chain_rows(result: EvalResult) -> Iterator[tuple[str, ...]]:
    yield ("program", "attempt", "best known", *result.conditions)
    cells = {
        (chain.item, chain.attempt, chain.condition): " ".join(
            _times(chain.speedup(number)) for number in range(1, len(chain.rounds) + 1)
        )
        for chain in result.chains
    }
    for item, best in result.best.items():
        for attempt in range(1, result.attempts + 1):
            own = (cells.get((item, attempt, name)) or "-" for name in result.conditions)
            yield (item, str(attempt), _times(best), *own)


def _times(speedup: float) -> str:
    return f"{speedup:.2f}" if speedup < 10 else f"{speedup:.1f}"
