"""One launch of a report, decoded on demand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from keet.errors import DamagedReport
from keet.profile import (
    SAMPLES_BY_REASON,
    Device,
    FocusMetric,
    Instances,
    Location,
    MetricId,
    NvtxRange,
    RawMetric,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
)
from keet.report.cubin import CodeObject, Function, LineTable, functions_of
from keet.report.input.files import SizedCache
from keet.report.ncu_rep.container import EntryKind, damaged
from keet.report.ncu_rep.metrics import MetricPlaces, MetricTable
from keet.report.ncu_rep.report_file import CodeKey, NcuRepFile, device_from_metrics
from keet.report.protobuf import Malformed, ProtoMessage, spans_of

# --- the NVTX ranges that were open around a launch

_DOMAINS, _THREADS, _START_END = 1, 2, 3


def read_nvtx(state: ProtoMessage | None) -> tuple[NvtxRange, ...]:
    """Outermost first; push/pop ranges by thread, then start/end ranges."""
    if state is None:
        return ()
    names = {domain.number(1) or 0: domain.text(2) or "" for domain in state.messages(_DOMAINS)}
    pushed = (domain for thread in state.messages(_THREADS) for domain in thread.messages(2))
    ranges: list[NvtxRange] = []
    for kind, field, domains in (
        ("push_pop", 1, pushed),
        ("start_end", 2, state.messages(_START_END)),
    ):
        for domain in domains:
            number = domain.number(1) or 0
            name = names.get(number, str(number))
            ranges += (NvtxRange(name, e.text(field) or "", kind) for e in domain.messages(3))
    return tuple(ranges)


Span = tuple[int, int]
# --- the results of NVIDIA's rules

_KINDS = (
    RuleKind.NONE,
    RuleKind.OK,
    RuleKind.WARNING,
    RuleKind.ERROR,
    RuleKind.OPTIMIZATION,
)
"""By the number in the file, which differs from that of NVIDIA's Python interface."""
_SCOPES = (SpeedupScope.UNKNOWN, SpeedupScope.LOCAL, SpeedupScope.GLOBAL)
_SEVERITIES = ("default", "low", "high")


def read_leading_rule(data: bytes, spans: Iterable[Span]) -> RuleResult | None:
    """See `leading_rule`. `spans`: positions of the rules. Of other rules only the estimate is
    parsed."""
    most, leading = 0.0, None
    for rule in spans:
        for item in _item_spans(data, rule):
            for estimate in spans_of(10, data, *item)[-1:]:
                speedup = _speedup(ProtoMessage(data, *estimate))
                if speedup and speedup.scope is SpeedupScope.GLOBAL and speedup.percent > most:
                    most, leading = speedup.percent, (rule, item)
    return _result(*(ProtoMessage(data, *span) for span in leading)) if leading else None


def _item_spans(data: bytes, rule: Span) -> list[Span]:
    """The spans of what `_items` gives."""
    bodies = spans_of(3, data, *rule)
    items = spans_of(1, data, *bodies[-1]) if bodies else ()
    return [item for item in items if spans_of(1, data, *item)]


def _items(rule: ProtoMessage) -> Iterator[ProtoMessage]:
    """One per message of the rule's body; charts and tables without a message are skipped."""
    body = rule.message(3)
    return (item for item in body.messages(1) if item.span(1)) if body else iter(())


def _result(rule: ProtoMessage, item: ProtoMessage) -> RuleResult:
    message = item.message(1) or ProtoMessage(b"")
    kind = message.number(2)
    return RuleResult(
        rule=rule.text(1) or "",
        name=rule.text(2) or "",
        section=rule.text(4) or "",
        kind=_KINDS[kind] if kind is not None and kind < len(_KINDS) else RuleKind.NONE,
        title=message.text(4) or "",
        message=message.text(1) or "",
        speedup=_speedup(item.message(10)),
        focus=tuple(_focus(metric) for metric in item.messages(8)),
    )


def _speedup(message: ProtoMessage | None) -> SpeedupEstimate | None:
    if message is None:
        return None
    percent = message.double(2)
    if percent is None or not math.isfinite(percent):
        return None
    scope = message.number(1) or 0
    return SpeedupEstimate(
        _SCOPES[scope] if scope < len(_SCOPES) else SpeedupScope.UNKNOWN, percent
    )


def _focus(message: ProtoMessage) -> FocusMetric:
    severity = message.number(4) or 0
    value = message.double(3)
    return FocusMetric(
        name=message.text(2) or "",
        value=value if value is not None and math.isfinite(value) else None,
        severity=_SEVERITIES[severity] if severity < len(_SEVERITIES) else "default",
        info=message.text(5) or "",
    )


def read_markers(messages: Iterable[ProtoMessage]) -> tuple[SourceMarker, ...]:
    return tuple(
        SourceMarker(
            rule=rule.text(1) or "",
            message=marker.text(4) or "",
            address=marker.number(3),
            file=marker.text(6) or None,
            line=marker.number(2),
        )
        for rule in messages
        for marker in rule.messages(5)
    )


# --- the launch


class _Fields(NamedTuple):
    """Field numbers of a result; the four kinds of result number the same fields differently."""

    metrics: int
    sections: int
    rules: int
    nvtx: int
    context: int
    sources: int
    stream: int | None = None


_FIELDS = {
    EntryKind.KERNEL: _Fields(13, 17, 19, 21, 22, sources=15, stream=23),
    EntryKind.RANGE: _Fields(4, 7, 20, 10, 11, sources=15),
    EntryKind.CMDLIST: _Fields(4, 7, 21, 10, 11, sources=17, stream=12),
    EntryKind.GRAPH: _Fields(4, 7, 22, 10, 11, sources=17, stream=12),
}

