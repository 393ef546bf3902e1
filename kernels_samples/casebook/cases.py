"""Cases: the author's description of two sides, joined with their measurements."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from keet.catalog import throughputs
from keet.catalog.loading import gpu_named
from keet.profile import Launch, Profile
from keet.report import read_profile
from keet.report.snapshot import PACKED, SUFFIX
from kernels_samples.casebook.family import (
    CaseSpec,
    Family,
    Section,
    cause_lines,
    diff_of,
    load_families,
    load_split,
    sections_of,
)

Severity = Literal["lookalike", "slight", "mild", "severe"]
GAINS, MILD, SEVERE = 1.1, 1.15, 1.5
"""Speed-ups: a look-alike gains less than the first; a mild case is between the other two."""
GOOD_START = (0.5, 0.8)
"""Shares of the roofline between which code before the fix counts as a good start."""
LINK_BYTES_PER_SECOND = 64e9
"""PCIe 5.0 with 16 lanes, by its specification."""
STEP_US = 2.0
"""Judgement: the minimum time of one dependent step over the whole device (a launch)."""
INT_PER_CYCLE = 128
"""Integer instructions per cycle and SM: the limit of the schedulers, because ALU and FMA pipes
share the work."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Machine(_Record):
    gpu: str
    driver: str
    cuda: str
    ncu: str
    date: datetime.date


class Side(_Record):
    """One variant on one problem."""

    median_us: float
    p10_us: float
    p90_us: float
    launches: int
    seeds: tuple[int, ...]
    worst_error_over_allowed: float
    needs: dict[str, float]

    @property
    def spread_pct(self) -> float:
        return 100 * (self.p90_us - self.p10_us) / self.median_us


class Measured(_Record):
    """`measured.json` of a family, which `import_run` writes."""

    source: str
    machine: Machine
    build: str
    profiled: dict[str, str]
    """By side: digest of the program that the stored profile belongs to."""
    sides: dict[str, Side]


class Step(NamedTuple):
    finding: str
    after: str
    after_us: float
    speedup: float
    why: str


class Case:
    """One measured pair."""

    def __init__(self, family: Family, spec: CaseSpec, measured: Measured, code: str) -> None:
        self.family = family
        self.spec = spec
        self.measured = measured
        self._code = code

    def __repr__(self) -> str:
        return f"Case({self.id!r})"

    @property
    def id(self) -> str:
        return f"{self.family.name}/{self.spec.id}"

    @property
    def split(self) -> str:
        return load_split()[self.family.name]

    def side(self, variant: str) -> Side:
        return self.measured.sides[f"{self.spec.problem}/{variant}"]

    @property
    def before(self) -> Side:
        return self.side(self.spec.before)

    @property
    def after(self) -> Side:
        return self.side(self.spec.after)

    @property
    def speedup(self) -> float:
        return self.before.median_us / self.after.median_us

    @property
    def spread_pct(self) -> float:
        """10th to 90th percentile relative to the median, for the side where this is larger."""
        return max(self.before.spread_pct, self.after.spread_pct)

    @property
    def severity(self) -> Severity:
        return severity_of(self.speedup)

    @property
    def steps(self) -> list[Step]:
        return [
            Step(
                step.finding,
                step.after,
                self.side(step.after).median_us,
                self.before.median_us / self.side(step.after).median_us,
                step.why,
            )
            for step in self.spec.step
        ]

    @property
    def start_share_of_roofline(self) -> float:
        """The minimum time of the needed work, divided by the time of `before`."""
        return floor_us(self.before.needs, self.measured.machine.gpu) / self.before.median_us

    @property
    def good_start(self) -> bool:
        low, high = GOOD_START
        return low <= self.start_share_of_roofline <= high

    # --- the source

    @cached_property
    def sections(self) -> list[Section]:
        return list(sections_of(self._code))

    @property
    def lines(self) -> list[int]:
        """Lines of the cause in the family's source."""
        return cause_lines(self.sections, self.spec)

    @property
    def diff(self) -> str:
        return diff_of(self.sections, self.spec.before, self.spec.after)

    # --- the profiles

    def profile_path(self, variant: str) -> Path:
        return profile_path(self.family.folder, f"{self.spec.problem}/{variant}")

    def profile(self, variant: str) -> Profile:
        return read_profile(self.profile_path(variant))

    @property
    def before_profile(self) -> Profile:
        return self.profile(self.spec.before)

    @property
    def after_profile(self) -> Profile:
        return self.profile(self.spec.after)

    @property
    def launch_share(self) -> float:
        """Share of the side's time before the fix that the scored launch takes, under ncu."""
        nanoseconds = self.launch(self.before_profile).rank_time
        return nanoseconds / 1000 / self.before.median_us

    def launch(self, profile: Profile) -> Launch:
        """The launch that a side is scored by: that of the case's kernel, else the longest."""
        own = [each for each in profile.launches if each.name.function == self.spec.kernel]
        return max(own or profile.launches, key=lambda each: each.rank_time)


