"""The catalog as typed objects. Rows are decoded on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from keet.errors import UsageError, one_line

_Row = TypeVar("_Row")
_COMPILED = Path(__file__).with_name("compiled.json")


class MetricSpec(NamedTuple):
    """A metric: its names on all GPUs and ncu versions, unit, label and meaning."""

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
    """Whether it is a key metric, listed first."""
    instances: str | None = None
    """What the instances of the value belong to, if they are the useful part: an instruction
    `address`, an `opcode`, or the points of a what-if `curve`."""
    total: bool = True
    """False if the single value sums what can't be summed, and must not be shown."""


class Stall(NamedTuple):
    """A reason for which a warp could not issue its next instruction."""

    id: str
    label: str
    waits_for: str
    meaning: str
    usual_causes: tuple[str, ...]
    counts_as_stall: bool
    """False for the two states in which the warp is not stalled."""
    metrics: tuple[str, ...]
    since: str | None = None
    """First compute capability that reports it, if not all do."""


class HardwareUnit(NamedTuple):
    """A hardware unit that can limit a kernel."""

    id: str
    label: str
    kind: str
    """`memory`, `compute`, `issue` or `link`."""
    share_of_peak: tuple[str, ...]
    """Metrics that give its share of peak in percent, the preferred one first."""
    basis: str
    """`elapsed` or `active`: the cycles that the share is relative to."""
    does: str


class Section(NamedTuple):
    """A section of `ncu --section`."""

    id: str
    title: str
    gives: str
    sets: tuple[str, ...]


class Gpu(NamedTuple):
    """Peaks of a GPU from its data sheet, for reports that have none."""

    match: str
    cc: str
    source: str
    sms: int | None = None
    dram_gbps: float | None = None
    l2_mb: float | None = None
    boost_mhz: int | None = None


class Throughput(NamedTuple):
    """Results per cycle and SM of one compute capability, by kind of operation."""

    cc: str
    per_cycle: Mapping[str, float]
    source: str


class Capability(NamedTuple):
    """Data that a report may contain, and what keet can say with it."""

    id: str
    label: str
    gives: str
    section: str
    """The `ncu --section` that captures it."""
    metrics: tuple[str, ...]
    """Catalog ids."""


class Collection(NamedTuple):
    """What `keet profile` collects: all that keet's checks need, in few passes."""

    sections: tuple[str, ...]
    metrics: tuple[str, ...]
    passes: int
    """Approximate passes per launch: it depends on the GPU."""
    recipe_sections: tuple[str, ...]
    """Of the short command for machines without keet, which people copy."""
    recipe_metrics: tuple[str, ...]


class Synonym(NamedTuple):
    """Names of metrics beside their labels; synonyms.toml describes the fields."""

    id: str
    phrases: tuple[str, ...]
    metrics: tuple[str, ...]
    """Catalog ids, or numbers that keet computes: `time_share`, `l1_over_elapsed`,
    `roofline:l2`."""
    complement: bool = False
    generic: bool = False
    verb: bool = False
    weak: bool = False
    part: bool = False


class _Rows(Mapping[str, _Row]):
    """The rows of a table by id, decoded on demand: a command needs few rows, and all take 10
    ms."""

    def __init__(self, table: str, make: Callable[[str, dict[str, Any]], _Row]) -> None:
        """`make`: creates the object from the id and the row."""
        # One row per line: see `docs_site.compiled_catalog`.
        rows = (line.partition(": ") for line in _texts()[table].split(",\n"))
        self._texts = {key[2:-1]: row for key, _, row in rows}
        self._make = make
        self._made: dict[str, _Row] = {}

    def __getitem__(self, key: str) -> _Row:
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(key, json.loads(self._texts[key]))
        return made

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@cache
def _texts() -> Mapping[str, str]:
    """The rows of each table, as text."""
    text = _COMPILED.read_text(encoding="utf-8")
    tables = text.removeprefix('{\n"').removesuffix("\n}\n}\n").split('\n},\n"')
    return {name: rows for name, _, rows in (table.partition('": {\n') for table in tables)}


def _table(name: str) -> dict[str, Any]:
    """A whole table, for tables whose rows differ in kind."""
    table: dict[str, Any] = json.loads(f"{{{_texts()[name]}}}")
    return table


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}


