"""What the commands that read a store print as JSON: `keet top`, `keet query`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from keet.render.documents import SCHEMA_VERSION, Document, Producer


class GainDocument(Document):
    """How many times faster the launches with the finding would be, all together."""

    low: float
    likely: float
    high: float


class OpportunityDocument(Document):
    rank: int = Field(description="from 1, the largest `saved_share` first")
    kernel: str = Field(description="short name; by finding or file: that of the longest time")
    kernels: int = Field(description="different ones in the group")
    grid: str | None = Field(description="blocks, `128x128x1`; null: by finding or file")
    block: str | None = Field(description="threads a block")
    device: str | None = Field(description="null: the reports do not say")
    compute_capability: str | None
    sm_count: int | None
    launches: int
    untimed: int = Field(description="launches without a measured duration, in no time here")
    time_us: float | None = Field(description="of all its launches; null: none was measured")
    share: float | None = Field(description="of the time of all launches on its GPU, 0 to 1")
    limiter: str | None = Field(description="of most of the time of the launches with the finding")
    finding: str | None = Field(description="that would save the most; null: none was found")
    finding_launches: int = Field(description="launches whose first finding it is")
    forecast: GainDocument | None = Field(description="of those launches; null: not computed")
    saved_us: float | None = Field(description="of those launches, with the likely forecast")
    saved_share: float | None = Field(description="the same, of the time of its GPU, 0 to 1")
    not_judged: int = Field(
        description="launches without a finding, for their report lacks what would show one"
    )
    path: str = Field(description="the report that holds the longest of those launches")
    launch: int = Field(description="its number there")
    gone: bool = Field(description="that report is no longer at its path")


class GpuDocument(Document):
    """The chosen launches on one GPU."""

    device: str | None = Field(description="null: the reports do not say")
    compute_capability: str | None
    sm_count: int | None
    launches: int
    untimed: int
    time_us: float | None
    total_us: float | None = Field(description="of all its kernels: what shares are of")


class TopDocument(Document):
    """`keet top --format json`"""

    schema_version: Literal[1] = SCHEMA_VERSION
    producer: Producer = Producer()
    store: str
    by: Literal["kernel", "finding", "file"]
    device: str | None = Field(description="--device; null: all")
    kernel: str | None = Field(description="--kernel; null: all")
    reports: int = Field(description="that the launches are of; equal files are one")
    failed: int = Field(description="files of the whole store that could not be read")
    launches: int = Field(description="chosen ones")
    untimed: int
    time_us: float | None = Field(description="null also where there are several GPUs")
    gpus: list[GpuDocument] = Field(description="those with most launches first")
    groups: int = Field(description="before --limit cut them")
    opportunities: list[OpportunityDocument]


class QueryColumn(Document):
    name: str
    type: str = Field(description="in duckdb's words")


class QueryDocument(Document):
    """`keet query --format json`"""

    schema_version: Literal[1] = SCHEMA_VERSION
    producer: Producer = Producer()
    columns: list[QueryColumn]
    rows: list[list[Any]] = Field(
        description="in the order of `columns`; null: NULL, or a number that JSON does not have"
    )
