"""Tables of runs, written beside reports as `keet profile` does."""

import os
from collections.abc import Mapping
from pathlib import Path

from keet.profile.run_table import KernelRun, RunTable
from keet.report import read_profile
from keet.report.run_table import table_path, write_run_table

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