@cache
def metrics() -> Mapping[str, MetricSpec]:
    """All metrics of the catalog by id, in reading order."""

    def made(key: str, row: dict[str, Any]) -> MetricSpec:
        return MetricSpec(id=key, **{**_tuples(row), "section": row["section"] or None})

    return _Rows("metrics", made)


@cache
def _metric_ids() -> Mapping[str, str]:
    """Ids by ncu's names."""
    return _table("metric_ids")


@cache
def metric_with_id(metric_id: str) -> MetricSpec:
    """Raises UnknownMetric."""
    try:
        return metrics()[metric_id]
    except KeyError:
        text = f"{metric_id!r} is not a metric of keet's catalog; {_metric_hint(metric_id)}"
        raise UnknownMetric(one_line(text)) from None


class UnknownMetric(UsageError, KeyError):
    """A name that is not an id of the catalog. Also a `KeyError`, as for any mapping."""

    __str__ = Exception.__str__  # KeyError's puts the text in quotes


def _metric_hint(name: str) -> str:
    from difflib import get_close_matches

    if known := metric_named(name):
        return f"that is ncu's name of {known.id}"
    close = get_close_matches(name, metrics())
    return f"did you mean {' or '.join(close)}?" if close else "docs/metrics.md lists them"


def metric_named(name: str) -> MetricSpec | None:
    """The entry that has ncu's name of a metric."""
    metric_id = _metric_ids().get(name)
    return metrics()[metric_id] if metric_id else None


def all_names(name: str) -> tuple[str, ...]:
    """The metric's names in all versions of ncu, `name` first."""
    metric = metric_named(name)
    return (name, *(each for each in metric.names if each != name)) if metric else (name,)


@cache
def stalls() -> Mapping[str, Stall]:
    return _Rows("stalls", lambda key, row: Stall(id=key, **_tuples(row)))


@cache
def synonyms() -> Mapping[str, Synonym]:
    return _Rows("synonyms", lambda key, row: Synonym(id=key, **_tuples(row)))


@cache
def hardware_units() -> Mapping[str, HardwareUnit]:
    return _Rows("hardware_units", lambda key, row: HardwareUnit(id=key, **_tuples(row)))


@cache
def sections() -> Mapping[str, Section]:
    return _Rows("sections", lambda key, row: Section(id=key, **_tuples(row)))


@cache
def capabilities() -> Mapping[str, Capability]:
    return _Rows("capabilities", lambda key, row: Capability(id=key, **_tuples(row)))


@cache
def collection() -> Collection:
    table = _table("collection")
    metrics = [name for group in table["metrics"].values() for name in group]
    sections, recipe = tuple(table["sections"]), table["recipe"]
    return Collection(
        sections,
        tuple(metrics),
        table["passes"],
        (*sections, *recipe["more_sections"]),
        tuple(recipe["metrics"]),
    )


@cache
def gpus() -> tuple[Gpu, ...]:
    return tuple(Gpu(**row) for row in _table("gpus")["gpu"])


@cache
def throughputs() -> Mapping[str, Throughput]:
    return {
        cc: Throughput(cc, {k: v for k, v in row.items() if k != "source"}, row["source"])
        for cc, row in _table("gpus")["throughput"].items()
    }


@cache
def details_labels() -> Mapping[str, Mapping[str, str]]:
    """Names of metrics by section title and label of ncu's details page, if they name one metric in
    every version of ncu."""
    return _Rows("details", lambda _, row: row)


@cache
def rule_texts() -> Mapping[str, Mapping[str, str]]:
    """Rules by the title of a section and the first words of a printed message."""
    return _Rows("rule_texts", lambda _, row: row)


def counter_tables() -> tuple[list[str], Mapping[str, str]]:
    """Counters that every GPU has, and those of some GPUs with the list of these GPUs."""
    table = _table("availability")
    return table["everywhere"], table["only_on"]


@cache
def unit_nouns() -> tuple[tuple[str, str], ...]:
    """Patterns of base names and their units; the first match counts."""
    return tuple((row["pattern"], row["unit"]) for row in _table("units")["noun"])
