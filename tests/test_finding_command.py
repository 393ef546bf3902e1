"""`keet finding`, as people and programs see it."""

import pytest

from keet.cli.finding import find_id
from keet.explanation.finding_notes import casebook, finding_reference
from keet.findings import findings
from tests.conftest import Keet
from tests.json_documents import check_document
from tests.rows import each_row


def test_output(keet: Keet, golden) -> None:
    for name, arguments in (
        ("80.txt", []),
        ("tail_effect.80.txt", ["tail_effect"]),
        ("tail_effect.md", ["tail", "effect", "--format", "markdown"]),
    ):
        result = keet("finding", *arguments)
        assert (result.code, result.err) == (0, "")
        golden(f"finding.{name}", result.out)


@pytest.mark.slow
def test_nothing_is_wider_than_the_terminal(keet: Keet) -> None:
    for finding in findings():
        out = keet("finding", finding).out
        assert max(map(len, out.splitlines())) <= 80, finding


def test_json_matches_the_schema(keet: Keet) -> None:
    document = keet("finding", "--format", "json").json
    check_document("finding", document)
    assert [each["id"] for each in document["findings"]] == list(findings())
    known = {case.id for case in casebook()}
    for each in document["findings"]:
        assert {case["id"] for case in each["best_cases"]} <= known
        assert each["remedies"][-1]["condition"] == "otherwise"


@each_row("finding", ["uncoalesced_global", "at_dram_roofline"])
def test_a_reference_shows_no_locked_case(finding: str) -> None:
    reference = finding_reference(finding)
    shown = {case.id for case in (*reference.best_cases, *reference.lookalike_cases)}
    assert {case.split for case in casebook() if case.id in shown} <= {"work"}
    assert bool(reference.best_cases) == bool(reference.precedents)


def test_every_id_and_label_is_found() -> None:
    """Words of a label are enough."""
    for spec in findings().values():
        assert find_id(spec.id) == spec.id
        for label in (spec.label, *spec.labels.values()):
            assert find_id(label.upper()) == spec.id
    words = ("bank conflicts", "Tail-Effect", "lsu", "too few threads")
    expected = ["shared_bank_conflict", "tail_effect", "pipe_saturated", "small_grid"]
    assert [*map(find_id, words)] == expected


@each_row("name, said", [
    ("uncoalesed_globl", "is not a finding; did you mean uncoalesced_global?"),
    ("occupancy", "several findings; did you mean occupancy_limited_block or"),
    ("xyzzy", "is not a finding; see: keet finding"),
    ("\x1b[2J", "is not a finding; see: keet finding"),
])  # fmt: skip
def test_what_is_no_finding_is_refused(name: str, said: str, keet: Keet) -> None:
    keet("finding", name).refuses(said)
