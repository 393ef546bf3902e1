"""The types of a model's claims (`WorkClaim`) and of their evaluation (`EvaluatedClaim`)."""

from __future__ import annotations

from typing import Literal

from keet.analysis.candidate import Candidate
from keet.analysis.place import Place
from keet.diagnosis.finding import Finding, Forecast
from keet.evidence import Evidence
from keet.findings import ClaimKind
from keet.records import NamedTuple
from keet.units import Quantity


class WorkClaim(NamedTuple):
    """What a model states as needed or removable. Expressions are already evaluated to numbers."""

    finding: str
    """Id of keet's vocabulary (keet/findings)."""
    kind: ClaimKind
    needed: Quantity | None = None
    """The least amount of work that is needed; alternatively `removed`. With neither, keet uses its
    own candidate for the finding."""
    removed: float | None = None
    """Share, 0 to 1, of that work or waiting that is removed."""
    of: str = ""
    """Level, pipe, purpose, warp state: see `ClaimKind`."""
    place: Place | None = None
    """The line that the model names; keet's own lines follow."""
    is_derived: bool = False
    """Whether `removed` is computed from evidence, source constants or launch facts. A share that
    is written as a bare number does not lead (see `rank_with_claims`)."""


class EvaluatedClaim(NamedTuple):
    """A claim and what keet computed for it."""

    claim: WorkClaim
    supported: bool
    reason: str
    """A sentence: why it is not supported, or the measured and claimed amounts."""
    candidate: Candidate | None = None
    """None if nothing could be computed."""
    possible: float = 1.0
    """Times faster if the claim is true; 1.0 where nothing could be computed."""
    expected: float = 1.0
    """Expected gain, as for findings; used for ranking. 1.0 if not supported."""
    forecast: Forecast | None = None
    """None where not supported."""
    evidence: tuple[Evidence, ...] = ()
    floor: Evidence | None = None
    """Time that the needed work takes at the unit's attainable rate; None if the claim is not about
    a unit's work, or the report has no duration."""
    next_limiter: str | None = None
    """What limits the launch afterwards, as in a sentence: `the LSU pipe`, `waiting for ...`."""
    is_backed: bool = False
    """Whether it is based on a computed amount that nothing contradicts, or on keet's own candidate
    for the finding; False for a share that is a bare number."""


class Contradiction(NamedTuple):
    """A cause that the report shows to be absent."""

    finding: str
    reason: str
    """A sentence."""
    evidence: tuple[Evidence, ...]


class RankedCause(NamedTuple):
    """A finding of keet, or a claim converted to one."""

    finding: Finding
    origin: Literal["keet", "model"]
    """`model`: a claim that keet has no finding for, or whose forecast replaces keet's."""
    claim: EvaluatedClaim | None = None
    """Also set if a claim agrees with a finding of keet (`origin` is `keet`)."""
    leads: bool = False
    """Whether it is the headline. At most the first of a ranking; if none leads, keet's roofline
    does."""
