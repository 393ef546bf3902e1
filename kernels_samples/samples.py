"""Loads the samples: the planted cause of each, and the measured times."""

from __future__ import annotations

import datetime
import operator
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

HERE = Path(__file__).parent
Kind = Literal["plain", "hidden", "science", "layered", "second_stage", "healthy", "long"]
PLAIN = frozenset({"matrix_flip"})
"""Samples whose reports are not compressed, because other programs and the docs open them."""
_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Place(_Record):
    """A line of a variant."""

    variant: str
    file: str | None = None
    """A header of the variant; by default the variant's own file."""
    line: int
    code: str


class Cause(_Place):
    """A line that causes a finding, or that the report attributes its cost to."""

    finding: str


class Decoy(_Place):
    """A line that looks like a cause but is none."""

    why_not: str


class Truth(_Record):
    """What is known about a sample because it was planted."""

    dominant: str
    accept: tuple[str, ...] = ()
    """Other findings that name the same cause and are also right."""
    others: tuple[str, ...] = ()
    """Further causes, in the order in which they matter after the previous ones are fixed."""
    why: str
    fix: str
    source_alone: str
    """What a reader of the source alone would guess."""
    left: dict[str, str] = Field(default_factory=dict)
    """What limits a variant other than `slow`."""
    cause: tuple[Cause, ...] = ()
    decoy: tuple[Decoy, ...] = ()

    @property
    def places(self) -> list[Cause | Decoy]:
        return [*self.cause, *self.decoy]


class Condition(NamedTuple):
    """`>= 30`, on a value of a report."""

    word: str
    limit: float

    def holds(self, value: float) -> bool:
        return bool(_OPERATORS[self.word](value, self.limit))

    def __str__(self) -> str:
        return f"{self.word} {self.limit:g}"


def parse_condition(text: str) -> Condition:
    match = re.fullmatch(r"\s*(>=|<=|>|<)\s*(-?[0-9.]+(?:e[+-]?\d+)?)\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no condition such as '>= 30'")
    return Condition(match[1], float(match[2]))


class Visible(BaseModel):
    """How the flaw shows in a metric: a condition per variant, or on the ratio of slow to fast."""

    model_config = ConfigDict(extra="allow", frozen=True)

    metric: str
    kernel: str | None = None
    ratio: str | None = None

    @property
    def conditions(self) -> dict[str, Condition]:
        """By variant."""
        return {name: parse_condition(text) for name, text in (self.model_extra or {}).items()}


class Sweep(_Record):
    """One kernel for several values of a macro, `knob`."""

    knob: str
    values: tuple[int, ...]
    variant: str = "slow"
    why: str


class Timing(_Record):
    """One variant, over all launches of all rounds."""

    median_us: float
    p10_us: float
    p90_us: float
    checksum: float
    worst_error_over_allowed: float


class Measured(_Record):
    """The measurements of `make samples`."""

    date: datetime.date
    gpu: str
    driver: str
    cuda: str
    ncu: str
    keet: str
    seeds: tuple[int, ...]
    rounds: int
    launches: int
    build: str
    run: str
    profile: str
    speedup: float
    speedup_range: tuple[float, float]
    """Lowest and highest over the rounds."""
    variants: dict[str, Timing]


class Sample(_Record):
    """A folder of kernels_samples."""

    name: str
    title: str
    language: Literal["cuda", "triton"]
    kernel: str
    problem: str
    kinds: tuple[Kind, ...]
    flags: tuple[str, ...] = ()
    variants: tuple[str, ...] = ("slow", "fast")
    profile: tuple[str, ...] = ()
    """Further options for `keet profile`."""
    truth: Truth
    visible: tuple[Visible, ...]
    sweep: Sweep | None = None
    measured: Measured | None = None

    @model_validator(mode="after")
    def _names_its_own_variants(self) -> Sample:
        named = {place.variant for place in self.truth.places}
        named |= set(self.truth.left)
        named |= {variant for visible in self.visible for variant in visible.conditions}
        if not named <= set(self.variants):
            raise ValueError(f"{self.name} has no variant {sorted(named - set(self.variants))}")
        return self

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def healthy(self) -> bool:
        return "healthy" in self.kinds

    def source(self, variant: str) -> Path:
        return self.folder / f"{variant}{'.cu' if self.language == 'cuda' else '.py'}"

    def file_of(self, place: Cause | Decoy) -> Path:
        return self.folder / place.file if place.file else self.source(place.variant)

    def report(self, variant: str) -> Path:
        return report_of(self.name, variant)

    def sweep_report(self, value: int) -> Path:
        assert self.sweep is not None
        return report_of(self.name, f"sweep/{self.sweep.knob}_{value:04d}")


def report_of(name: str, variant: str = "slow") -> Path:
    """Compressed with Zstandard, which makes reports eight times smaller, unless it is PLAIN; a
    report of those may be compressed, too."""
    packed = HERE / name / f"{variant}.ncu-repz"
    return packed.with_suffix(".ncu-rep") if name in PLAIN and not packed.exists() else packed


def load_sample(folder: Path) -> Sample:
    return _parsed(folder.name, (folder / "sample.toml").read_text(encoding="utf-8"))


@cache
def _parsed(name: str, text: str) -> Sample:
    content: dict[str, Any] = tomllib.loads(text)
    return Sample.model_validate({"name": name, **content})


def load_samples() -> list[Sample]:
    return [load_sample(path.parent) for path in sorted(HERE.glob("*/sample.toml"))]
