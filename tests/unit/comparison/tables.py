"""Tables of runs for reports made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compared import Kernel, made, sample

from keet.comparison.compare import Difference
from keet.profile import Profile
from keet.profile.run_table import KernelRun, Record, RunTable, tabulate


def row(
    function: str,
    launches: int,
    busy_ns: float,
    *,
    total_ns: float | None = None,
    overlapped_ns: float | None = 0.0,
    shape: Kernel | None = None,
) -> KernelRun:
    """One kernel of a run, named as `made` names it. `shape`: of this launch; else of any.
    `overlapped_ns`: None where the table does not tell which kernels ran at the same time."""
    return KernelRun(
        f"_Z{function}",
        f"{function}(int)",
        shape.grid if shape else None,
        shape.block if shape else None,
        launches,
        busy_ns if total_ns is None else total_ns,
        busy_ns,
        overlapped_ns,
    )


def table(*rows: KernelRun, **fields: Any) -> RunTable:
    return RunTable(rows, **{"recorder": "cupti", **fields})


def in_run(profile: Profile, *rows: KernelRun, **fields: Any) -> Profile:
    return replace(profile, run=table(*rows, **fields))


def ran(*spent: tuple[str, int, float], profiled: Sequence[str] | None = None) -> Profile:
    """A run of these kernels (name, launches, time of them all), and a report with one launch of
    each, or of those that were profiled."""
    names = [name for name, *_ in spent] if profiled is None else profiled
    means = {name: ns / launches for name, launches, ns in spent}
    report = made(*(Kernel(name, means[name]) for name in names), command_line="ncu -c 9 ./app")
    return in_run(report, *(row(*each) for each in spent))


def rows_of(found: Difference) -> tuple[float, float]:
    """What the rows of a difference add up to, before and after."""
    timings = [pair.timing for pair in found.pairs]
    rest = found.not_profiled
    return (
        sum(t.before or 0.0 for t in timings) + (float(rest.time.before.value) if rest else 0.0),
        sum(t.after or 0.0 for t in timings) + (float(rest.time.after.value) if rest else 0.0),
    )


def recorded(*spans: tuple[str, int, int]) -> RunTable:
    """Launches by name, start and end."""
    records = [
        Record(f"_Z{name}", f"{name}(int)", (100, 1, 1), (256, 1, 1), start, end, order=n)
        for n, (name, start, end) in enumerate(spans)
    ]
    return tabulate(records, "cupti")


def sample_ran(name: str, *rows: tuple[int, float, bool], version: str = "slow") -> Profile:
    """A sample in a run: launches, microseconds of each, and whether they have its shape."""
    profile = sample(name, version)
    (launch,) = profile.launches
    known = {"name": launch.name.full, "full": launch.name.full, "block": launch.block}
    kernels = []
    for launches, us, own in rows:
        times = dict.fromkeys(("median_ns", "shortest_ns", "longest_ns"), us * 1000)
        grid = launch.grid if own else (7, 7, 7)
        kernel = row("k", launches, launches * us * 1000)
        kernels.append(kernel._replace(**known, **times, grid=grid))
    told = profile.provenance._replace(sha256=f"{rows}{version}")
    return replace(profile, run=table(*kernels), provenance=told)
