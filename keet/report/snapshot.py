"""Writes and reads `.keet.json`: a whole profile as text, to read, diff and keep in a repository.

Lossless: what is read back equals what was written. Laid out for `diff`: names in order, one line
per metric, the instances of a metric on one line, source text as lines. `InMemoryLaunch` is the
data of what is read, also from printed pages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keet.errors import DamagedReport, UnsupportedVersion
from keet.files import replacing, replacing_text
from keet.profile import (
    Absent,
    Device,
    Dim3,
    Instances,
    KernelName,
    Launch,
    Location,
    MetricId,
    NvtxRange,
    Origin,
    Profile,
    Provenance,
    RawMetric,
    RuleResult,
    SourceMarker,
    Value,
    Workload,
)
from keet.profile.metric import leading_rule
from keet.profile.run_link import iterate_launches
from keet.report.input.files import printable_path
from keet.report.typed_json import indented, parse_object, typed, version_of
from keet.safe_text import bounded, bounded_line


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


# --- the layout of packed snapshots: names, values and addresses each in one list. A plain snapshot
# has a line per metric and repeats the instruction addresses for every per-instruction metric. With
# similar values next to each other, the compressed document is 40 % smaller.

_PACKED_VERSION = 1
_PACKED_MARK = "packed"

Document = dict[str, Any]


def packed_document(snapshot: Document) -> Document:
    launches = [_packed_launch(launch) for launch in snapshot["launches"]]
    return {**snapshot, _PACKED_MARK: _PACKED_VERSION, "launches": launches}


def unpacked_document(packed: Document) -> Document:
    """Exactly what `packed_document` was given; raises `ValueError` for what it can't have made."""
    try:
        launches = [_unpacked_launch(launch) for launch in packed["launches"]]
    except (KeyError, IndexError, TypeError, AttributeError) as problem:
        raise ValueError(f"a launch does not have the packed layout ({problem!r})") from None
    return {**{k: v for k, v in packed.items() if k != _PACKED_MARK}, "launches": launches}


