"""What the rounds had as their results, read from the journal; sums of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from keet.documents.model_explanation import NO_USAGE, UsageDocument
from keet.documents.optimize import RoundDocument, StopReason, TimesDocument
from keet.evidence import Sentence, constant, counted
from keet.optimize.journal import Document, Journal, read_sentence
from keet.optimize.judging import Times
from keet.optimize.task import STOP_SHARE, Task
from keet.optimize.workspace import Overlay


class State(NamedTuple):
    """After some rounds."""

    overlay: Overlay
    """What was kept, against the original."""
    best: int
    """The round that it comes from; 0: the original."""
    speedup: float
    """Product of what was kept."""
    rounds: tuple[RoundDocument, ...]


STEPS = ("prompt", "proposal", "request_made", "measured", "outcome")
"""Of a round. A proposal that has an outcome already is not measured."""


def missing_step(journal: Journal, number: int) -> str | None:
    """The first one that is not done."""
    proposal = journal.read(f"rounds/{number:02}/proposal") or {}
    skipped = STEPS[2:4] if proposal.get("outcome") else ()
    steps = (step for step in STEPS if step not in skipped)
    return next((s for s in steps if journal.read(f"rounds/{number:02}/{s}") is None), None)


def read_state(journal: Journal) -> State:
    """What the journal has."""
    state = State({}, 0, 1.0, ())
    number = 1
    while missing_step(journal, number) is None:
        outcome = journal.read(f"rounds/{number:02}/outcome") or {}
        proposal = journal.read(f"rounds/{number:02}/proposal") or {}
        found = _round_document(journal, number, proposal, outcome)
        state = state._replace(rounds=(*state.rounds, found))
        if found.outcome == "kept" and found.times:
            speedup = state.speedup * found.times.speedup
            state = State(proposal["overlay"], number, speedup, state.rounds)
        number += 1
    return state


def _round_document(
    journal: Journal, number: int, proposal: Document, outcome: Document
) -> RoundDocument:
    name = f"rounds/{number:02}"
    steps = (journal.read(f"{name}/{step}") or {} for step in STEPS)
    usage = UsageDocument(**proposal["usage"])
    return RoundDocument(
        number=number,
        outcome=outcome["outcome"],
        reason=read_sentence(outcome["reason"]),
        summary=proposal["summary"],
        files=outcome["files"],
        lines_added=outcome["lines"][0],
        lines_removed=outcome["lines"][1],
        times=times_document(Times(**outcome["times"])) if outcome["times"] else None,
        of_original=outcome["of_original"],
        usage=usage,
        seconds=sum(step.get("seconds", 0.0) for step in steps),
        folder=str(journal.folder / name),
    )


def stopped_text(task: Task, stopped: StopReason, problem: str) -> Sentence:
    limits = task.limits
    share = constant(STOP_SHARE, "%", "share that is left")
    texts: dict[StopReason, Sentence] = {
        "rounds": Sentence(
            "the limit of {rounds} is reached", rounds=counted(task.rounds, "round")
        ),
        "little_left": Sentence("less than {share:.0f} of the time is left to gain", share=share),
        "minutes": Sentence(
            "the limit of {minutes} is reached",
            minutes=counted(constant(limits.minutes or 0, "", "minutes"), "minute"),
        ),
        "tokens": Sentence(
            "the limit of {tokens} is reached", tokens=counted(limits.tokens or 0, "token")
        ),
        "cost": Sentence("the limit of the cost is reached"),
        "model": Sentence("the model failed: {why}", why=problem),
        "interrupted": Sentence("interrupted; the same command continues"),
    }
    return texts[stopped]


def changed_files(before: Overlay, after: Overlay) -> list[str]:
    missing = object()
    every = sorted({*before, *after})
    return [path for path in every if before.get(path, missing) != after.get(path, missing)]


def times_document(times: Times) -> TimesDocument:
    noise = times.noise if math.isfinite(times.noise) else None
    return TimesDocument(
        before_us=times.before, after_us=times.after, speedup=times.speedup, noise=noise
    )


def product(every: Sequence[TimesDocument]) -> TimesDocument:
    """Of rounds one after the other, where original and best were not measured together."""
    noises = [each.noise for each in every]
    known = [noise for noise in noises if noise is not None]
    return TimesDocument(
        before_us=every[0].before_us,
        after_us=every[-1].after_us,
        speedup=math.prod(each.speedup for each in every),
        noise=math.hypot(*known) if len(known) == len(noises) else None,
    )


def total_usage(rounds: Sequence[RoundDocument]) -> UsageDocument:
    total = NO_USAGE
    for each in rounds:
        one = each.usage
        costs = [cost for cost in (total.cost, one.cost) if cost != "unknown"]
        total = UsageDocument(
            calls=total.calls + one.calls,
            cached=total.cached + one.cached,
            input_tokens=total.input_tokens + one.input_tokens,
            output_tokens=total.output_tokens + one.output_tokens,
            cost=sum(costs) if costs else "unknown",
            seconds=total.seconds + one.seconds,
            estimated=total.estimated or one.estimated,
        )
    return total
