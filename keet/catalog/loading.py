"""The catalog as typed objects, and what follows from its rows: a metric's unit, the GPUs that have
it, a device's row. Rows are decoded on demand.

The casebook in short is in files of its own, so that an explanation does not load the index of all
cases. `make casebook-import` writes all of them, and a test fails if they differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from keet.errors import UsageError, one_line
from keet.units import base_unit

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
        # One row per line: see `docs_site.metrics_page`.
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


_PREFIX = re.compile(r"^(?:pmsampling:|breakdown:|group:|regex:|(?:[A-Z]\w*\.)?Triage\w*\.)")
_ROLLUPS = {"sum", "avg", "min", "max"}


@cache
def unit_of(name: str) -> str:
    """The unit of the value that the report stores under `name`; empty for a plain number."""
    spec = metric_named(name)
    if spec is not None:
        return spec.unit
    base, *suffixes = _PREFIX.sub("", name).split(".")
    if any(suffix.startswith("pct") for suffix in suffixes):
        return "%"
    if suffixes and suffixes[0] not in _ROLLUPS:
        return ""  # .ratio, .max_rate: only the catalog knows the units
    noun = _noun(base)
    rate = suffixes[1] if len(suffixes) > 1 else ""
    if rate == "per_second":
        return base_unit(f"{noun}/s") if noun else ""
    if rate.startswith(("per_cycle", "peak_sustained")):
        # Warps are counted in each cycle, so their rate is a number of warps.
        return {"": "", "cycle": "", "warp": "warp"}.get(noun, f"{noun}/cycle")
    return noun


@cache
def _nouns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of base names and their units; the first match counts."""
    return tuple((re.compile(row["pattern"]), row["unit"]) for row in _table("units")["noun"])


def _noun(base: str) -> str:
    # Attributes, launch parameters and topology are settings: their names have no pattern.
    if base.startswith(("device__", "launch__", "nvlink__", "numa__", "c2clink__")):
        return ""
    return next((unit for pattern, unit in _nouns() if pattern.search(base)), "")


CHIPS = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
"""Compute capabilities for which ncu's list of counters is known."""


def exists_on(name: str, compute_capability: str | None) -> bool | None:
    """Whether a GPU has the metric; `None` if no list says."""
    chips = chips_with(name)
    if chips is None or compute_capability not in CHIPS:
        return None
    return compute_capability in chips


def chips_with(name: str) -> tuple[str, ...] | None:
    """The compute capabilities that have it; `None` if it is not a hardware counter."""
    return _chips().get(name.rpartition(":")[2].partition(".")[0])


@cache
def _chips() -> Mapping[str, tuple[str, ...]]:
    table = _table("availability")
    limited = {name: tuple(chips.split()) for name, chips in table["only_on"].items()}
    return {**dict.fromkeys(table["everywhere"], CHIPS), **limited}


_VARIANTS = ("Laptop GPU", "Max-Q")
"""Boards that share a name with a faster one: they match only a row that names them."""


def gpu_named(name: str, compute_capability: str | None, sm_count: int | None) -> Gpu | None:
    """The row with the longest match that does not contradict the report."""
    fitting = [
        gpu
        for gpu in gpus()
        if gpu.match in name
        and compute_capability in (None, gpu.cc)
        and (sm_count is None or gpu.sms in (None, sm_count))
        and all(word in gpu.match for word in _VARIANTS if word in name)
    ]
    return max(fitting, key=lambda gpu: len(gpu.match), default=None)


PRECEDENTS = Path(__file__).with_name("precedents.json")


class Precedents(NamedTuple):
    """Times faster, in the measured cases of one finding."""

    cases: int
    low: float
    median: float
    high: float
    lookalikes: int
    """Number of look-alikes, where the same fix gained less than 10 %; not included in the
    others."""


@cache
def precedents() -> Mapping[str, Precedents]:
    """By finding; findings without a measured gain are missing."""
    rows = json.loads(PRECEDENTS.read_text(encoding="utf-8"))
    return {finding: Precedents(**row) for finding, row in rows.items()}


CASE_SUMMARIES = Path(__file__).with_name("case_summaries.json")


class CaseSummary(NamedTuple):
    """A measured case in short."""

    id: str
    finding: str
    archetype: str
    language: str
    """`cuda` or `triton`."""
    gain: float
    """Times faster, of this cause alone."""
    kernels: tuple[str, ...]
    """Names of the kernel before and after the fix."""
    changes: tuple[str, ...]
    """Two or three lines of the diff, each with its `-` or `+`."""

    @property
    def family(self) -> str:
        return self.id.partition("/")[0]


@cache
def case_summaries() -> tuple[CaseSummary, ...]:
    """Look-alikes are left out: they gained nothing."""
    rows = json.loads(CASE_SUMMARIES.read_text(encoding="utf-8"))
    return tuple(
        CaseSummary(id_, finding, archetype, language, gain, tuple(kernels), tuple(changes))
        for id_, finding, archetype, language, gain, kernels, changes in rows
    )
