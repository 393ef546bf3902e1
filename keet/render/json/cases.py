"""`keet cases --format json`: its types, and how cases become a document."""

from __future__ import annotations

import json
from typing import Literal

from keet.catalog.cases import CaseEntry
from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer


class CaseStepDocument(Document):
    """One of several causes, fixed alone."""

    finding: str
    after_us: float
    speedup: float
    why: str


class MovedDocument(Document):
    """The counter that shows that the side after the fix lacks the cause."""

    metric: str = field(description="ncu's name; `A / B` is a ratio of two")
    before: float | None
    after: float | None


class CaseDocument(Document):
    id: str
    family: str
    split: Literal["work", "locked"] = field(
        description="rules and forecasts are never fitted on locked families"
    )
    finding: str = field(description="the dominant cause; of a look-alike, what it resembles")
    lookalike: bool = field(description="the symptom is there, removing it gains less than 10 %")
    also: list[str] = field(description="other causes in the code before the fix")
    accept: list[str] = field(description="ids that name the same cause from another side")
    archetype: str
    severity: Literal["lookalike", "slight", "mild", "severe"] = field(
        description="by speed-up: below 1.1, below 1.15, up to 1.5, above"
    )
    speedup: float = field(description="median before over median after")
    before_us: float = field(description="median of the launches, cold L2")
    after_us: float
    spread_pct: float = field(
        description="10th to 90th percentile over the median, of the side where it is larger"
    )
    hidden: bool = field(description="the kernel's source does not show the cause")
    start_share_of_roofline: float = field(
        description="least time for the needed work at the GPU's peaks, over before_us"
    )
    gpu: str
    driver: str
    cuda: str
    ncu: str
    date: str
    launches: int = field(description="timed per side, sides in turns")
    seeds: list[int] = field(description="for which the results were checked")
    language: Literal["cuda", "triton"]
    title: str
    problem: str
    why: str
    fix: str
    kernel: str = field(description="the judged kernel of the side before the fix")
    kernel_after: str = field(description="the judged kernel of the side after the fix")
    file: str
    lines: list[int] = field(description="of the cause")
    moved: MovedDocument
    steps: list[CaseStepDocument] | None = field(
        default=None,
        description="each of several causes fixed alone; absent where there is one cause",
    )
    counters: dict[str, tuple[float | None, float | None]] = field(
        description="by catalog id: before and after, of the judged launches"
    )
    profiles: tuple[str, str] = field(description="in keet's repository: before, after")
    diff: str = field(description="unified diff of the two variants' code")


class CasesDocument(Document):
    """`keet cases --format json`"""

    schema_version: Literal[1] = 1
    producer: Producer = Producer()
    cases: list[CaseDocument]


def case_document(entry: CaseEntry) -> CaseDocument:
    fields = entry._asdict()
    fields["steps"] = [step._asdict() for step in entry.steps] or None
    fields["moved"] = entry.moved._asdict()
    return CaseDocument(**fields)


def cases_json(entries: list[CaseEntry]) -> str:
    """`steps` is left out of cases that have none, so that its presence tells the kind."""
    document = CasesDocument(cases=[case_document(entry) for entry in entries])
    content = document.to_dict()
    for case in content["cases"]:
        if case["steps"] is None:
            del case["steps"]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
