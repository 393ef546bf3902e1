"""What ncu printed as text: the details page, as launches.

Text tables (`--page details` or `--page raw`): a launch begins with a line with its name and shape.
Tables of three columns follow, each between lines of dashes; up to 2022 they have a fixed width and
no header. With `--print-summary`, there are three columns of numbers. Other lines (ncu's log, the
program's own output) are skipped. `csv_pages` reads the same page as CSV, and has its launches made
here.

The page names metrics by label, and some labels changed their meaning between versions. The
catalog's `details` has those that did not; a row with any other label keeps its label as name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from keet.catalog import details_labels, metric_named, rule_texts, unit_of
from keet.errors import DamagedReport, UnreadableFile
from keet.evidence import Sentence, counted, report_number
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
from keet.report.ncu_rep.report_file import device_from_metrics
from keet.report.snapshot import InMemoryLaunch
from keet.safe_text import bounded_line
from keet.units import parse_unit

# --- numbers as ncu prints them: grouped by thousands, two decimals, in the user's locale

LONGEST_NUMBER = 40
"""Characters: ncu prints 64-bit numbers with separators in less."""

_GROUPING = re.compile(r"(?<=\d)[\u00a0\u202f'’ ](?=\d{3}(?!\d))")
"""Thousands separators that can't be decimal signs."""
_CLEAR = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)\.\d{1,2}|-?\d{1,3}(?:,\d{3}){2,}", re.A)
"""A number with a decimal point."""
_LIKELY = re.compile(r"-?\d{1,3},\d{3}", re.A)
_NUMBER = re.compile(r"[+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(e[+-]?\d+)?", re.I | re.A)
_WITH_PARTS = re.compile(r"(\S+) \(.*\)")
_LIKE_A_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*", re.A)
_SWAPPED = str.maketrans(".,", ",.")


Notation = Literal[".", ","]
"""The decimal sign."""


def notation_of(texts: Iterable[str]) -> Notation | None:
    """The notation of a file's numbers; None if they contradict each other.

    ncu prints two decimals or none, and groups of three digits: `1.234` is a whole number of a
    locale with a decimal comma, unless other numbers of the file show that it is not.
    """
    clear: set[Notation] = set()
    likely: set[Notation] = set()
    signs: tuple[Notation, ...] = (".", ",")
    for text in map(_plain, texts):
        for sign in signs if len(text) <= LONGEST_NUMBER else ():
            number = text if sign == "." else text.translate(_SWAPPED)
            if _CLEAR.fullmatch(number):
                clear.add(sign)
            elif _LIKELY.fullmatch(number):
                likely.add(sign)
    notations = clear or likely or {"."}
    return notations.pop() if len(notations) == 1 else None


def _plain(text: str) -> str:
    """Without ncu's additions: `(!)` before an uncertain number, and instances after it."""
    text = text.strip().removeprefix("(!)").strip()
    with_parts = _WITH_PARTS.fullmatch(text)
    return _GROUPING.sub("", with_parts[1] if with_parts else text)


def printed_value(cell: str, notation: Notation = ".") -> Value:
    """A cell as number, text or None: `1,234.50`, `CachePreferNone`, `n/a`."""
    text = _plain(cell)
    lower = text.lower()
    if lower in ("", "n/a", "no data"):
        return None
    if lower in ("nan", "-nan", "inf", "-inf"):
        return float(lower.replace("-nan", "nan"))
    number = text.translate(_SWAPPED) if notation == "," else text
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
    return launch_of(number, printed, {**counts_in_rules(printed.rules), **metrics}, _NO_CODE)


def launch_of(
    number: int, printed: PrintedLaunch, metrics: dict[str, RawMetric], no_code: Absent
) -> Launch:
    return Launch(
        number=number,
        name=_kernel_name(printed.name),
        workload=_WORKLOADS.get(printed.name, Workload.KERNEL),
        grid=printed.grid,
        block=printed.block,
        data=InMemoryLaunch(
            _device(printed, metrics),
            metrics,
            stored_rules=tuple(printed.rules),
            stored_disassembly=no_code,
        ),
        process=printed.process,
        stream=printed.stream,
        context=printed.context,
    )


def _kernel_name(name: str) -> KernelName:
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