def severity_of(speedup: float) -> Severity:
    if speedup < GAINS:
        return "lookalike"
    if speedup < MILD:
        return "slight"
    return "mild" if speedup <= SEVERE else "severe"


def profile_path(folder: Path, side: str) -> Path:
    return folder / "profiles" / f"{side.replace('/', '.')}{SUFFIX}{PACKED}"


def load_measured(family: Family) -> Measured | None:
    path = family.folder / "measured.json"
    return Measured.model_validate_json(path.read_text("utf-8")) if path.exists() else None


def load_cases() -> list[Case]:
    """Every case whose sides were all measured and profiled, in the order of the families."""
    return [case for family in load_families() for case in cases_of(family)]


def cases_of(family: Family) -> Iterator[Case]:
    measured = load_measured(family)
    if measured is None:
        return
    code = family.source.read_text(encoding="utf-8")
    for spec in family.case:
        sides = [f"{spec.problem}/{name}" for name in spec.variants]
        if all(_is_whole(measured, side) for side in sides):
            yield Case(family, spec, measured, code)


def _is_whole(measured: Measured, side: str) -> bool:
    """Whether it was timed and profiled with the same program."""
    return side in measured.sides and measured.profiled.get(side) == measured.source


def counter_value(case: Case, profile: Profile, metric: str) -> float | None:
    """A metric of a side: sums are over all its launches, other metrics are those of the scored
    launch. `A / B` is the ratio of two metrics."""
    if " / " in metric:
        above, below = (counter_value(case, profile, each) for each in metric.split(" / "))
        return above / below if above is not None and below else None
    if metric.endswith(".sum"):
        values = [_number(launch, metric) for launch in profile.launches]
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None
    return _number(case.launch(profile), metric)


def _number(launch: Launch, metric: str) -> float | None:
    found = launch.metric(metric)
    value = found.value if found else None
    return None if value is None or isinstance(value, str) else float(value)


def floor_us(needs: Mapping[str, float], gpu: str) -> float:
    """The minimum time of the needed work at the GPU's peaks: the largest of its parts."""
    peaks = _peaks(gpu)
    parts = [1e6 * amount / peaks[name] for name, amount in needs.items() if name != "steps"]
    return max([*parts, STEP_US * needs.get("steps", 0.0)])


def _peaks(name: str) -> dict[str, float]:
    """Per second, from the catalog's data-sheet values."""
    gpu = gpu_named(name, None, None)
    if gpu is None or not (gpu.sms and gpu.boost_mhz and gpu.dram_gbps):
        raise ValueError(f"the catalog has no peaks of {name}")
    cycles = gpu.sms * gpu.boost_mhz * 1e6
    rate = throughputs()[gpu.cc].per_cycle
    return {
        "dram_bytes": gpu.dram_gbps * 1e9,
        "fp32_flop": 2 * rate["fp32"] * cycles,
        "fp64_flop": 2 * rate["fp64"] * cycles,
        "tensor_flop": 2 * rate["tensor_fp16_fma"] * cycles,
        "int_op": INT_PER_CYCLE * cycles,
        "special_op": rate["xu"] * cycles,
        "link_bytes": LINK_BYTES_PER_SECOND,
    }


def dump(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
