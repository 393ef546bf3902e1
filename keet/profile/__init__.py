"""The content of a report as types: `Profile` → `Launch` → `Metric`, and the run table.

Readers (keet/report) create these, everything else uses them. Imports the catalog, never a reader
or an analysis.
"""

from keet.profile.launch import (
    Absent,
    Device,
    Dim3,
    KernelName,
    Launch,
    LaunchData,
    Location,
    NvtxRange,
    RawMetric,
    Workload,
    short_name,
)
from keet.profile.metric import (
    SAMPLES_BY_REASON,
    FocusMetric,
    Instances,
    Metric,
    MetricId,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
    Value,
    is_measurement,
)
from keet.profile.profile import Origin, Profile, Provenance, ReportFormat
from keet.profile.run_table import KernelRun, Position, RunPositions, RunTable

__all__ = [
    "SAMPLES_BY_REASON",
    "Absent",
    "Device",
    "Dim3",
    "FocusMetric",
    "Instances",
    "KernelName",
    "KernelRun",
    "Launch",
    "LaunchData",
    "Location",
    "Metric",
    "MetricId",
    "NvtxRange",
    "Origin",
    "Position",
    "Profile",
    "Provenance",
    "RawMetric",
    "ReportFormat",
    "RuleKind",
    "RuleResult",
    "RunPositions",
    "RunTable",
    "SourceMarker",
    "SpeedupEstimate",
    "SpeedupScope",
    "Value",
    "Workload",
    "is_measurement",
    "short_name",
]