_EXECUTED, _SAMPLES = "inst_executed", "smsp__pcsamp_sample_count"
"""Metrics whose instances are instruction addresses."""


class DecodedLaunch:
    """The decoded parts of one result, and its bytes if the report is not in memory."""

    def __init__(self, file: NcuRepFile, number: int) -> None:
        """Raises `DamagedReport` if the result can't be parsed."""
        entry = file.results[number]
        self.number = number
        self.size = entry.stop - entry.start
        self.where = _FIELDS[entry.kind]
        self._file = file
        self._places = MetricPlaces()
        with self._damage_named():
            run = (self.where.metrics, self._places.read)
            self.message, self._data = file.message(entry, run)

    @cached_property
    def metrics(self) -> MetricTable:
        with self._damage_named():
            return MetricTable(self._data, self._places, self._file.names)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except Malformed as problem:
            raise self.damaged(problem) from None

    def damaged(self, problem: Malformed) -> DamagedReport:
        return damaged(self._file.path, f"launch {self.number} can't be read ({problem})")

    def metric(self, name: str) -> RawMetric | None:
        # Called hundreds of times per launch: the context manager would be most of the cost.
        try:
            return self.metrics.get(name)
        except Malformed as problem:
            raise self.damaged(problem) from None

    def origin(self) -> tuple[int | None, int | None]:
        """Stream and context."""
        stream, context = self.where.stream, self.where.context
        with self._damage_named():
            return self.message.number(stream) if stream else None, self.message.number(context)

    def device(self) -> Device:
        measured = device_from_metrics(self.metric)
        if measured.name is not None:
            return measured
        with self._damage_named():
            recorded = self._file.devices
        # Before 2020.2, only the session had the attributes.
        return recorded[0] if len(recorded) == 1 else measured

    def instances(self, name: str) -> Instances | None:
        with self._damage_named():
            return self.metrics.instances(name)

    def sections(self) -> tuple[str, ...]:
        with self._damage_named():
            sections = self.message.messages(self.where.sections)
            return tuple(section.text(1) or "" for section in sections)

    def rules(self) -> tuple[RuleResult, ...]:
        with self._damage_named():
            rules = self.message.messages(self.where.rules)
            return tuple(_result(rule, item) for rule in rules for item in _items(rule))

    def leading_rule(self) -> RuleResult | None:
        with self._damage_named():
            return read_leading_rule(self.message.data, self.message.spans(self.where.rules))

    def markers(self) -> tuple[SourceMarker, ...]:
        with self._damage_named():
            return read_markers(self.message.messages(self.where.rules))

    def nvtx(self) -> tuple[NvtxRange, ...]:
        with self._damage_named():
            return read_nvtx(self.message.message(self.where.nvtx))

    @cached_property
    def code_keys(self) -> list[CodeKey]:
        """Keys of the code that ran: one cubin for a kernel, several for a range or graph."""
        where = self.where.sources
        with self._damage_named():
            if self.message.spans(where):
                references = [source.number(1) or 0 for source in self.message.messages(where)]
            else:
                references = self.message.numbers(where)
            process, _ = self._file.process(self._file.owners[self.number])
        return [(process, reference) for reference in references]

    @cached_property
    def code(self) -> list[CodeObject]:
        with self._damage_named():
            return self._file.code(self.code_keys)

    @cached_property
    def embedded(self) -> Mapping[str, str | None]:
        """Source files by path, with their text if the report embeds it."""
        return {path: text for code in self.code for path, text in code.files.items()}

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """All instruction addresses that the launch has values for."""
        names = [_EXECUTED, _SAMPLES]
        if _SAMPLES not in self.metrics:  # before ncu 2021.2 there was only the split by reason
            names += [name for name in self.metrics.names() if name.startswith(SAMPLES_BY_REASON)]
        columns = [instances.ids for name in names if (instances := self.instances(name))]
        return _addresses_in(frozenset(ids for ids in columns if ids is not None))

    @cached_property
    def locations(self) -> Mapping[int, Location]:
        return self.locate(self.addresses) if self._line_tables else {}

    @cached_property
    def _line_tables(self) -> list[LineTable]:
        tables = [code.lines for code in self.code]
        return [table for table in tables if table is not None and table.functions]

    def locate(self, addresses: Iterable[int]) -> Mapping[int, Location]:
        locations: dict[int, Location] = {}
        asked = tuple(addresses)
        for table in self._line_tables:
            locations = {**locations, **table.locate(asked)} if locations else table.locate(asked)
        return locations

    def has_lines(self) -> bool:
        """Checks the first instructions, which usually have lines, and all others only if not."""
        with self._damage_named():
            first = self.metrics.first_addresses(_EXECUTED) if self._line_tables else ()
        return bool(self.locate(first)) or bool(self.locations)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return functions_of(self.code, self.addresses)

    @cached_property
    def code_key(self) -> tuple[object, ...]:
        """Equal for launches that ran the same instructions: they share one disassembly."""
        return (*(id(code) for code in self.code), self.addresses)


_known_addresses: SizedCache[tuple[int, ...]] = SizedCache(100_000)
"""Limit in addresses: those of about a hundred kernels."""


def _addresses_in(columns: frozenset[tuple[MetricId, ...]]) -> tuple[int, ...]:
    """The instruction addresses among the instance ids, sorted. Cached: launches of one kernel have
    the same addresses."""
    known = _known_addresses.get(columns)
    if known is not None:
        return known
    parts = {part for column in columns for part in column if isinstance(part, int)}
    return _known_addresses.put(columns, tuple(sorted(parts)), len(parts))
