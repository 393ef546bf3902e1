"""`what_if`: claims of a caller are computed like those of keet's own agent."""

import json
from typing import Any

from keet_tools.answers import Answer, ToolInput
from keet_tools.explain import claimed_findings, names_of
from keet_tools.registry import call_tool
from keet_tools.results import WhatIfFinding

from tests.rows import each_row
from tests.unit.agent.conversations import explained

LESS = {"finding": "uncoalesced_global", "kind": "bytes", "of": "global", "needed": "24 * W * 4 B"}
WRONG = {"finding": "redundant_traffic", "kind": "bytes", "of": "DRAM", "needed": "N * 4 B"}
HALF = {"finding": "redundant_traffic", "kind": "bytes", "of": "L2", "removed": "0.5"}


def computed(*claims: dict[str, str], sample: str = "blend_frames/slow") -> list[WhatIfFinding]:
    (explanation,) = explained(sample)
    (each,) = explanation.launches
    return claimed_findings(each, claims, names_of(each.view.ledger, each, {"W": 2073600.0}))


def answered(claims: Any, **arguments: Any) -> Answer:
    text = claims if isinstance(claims, str) else json.dumps(claims)
    return call_tool(
        ToolInput(explained("blend_frames/slow")), "what_if", {"claims": text, **arguments}
    )


def test_claims_are_computed_by_finding() -> None:
    """A refused claim has its reason; the others of its finding count."""
    first, second = computed(WRONG, LESS, HALF)
    assert (first.finding, second.finding) == ("redundant_traffic", "uncoalesced_global")
    assert [unused.claim for unused in first.unused_claims] == ["bytes of DRAM, needed N * 4 B"]
    for found in (first, second):
        assert found.result.supported
        assert found.result.forecast is not None
        assert found.result.amounts_by == "model"
        assert found.result.next_limiter
        assert found.result.floor is not None
        assert found.evidence
    assert first.result.keet_alone is None
    assert second.result.keet_alone is not None


def test_what_the_report_contradicts_is_not_supported() -> None:
    blocks = {"finding": "small_grid", "kind": "parallelism", "of": "blocks", "needed": "99999"}
    (found,) = computed(blocks)
    assert not found.result.supported
    assert found.result.forecast is None
    assert found.unused_claims[0].evidence


def test_the_answer_names_its_numbers_and_whose_amounts_they_are(wording) -> None:
    answer = answered([LESS, WRONG], constants="W=2073600")
    assert not answer.abstained
    wording(answer.text)
    assert all(f"{{{piece.id}}}" in answer.text for piece in answer.evidence)


@each_row(
    ("claims", "constants"),
    [("no", ""), ("[]", ""), ("[1]", ""), ('{"kind": "bytes"}', ""), ([LESS], "W=x")],
)
def test_a_wrong_call_is_answered(claims: Any, constants: str) -> None:
    answer = answered(claims, constants=constants)
    assert answer.abstained
    assert answer.text
    assert ("redundant_traffic" in answer.text) == ("kind" in claims), "a claim needs a finding"
