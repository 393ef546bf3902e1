"""Sides to compare: real reports, read once a process, the same with something changed, and
launches made by hand."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from keet.comparison.compare import Difference, compare
from keet.comparison.gate import gate_difference
from keet.comparison.result import Gate
from keet.comparison.same_kernel import KernelGroup, Side, SideCapture, groups_of
from keet.comparison.sentences import texts_of
from keet.evidence import Sentence
from keet.evidence.digits import number_in
from keet.profile import (
    Device,
    KernelName,
    Launch,
    Location,
    Profile,
    Provenance,
    RawMetric,
    Value,
    Workload,
)
from keet.report import read_profile
from keet.report.snapshot import InMemoryLaunch
from kernels_samples.samples import report_of
from tests.conftest import REPORTS, TESTS

SAMPLES = TESTS.parent / "kernels_samples"
NAMES = tuple(sorted(path.parent.name for path in SAMPLES.glob("*/sample.toml")))
H200 = Device("NVIDIA H200", "9.0", 132)
DURATION = "gpu__time_duration.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
MIRRORED = {
    "faster": "slower",
    "slower": "faster",
    "fused": "split",
    "split": "fused",
    "removed": "added",
    "added": "removed",
}

LAUNCHED = {
    "ring_steps": (300, 1),
    "cell_update": (1, 1),
    "lookup_records": (1, 1),
    "row_layers": (1, 1),
}
"""Samples whose launches were fused or split, and what their programs do; their reports hold the
first launch of each kernel, so nothing else tells how often each is launched. Without that,
test_diff_no_total.py compares them per launch."""


@cache
def read(path: Path) -> Profile:
    return read_profile(path)


def report(name: str) -> Profile:
    return read(REPORTS / name)


def pipeline(name: str) -> Profile:
    return report(f"pipeline_{name}.ncu-repz")


def sample(name: str, version: str = "slow") -> Profile:
    return read(report_of(name, version))


@cache
def truth(name: str) -> dict[str, Any]:
    return tomllib.loads((SAMPLES / name / "sample.toml").read_text())


def is_healthy(name: str) -> bool:
    return "healthy" in truth(name)["kinds"]


def side(*profiles: Profile, times: int | None = None) -> Side:
    return Side(tuple(SideCapture(profile, profile.launches) for profile in profiles), times)


def sample_sides(name: str) -> tuple[Side, Side]:
    """Before and after; where a report can't tell, as often as the program launches them."""
    before, after = LAUNCHED.get(name, (None, None))
    return side(sample(name), times=before), side(sample(name, "fast"), times=after)


@cache
def sample_difference(name: str, *, swapped: bool = False) -> Difference:
    before, after = sample_sides(name)
    return compare(after, before) if swapped else compare(before, after)


def difference(before: Profile, after: Profile, **options: Any) -> Difference:
    return compare(side(before), side(after), **options)


def reasons(found: Difference) -> dict[str, str]:
    """Ids and how much they weigh."""
    return {reason.id: reason.severity for reason in found.all_caveats}


def check_cited(found: Difference) -> None:
    """Each number of its texts is printed from evidence, which the document has."""
    texts = [found.verdict.headline, *texts_of(found)]
    assert all(isinstance(text, Sentence) for text in texts)
    said = [*texts, *(reason.text for reason in found.all_caveats), found.next and found.next.text]
    cited = {id_ for text in said if isinstance(text, Sentence) for id_ in text.ids}
    assert cited <= found.evidence.keys()
    plain = [text for text in said if isinstance(text, str) and not isinstance(text, Sentence)]
    assert [text for text in plain if number_in(_NAMED.sub("name", text))] == []


_NAMED = re.compile(r"\d+(?:\.\d+)+|^[^:]* → [^:]*:|<.*>")
"""Versions, and kernels."""


def gated(found: Difference, percent: float = 5.0) -> Gate:
    gate = gate_difference(found, percent).gate
    assert gate
    return gate