class _Lists:
    """Lists of ids, each stored once: most per-instruction metrics have the same list."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], int] = {}
        self.stored: list[Document] = []

    def add(self, ids: list[Any] | None) -> int | None:
        if ids is None:
            return None
        whole = all(type(id_) is int for id_ in ids)
        key = tuple((type(id_), id_) for id_ in ids)
        if key not in self._known:
            self._known[key] = len(self.stored)
            # Differences of neighbours: instruction addresses are mostly 16 bytes apart.
            steps = (after - before for before, after in pairwise(ids))
            self.stored.append({"steps": [*ids[:1], *steps]} if whole else {"ids": ids})
        return self._known[key]


def _packed_launch(launch: Document) -> Document:
    lists = _Lists()
    instances = launch["instances"]
    code, places = launch["disassembly"], launch["locations"]
    files = sorted({file for file, _ in places.values()})
    return {
        **launch,
        "metrics": {"names": list(launch["metrics"]), "values": list(launch["metrics"].values())},
        "instances": {
            "names": list(instances),
            "ids": [lists.add(instance["ids"]) for instance in instances.values()],
            "values": [instance["values"] for instance in instances.values()],
        },
        "locations": {
            "ids": lists.add([int(address) for address in places]),
            "files": files,
            "file": [files.index(file) for file, _ in places.values()],
            "line": [line for _, line in places.values()],
        },
        "disassembly": {
            "ids": lists.add([int(address) for address in code]),
            "text": list(code.values()),
        }
        if "reason" not in code
        else code,
        "id_lists": lists.stored,
    }


def _unpacked_launch(packed: Document) -> Document:
    lists = [
        list(accumulate(each["steps"])) if "steps" in each else each["ids"]
        for each in packed["id_lists"]
    ]
    metrics, instances = packed["metrics"], packed["instances"]
    places, code = packed["locations"], packed["disassembly"]
    return {
        **{key: value for key, value in packed.items() if key != "id_lists"},
        "metrics": dict(zip(metrics["names"], metrics["values"], strict=True)),
        "instances": {
            name: {"ids": None if which is None else lists[which], "values": values}
            for name, which, values in zip(
                instances["names"], instances["ids"], instances["values"], strict=True
            )
        },
        "locations": {
            str(address): [places["files"][file], line]
            for address, file, line in zip(
                lists[places["ids"]], places["file"], places["line"], strict=True
            )
        },
        "disassembly": code
        if "reason" in code
        else dict(zip(map(str, lists[code["ids"]]), code["text"], strict=True)),
    }


VERSION = 1
MARK = "keet_snapshot"
SUFFIX = ".keet.json"
PACKED = ".zst"
"""Suffix of a packed snapshot, after `SUFFIX`."""

NonFinite = tuple[Literal["nan", "inf", "-inf"]]
"""JSON has no NaN and no infinity: they are written as ["nan"], ["inf"]."""
Cell = int | float | str | NonFinite | None


def write_snapshot(profile: Profile, path: Path) -> None:
    """Write atomically; packed if the name ends with `PACKED`."""
    if path.name.endswith(PACKED):
        with replacing(path) as file:
            file.write(packed_snapshot(profile))
        return
    with replacing_text(path) as write:
        for piece in snapshot_text(profile):
            write(piece)


def packed_snapshot(profile: Profile) -> bytes:
    """The snapshot in columns, compressed with the dictionary that keet ships."""
    from keet.report.input import zstd

    document = {
        MARK: VERSION,
        "provenance": _provenance_document(profile.provenance),
        **_run_document(profile),
        "launches": [
            _launch_document(x) for x in iterate_launches(profile.launches, "packing launches")
        ],
    }
    text = json.dumps(
        packed_document(document), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return zstd.packed(text.encode())


def snapshot_text(profile: Profile) -> Iterator[str]:
    """The snapshot piece by piece, so that the text of a large report is never in memory."""
    provenance = _provenance_document(profile.provenance)
    yield f'{{\n "{MARK}": {VERSION},\n "provenance": {indented(provenance, 1)},\n'
    for name, document in _run_document(profile).items():
        yield f' "{name}": {indented(document, 1)},\n'
    yield ' "launches": ['
    for launch in iterate_launches(profile.launches, "writing launches"):
        yield "," if launch.id else ""
        yield "\n  " + _object(_launch_document(launch), 2)
    yield "\n ]\n}\n"


def _provenance_document(provenance: Provenance) -> dict[str, Any]:
    """Of the report, also if the profile is from a snapshot of it."""
    document = provenance._replace(snapshot=None)._asdict()
    del document["origin"]
    return document | (provenance.origin._asdict() if provenance.origin else {})


def _run_document(profile: Profile) -> dict[str, Any]:
    """The run table, if there is one."""
    from keet.report.run_table import table_document

    return {"run": table_document(profile.run)} if profile.run else {}


def _launch_document(launch: Launch) -> dict[str, Any]:
    data = launch.data
    names = sorted(launch.metric_names())
    raw = {name: metric for name in names if (metric := data.metric(name)) is not None}
    parts = {name: instances for name in names if (instances := data.instances(name)) is not None}
    code = launch.disassembly
    return {
        "id": launch.id,
        "name": launch.name._asdict(),
        "workload": launch.workload.value,
        "grid": launch.grid,
        "block": launch.block,
        "process": launch.process,
        "stream": launch.stream,
        "context": launch.context,
        "device": asdict(launch.device),
        "sections": list(launch.sections),
        "metrics": {name: _cell(metric.value) for name, metric in raw.items()},
        "units": {name: metric.unit for name, metric in raw.items() if metric.unit is not None},
        "instances": {
            name: {
                "ids": None if instances.ids is None else list(instances.ids),
                "values": list(map(_cell, instances.values)),
            }
            for name, instances in parts.items()
        },
        "rules": [_rule_document(rule) for rule in launch.rules],
        "markers": [marker._asdict() for marker in launch.markers],
        "nvtx": [entry._asdict() for entry in launch.nvtx],
        "source_files": {
            path: None if text is None else text.split("\n")
            for path, text in sorted(launch.source_files.items())
        },
        "locations": {
            str(address): [where.file, where.line]
            for address, where in sorted(launch.locations.items())
        },
        "disassembly": (
            code._asdict()
            if isinstance(code, Absent)
            else {str(address): text for address, text in sorted(code.items())}
        ),
    }


def _rule_document(rule: RuleResult) -> dict[str, Any]:
    return {
        **rule._asdict(),
        "speedup": rule.speedup and rule.speedup._asdict(),
        "focus": [focus._asdict() for focus in rule.focus],
    }


def _cell(value: Value) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf",)
    return value


def _object(document: Mapping[str, Any], depth: int) -> str:
    """A JSON object with one line per entry of its tables and per element of its lists."""
    rows = [f"{json.dumps(key)}: {indented(value, depth + 1)}" for key, value in document.items()]
    pad = " " * (depth + 1)
    return "{\n" + pad + f",\n{pad}".join(rows) + "\n" + " " * depth + "}"


def read_snapshot(text: str, path: Path, size: int, sha256: str) -> Profile:
    """`size` and `sha256`: of the bytes of the file."""
    from keet.report.run_table import table_from_document

    try:
        document = parse_object(text)
        _check_version(document, path)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    try:
        if _PACKED_MARK in document:
            document = unpacked_document(document)
        snapshot = typed(document, _Snapshot)
        launches = tuple(_launch(stored) for stored in snapshot.launches)
        run = None if snapshot.run is None else table_from_document(snapshot.run, path)
        stated = bounded(snapshot.provenance)
        provenance = stated._replace(
            size=size,
            sha256=sha256,
            snapshot=printable_path(path),
            origin=Origin(stated.size, stated.sha256),
        )
        return Profile(launches, provenance, run=run)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None


def _check_version(document: dict[str, Any], path: Path) -> None:
    """Raises ValueError with one line, too."""
    for words, mark, known in (
        ("has", MARK, VERSION),
        ("is packed in", _PACKED_MARK, _PACKED_VERSION),
    ):
        version = version_of({_PACKED_MARK: _PACKED_VERSION, **document}, mark)
        if version != known:
            raise UnsupportedVersion(
                path,
                f"the snapshot {words} version {version}, and this keet reads version {known}",
                "update keet, or make it again with: keet snapshot REPORT",
            )


def _damaged(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(
        path, f"the snapshot is damaged: {problem}", "make it again with: keet snapshot REPORT"
    )


class _StoredInstances(NamedTuple):
    ids: list[MetricId] | None
    values: list[Cell]


class _StoredLaunch(NamedTuple):
    id: int
    name: KernelName
    workload: Workload
    grid: Dim3 | None
    block: Dim3 | None
    process: str | None
    stream: int | None
    context: int | None
    device: Device
    sections: list[str]
    metrics: dict[str, Cell]
    units: dict[str, str]
    instances: dict[str, _StoredInstances]
    rules: list[RuleResult]
    markers: list[SourceMarker]
    nvtx: list[NvtxRange]
    source_files: dict[str, list[str] | None]
    locations: dict[int, tuple[str, int]]
    disassembly: Absent | dict[int, str]


class _Snapshot(NamedTuple):
    """The structure of the file, and the type of every value."""

    provenance: Provenance
    launches: list[_StoredLaunch]
    run: dict[str, Any] | None = None


def _launch(stored: _StoredLaunch) -> Launch:
    device = stored.device
    name, capability = bounded((device.name, device.compute_capability))
    data = InMemoryLaunch(
        stored_device=replace(device, name=name, compute_capability=capability),
        metrics={
            bounded_line(name): RawMetric(_value(cell), bounded(stored.units.get(name)))
            for name, cell in stored.metrics.items()
        },
        stored_instances={
            bounded_line(name): Instances(
                _each(_value, instances.values),
                None if instances.ids is None else _each(bounded, instances.ids),
            )
            for name, instances in stored.instances.items()
        },
        stored_sections=bounded(tuple(stored.sections)),
        stored_rules=bounded(tuple(stored.rules)),
        stored_markers=bounded(tuple(stored.markers)),
        stored_nvtx=bounded(tuple(stored.nvtx)),
        stored_files={
            bounded_line(path): None if lines is None else "\n".join(lines)
            for path, lines in stored.source_files.items()
        },
        stored_locations={
            pc: Location(bounded_line(file), line) for pc, (file, line) in stored.locations.items()
        },
        stored_disassembly=stored.disassembly,
    )
    return Launch(
        number=stored.id,
        name=bounded(stored.name),
        workload=stored.workload,
        grid=stored.grid,
        block=stored.block,
        data=data,
        process=bounded(stored.process),
        stream=stored.stream,
        context=stored.context,
    )


def _each(made: Callable[[Any], Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """Most columns have numbers only, which stay as they are."""
    return tuple(values) if {*map(type, values)} <= {int, float} else tuple(map(made, values))


def _value(cell: Cell) -> Value:
    if isinstance(cell, tuple):
        return float(cell[0])
    return bounded_line(cell) if isinstance(cell, str) else cell
