"""What a diagnosis is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from keet.catalog import findings
from keet.evidence import Evidence
from keet.profile.names import file_name

Confidence = Literal["high", "medium", "low"]


class Forecast(NamedTuple):
    """How many times faster, if this alone were fixed."""

    low: float
    likely: float
    high: float


class Place(NamedTuple):
    """A source line, and how much of the effect it has."""

    file: str
    line: int
    share: float
    """0 to 1."""
    of: str
    """What the share is of: `excess sectors`, `samples`."""

    @property
    def where(self) -> str:
        """`file.cu:31`, without the folders of the machine that compiled it."""
        return f"{file_name(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, with what shows it and what to do about it."""

    id: str
    confidence: Confidence
    text: str
    """How we know."""
    forecast: Forecast
    evidence: tuple[Evidence, ...]
    places: tuple[Place, ...] = ()

    variant: str = ""
    """Which of several causes it is, where the report tells: it has a remedy of its own."""

    here: str = ""
    """The first place as part of a sentence: ` at file.cu:7`."""

    @property
    def action(self) -> str:
        spec = findings()[self.id]
        return spec.remedies.get(self.variant, spec.remedy).format(here=self.here)

    @property
    def title(self) -> str:
        label = findings()[self.id].label
        return label[:1].upper() + label[1:]


class Skipped(NamedTuple):
    """A check that could not be made."""

    check: str
    reason: str
    remedy: str
