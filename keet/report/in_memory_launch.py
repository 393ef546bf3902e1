"""Launch data that is all in memory: from printed pages, snapshots and NVIDIA's reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from keet.profile import (
    Absent,
    Device,
    Instances,
    Location,
    NvtxRange,
    RawMetric,
    RuleResult,
    SourceMarker,
)
from keet.profile.rules import leading_rule


@dataclass(frozen=True)
class InMemoryLaunch:
    """Implements `LaunchData` with stored values."""

    stored_device: Device
    metrics: Mapping[str, RawMetric]
    stored_instances: Mapping[str, Instances] = field(default_factory=dict)
    stored_sections: tuple[str, ...] = ()
    stored_rules: tuple[RuleResult, ...] = ()
    stored_markers: tuple[SourceMarker, ...] = ()
    stored_nvtx: tuple[NvtxRange, ...] = ()
    stored_files: Mapping[str, str | None] = field(default_factory=dict)
    stored_locations: Mapping[int, Location] = field(default_factory=dict)
    stored_disassembly: Mapping[int, str] | Absent = field(
        default_factory=lambda: Absent("the file contains no code", "use the .ncu-rep itself")
    )

    def device(self) -> Device:
        return self.stored_device

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.metrics)

    def metric(self, name: str) -> RawMetric | None:
        return self.metrics.get(name)

    def instances(self, name: str) -> Instances | None:
        return self.stored_instances.get(name)

    def sections(self) -> tuple[str, ...]:
        return self.stored_sections

    def rules(self) -> tuple[RuleResult, ...]:
        return self.stored_rules

    def leading_rule(self) -> RuleResult | None:
        return leading_rule(self.stored_rules)

    def markers(self) -> tuple[SourceMarker, ...]:
        return self.stored_markers

    def nvtx(self) -> tuple[NvtxRange, ...]:
        return self.stored_nvtx

    def source_files(self) -> Mapping[str, str | None]:
        return self.stored_files

    def source_text(self, path: str) -> str | None:
        return self.stored_files.get(path)

    def has_source_text(self) -> bool:
        return any(self.stored_files.values())

    def has_lines(self) -> bool:
        return bool(self.stored_locations)

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]:
        lines = self.stored_locations
        return {address: lines[address] for address in addresses if address in lines}

    def locations(self) -> Mapping[int, Location]:
        return self.stored_locations

    def disassembly(self) -> Mapping[int, str] | Absent:
        return self.stored_disassembly

    def is_for_debugging(self) -> bool:
        return False
