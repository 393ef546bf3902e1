"""The entry of a candidate in measured.json."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .common import CHEAT, INCORRECT, PASSED, Verdict
from .contender import Contender
from .contest import Contest
from .floor import Floor, floor_of
from .verdicts import noise_of

NOISY_SHARE = 0.1
"""Chosen: share of a candidate's time. Its launches spread at least as much as the empty
program's."""
BY_TIME = "by_time"
"""Marks a result that is measured again before it counts."""


def result_of(
    contest: Contest, contender: Contender, sample: dict[str, Any], compile_seconds: float
) -> dict[str, Any]:
    """The entry of a candidate that was run."""
    own = contender.verdict.status if contender.verdict else None
    if own not in (CHEAT, INCORRECT) and (failed := _failed_itself(contest)):
        return failed  # whatever else became of it may be the machine's fault
    if contender.verdict and own is None:
        return {"status": None, "why": contender.verdict.why, "log": contender.verdict.log}
    floor = floor_of(sample, contest.facts)
    times = contest.times(contender)
    whole = [us for turn in times for us in turn]
    measured = {
        **_spread("baseline", flat(contest.times(contest.baseline))),
        "empty_us": round(contest.empty_us, 3),
        "noise_us": round(noise_of(contest.empty.pace.unseen or [0.0]), 3),
        "floor_us": floor.least,
        "impossible_us": floor.impossible,
        "seeds": contest.seeds,
        "compile_seconds": round(compile_seconds, 2),
        "log": contender.program.log.decode(errors="replace") if contender.program else "",
    }
    verdict = contender.verdict or _plausible(contest, contender, floor)
    if verdict:  # its times say nothing
        told = {"status": verdict.status, "why": verdict.why, "speedup": None}
        return {**measured, **told, **({BY_TIME: True} if verdict.by_time else {})}
    own_times = _spread("candidate", whole)
    pairs = zip(contest.times(contest.baseline), times)
    why = f"right for {len(whole) + 1} seeds, in each of {len(whole)} timed launches"
    if measured["noise_us"] > NOISY_SHARE * own_times["candidate_us"]:
        why += f"; too noisy to compare (an empty program spread over {measured['noise_us']} us)"
    speedup = round(measured["baseline_us"] / own_times["candidate_us"], 4)
    first = contender.first_us
    return {
        "status": PASSED,
        "why": why,
        **measured,
        **own_times,
        "first_us": None if first is None else round(first - contest.empty_us, 3),
        "seen_us": _seen_us(contest, contender),
        "speedup": speedup,
        "speedup_rounds": [_ratio(b, c) for b, c in pairs],
    }


def _failed_itself(contest: Contest) -> dict[str, Any] | None:
    if contest.trouble:
        return {"status": None, "why": contest.trouble, "log": ""}
    for ours in (contest.baseline, contest.empty):
        if ours.verdict:
            status = f"{ours.verdict.status}: " if ours.verdict.status else ""
            why = f"the {ours.name} failed: {status}{ours.verdict.why}"
            return {"status": None, "why": why, "log": ours.verdict.log}
    return None


def _plausible(contest: Contest, contender: Contender, floor: Floor) -> Verdict | None:
    whole = flat(contest.times(contender))
    if not whole or floor.impossible is None:
        return None
    candidate_us = statistics.median(whole)
    if candidate_us >= floor.impossible:
        return None
    why = f"{candidate_us:.2f} us is faster than the hardware can move the bytes or do the "
    why += f"operations that nobody can leave out ({floor.impossible:.2f} us)"
    return Verdict(CHEAT, why, by_time=True)


def flat(rounds: list[list[float]]) -> list[float]:
    return [value for turn in rounds for value in turn]


def _seen_us(contest: Contest, contender: Contender) -> float | None:
    if not contender.seen:
        return None
    return round(statistics.median(contender.seen) - contest.empty_us, 3)


def _ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    return round(statistics.median(baseline) / max(statistics.median(candidate), 1e-3), 4)


def _spread(name: str, times: list[float]) -> dict[str, Any]:
    if len(times) < 2:
        return {f"{name}_us": times[0] if times else None}
    deciles = statistics.quantiles(times, n=10, method="inclusive")
    middle = max(statistics.median(times), 1e-3)
    return {
        f"{name}_us": round(middle, 3),
        f"{name}_p10_us": round(deciles[0], 3),
        f"{name}_p90_us": round(deciles[-1], 3),
    }
