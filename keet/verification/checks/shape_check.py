"""Checks shapes: a grid, block or cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.profile import Launch
from keet.verification.text.claims import Claim
from keet.verification.verdicts import CheckedNumber


def check_shape(claim: Claim, launches: Sequence[Launch]) -> CheckedNumber:
    """A grid, block or cluster, by the word before it; any of them without such a word."""
    number = claim.number
    before = claim.sentence.text[: number.start].lower()
    wanted = [word for word in ("grid", "block", "cluster") if word in before[-40:]]
    wanted.sort(key=before.rfind, reverse=True)
    if counted := re.match(r"\s*(threads|blocks)\b", claim.sentence.text[number.end :]):
        wanted = ["block" if counted[1] == "threads" else "grid"]
    shapes: dict[str, tuple[int, ...]] = {}
    for launch in launches:
        every = {"grid": launch.grid, "block": launch.block, "cluster": launch.cluster}
        for word in wanted[:1] or every:
            if shape := every[word]:
                if _padded(number.shape or ()) == shape:
                    return CheckedNumber(number, "confirmed", None, f"the {word} of #{launch.id}")
                shapes[word] = shape
    if not wanted or not shapes:
        return CheckedNumber(number, "not_found", None, "no grid or block of that shape")
    word, right = next(iter(shapes.items()))
    said = "x".join(map(str, right)).removesuffix("x1")
    return CheckedNumber(number, "contradicted", None, f"the {word} is {said}")


def _padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape + (1,) * (3 - len(shape))