_SECTION = re.compile(r"Section: (\S.*)")
_PROCESS = re.compile(r"\[\d+\] (.+)@\S+")
_SHAPE = r" \((\d+), (\d+), (\d+)\)x\((\d+), (\d+), (\d+)\)"
_WHERE = (
    r"(?:, \d{4}-\w{3}-\d{2} \d{2}:\d{2}:\d{2})?"
    r"(?:, Context (?P<context>\w+))?(?:, Stream (?P<stream>\w+))?"
    r"(?:, Device (?P<device>\w+))?(?:, CC (?P<cc>\d+\.\d+))?(?:, Invocations (?P<times>[\d,]+))?"
)
_LOST_NAMESPACE = re.compile(r"(?<![<\w])unnamed>::")
_LOST_LAMBDA = re.compile(r"(?<![\[\w])lambda\(")
_LAUNCH = re.compile(rf"(?P<name>\S.*?)(?:{_SHAPE})?{_WHERE}", re.A)
_SHAPE_FIRST = re.compile(_SHAPE.lstrip(), re.A)
_LAUNCH_END = re.compile(
    r", (?:Context|Device) \w+(?:, (?:Stream|CC|Device|Invocations) [\w.]+(?:,\d{3})*)*\Z", re.A
)
Span = tuple[int, int]
_LONGEST_END = 120
"""Characters after the shape of a launch."""
_RULER = re.compile(r"-{2,}(?: -{2,}){2,}")
_RULE_END = re.compile(r"-{5} -{20,}")
_HEADER = re.compile(
    r"Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum\s+Maximum\s+Average)", re.A
)
_FIXED = (70, 15, 30)
"""Column widths of tables without a header."""
_RULE = re.compile(r"\s{2,}(OPT|INF|WRN|ERR|OK) {2,}(\S.*)")
_CONTINUED = re.compile(r"\s{8,}(\S.*)")
_ESTIMATE = re.compile(r"Est\. (Local )?Speedup: (\S+)%\s*(.*)")
_OVERFLOWING = re.compile(r"(\S+)(?:\s+(\S+))?\s+(\S+)")
_PAGE = re.compile(r"^[ \t]*(?:Section: \S|Metric Name +Metric Unit )|, Context \w+, Stream ", re.M)


def has_printed_page(text: str) -> bool:
    """Whether the text contains a part of ncu's tables."""
    return _PAGE.search(text) is not None


def read_printed(text: str, path: Path) -> PrintedPage:
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(line.rstrip(), number)
        check_count(reader.launches, path)
    return page_of(reader.launches, path, reader.finish(cut=not text.endswith("\n")))


