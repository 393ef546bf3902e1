"""What keet knows about metrics, stalls, hardware and GPUs: data in TOML, and no opinions."""

from keet.catalog.availability import chips_with, exists_on
from keet.catalog.gpu_match import gpu_named
from keet.catalog.loading import (
    Capability,
    Collection,
    FindingSpec,
    Gpu,
    HardwareUnit,
    MetricSpec,
    Section,
    Stall,
    Throughput,
    capabilities,
    collection,
    findings,
    gpus,
    hardware_units,
    metric_named,
    metric_with_id,
    metrics,
    sections,
    stalls,
    throughputs,
)
from keet.catalog.unit_names import unit_of

__all__ = [
    "Capability",
    "Collection",
    "FindingSpec",
    "Gpu",
    "HardwareUnit",
    "MetricSpec",
    "Section",
    "Stall",
    "Throughput",
    "capabilities",
    "chips_with",
    "collection",
    "exists_on",
    "findings",
    "gpu_named",
    "gpus",
    "hardware_units",
    "metric_named",
    "metric_with_id",
    "metrics",
    "sections",
    "stalls",
    "throughputs",
    "unit_of",
]
