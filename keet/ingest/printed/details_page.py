"""Turns the rows of ncu's details page into launches, and maps labels to metrics.

The page names metrics by label, and some labels changed their meaning between versions. The
catalog's `details` has those that did not; a row with any other label keeps its label as name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from keet.catalog import details_labels, metric_named, rule_texts, unit_of
from keet.errors import DamagedReport, UnreadableFile
from keet.evidence import Sentence, report_number
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.ingest.ncu_rep.session import device_from_metrics
from keet.ingest.printed.numbers import Notation, is_malformed_number, notation_of, printed_value
from keet.ingest.printed.rule_counts import counts_in_rules
from keet.profile import (
    Absent,
    Device,
    Dim3,
    KernelName,
    Launch,
    RawMetric,
    RuleKind,
    RuleResult,
    SpeedupEstimate,
    SpeedupScope,
    Value,
    Workload,
    is_measurement,
    short_name,
)
from keet.safe_text import bounded_line
from keet.units import parse_unit

MOST_LAUNCHES = 100_000
"""Of an export. Chosen by judgement: no public export seen has 5 MB."""
RAW_EXPORT = "ncu --import REPORT --page raw --csv > FILE"
NAMED_METRICS = ("", "Command line profiler metrics")
"""Sections whose rows have metric names instead of labels; "" is the raw page."""

_LONGEST_NAME = 300
"""Characters of a metric name: ncu's longest has half of that."""
_METRIC_NAME = re.compile(r"[A-Za-z][\w.:]*__[\w.]+", re.A)
_LABEL_AND_NAME = re.compile(r".*[ (]([A-Za-z][\w.:]*__[\w.]+)\)?", re.A)
_DIM3 = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?", re.A)
_WORKLOADS = {"range": Workload.RANGE, "graph": Workload.GRAPH, "cmdlist": Workload.CMDLIST}
_KINDS = {
    "OPT": RuleKind.OPTIMIZATION,
    "WRN": RuleKind.WARNING,
    "ERR": RuleKind.ERROR,
    "INF": RuleKind.OK,
    "OK": RuleKind.OK,
}
_SCOPES = {"global": SpeedupScope.GLOBAL, "local": SpeedupScope.LOCAL}
_NO_CODE = Absent("a printed page contains no code", "use the .ncu-rep that it was printed from")


class PrintedRow(NamedTuple):
    """One line of a table."""

    section: str
    """Title of its section; empty on the raw page."""
    label: str
    unit: str
    value: str
    line: int
    """Line number in the file, from 1."""


@dataclass
class PrintedLaunch:
    """A launch as the page prints it, before labels and numbers are interpreted."""

    name: str
    grid: Dim3 | None = None
    block: Dim3 | None = None
    process: str | None = None
    stream: int | None = None
    context: int | None = None
    device: int | None = None
    compute_capability: str | None = None
    invocations: int | None = None
    """Number of launches that the values are averages of; None if they are of one launch."""
    rows: list[PrintedRow] = field(default_factory=list)
    rules: list[RuleResult] = field(default_factory=list)


class PrintedPage(NamedTuple):
    """The launches of a file, and notes about their numbers for the user."""

    launches: tuple[Launch, ...]
    notes: tuple[str, ...]


def check_count(launches: Sequence[object], path: Path) -> None:
    """Raises if there are too many launches for the memory: each takes about 3 kB."""
    if len(launches) > MOST_LAUNCHES:
        raise UnreadableFile(
            path,
            f"it has more than {MOST_LAUNCHES:,} launches, which keet reads from reports only",
            "use the .ncu-rep that it was made from",
        )


def page_of(printed: Sequence[PrintedLaunch], path: Path, notes: Iterable[str] = ()) -> PrintedPage:
    notation = notation_of(row.value for each in printed for row in each.rows if row.unit)
    if notation is None:
        raise _edited(path, "some of its numbers have a decimal point and some a decimal comma")
    unnamed: set[tuple[str, str]] = set()
    launches = tuple(
        _launch(number, each, notation, path, unnamed) for number, each in enumerate(printed)
    )
    return PrintedPage(launches, (*_page_notes(printed, len(unnamed)), *notes))


def _page_notes(printed: Iterable[PrintedLaunch], unnamed: int) -> list[str]:
    notes: list[str] = [
        "values are as ncu printed them, rounded to two decimals, and a printed page has only some "
        f"of the report's metrics; all of them, if there is a report: {RAW_EXPORT}"
    ]
    if unnamed:
        words = (
            "{count:.0f} label does not tell which metric it is: `keet metrics --all` lists it as "
            "`SECTION: …`"
            if unnamed == 1
            else "{count:.0f} labels do not tell which metric they are: `keet metrics --all` lists "
            "them as `SECTION: …`"
        )
        count = report_number("unknown_labels", unnamed, "labels without a metric")
        notes.append(Sentence(words, count=count))
    averaged = [each.invocations for each in printed if each.invocations and each.invocations > 1]
    if averaged:
        most = report_number("averaged_launches", max(averaged), "launches of an average")
        notes.append(
            Sentence(
                "numbers are averages over up to {most} launches (ncu --print-summary), and are "
                "shown as one launch",
                most=most,
            )
        )
    return notes