class _Reader:
    """Reads line by line, each line once: the time is linear in the size of the text."""

    def __init__(self) -> None:
        self.launches: list[PrintedLaunch] = []
        self._number = 0
        """Number of the line that was read last."""
        self._process: str | None = None
        self._section = ""
        self._columns: list[Span] | None = None
        """Columns of the open table; None outside of tables."""
        self._awaits_header = False
        """The open table has neither a header nor a row yet."""
        self._below_header = False
        self._rule: list[str] | None = None
        """Kind and lines of the rule message that is being read."""
        self._unread: list[int] = []
        """Numbers of lines in tables that could not be parsed."""
        self._previous = ""
        """The last line outside of tables: a long name may be on a line of its own."""

    def read(self, line: str, number: int) -> None:
        self._number = number
        if self._columns is not None and self._in_table(line, number, self._columns):
            return
        if self._rule is not None and self._in_rule(line, self._rule):
            return
        self._outside(line)

    def finish(self, *, cut: bool) -> list[str]:
        """Notes about the end: a table that is not closed was cut, perhaps within a number."""
        notes: list[str] = []
        self._end_rule()
        if self._columns is not None:
            if cut:
                self._drop_last_line()
            notes.append("the text ends inside a table: the rest of ncu's output is missing")
        if self._unread:
            count = report_number("unread_lines", len(self._unread), "lines that keet can't read")
            lines = counted(count, "line")
            notes.append(
                Sentence("skipped {lines} in its tables that could not be parsed", lines=lines)
            )
        return notes

    def _drop_last_line(self) -> None:
        rows = self.launches[-1].rows
        if rows and rows[-1].line == self._number:
            rows.pop()
        elif self._unread and self._unread[-1] == self._number:
            self._unread.pop()

    def _outside(self, line: str) -> None:
        text = line.strip()
        if not text:
            return
        if (section := _SECTION.fullmatch(text)) is not None:
            self._section = bounded_line(section[1])
        elif _RULER.fullmatch(text):
            if self.launches:
                self._columns = [dashes.span() for dashes in re.finditer(r"-+", line)]
                self._awaits_header = True
        elif (rule := _RULE.fullmatch(line)) is not None:
            self._rule = [rule[1], rule[2]]
        elif (process := _PROCESS.fullmatch(text)) is not None:
            self._process = bounded_line(process[1])
        elif (launch := _launch_line(text, self._previous)) is not None:
            self._section = ""
            self.launches.append(_printed_launch(launch, self._process))
        self._previous = text

    def _in_table(self, line: str, number: int, columns: list[Span]) -> bool:
        """False for a line outside of the table: the table was cut, and something else begins."""
        text = line.strip()
        if _RULER.fullmatch(text):
            if not self._below_header:
                self._columns = None
            self._below_header = False
            return True
        if _HEADER.fullmatch(text):
            self._awaits_header, self._below_header = False, True
            return True
        if not text or _SECTION.fullmatch(text) or _launch_line(text):
            self._columns = None
            return False
        if self._awaits_header and tuple(end - start for start, end in columns) != _FIXED:
            self._columns = None  # a table of something else
            return False
        self._awaits_header = False
        self._add_row(line, number, columns)
        return True

    def _add_row(self, line: str, number: int, columns: list[Span]) -> None:
        cells = _table_cells(line, columns)
        if cells is None:
            self._unread.append(number)
            return
        label, unit, value = map(bounded_line, cells)
        self.launches[-1].rows.append(PrintedRow(self._section, label, unit, value, number))

    def _in_rule(self, line: str, rule: list[str]) -> bool:
        if (more := _CONTINUED.fullmatch(line)) is not None:
            rule.append(more[1])
            return True
        self._end_rule()
        return _RULE_END.fullmatch(line.strip()) is not None

    def _end_rule(self) -> None:
        if self._rule is not None and self.launches:
            kind, *lines = self._rule
            message, gain = " ".join(lines), None
            if (estimate := _ESTIMATE.fullmatch(message)) is not None:
                gain = estimated_gain("local" if estimate[1] else "global", estimate[2])
                message = estimate[3]
            result = rule_result(self._section, kind, message, gain=gain)
            self.launches[-1].rules.append(result)
        self._rule = None


def _launch_line(text: str, previous: str = "") -> re.Match[str] | None:
    # The end is checked first, because it excludes most lines of a log quickly.
    if _LAUNCH_END.search(text, max(0, len(text) - _LONGEST_END)) is None:
        return None
    is_wrapped = _SHAPE_FIRST.match(text) is not None
    return _LAUNCH.fullmatch(f"{previous or 'unknown'} {text}" if is_wrapped else text)


def _printed_launch(match: re.Match[str], process: str | None) -> PrintedLaunch:
    sizes = [int(size) for size in match.groups()[1:7] if size and len(size) <= 10]
    x, y, z, *block = sizes if len(sizes) == 6 else [0] * 6
    # ncu loses brackets where it drops namespaces: it prints `unnamed>::f` for `at::<unnamed>::f`,
    # and `lambda() (instance 2)]` without its `[`.
    name = _LOST_LAMBDA.sub("[lambda(", _LOST_NAMESPACE.sub("", match["name"]))
    return PrintedLaunch(
        name=bounded_line(name),
        grid=(x, y, z),
        block=(block[0], block[1], block[2]),
        process=process,
        stream=whole(match["stream"]),
        context=whole(match["context"]),
        device=whole(match["device"]),
        compute_capability=match["cc"],
        invocations=whole((match["times"] or "").replace(",", "")),
    )


def _table_cells(line: str, columns: list[Span]) -> tuple[str, str, str] | None:
    """Label, unit and value (in a summary, the average); None for a line that does not fit the
    columns."""
    (first, _), (_, end) = columns[0], columns[-1]
    gaps = (line[left:right] for (_, left), (right, _) in pairwise(columns))
    fits = len(line) <= end and not line[:first].strip()
    if fits and not any(map(str.strip, gaps)):
        label, unit, *values = (line[start:end].strip() for start, end in columns)
        return (label, unit, values[-1]) if label and values[-1] else None
    # A name may be longer than its column. It has no spaces, so the other cells can be found.
    cells = _OVERFLOWING.fullmatch(line.strip()) if len(columns) == len(_FIXED) else None
    return (cells[1], cells[2] or "", cells[3]) if cells and "__" in cells[1] else None
