"""`keet cases --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import json
from typing import Literal

from keet.catalog.cases import CaseEntry
from keet.render.json.encoding.fields import Document, field
from keet.render.json.shared_types import Producer


class CaseStepDocument(Document):
    """The effect of fixing one of several causes alone."""

    finding: str
    after_us: float
    speedup: float
    why: str


class MovedDocument(Document):
    """The counter that shows that the fixed code no longer has the cause."""

    metric: str = field(
        description="ncu's name of the metric; `A / B` is the ratio of two metrics."
    )
    before: float | None
    after: float | None


class CaseDocument(Document):
    id: str
    family: str
    split: Literal["work", "locked", "opened"] = field(
        description="Rules and forecasts are fitted on `work` families alone; `opened`: was locked."
    )
    finding: str = field(
        description="Id of the dominant cause; for a look-alike, the finding that it resembles."
    )
    lookalike: bool = field(
        description="True if the symptom is present but removing it gains less than 10 %."
    )
    also: list[str] = field(description="Ids of other causes in the code before the fix.")
    accept: list[str] = field(
        description="Ids that are also correct answers, because they describe the same cause "
        "differently."
    )
    archetype: str
    severity: Literal["lookalike", "slight", "mild", "severe"] = field(
        description="By speed-up: `lookalike` below 1.1, `slight` below 1.15, `mild` up to 1.5, "
        "`severe` above."
    )
    speedup: float = field(description="Median time before the fix over median time after it.")
    before_us: float = field(
        description="Median duration of the launches in microseconds, with a cold L2."
    )
    after_us: float
    spread_pct: float = field(
        description="10th to 90th percentile as per cent of the median, for the side where it is "
        "larger."
    )
    hidden: bool = field(description="True if the cause cannot be seen in the kernel's source.")
    start_share_of_roofline: float = field(
        description="Shortest possible time of the needed work at the GPU's peaks, over "
        "`before_us`."
    )
    gpu: str
    driver: str
    cuda: str
    ncu: str
    date: str
    launches: int = field(description="Timed launches per side; the sides alternate.")
    seeds: list[int] = field(description="Random seeds for which the results were checked.")
    language: Literal["cuda", "triton"]
    title: str
    problem: str
    why: str
    fix: str
    kernel: str = field(description="The evaluated kernel before the fix.")
    kernel_after: str = field(description="The evaluated kernel after the fix.")
    file: str
    lines: list[int] = field(description="Source lines of the cause.")
    moved: MovedDocument
    steps: list[CaseStepDocument] | None = field(
        default=None,
        description="Each of several causes fixed alone; absent if there is only one cause.",
    )
    counters: dict[str, tuple[float | None, float | None]] = field(
        description="By catalog id: the values before and after, of the evaluated launches."
    )
    profiles: tuple[str, str] = field(description="Paths in keet's repository: before, after.")
    diff: str = field(description="Unified diff of the code before and after.")


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
    """Cases without steps have no key `steps`."""
    document = CasesDocument(cases=[case_document(entry) for entry in entries])
    content = document.to_dict()
    for case in content["cases"]:
        if case["steps"] is None:
            del case["steps"]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
