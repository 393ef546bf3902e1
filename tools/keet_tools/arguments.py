"""Argument types of the tools. Coding agents read the descriptions, so they are short."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_LONGEST = 400
"""Characters of a name."""
MAX_TEXT = 20_000
"""Characters of a text to verify: more than an explanation of a kernel has."""
MAX_TOKENS = 2_000
"""Of `context`, whose text is in the result twice: in the structured part and in the text."""

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
Launch = Annotated[int | None, Field(ge=0)]
Kernel = Annotated[str | None, Field(min_length=1, max_length=_LONGEST)]
Source = Annotated[Name | None, Field(description="folder of sources the report lacks")]
Offset = Annotated[int, Field(ge=0, le=10**9)]


class ToolArguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListReportsArguments(ToolArguments):
    report: Name | None = Field(None, description="list its launches instead")
    match: Kernel = Field(None, description="part of a path, or of a kernel name of the report")
    offset: Offset = 0


class LaunchArguments(ToolArguments):
    """Of a tool that is about launches of one report."""

    report: Name
    launch: Launch = None
    kernel: Kernel = None


class ExplainArguments(LaunchArguments):
    top: int = Field(3, ge=1, le=5, description="findings per launch")
    source: Source = None
    offset: Offset = 0


class LineArguments(LaunchArguments):
    line: Name | None = Field(
        None, description="kernel.cu:29, or 0x0130: SASS from there on; default: the hottest lines"
    )
    source: Source = None
    offset: Offset = 0


class SourceArguments(LaunchArguments):
    file: Name | None = Field(None, description="default: the hottest file")
    line: int = Field(1, ge=1, le=10**9, description="first line")
    source: Source = None
    offset: Offset = 0


class AmountsArguments(LaunchArguments):
    part: str | None = Field(
        None, max_length=_LONGEST, description="one of the parts, for example arrays or loops"
    )
    per: str | None = Field(
        None,
        pattern=r"^[^=]{1,80}=[0-9.eE+]{1,20}$",
        description="NAME=COUNT: count per NAME; default: per stored element",
    )
    source: Source = None
    offset: Offset = 0


class MetricsArguments(LaunchArguments):
    pattern: Kernel = Field(
        None, description="name, id, label or words; default: key metrics and roofline; *: all"
    )
    offset: Offset = 0


class OccupancyArguments(LaunchArguments):
    registers: int | None = Field(None, ge=1, le=10**6, description="per thread")
    shared_bytes: int | None = Field(None, ge=0, le=10**9, description="per block")
    block_threads: int | None = Field(None, ge=1, le=10**6)


class WhatIfArguments(LaunchArguments):
    claims: Annotated[
        str,
        BeforeValidator(lambda given: json.dumps(given) if isinstance(given, list) else given),
    ] = Field(
        max_length=MAX_TEXT,
        description='JSON list like [{"finding": "an id of explain", "kind": "bytes", '
        '"of": "DRAM", "needed": "N * 4 B"}], or "removed": "0.5"',
    )
    constants: str = Field("", max_length=_LONGEST, description="for example N=4096, TILE=32")


class DiffArguments(ToolArguments):
    before: Name
    after: Name
    before_launch: Launch = None
    after_launch: Launch = None
    kernel: Kernel = None
    force: bool = Field(False, description="compare what is not comparable")
    offset: Offset = 0


class ContextArguments(LaunchArguments):
    max_tokens: int = Field(1_500, ge=30, le=MAX_TOKENS)
    source: Source = None


class VerifyArguments(LaunchArguments):
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    before: Name | None = Field(None, description="the earlier report, if the text compares two")
    offset: Offset = 0


class CasesArguments(ToolArguments):
    case: Kernel = Field(None, description="show this one in full, with its source diff")
    finding: Kernel = Field(None, description="only of this finding id")
    archetype: Kernel = Field(None, description="only this kind of kernel: gemm, scan, reduction")
    lookalikes: bool = Field(False, description="only those whose fix gained under 10 %")
    offset: Offset = 0
