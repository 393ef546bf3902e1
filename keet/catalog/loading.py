"""The catalog as typed objects. Nothing is read before it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_COMPILED = Path(__file__).with_name("compiled.json")


class MetricSpec(NamedTuple):
    """What keet knows about a metric, whatever it is called on this GPU and by this ncu."""

    id: str
    label: str
    """Nsight Compute's own label where its details page has one."""
    unit: str
    section: str | None
    """The `ncu --section` that collects it; `None`: only `--metrics` does."""
    names: tuple[str, ...]
    """Spellings over GPU generations and ncu versions, the preferred one first."""
    meaning: str
    key: bool = False
    """One of the few that are looked at first."""
    instances: str | None = None
    """What the parts of the value belong to, where those are what one wants: an instruction
    `address`, an `opcode`, or the points of a what-if `curve`."""
    total: bool = True
    """False where the single value adds up what can't be added, and must not be shown."""


class Stall(NamedTuple):
    """A reason for which a warp could not issue its next instruction."""

    id: str
    label: str
    waits_for: str
    meaning: str
    usual_causes: tuple[str, ...]
    counts_as_stall: bool
    """False for the two states in which nothing slow is being waited for."""
    metrics: tuple[str, ...]
    since: str | None = None
    """First compute capability that reports it, where it is not all of them."""


class HardwareUnit(NamedTuple):
    """A part of the GPU that a kernel can press against its ceiling."""

    id: str
    label: str
    kind: str
    """`memory`, `compute`, `issue` or `link`."""
    share_of_peak: tuple[str, ...]
    """Metrics that give its share of peak in percent, the preferred one first."""
    basis: str
    """`elapsed` or `active`: the cycles that the share is of."""
    does: str


class Section(NamedTuple):
    """A section of `ncu --section`."""

    id: str
    title: str
    gives: str
    sets: tuple[str, ...]


class Gpu(NamedTuple):
    """Peaks of a GPU from its data sheet, for reports that have none of their own."""

    match: str
    cc: str
    source: str
    sms: int | None = None
    dram_gbps: float | None = None
    l2_mb: float | None = None
    boost_mhz: int | None = None


class Throughput(NamedTuple):
    """Results a cycle and SM of one compute capability, by kind of operation."""

    cc: str
    per_cycle: Mapping[str, float]
    source: str


class Capability(NamedTuple):
    """Something that keet can tell from a report which holds one of its metrics."""

    id: str
    label: str
    gives: str
    section: str
    """The `ncu --section` that captures it."""
    metrics: tuple[str, ...]
    """Catalog ids."""


class FindingSpec(NamedTuple):
    """Something that keet can find in a launch: an id of the closed vocabulary."""

    id: str
    family: str
    """`memory`, `parallelism`, `instructions` or `healthy`."""
    label: str
    meaning: str
    remedy: str = ""
    """What to change; `{here}` becomes the place in the source."""
    remedies: Mapping[str, str] = {}
    """The same where the report tells which of several causes it is."""
    rules: tuple[str, ...] = ()
    """Rules of Nsight Compute that look at the same thing."""


class Collection(NamedTuple):
    """What `keet profile` asks ncu for: all that keet's checks need, in few passes."""

    sections: tuple[str, ...]
    metrics: tuple[str, ...]
    passes: int
    """Per launch, about: it depends on the GPU."""


class Synonym(NamedTuple):
    """What people call some metrics, beside their labels; the fields are told in synonyms.toml."""

    id: str
    phrases: tuple[str, ...]
    metrics: tuple[str, ...]
    """Catalog ids, or `time_share` and `l1_over_elapsed`, which keet computes."""
    complement: bool = False
    generic: bool = False
    verb: bool = False
    weak: bool = False
    part: bool = False


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    tables: Mapping[str, Mapping[str, Any]] = json.loads(_COMPILED.read_text(encoding="utf-8"))
    return tables


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}


@cache
def metrics() -> Mapping[str, MetricSpec]:
    """Every metric of the catalog by its id, in the order in which people read them."""
    return {
        key: MetricSpec(id=key, **{**_tuples(row), "section": row["section"] or None})
        for key, row in _tables()["metrics"].items()
    }


@cache
def _metric_ids() -> Mapping[str, str]:
    return {name: spec.id for spec in metrics().values() for name in spec.names}


def metric_with_id(metric_id: str) -> MetricSpec:
    """The entry of an id; an unknown id is a bug of the caller, hence the KeyError."""
    try:
        return metrics()[metric_id]
    except KeyError:
        from difflib import get_close_matches

        close = ", ".join(get_close_matches(metric_id, metrics())) or "see docs/metrics.md"
        raise KeyError(f"{metric_id!r} is no metric of the catalog; close: {close}") from None


def metric_named(name: str) -> MetricSpec | None:
    """The entry that knows ncu's name for a metric."""
    metric_id = _metric_ids().get(name)
    return metrics()[metric_id] if metric_id else None


@cache
def stalls() -> Mapping[str, Stall]:
    return {key: Stall(id=key, **_tuples(row)) for key, row in _tables()["stalls"].items()}


@cache
def synonyms() -> Mapping[str, Synonym]:
    return {key: Synonym(id=key, **_tuples(row)) for key, row in _tables()["synonyms"].items()}


@cache
def hardware_units() -> Mapping[str, HardwareUnit]:
    rows = _tables()["hardware_units"]
    return {key: HardwareUnit(id=key, **_tuples(row)) for key, row in rows.items()}


@cache
def sections() -> Mapping[str, Section]:
    return {key: Section(id=key, **_tuples(row)) for key, row in _tables()["sections"].items()}


@cache
def capabilities() -> Mapping[str, Capability]:
    rows = _tables()["capabilities"]
    return {key: Capability(id=key, **_tuples(row)) for key, row in rows.items()}


@cache
def findings() -> Mapping[str, FindingSpec]:
    rows = _tables()["findings"]
    return {key: FindingSpec(id=key, **_tuples(row)) for key, row in rows.items()}


@cache
def collection() -> Collection:
    table = _tables()["collection"]
    metrics = [name for group in table["metrics"].values() for name in group]
    return Collection(tuple(table["sections"]), tuple(metrics), table["passes"])


@cache
def gpus() -> tuple[Gpu, ...]:
    return tuple(Gpu(**row) for row in _tables()["gpus"]["gpu"])


@cache
def throughputs() -> Mapping[str, Throughput]:
    return {
        cc: Throughput(cc, {k: v for k, v in row.items() if k != "source"}, row["source"])
        for cc, row in _tables()["gpus"]["throughput"].items()
    }


def counter_tables() -> tuple[list[str], Mapping[str, str]]:
    """Counters that every GPU has, and those that some have with the list of these."""
    table = _tables()["availability"]
    return table["everywhere"], table["only_on"]


@cache
def unit_nouns() -> tuple[tuple[str, str], ...]:
    """Patterns of base names with the unit that each stands for, the first match first."""
    return tuple((row["pattern"], row["unit"]) for row in _tables()["units"]["noun"])
