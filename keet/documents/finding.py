"""Findings as JSON: their types, and the code that fills them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from keet.documents.document import COMPUTED, LEFT_OUT, Document
from keet.documents.shared_types import Described, EvidenceId, FindingId
from keet.evidence import Confidence
from keet.profile.names import file_name

CauseCertainty = Annotated[
    Literal["certain", "likely", "possible"],
    Described(
        "`certain`: a counter that only this cause moves shows it. `likely`: the account points at "
        "it, and one assumption is needed. `possible`: it needs a fact that the report lacks."
    ),
]
"""Whether the cause is there."""


class Forecast(Document, kw_only=False):
    """How many times faster it would be, if only this were fixed."""

    low: float
    likely: float
    high: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.likely, self.high))

    @property
    def is_known(self) -> bool:
        """False if it could not be computed."""
        return all(map(math.isfinite, self))


class PrecedentsDocument(Document):
    """How many times faster measured cases of this finding became: `keet finding ID --cases`."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int
    """Cases with the same symptom where the fix gained less than 10 %; not counted in `cases`."""


class NearestDocument(Document):
    """The measured case that is most like the launch: `keet finding ID` shows it in full."""

    id: str
    archetype: str
    """The kind of algorithm."""
    language: Literal["cuda", "triton"]
    gain: float
    """Times faster."""
    changes: tuple[str, ...]
    """Two or three lines of its diff."""


class Place(Document, kw_only=False):
    """A source line, and its share of a finding's effect."""

    file: str
    """The path that the compiler recorded."""
    line: int
    share: float
    """Share of the whole effect, including the part without a source line, 0 to 1."""
    of: str
    """What the share is of, for example `excess sectors` or `samples`."""
    unplaced: float = 0.0
    """Share of that effect without a source line, 0 to 1."""

    @property
    def at(self) -> tuple[str, int]:
        return self.file, self.line

    @property
    def where(self) -> str:
        """`file.cu:31`, without the folders of the machine that compiled it."""
        return f"{file_name(self.file)}:{self.line}"


class MinorDocument(Document):
    """A cause that is not expected to gain 10 %."""

    id: FindingId
    cause_certainty: CauseCertainty
    title: str
    text: str
    forecast: Forecast | None
    """If the cause is there. Null if it cannot be computed."""
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""


class FindingDocument(Document):
    id: FindingId
    rank: int = COMPUTED
    """Starts at 1; the largest gain comes first."""
    cause_certainty: CauseCertainty
    certainty_reason: str | None = COMPUTED
    """Why the cause is only possible; null if it is likely or certain."""
    confidence: Confidence = COMPUTED
    """`cause_certainty` in the words of earlier versions; it will be left out."""
    confidence_reason: str | None = COMPUTED
    """The same as `certainty_reason`."""
    title: str = COMPUTED
    text: str
    action: str = COMPUTED
    forecast: Forecast | None
    """Null if it cannot be computed."""
    precedents: PrecedentsDocument | None = COMPUTED
    """Null if no case was measured."""
    nearest_case: NearestDocument | None = COMPUTED
    """Of the first finding; null for others, and if no case was measured."""
    locations: tuple[Place, ...]
    evidence: tuple[EvidenceId, ...]
    """Ids in the launch's `evidence`."""
    why: str | None = LEFT_OUT
    """A model's explanation of why the code behaves this way; null if it has none."""
    origin: Literal["keet", "model"] = LEFT_OUT
    """`model` if a model claimed it and keet computed its forecast."""
    amounts_by: Literal["keet", "model"] = LEFT_OUT
    """Whose amounts of work the forecast rests on; left out without a model."""
    keet_alone: Forecast | None = LEFT_OUT
    """keet's own forecast: `forecast` itself, unless the amounts are a model's. Null if keet has no
    estimate."""
