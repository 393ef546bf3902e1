"""Reads and writes run tables: `REPORT.run.json` next to the report, or a file the user names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from keet.errors import DamagedReport, IngestError, UnreadableFile, UnsupportedVersion
from keet.evidence import Sentence
from keet.files import STDIN, replacing_text
from keet.ingest.in_memory_launch import bounded
from keet.ingest.input.files import MAX_EXPORT, MAX_TEXT, open_input, printable_path
from keet.ingest.ncu_rep.completeness import table_notes
from keet.ingest.typed_json import parse_object, typed, version_of
from keet.masking import masked_words
from keet.profile import Profile
from keet.profile.run_table import USE_ANYWAY, RunLaunch, RunTable
from keet.safe_text import bounded_line

VERSION = 1
MARK = "keet_run"
SUFFIX = ".run.json"
_REPORT_SUFFIXES = (".ncu-repz", ".ncu-rep")
_MOST_LAUNCHES = 20_000_000
"""Per table: the time of each launch is in memory."""
_MAKE_AGAIN = "record it again with: keet profile -- COMMAND"


def table_path(report: Path) -> Path:
    """The path of a report's run table: `app.run.json` for `app.ncu-rep`."""
    for suffix in _REPORT_SUFFIXES:
        if report.name.endswith(suffix):
            return report.with_name(report.name.removesuffix(suffix) + SUFFIX)
    return report.with_name(report.name + SUFFIX)


def with_run(profile: Profile, report: Path, named: Path | None) -> Profile:
    """The profile with the named run table, else with the one next to its report.

    A table that the user did not name is used only if it belongs to the report. Problems with it do
    not make the report unreadable: they are in `run_problem`.
    """
    if named is not None:
        return _used(profile, read_run_table(named))
    if (
        profile.run is not None
        or profile.provenance.format in ("ncu-csv", "ncu-text")
        or report is STDIN
    ):
        return profile
    beside = table_path(report)
    if not beside.exists():
        return profile
    try:
        table = read_run_table(beside)
    except IngestError as problem:
        return replace(
            profile, run_problem=Sentence("the run table is not used: {why}", why=str(problem))
        )
    if table.report_created != profile.provenance.created:
        words = "{path} belongs to another profile and is not used{use_anyway}--run-table {path}"
        path = printable_path(beside)
        return replace(profile, run_problem=Sentence(words, path=path, use_anyway=USE_ANYWAY))
    return _used(profile, table)


def _used(profile: Profile, table: RunTable) -> Profile:
    """The profile with the table, and with a note if the report lacks launches of the table."""
    known = replace(profile, run=table)
    if missing := table_notes(known):
        notes = (*profile.provenance.notes, *missing)
        return replace(known, provenance=profile.provenance._replace(notes=notes))
    return known


def read_run_table(path: Path) -> RunTable:
    """Read a table that keet recorded, or a CSV table with kernel, launches and total time."""
    file = open_input(path)
    if file.size > (MAX_TEXT if path.name.endswith(SUFFIX) else MAX_EXPORT):
        raise UnreadableFile(path, "it is too large for a run table", _MAKE_AGAIN)
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(path, "it is not a text file", _MAKE_AGAIN) from None
    if text.lstrip().startswith("{"):
        return table_from_document(_parsed(text, path), path)._replace(path=printable_path(path))
    if path.name.endswith(SUFFIX):
        raise _damaged(path, "it was not written by keet")
    from keet.ingest.run_tables.run_csv import read_run_csv

    return read_run_csv(text, path)._replace(path=printable_path(path))


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        document = parse_object(text)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    if MARK not in document:
        raise _damaged(path, f"it has no {MARK}")
    return document


def table_from_document(document: dict[str, Any], path: Path) -> RunTable:
    """Validates everything: files on disk are not trusted."""
    try:
        if (version := version_of(document, MARK)) != VERSION:
            raise UnsupportedVersion(
                path,
                f"the run table has version {version}, and this keet reads version {VERSION}",
                "update keet, or " + _MAKE_AGAIN,
            )
        launches = _run_launches(document)
        table = typed({**document, "launches": [], "path": None}, RunTable)
    except ValueError as problem:
        raise _damaged(path, str(problem)) from None
    table = table._replace(launches=launches)
    _check(table, path)
    return _bounded(table)


class _LaunchColumns(NamedTuple):
    kernel: list[int]
    start_ns: list[int]
    ns: list[int]


class _WithLaunches(NamedTuple):
    """How a run table has its launches: one list per field of `RunLaunch`."""

    launches: _LaunchColumns


