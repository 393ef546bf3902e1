"""Reads the text tables that ncu prints on the terminal, with `--page details` or `--page raw`.

A launch begins with a line with its name and shape. Tables of three columns follow, each between
lines of dashes; up to 2022 they have a fixed width and no header. With `--print-summary`, there are
three columns of numbers. Other lines (ncu's log, the program's own output) are skipped.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from keet.evidence import Sentence, counted, report_number
from keet.report.printed.details_page import (
    PrintedLaunch,
    PrintedPage,
    PrintedRow,
    check_count,
    estimated_gain,
    page_of,
    rule_result,
    whole,
)
from keet.safe_text import bounded_line

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


class _Column(NamedTuple):
    start: int
    end: int


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
        self._columns: list[_Column] | None = None
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
                self._columns = [_Column(*dashes.span()) for dashes in re.finditer(r"-+", line)]
                self._awaits_header = True
        elif (rule := _RULE.fullmatch(line)) is not None:
            self._rule = [rule[1], rule[2]]
        elif (process := _PROCESS.fullmatch(text)) is not None:
            self._process = bounded_line(process[1])
        elif (launch := _launch_line(text, self._previous)) is not None:
            self._section = ""
            self.launches.append(_printed_launch(launch, self._process))
        self._previous = text

    def _in_table(self, line: str, number: int, columns: list[_Column]) -> bool:
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

    def _add_row(self, line: str, number: int, columns: list[_Column]) -> None:
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


def _table_cells(line: str, columns: list[_Column]) -> tuple[str, str, str] | None:
    """Label, unit and value (in a summary, the average); None for a line that does not fit the
    columns."""
    gaps = (line[left.end : right.start] for left, right in pairwise(columns))
    fits = len(line) <= columns[-1].end and not line[: columns[0].start].strip()
    if fits and not any(map(str.strip, gaps)):
        label, unit, *values = (line[start:end].strip() for start, end in columns)
        return (label, unit, values[-1]) if label and values[-1] else None
    # A name may be longer than its column. It has no spaces, so the other cells can be found.
    cells = _OVERFLOWING.fullmatch(line.strip()) if len(columns) == len(_FIXED) else None
    return (cells[1], cells[2] or "", cells[3]) if cells and "__" in cells[1] else None