def _edited(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(path, problem, f"it was cut short or edited; export again: {RAW_EXPORT}")


def _launch(
    number: int,
    printed: PrintedLaunch,
    notation: Notation,
    path: Path,
    unnamed: set[tuple[str, str]],
) -> Launch:
    metrics: dict[str, RawMetric] = {}
    for row in printed.rows:
        value = printed_value(row.value, notation)
        if row.unit and is_malformed_number(value):
            raise _edited(path, f"line {row.line}: {row.value[:40]!r} is not a valid number")
        name = _name_of(row, value)
        if name is None:
            name = _name_from_label(row, value, metrics)
            unnamed.add((row.section, row.label))
        metrics.setdefault(name, RawMetric(value, row.unit))
    metrics = {**counts_in_rules(printed.rules), **metrics}
    return Launch(
        number=number,
        name=kernel_name(printed.name),
        workload=_WORKLOADS.get(printed.name, Workload.KERNEL),
        grid=printed.grid,
        block=printed.block,
        data=InMemoryLaunch(
            _device(printed, metrics),
            metrics,
            stored_rules=tuple(printed.rules),
            stored_disassembly=_NO_CODE,
        ),
        process=printed.process,
        stream=printed.stream,
        context=printed.context,
    )


def kernel_name(name: str) -> KernelName:
    function = short_name(name).partition("<")[0]
    if not function.isidentifier():  # ncu prints some names of lambdas with unpaired brackets
        function = re.split(r"[<(]", name, maxsplit=1)[0].split("::")[-1].split(" ")[-1]
    return KernelName(function=function or name, demangled=name, mangled="")


def dim3(text: str) -> Dim3 | None:
    """`(256, 1, 1)` as three numbers."""
    match = _DIM3.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _name_of(row: PrintedRow, value: Value) -> str | None:
    """The metric of a row; None if the label does not identify one."""
    if row.section in NAMED_METRICS or _is_metric(row.label):
        return row.label
    if "__" in row.label[:_LONGEST_NAME]:
        # Printed with ncu --print-metric-name label-name.
        with_name = _LABEL_AND_NAME.fullmatch(row.label[: _LONGEST_NAME + 1])
        return with_name[1] if with_name else None
    name = details_labels().get(row.section, {}).get(row.label)
    return name if name and _unit_fits(name, row.unit, value) else None


def _is_metric(label: str) -> bool:
    if metric_named(label) is not None:
        return True
    return len(label) <= _LONGEST_NAME and _METRIC_NAME.fullmatch(label) is not None


def _unit_fits(name: str, unit: str, value: Value) -> bool:
    """Whether the printed unit fits the metric; if not, the label means another metric."""
    known = unit_of(name)
    if not unit or not known or isinstance(value, str):
        return True
    return parse_unit(unit).kind == parse_unit(known).kind


def _name_from_label(row: PrintedRow, value: Value, metrics: dict[str, RawMetric]) -> str:
    """A name for a row whose metric is not certain. Rows with the same label and different values
    are different metrics, so each gets its own name."""
    name = kept = f"{row.section}: {row.label}"
    number = 1
    while (found := metrics.get(kept)) is not None and found != RawMetric(value, row.unit):
        number += 1
        kept = f"{name} ({number})"
    return kept


def _device(printed: PrintedLaunch, metrics: dict[str, RawMetric]) -> Device:
    found = device_from_metrics(metrics.get, index=printed.device)
    sms = found.sm_count if found.sm_count is not None else _all_sms(metrics)
    capability = found.compute_capability or printed.compute_capability
    return Device(found.name, capability, sms, found.index)


def _all_sms(metrics: dict[str, RawMetric]) -> int | None:
    """The GPU's SM count, from the SMs that the launch could use. None in a green context, which
    has only some of them."""
    count, green = metrics.get("launch__sm_count"), metrics.get("launch__uses_green_context")
    if count is None or green is None or green.value != 0:
        return None
    return int(count.value) if is_measurement(count.value) else None


def rule_result(
    section: str, kind: str, message: str, *, rule: str = "", gain: SpeedupEstimate | None = None
) -> RuleResult:
    """`section`: its id or title. Without `rule`, the message's first words identify the rule."""
    message = bounded_line(message)
    found = rule or _rule_of(section, message)
    return RuleResult(
        rule=found or section,
        name=found or section,
        section=section,
        kind=_KINDS.get(kind, RuleKind.NONE),
        title="",
        message=message,
        speedup=gain,
    )


def estimated_gain(scope: str, percent: str) -> SpeedupEstimate | None:
    """None if there is no estimate, or if it is not between 0 and 100 % of the time."""
    value = printed_value(percent.removesuffix("%"))
    if isinstance(value, str) or value is None or not 0 <= value <= 100:
        return None
    return SpeedupEstimate(_SCOPES.get(scope, SpeedupScope.UNKNOWN), float(value))


def _rule_of(section: str, message: str) -> str:
    plain = re.sub(r"\d[\d,.]*", "#", message[:200])
    openings = rule_texts().get(section, {})
    return next((rule for words, rule in openings.items() if plain.startswith(words)), "")
