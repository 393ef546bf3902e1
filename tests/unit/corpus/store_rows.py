"""Rows of a store made by hand, for tests that need to know every cell."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.reader import open_store
from keet.corpus.store.report_rows import FileRows, Row
from keet.corpus.store.schema import ACCOUNT_COLUMNS, FINDING_COLUMNS, LAUNCH_COLUMNS, utc_now
from keet.profile.run_table import KernelRun, RunTable
from keet.report import read_profile
from keet.report.run_table import table_path, write_run_table


def launch_row(**cells: object) -> Row:
    assert set(cells) <= set(LAUNCH_COLUMNS)
    return tuple(cells.get(name) for name in LAUNCH_COLUMNS)


def finding_row(**cells: object) -> Row:
    assert set(cells) <= set(FINDING_COLUMNS)
    return tuple(cells.get(name) for name in FINDING_COLUMNS)


def part_row(**cells: object) -> Row:
    assert set(cells) <= set(ACCOUNT_COLUMNS)
    return tuple(cells.get(name) for name in ACCOUNT_COLUMNS)


Cells = dict[str, object]
PLAIN: Cells = {
    "kernel": "k", "kernel_full": "void ns::k()", "grid": "8x1x1", "block": "32x1x1", "device": "GPU",
    "compute_capability": "9.0", "sm_count": 132, "duration_us": 100.0, "limiter": "DRAM",
    "top_finding": "narrow_access", "top_low": 1.0, "top_forecast": 2.0, "top_high": 4.0,
}  # fmt: skip
"""A launch of 100 us, of which one half can be saved."""


class Launches(NamedTuple):
    """A report, by what distinguishes its launches from `PLAIN`."""

    cells: Sequence[Cells]
    run: Cells
    """What its record says of the run."""
    finding: Cells
    """Of the row of each launch in the table of findings; there is none without an id."""


def launches(*cells: Cells, finding: Cells | None = None, **run: object) -> Launches:
    return Launches(cells, run, finding or {})


def of_run(missed_us: float, *cells: Cells) -> Launches:
    """A run of these and of `missed_us` that were not profiled."""
    total = missed_us + sum(float(str(each["run_time_us"])) for each in cells)
    return launches(*cells, run_total_us=total, run_unprofiled_us=missed_us)


def in_run(time_us: float, count: float = 10.0, **cells: object) -> Cells:
    """A launch that took as long in the run as under the profiler, and stands for `count`."""
    return {"run_time_us": time_us, "run_launches": count, "plain_us": 100.0, **cells}


def add_reports(out: Path, reports: Mapping[str, Launches]) -> None:
    """By path, in one part."""
    records, rows = [], []
    for path, (cells, run, finding) in reports.items():
        sha256 = path.ljust(64, "-")[:64]
        keys = [{"report_sha256": sha256, "launch_id": n} for n in range(len(cells))]
        made = [
            launch_row(**{**PLAIN, **key, "path": path, **each}) for key, each in zip(keys, cells)
        ]
        causes = [finding_row(**key, rank=1, **finding) for key in keys if finding]
        records.append(record(path, sha256, **run))
        rows.append(FileRows(tuple(made), tuple(causes)))
    write_part(out, records, rows)


def report(path: str, sha256: str, durations: tuple[float | None, ...] = (10.0,)) -> FileRows:
    """A report of a launch for each duration, all alike."""
    keys = [{"report_sha256": sha256, "launch_id": number} for number in range(len(durations))]
    launches = [
        launch_row(**{**PLAIN, **key, "path": path, "duration_us": us})
        for key, us in zip(keys, durations)
    ]
    findings = [finding_row(**key, rank=1, id="narrow_access") for key in keys]
    account = [part_row(**key, part="waiting", share=1.0, innermost=True) for key in keys]
    return FileRows(tuple(launches), tuple(findings), tuple(account))


def asked(out: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_store(out) as store:
        return store.query(sql).rows


def everything(out: Path) -> list[list[tuple[Any, ...]]]:
    """All that does not depend on the clock."""
    queries = {
        "FROM launches": "report_sha256, launch_id",
        "FROM findings": "report_sha256, launch_id, rank",
        "FROM account": "report_sha256, launch_id, part",
        "FROM metrics": "report_sha256, launch_id, metric",
        "SELECT * EXCLUDE (seconds, recorded) FROM files": "path",
    }
    with open_store(out) as store:
        return [store.query(f"{sql} ORDER BY {order}").rows for sql, order in queries.items()]


def record(path: str, sha256: str | None, status: str = "done", **cells: object) -> FileRecord:
    plain = FileRecord(path, 1, 1, sha256, status, None, None, 1, 0.1, "0.1.0", utc_now())
    return plain._replace(**cells)


def resume_state(out: Path, *reports: FileRows) -> None:
    """A part in which these were analysed."""
    records = [record(str(each.launches[0][1]), each.sha256) for each in reports]
    write_part(out, records, reports)


# --- tables of runs, written beside reports as `keet profile` does

OTHER = "never_profiled()"


def write_table(
    report: Path,
    times: Mapping[str, tuple[int, float]],
    *,
    created: str | None = None,
    age_s: int = 0,
) -> Path:
    """`times`: launches and microseconds in all, by short kernel name or `OTHER`."""
    profile = read_profile(report)
    full = {launch.kernel: launch.name.full for launch in profile.launches} | {OTHER: OTHER}
    kernels = tuple(
        KernelRun(full[name], full[name], None, None, launches, us * 1e3, us * 1e3)
        for name, (launches, us) in times.items()
    )
    table = RunTable(kernels, "cupti", report_created=created or profile.provenance.created)
    path = table_path(report)
    write_run_table(table, path)
    if age_s:
        os.utime(path, ns=(0, path.stat().st_mtime_ns - age_s * 10**9))
    return path
