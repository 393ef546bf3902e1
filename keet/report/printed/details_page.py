"""Turns the rows of ncu's details page into launches, and maps labels to metrics.

The page names metrics by label, and some labels changed their meaning between versions. The
catalog's `details` has those that did not; a row with any other label keeps its label as name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from keet.catalog import details_labels, metric_named, rule_texts, unit_of
from keet.errors import DamagedReport, UnreadableFile
from keet.evidence import Sentence, report_number
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
from keet.report.in_memory_launch import InMemoryLaunch
from keet.report.ncu_rep.session import device_from_metrics
from keet.safe_text import bounded_line
from keet.units import parse_unit

# --- numbers as ncu prints them: grouped by thousands, two decimals, in the user's locale

LONGEST_NUMBER = 40
"""Characters: ncu prints 64-bit numbers with separators in less."""

_GROUPING = re.compile(r"(?<=\d)[\u00a0\u202f'’ ](?=\d{3}(?!\d))")
"""Thousands separators that can't be decimal signs."""
_POINT = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)\.\d{1,2}|-?\d{1,3}(?:,\d{3}){2,}", re.A)
_COMMA = re.compile(r"-?(?:\d+|\d{1,3}(?:\.\d{3})+),\d{1,2}|-?\d{1,3}(?:\.\d{3}){2,}", re.A)
_GROUPED_BY_COMMA = re.compile(r"-?\d{1,3},\d{3}", re.A)
_GROUPED_BY_POINT = re.compile(r"-?\d{1,3}\.\d{3}", re.A)
_NUMBER = re.compile(r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(e[+-]?\d+)?", re.I | re.A)
_WITH_PARTS = re.compile(r"(\S+) \(.*\)")
_LIKE_A_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*", re.A)
_SWAPPED = str.maketrans(".,", ",.")


class Notation(Enum):
    """The decimal sign."""

    POINT = "point"
    COMMA = "comma"


def notation_of(texts: Iterable[str]) -> Notation | None:
    """The notation of a file's numbers; None if they contradict each other.

    ncu prints two decimals or none, and groups of three digits: `1.234` is a whole number of a
    locale with a decimal comma, unless other numbers of the file show that it is not.
    """
    clear: set[Notation] = set()
    likely: set[Notation] = set()
    for text in map(_plain, texts):
        if len(text) > LONGEST_NUMBER:
            continue
        if _POINT.fullmatch(text):
            clear.add(Notation.POINT)
        elif _COMMA.fullmatch(text):
            clear.add(Notation.COMMA)
        elif _GROUPED_BY_COMMA.fullmatch(text):
            likely.add(Notation.POINT)
        elif _GROUPED_BY_POINT.fullmatch(text):
            likely.add(Notation.COMMA)
    notations = clear or likely or {Notation.POINT}
    return notations.pop() if len(notations) == 1 else None


def _plain(text: str) -> str:
    """Without ncu's additions: `(!)` before an uncertain number, and instances after it."""
    text = text.strip().removeprefix("(!)").strip()
    with_parts = _WITH_PARTS.fullmatch(text)
    return _GROUPING.sub("", with_parts[1] if with_parts else text)


def printed_value(cell: str, notation: Notation = Notation.POINT) -> Value:
    """A cell as number, text or None: `1,234.50`, `CachePreferNone`, `n/a`."""
    text = _plain(cell)
    lower = text.lower()
    if lower in ("", "n/a", "no data"):
        return None
    if lower in ("nan", "-nan", "inf", "-inf"):
        return float(lower.replace("-nan", "nan"))
    number = text.translate(_SWAPPED) if notation is Notation.COMMA else text
    if len(number) > LONGEST_NUMBER or not _NUMBER.fullmatch(number):
        return cell
    plain = number.replace(",", "")
    return int(plain) if is_count(plain.lstrip("+-")) else float(plain)


def is_malformed_number(value: Value) -> bool:
    """Whether a cell looks like a number, but not like one that ncu prints."""
    return isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(_plain(value)) is not None


def is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def whole(text: str | None) -> int | None:
    """The number of a stream or device; None if the text is not one."""
    return int(text) if text and len(text) < LONGEST_NUMBER and is_count(text) else None


# --- sector counts of global accesses, which the page has only in the message of a rule. One form
# of message is parsed, whose numbers equal the report's metrics exactly.

_SECTORS_RULE = "UncoalescedGlobalAccess"
_SECTORS_MESSAGE = re.compile(
    r"This (?:kernel|workload) has uncoalesced global accesses resulting in a total of "
    r"(\d{1,18}) excessive sectors \((\d{1,3})% of the total (\d{1,18}) sectors\)",
    re.ASCII,
)
_SECTORS_TOTAL = "memory_l2_theoretical_sectors_global"
_SECTORS_IDEAL = "memory_l2_theoretical_sectors_global_ideal"
_SECTORS_EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"


def counts_in_rules(rules: Iterable[RuleResult]) -> Mapping[str, RawMetric]:
    """Counts by ncu's metric names; empty if no message has them, or if messages differ."""
    pairs = set()
    for rule in rules:
        if rule.rule == _SECTORS_RULE and (match := _SECTORS_MESSAGE.match(rule.message)):
            excess, percent, total = map(int, match.groups())
            if 0 < total >= excess and abs(Fraction(100 * excess, total) - percent) <= 1:
                pairs.add((excess, total))
    if len(pairs) != 1:
        return {}
    excess, total = pairs.pop()
    counts = {_SECTORS_TOTAL: total, _SECTORS_IDEAL: total - excess, _SECTORS_EXCESS: excess}
    return {name: RawMetric(count, "sector") for name, count in counts.items()}


# --- launches of a page

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
WORKLOADS = {"range": Workload.RANGE, "graph": Workload.GRAPH, "cmdlist": Workload.CMDLIST}
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
        raise edited(path, "some of its numbers have a decimal point and some a decimal comma")
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


def edited(path: Path, problem: str) -> DamagedReport:
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
            raise edited(path, f"line {row.line}: {row.value[:40]!r} is not a valid number")
        name = _name_of(row, value)
        if name is None:
            name = _name_from_label(row, value, metrics)
            unnamed.add((row.section, row.label))
        metrics.setdefault(name, RawMetric(value, row.unit))
    metrics = {**counts_in_rules(printed.rules), **metrics}
    return Launch(
        number=number,
        name=kernel_name(printed.name),
        workload=WORKLOADS.get(printed.name, Workload.KERNEL),
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
    if (
        row.section in NAMED_METRICS
        or metric_named(row.label) is not None
        or (len(row.label) <= _LONGEST_NAME and _METRIC_NAME.fullmatch(row.label) is not None)
    ):
        return row.label
    if "__" in row.label[:_LONGEST_NAME]:
        # Printed with ncu --print-metric-name label-name.
        with_name = _LABEL_AND_NAME.fullmatch(row.label[: _LONGEST_NAME + 1])
        return with_name[1] if with_name else None
    name = details_labels().get(row.section, {}).get(row.label)
    known = unit_of(name) if name else ""
    if not row.unit or not known or isinstance(value, str):
        return name
    # With a unit that does not fit, the label means another metric.
    return name if parse_unit(row.unit).kind == parse_unit(known).kind else None


def _name_from_label(row: PrintedRow, value: Value, metrics: dict[str, RawMetric]) -> str:
    """A name for a row whose metric is not certain. Rows with the same label and different values
    are different metrics, so each gets its own name."""
    name = kept = f"{row.section}: {row.label}"
    number = 1
    while (metric := metrics.get(kept)) is not None and metric != RawMetric(value, row.unit):
        number += 1
        kept = f"{name} ({number})"
    return kept


def _device(printed: PrintedLaunch, metrics: dict[str, RawMetric]) -> Device:
    device = device_from_metrics(metrics.get, index=printed.device)
    sms = device.sm_count if device.sm_count is not None else _all_sms(metrics)
    capability = device.compute_capability or printed.compute_capability
    return Device(device.name, capability, sms, device.index)


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
    if not rule:
        plain = re.sub(r"\d[\d,.]*", "#", message[:200])
        openings = rule_texts().get(section, {})
        rule = next((name for words, name in openings.items() if plain.startswith(words)), "")
    return RuleResult(
        rule=rule or section,
        name=rule or section,
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