def _run_launches(document: dict[str, Any]) -> tuple[RunLaunch, ...]:
    if not document.get("launches"):
        return ()
    columns = typed(document, _WithLaunches).launches
    if len({*map(len, columns)}) > 1:
        raise ValueError("launches has columns of different lengths")
    return tuple(map(RunLaunch, *columns))


def _bounded(table: RunTable) -> RunTable:
    """Shortens names as the report reader does, so that launches of both still match."""
    return table._replace(
        kernels=tuple(
            each._replace(name=bounded_line(each.name), full=bounded_line(each.full))
            for each in table.kernels
        ),
        command=masked_words(bounded(table.command)),
        skipped=bounded(table.skipped),
        notes=bounded(table.notes),
    )


def _check(table: RunTable, path: Path) -> None:
    """Check the invariants that users of a table rely on."""
    if any(kernel.times for kernel in table.kernels) and table.launch_count > _MOST_LAUNCHES:
        count = f"{table.launch_count:,} launches"
        raise _damaged(path, f"it has {count}, and keet reads at most {_MOST_LAUNCHES:,}")
    for kernel in table.kernels:
        of_launches = (kernel.shortest_ns, kernel.median_ns, kernel.longest_ns)
        times = (kernel.total_ns, kernel.busy_ns, kernel.overlapped_ns, *of_launches)
        known = [time for time in times if time is not None]
        if kernel.launches < 1 or min(known) < 0:
            raise _damaged(path, f"{kernel.name[:80]}: its launch count or times are invalid")
        counts = [count for _, count in kernel.times]
        if counts and (min(counts) < 1 or sum(counts) != kernel.launches):
            raise _damaged(path, f"{kernel.name[:80]}: its times do not match its launch count")
    if not 0 <= table.total_ns < float("inf"):
        raise _damaged(path, "the sum of its times is invalid")
    if table.span_ns is not None and table.span_ns < 0:
        raise _damaged(path, "span_ns is invalid")
    if table.launches:
        _check_launches(table, path)


def _check_launches(table: RunTable, path: Path) -> None:
    """Single launches and totals must agree, or shares would not add up."""
    counts, times = [0] * len(table.kernels), [0] * len(table.kernels)
    for launch in table.launches:
        if not 0 <= launch.kernel < len(table.kernels) or launch.ns < 0:
            raise _damaged(
                path, "a launch refers to no kernel of the table, or its time is invalid"
            )
        counts[launch.kernel] += 1
        times[launch.kernel] += launch.ns
    for kernel, count, time in zip(table.kernels, counts, times, strict=True):
        if count != kernel.launches or abs(time - kernel.total_ns) > 1 + 1e-6 * kernel.total_ns:
            raise _damaged(path, f"{kernel.name[:80]}: its launches do not add up to its total")


def _damaged(path: Path, problem: str) -> DamagedReport:
    return DamagedReport(path, f"the run table is damaged: {problem}", _MAKE_AGAIN)


def table_document(table: RunTable) -> dict[str, Any]:
    """The table as JSON, without `path`, which is where it was read from. Tables are shared, so
    secrets of the command are masked."""
    words = [word.encode("utf-8", "backslashreplace").decode() for word in table.command]
    return {
        MARK: VERSION,
        **{name: value for name, value in table._asdict().items() if name not in _OWN_FORM},
        "command": masked_words(words),
        "migrations": table.migrations and table.migrations._asdict(),
        "kernels": [kernel._asdict() for kernel in table.kernels],
        "profiled": [each._asdict() for each in table.profiled],
        "skipped": [each._asdict() for each in table.skipped],
        "launches": {
            "kernel": [launch.kernel for launch in table.launches],
            "start_ns": [launch.start_ns for launch in table.launches],
            "ns": [launch.ns for launch in table.launches],
        },
    }


_OWN_FORM = ("path", "command", "migrations", "kernels", "profiled", "skipped", "launches")


def write_run_table(table: RunTable, path: Path) -> None:
    """Write atomically. One line per kernel and column, for readers and for `diff`."""
    document = table_document(table)
    lines = [f"{json.dumps(name)}: {_value(value)}" for name, value in document.items()]
    with replacing_text(path) as write:
        write("{\n" + ",\n".join(lines) + "\n}\n")


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n " + ",\n ".join(_compact(each) for each in value) + "\n]"
    if isinstance(value, dict):
        rows = (f"{json.dumps(name)}: {_compact(each)}" for name, each in value.items())
        return "{\n " + ",\n ".join(rows) + "\n}"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
