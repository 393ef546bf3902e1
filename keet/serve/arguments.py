"""Argument types of the tools. Coding agents read the descriptions."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_LONGEST = 400
"""Characters of a name."""
MAX_TEXT = 20_000
"""Characters of a text to verify: more than an explanation of a kernel has."""
MAX_TOKENS = 2_000
"""Of `context`, whose text is in the result twice: in the structured part and in the text."""

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
Report = Annotated[Name, Field(description="a report, by its path from list_reports")]
Launch = Annotated[int | None, Field(ge=0, description="only this launch, by its id")]
Kernel = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=_LONGEST,
        description="only kernels whose name contains this, ignoring case; * is any text, | "
        "separates alternatives; not a regular expression",
    ),
]
Source = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=4_096,
        description="folder with the sources if the report does not embed them; inside the "
        "server's folders",
    ),
]
Offset = Annotated[int, Field(ge=0, le=10**9, description="next_offset of the previous page")]


class ToolArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListReportsArguments(ToolArguments):
    report: Name | None = Field(None, description="list the launches of this report instead")
    match: str | None = Field(
        None,
        min_length=1,
        max_length=_LONGEST,
        description="only paths, or kernels of the report, that contain this, ignoring case; * is "
        "any text, | separates alternatives",
    )
    offset: Offset = 0


class ExplainArguments(ToolArguments):
    report: Report
    launch: Launch = None
    kernel: Kernel = None
    top: int = Field(3, ge=1, le=5, description="findings per launch")
    source: Source = None
    offset: Offset = 0


class LineArguments(ToolArguments):
    report: Report
    line: str | None = Field(
        None,
        min_length=1,
        max_length=4_096,
        description="FILE:LINE, for example kernel.cu:29; default: the hottest lines",
    )
    launch: Launch = None
    kernel: Kernel = None
    source: Source = None
    offset: Offset = 0


class AmountsArguments(ToolArguments):
    report: Report
    launch: Launch = None
    kernel: Kernel = None
    per: str | None = Field(
        None,
        pattern=r"^[^=]{1,80}=[0-9.eE+]{1,20}$",
        description="NAME=COUNT: count per NAME, of which the launch has COUNT; default: per "
        "element that it stores",
    )
    source: Source = None
    offset: Offset = 0


class MetricsArguments(ToolArguments):
    report: Report
    pattern: str | None = Field(
        None,
        min_length=1,
        max_length=_LONGEST,
        description="metrics whose name, id or label contains this, ignoring case; * is any text, "
        "| separates alternatives; default: the key metrics; *: all",
    )
    launch: Launch = None
    kernel: Kernel = None
    offset: Offset = 0


class DiffArguments(ToolArguments):
    before: Report
    after: Report
    before_launch: Launch = None
    after_launch: Launch = None
    kernel: Kernel = None
    force: bool = Field(False, description="compare even if the reports are not comparable")
    offset: Offset = 0


class ContextArguments(ToolArguments):
    report: Report
    launch: Launch = None
    kernel: Kernel = None
    max_tokens: int = Field(1_500, ge=30, le=MAX_TOKENS, description="at most this many tokens")
    source: Source = None


class VerifyArguments(ToolArguments):
    text: str = Field(min_length=1, max_length=MAX_TEXT, description="the text to check")
    report: Report
    before: Name | None = Field(None, description="the earlier report, if the text compares two")
    launch: Launch = None
    kernel: Kernel = None
    offset: Offset = 0


class CasesArguments(ToolArguments):
    case: str | None = Field(
        None, max_length=_LONGEST, description="show this case in full, with its source diff"
    )
    finding: str | None = Field(
        None, max_length=_LONGEST, description="only cases of this finding id"
    )
    archetype: str | None = Field(
        None, max_length=_LONGEST, description="only this kind of kernel: gemm, scan, reduction"
    )
    lookalikes: bool = Field(False, description="only symptoms whose removal gained less than 10 %")
    offset: Offset = 0
