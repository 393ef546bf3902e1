"""What claims about a launch would gain: the tool `what_if`."""

from __future__ import annotations

from keet.documents.document import Document
from keet.documents.model_explanation import ClaimDocument, UnusedClaimDocument
from keet.documents.shared_types import EvidenceId, FindingId, JsonSentence


class WhatIfFinding(Document):
    """The claims about one finding, computed together."""

    finding: FindingId
    claims: tuple[str, ...]
    """For example `bytes of DRAM, needed 4096 * 4096 * 4 B`."""
    result: ClaimDocument
    """`forecast` is with the claimed amounts, `keet_alone` without them."""
    unused_claims: tuple[UnusedClaimDocument, ...]
    text: tuple[JsonSentence, ...]
    evidence: tuple[EvidenceId, ...]
    """Ids of the numbers in `text`."""


class WhatIfDocument(Document):
    launch: int
    kernel: str
    findings: tuple[WhatIfFinding, ...]
    """In the order in which they were claimed."""
