"""Mutants are false, checks are asked fairly, and catches are counted right."""

import re

import pytest

from evals.grounding.explanations import SampleExplanations
from evals.grounding.mutations import MUTATIONS, Mutant, mutants_of, true_sentences_of
from evals.grounding.scoring import CheckResult, Outcome, Trial, accepted, caught_by_kind, verified
from kernels_samples.samples import load_samples
from tests.rows import each_row


@pytest.fixture(scope="module")
def explained() -> SampleExplanations:
    return SampleExplanations(
        next(sample for sample in load_samples() if sample.name == "matrix_flip")
    )


@pytest.fixture(scope="module")
def mutants(explained: SampleExplanations) -> list[Mutant]:
    """With every metric in turn."""
    return [mutant for turn in range(7) for mutant in mutants_of(explained, turn)]


def test_mutants(mutants: list[Mutant], explained: SampleExplanations) -> None:
    assert {mutant.kind for mutant in mutants} == {*MUTATIONS}
    assert all(mutant.false != mutant.true for mutant in mutants)
    assert list(mutants_of(explained, 3)) == list(mutants_of(explained, 3))


@each_row(
    "kind", ["first digit", "last digit, by one", "two digits swapped", "decimal point moved"]
)
def test_changed_digits_are_no_rounding_of_the_value(
    explained: SampleExplanations, kind: str
) -> None:
    """Reached to the value itself, and not to one of keet's checks."""
    tried = 0
    for turn in range(7):
        bases = {base.text: base for base in true_sentences_of(explained, turn)}
        for mutant in mutants_of(explained, turn):
            base = bases.get(mutant.true)
            if mutant.kind != kind or base is None or base.unit.strip() != "%":
                continue
            said = re.match(r"[\d,.]+", mutant.false[len(base.before) :])
            digits = len(said[0].partition(".")[2])
            assert abs(float(said[0]) - base.piece.value) > 0.5 * 10**-digits
            tried += 1
    assert tried


def test_each_sentence_gets_its_own_verdict(explained: SampleExplanations) -> None:
    """`keet verify` is asked about all of them at once."""
    duration = explained.asked["duration"]
    said = ["It is fast.", f"Duration is {duration}.", "Duration is 9.99 s."]
    outcomes = [(judged.outcome, judged.why) for judged in verified(explained, [*said, said[0]])]
    assert outcomes[0] == outcomes[3] == (Outcome.PASSED, "no number was seen")
    assert outcomes[1] == (Outcome.PASSED, "")
    assert outcomes[2][0] is Outcome.REFUTED
    piece = explained.asked["dram_bytes_read"]
    true, false = f"DRAM Bytes Read is {piece}.", "DRAM Bytes Read is 9.1 GB."
    passed, caught = verified(explained, [true, false])
    assert passed == CheckResult(Outcome.PASSED, "")
    assert caught.outcome is Outcome.REFUTED
    assert caught.why


PASSED = CheckResult(Outcome.PASSED, "")
REFUTED = CheckResult(Outcome.REFUTED, "it is 3")
DOUBTED = CheckResult(Outcome.DOUBTED, "no name")


def a_trial(
    on_true: CheckResult, on_false: CheckResult, sample: str = "a", true: str = "t"
) -> Trial:
    return Trial(sample, "kind", true, "f", on_true, on_false)


def test_trials(wording) -> None:
    trials = [
        a_trial(PASSED, REFUTED),
        a_trial(PASSED, DOUBTED, "b"),
        a_trial(PASSED, PASSED, "c"),
        a_trial(REFUTED, REFUTED),  # refuses the truth as well: no catch
        a_trial(DOUBTED, REFUTED),
        a_trial(CheckResult(Outcome.PASSED, "no number was seen"), REFUTED),
    ]
    (found,) = caught_by_kind(trials)
    assert (found.mutants, found.unscored, found.refuted, found.doubted) == (3, 3, 1, 1)
    assert found.caught.mean == pytest.approx(2 / 3)
    assert found.example == trials[2]
    (unscored,) = caught_by_kind(trials[3:])
    assert unscored.caught is None
    assert a_trial(PASSED, REFUTED).why == "refuted: it is 3"
    wording(a_trial(PASSED, PASSED).why, a_trial(DOUBTED, REFUTED).why)
    trials = [a_trial(PASSED, REFUTED), a_trial(PASSED, PASSED), a_trial(DOUBTED, PASSED, "b", "u")]
    found = accepted(trials)
    assert (found.sentences, found.doubted, found.refuted) == (2, 1, 0)
    assert found.passed.mean == 0.5
