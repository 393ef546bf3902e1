"""The tables of an optimize run, with their notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.optimize.compare_conditions import Difference
from evals.optimize.summary import ConditionSummary, powers
from evals.pages import interval_cell, number_cell
from evals.report.documents import OptimizeReport

Cells = list[tuple[str, ...]]
WORDS = {
    "geomean": "Geometric mean of the speed-up over `slow`. A failed attempt counts as 1x, because "
    "the old code is kept; `passed` leaves failures out, which favours conditions that fail often. "
    "Attempts are averaged within a sample first; intervals (95 %) are drawn over samples. "
    "speedup@k: the expected best of k attempts, mean over the samples with k scored attempts.",
    "rates": "fast_p: the share of attempts that is correct and more than p times as fast. `cut "
    "off`: COMPILE_ERRORs whose answer is empty or ended at the token limit before the program was "
    "complete.",
    "best": "`best` is the share of the best known speed-up that is reached (geometric mean, "
    "failures as 1x): the best of sample.toml and of these runs. Attempts and tokens (in and out): "
    "expected number to reach 90 % of it, over the samples that every condition of the model "
    "reached (`by all`). Tokens of writing the explanation for `agent` are not included. SOL: "
    "compulsory time divided by measured time, for samples whose minimum is near the best known.",
    "places": "Wrong place: it ran correctly, kept every line of the cause and gained less than "
    "10 %; of the passed attempts for which this can be told.",
    "paired": "All pairs of conditions, over the samples that both were scored on; attempts "
    "are averaged within a sample first. Above 1 the first is faster; better and worse count "
    "samples that differ by more than 5 %. `ratio there`: over the samples where both have a "
    "program that passed, without failures; a difference is significant if both intervals exclude "
    "1. Intervals are not corrected for the number of pairs.",
}


def speed_rows(own: Sequence[ConditionSummary]) -> Cells:
    head = ("model", "condition", "samples", "scored", "unscored", "geomean", "passed", "first try")
    rows: Cells = [(*head, "speedup@1", "k", "speedup@k", "samples with k")]
    for s in own:
        rows.append(
            (
                *(s.model, s.condition, str(s.samples), str(s.scored), str(s.unscored)),
                *(interval_cell(s.geomean), number_cell(s.geomean_passed)),
                *(number_cell(s.first_try), number_cell(s.speedup_at_1)),
                *(str(s.k), number_cell(s.speedup_at_k), str(s.k_samples)),
            )
        )
    return rows


def rate_rows(own: Sequence[ConditionSummary]) -> Cells:
    fast = [f"fast_{p}" for p in own[0].fast]
    head = ("model", "condition", "pass@1", "build@1", "pass@k", *fast)
    rows: Cells = [(*head, *own[0].statuses, "cut off", "unscored")]
    for s in own:
        shares = (s.pass_at_1, s.build_at_1, s.pass_at_k, *s.fast.values())
        counts = (*s.statuses.values(), s.cut_off, s.unscored)
        cells = (*(number_cell(share) for share in shares), *map(str, counts))
        rows.append((s.model, s.condition, *cells))
    return rows


def effort_rows(own: Sequence[ConditionSummary]) -> Cells:
    head = ("model", "condition", "best", "reached 90 %", "by all", "tries", "tokens")
    rows: Cells = [(*head, "SOL", "SOL samples")]
    for s in own:
        rows.append(
            (
                *(s.model, s.condition, number_cell(s.share_of_best), str(s.reached)),
                *(str(s.reached_by_all), number_cell(s.tries), number_cell(s.tokens, ",.0f")),
                *(number_cell(s.sol), str(s.sol_samples)),
            )
        )
    return rows


def place_rows(own: Sequence[ConditionSummary]) -> Cells:
    rows: Cells = [("model", "condition", "wrong place", "kept the cause")]
    rows += [(s.model, s.condition, str(s.wrong_place), str(s.kept_cause)) for s in own]
    return rows


def difference_rows(found: Sequence[Difference]) -> Cells:
    head = ("model", "condition", "than", "samples", "ratio", "better", "worse", "pass@1")
    rows: Cells = [(*head, "both passed", "ratio there")]
    for d in found:
        there = interval_cell(powers(d.where_both_passed) if d.where_both_passed else None)
        counts = (str(d.better), str(d.worse), f"{d.passed:+.2f}", str(d.samples_passed), there)
        rows.append((d.model, d.condition, d.than, str(d.samples), interval_cell(d.ratio), *counts))
    return rows


def sample_rows(report: OptimizeReport) -> Iterator[tuple[str, ...]]:
    conditions = list(dict.fromkeys(c for sample in report.samples for c in sample.attempts))
    yield ("model", "difficulty", "sample", "best known", *conditions)
    for s in report.samples:
        cells = [" ".join(map(_cell, s.attempts.get(c, ()))) or "-" for c in conditions]
        yield (s.model, s.group, s.sample, f"{s.best_known:.2f}", *cells)


def _cell(attempt: float | str) -> str:
    return attempt if isinstance(attempt, str) else f"{attempt:.2f}"
