"""Texts of a comparison print their numbers from evidence, which the document has."""

from __future__ import annotations

import pytest
from compared import (
    DURATION,
    Kernel,
    changed,
    check_cited,
    difference,
    made,
    sample,
    sample_difference,
)

from keet.comparison.caveat import listed
from keet.comparison.gate import gate_difference
from keet.comparison.sentences import name_keet_diff_options
from keet.documents.document import plain
from keet.evidence import Sentence


def test_a_caveat_prints_numbers_of_the_document() -> None:
    before = sample("matrix_flip")
    frequency = before.launches[0].find("sm_frequency")
    found = difference(before, changed(before, metrics={frequency.name: 1e9}))
    (caveat,) = [each for each in found.all_caveats if each.id == "clocks"]
    assert caveat.text.ids == ("pair_0_sm_clock_before#diff", "pair_0_sm_clock_after#diff")
    assert found.evidence["pair_0_sm_clock_after#diff"].value == 1e9
    check_cited(found)


@pytest.mark.parametrize("metrics", [(), ("gpu__time_duration.sum", "registers_per_thread")])
def test_a_gate_adds_its_numbers_to_the_evidence(metrics: tuple[str, ...]) -> None:
    found = gate_difference(sample_difference("matrix_flip", swapped=True), 5, metrics)
    assert found.gate.failed
    for each in found.gate.regressions:
        assert len(each.text.ids) == len(each.text.references) == 4
        assert {*each.text.ids} <= found.evidence.keys()


def test_kernels_of_one_name_have_their_own_numbers_in_the_gate() -> None:
    before = made(Kernel("a", 1e5, grid=(1, 1, 1)), Kernel("a", 1e5, grid=(2, 1, 1)))
    after = changed(before, metrics={DURATION: 3e5})
    gate = gate_difference(difference(before, after), 5).gate
    assert len({each.text.ids for each in gate.regressions if isinstance(each.text, Sentence)}) == 3


def test_texts_with_other_option_names_keep_their_numbers() -> None:
    before, after = made(*[Kernel("a", 1e5)] * 3), made(Kernel("a", 1e5))
    found = difference(before, after)
    renamed = name_keet_diff_options(found)
    (caveat,) = [each for each in renamed.all_caveats if each.id == "launch_counts"]
    assert "keet diff --times N:M" in caveat.text
    assert "keet diff --times N:M" in renamed.verdict.headline
    assert len(caveat.text.references) == 2
    assert renamed.comparability.notes == renamed.all_caveats


def test_the_document_has_no_internal_objects() -> None:
    """And it has all fields, in the order of the types in keet/documents."""
    found = gate_difference(sample_difference("matrix_flip", swapped=True), 5)
    document = plain(found)
    assert [*document][:6] == [
        "schema_version",
        "producer",
        "before",
        "after",
        "comparability",
        "verdict",
    ]
    (pair,) = document["pairs"]
    assert {"timing", "weighted", "pairing"}.isdisjoint(pair)
    line = next(each for each in pair["attribution"] if each["kind"] == "line")
    assert line["before"].keys() == {"file", "line"}
    assert pair["account"][0]["evidence"][0] in document["evidence"]


def test_at_most_three_names_are_listed(wording) -> None:
    assert listed(["a", "b", "c"]) == "a, b, c"
    wording(listed(["a", "b", "c", "d"], "kernels"))
