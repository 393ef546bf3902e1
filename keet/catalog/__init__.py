"""The catalog: metrics, stall reasons, sections and GPUs, as data in TOML.

People edit the TOML files; `make docs` compiles them to `compiled.json`, which `loading` decodes
row by row. One TOML file or folder per table; imports only the base modules of keet, such as
`units`.
"""

from keet.catalog.loading import (
    Capability,
    Collection,
    Gpu,
    HardwareUnit,
    MetricSpec,
    Section,
    Stall,
    Synonym,
    Throughput,
    all_names,
    capabilities,
    collection,
    details_labels,
    gpus,
    hardware_units,
    metric_named,
    metric_with_id,
    metrics,
    rule_texts,
    sections,
    stalls,
    synonyms,
    throughputs,
)
from keet.catalog.lookups import chips_with, exists_on, gpu_named, unit_of

__all__ = [
    "Capability",
    "Collection",
    "Gpu",
    "HardwareUnit",
    "MetricSpec",
    "Section",
    "Stall",
    "Synonym",
    "Throughput",
    "all_names",
    "capabilities",
    "chips_with",
    "collection",
    "details_labels",
    "exists_on",
    "gpu_named",
    "gpus",
    "hardware_units",
    "metric_named",
    "metric_with_id",
    "metrics",
    "rule_texts",
    "sections",
    "stalls",
    "synonyms",
    "throughputs",
    "unit_of",
]
