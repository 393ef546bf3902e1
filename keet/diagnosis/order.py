"""How much of each part of the account a fix removes, and why a finding ranks before a larger part.

Findings are ranked by the time model. The account is what readers see, so a ranking that differs
from it is explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keet.analysis.account import KINDS, Account, TimePart, slug
from keet.analysis.time_model import WORTH, Effect, TimeModel
from keet.diagnosis.forecast import RankedCandidate
from keet.evidence import Sentence
from keet.findings import findings
from keet.units import Quantity


def order_reason(
    worth: Sequence[RankedCandidate], model: TimeModel, account: Account, *, is_doubtful: bool
) -> Sentence | None:
    """Why the first finding comes first, if another one removes a larger part of the account.
    `is_doubtful`: the first one is only possible, so that it is no more certain than the other."""
    saved = {
        each.candidate.id: dict(saved_parts(each.candidate.effect, model, account))
        for each in worth
        if isinstance(each.candidate.effect, Effect)
    }
    if not worth or worth[0].candidate.id not in saved:
        return None
    totals = {name: sum(parts.values()) for name, parts in saved.items()}
    first, most = worth[0].candidate.id, max(totals, key=lambda name: totals[name])
    if totals[most] <= WORTH * totals[first]:
        return None
    # Both may shorten the same part: the one to name is where the other fix removes more.
    part = max(saved[most], key=lambda each: saved[most][each] - saved[first].get(each, 0.0))
    other = next(each for each in worth if each.candidate.id == most)
    own, their = (f"{each.possible:.1f}" for each in (worth[0], other))
    gains_less = other.possible > worth[0].possible
    if own == their or (gains_less and is_doubtful):
        return None  # neither saves more, or neither is certain
    derived = model.view.ledger.derived
    gains = [
        derived(
            f"possible.{each.candidate.id}", Quantity(each.possible, ""), "times faster if fixed"
        )
        for each in (worth[0], other)
    ]
    return Sentence(
        "Ranked before {other}, which takes a larger part of the time ({share:.0f} {part}), "
        "because {reason}: {own:.1f}x against {their:.1f}x.",
        other=findings()[most].label,
        share=part.share,
        part=part.label,
        own=gains[0],
        their=gains[1],
        reason="its gain is less doubtful" if gains_less else "fixing it saves more",
    )


def saved_parts(
    effect: Effect, model: TimeModel, account: Account
) -> Iterator[tuple[TimePart, float]]:
    """The parts without children, and the percent of the time that the fix removes of each."""
    for part in account.all():
        if not part.children:
            share = float(part.share.value)
            yield part, share - max(0.0, share * _kept(part.id, share, effect, model))


def _kept(part: str, share: float, effect: Effect, model: TimeModel) -> float:
    kind = part.rpartition(".")[2]
    if part.startswith("idle"):  # the longest SM has less to do
        return 1 - min(1.0, 100 * (1 - effect.longest_sm) / share) if share else 1.0
    if part.startswith("issuing"):
        return effect.units.get("issue", 1.0)
    if ".busy." in part:
        return min([left for unit, left in effect.units.items() if slug(unit) == kind] or [1.0])
    waits = [(time, state) for state, time in model.waiting.items() if KINDS.get(state) == kind]
    every = sum(time for time, _ in waits)
    left = sum(time * effect.waits.get(state, 1.0) for time, state in waits)
    return effect.every_wait * (left / every if every else 1.0)
