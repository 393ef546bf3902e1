"""Evidence of another size is passed over early: that never changes what is verified."""

import math

from hypothesis import given
from hypothesis import strategies as st

from keet.evidence import Evidence
from keet.verification import grounding
from keet.verification.grounding import check_grounding

UNITS = st.sampled_from(["%", "ns", "byte", "byte/s", "x", "", "sector", "register/thread"])
NUMBERS = st.floats(-1e13, 1e13) | st.integers(-1000, 10**12) | st.floats(-1.5, 1.5)
FORMS = st.sampled_from(["", ".0f", ".1f", ".3f"])
BEFORE = st.sampled_from(
    ["", "about ", "more than ", "at most ", "3.2 and ", "a drop of ", "1e999 or "]
)


def checked_without_sizes(text: str, evidence: list[Evidence]) -> grounding.GroundingResult:
    early = grounding._sizes
    grounding._sizes = lambda *_: (0.0, math.inf)
    try:
        return check_grounding(text, evidence)
    finally:
        grounding._sizes = early


@given(
    st.lists(st.tuples(NUMBERS, UNITS), min_size=1, max_size=5),
    FORMS,
    BEFORE,
    st.sampled_from([1.0, 1.0, 1.0004, 1.02, -1.0]),
)
def test_the_same_numbers_are_verified(
    values: list[tuple[float, str]], form: str, before: str, factor: float
) -> None:
    """`factor`: what is said is the evidence, or near it, or its opposite."""
    evidence = [
        Evidence(f"E{n}", f"metric_{n}", value, unit, f"metric {n}")
        for n, (value, unit) in enumerate(values, 1)
    ]
    said = [piece._replace(value=piece.value * factor) for piece in evidence]
    text = ". ".join(f"It is {before}{piece:{form}} lower" for piece in said)
    assert check_grounding(text, evidence) == checked_without_sizes(text, evidence)