class Changed:
    """Data of a launch, some answers replaced. Answers everything else as before."""

    def __init__(self, launch: Launch, device: Device | None, metrics: Mapping[str, Value]) -> None:
        self._data = launch.data
        self._device = device
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)

    def device(self) -> Device:
        return self._device or self._data.device()

    def metric_names(self) -> tuple[str, ...]:
        return tuple(n for n in self._data.metric_names() if self._metrics.get(n, 0) is not None)

    def metric(self, name: str) -> RawMetric | None:
        if name not in self._metrics:
            return self._data.metric(name)
        value = self._metrics[name]
        return None if value is None else RawMetric(value)

    def instances(self, name: str) -> Any:
        return None if name in self._metrics else self._data.instances(name)


def changed(
    profile: Profile,
    *,
    device: Device | None = None,
    grid: tuple[int, int, int] | None = None,
    metrics: Mapping[str, Value] | Callable[[Launch], Mapping[str, Value]] = MappingProxyType({}),
    **provenance: Any,
) -> Profile:
    """The profile with another GPU, another grid, with metrics replaced (`None`: not collected), or captured
    otherwise."""
    launches = [
        _copy(
            launch, Changed(launch, device, metrics(launch) if callable(metrics) else metrics), grid
        )
        for launch in profile.launches
    ]
    provenance.setdefault("sha256", "changed")
    return Profile(tuple(launches), profile.provenance._replace(**provenance))


def _copy(launch: Launch, data: Any, grid: tuple[int, int, int] | None) -> Launch:
    return Launch(
        number=launch.id,
        name=launch.name,
        workload=launch.workload,
        grid=grid or launch.grid,
        block=launch.block,
        data=data,
        process=launch.process,
    )


def resized(work: float) -> Profile:
    """The same code on eight times the blocks, which does so many times the work."""
    before = sample("decay_ratios")
    (launch,) = before.launches
    counted = ("inst_executed_total", "global_load_requests", "global_store_requests")
    metrics = {m.name: float(m.value) * work for c in counted if (m := launch.find(c))}
    return changed(before, grid=(8 * launch.grid[0], 1, 1), metrics=metrics)


def without(profile: Profile, *patterns: str) -> Profile:
    """Metrics with these pieces in their names were not collected."""

    def dropped(launch: Launch) -> Mapping[str, Value]:
        names = launch.metric_names()
        return {n: None for n in names if any(piece in n for piece in patterns)}

    return changed(profile, metrics=dropped)


@dataclass(frozen=True)
class Kernel:
    """What a test says of a launch."""

    function: str
    ns: Value = 10_000.0
    arguments: str = ""
    parameters: str = "int"
    grid: tuple[int, int, int] | None = (100, 1, 1)
    block: tuple[int, int, int] | None = (256, 1, 1)
    process: str | None = None
    source: Mapping[str, str | None] = field(default_factory=dict)
    metrics: Mapping[str, Value] = field(default_factory=dict)

    @property
    def full(self) -> str:
        return f"{self.function}{self.arguments}({self.parameters})"


def made(*kernels: Kernel | str, device: Device = H200, **provenance: Any) -> Profile:
    """A report with these launches, in this order."""
    described = [Kernel(each) if isinstance(each, str) else each for each in kernels]
    launches = tuple(_launch(number, each, device) for number, each in enumerate(described))
    known = {"path": "made.ncu-rep", "format": "ncu-rep", "size": 0, "sha256": str(id(launches))}
    return Profile(launches, Provenance(**{**known, "reader": "a test", **provenance}))


def _launch(number: int, kernel: Kernel, device: Device) -> Launch:
    metrics = {name: RawMetric(value) for name, value in kernel.metrics.items()}
    if kernel.ns is not None:
        metrics[DURATION] = RawMetric(kernel.ns)
    lines = {n: Location(path, n + 1) for n, path in enumerate(kernel.source)}
    return Launch(
        number=number,
        name=KernelName(kernel.function, kernel.full, f"_Z{kernel.function}"),
        workload=Workload.KERNEL,
        grid=kernel.grid,
        block=kernel.block,
        data=InMemoryLaunch(device, metrics, stored_files=kernel.source, stored_locations=lines),
        process=kernel.process,
    )


def groups(*kernels: Kernel | str) -> tuple[KernelGroup, ...]:
    return groups_of(made(*kernels).launches)


def names(launches: Sequence[KernelGroup]) -> list[str]:
    return [group.key.name.partition("(")[0] for group in launches]
