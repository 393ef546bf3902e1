"""From what can be measured here to 100,000 and 10 million profiles: the numbers of docs/scale.md.

    python -m tests.benchmarks.scale [FILES]

Measured: what a file costs beyond the start of a run (the slope between a small and a large run),
listing and settling of files that are only names, the size of rows. The rest is multiplication.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keet.corpus.batch.stored_files import resume_state
from keet.corpus.discovery import ReportFile, find_reports
from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.schema import part_folders, utc_now
from tests.benchmarks.batch import SAMPLES, launches_of, write_copies
from tests.benchmarks.measure import KEET, spent

LARGE = 1_200
LISTED = 100_000
SETTLED = 1_000_000
RECORDS_A_PART = 2_000
SHARE = 10_000


class Cost(NamedTuple):
    """Of one file: seconds of all processors, seconds of the clock with two workers."""

    cpu: float
    wall: float
    start_cpu: float
    start_wall: float


def cost_of_files(many: int) -> Cost:
    few = many // 4
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name) / "small", Path(name) / "large"
        write_copies(small, few)
        write_copies(large, many)
        (cpu_few, wall_few), (cpu_many, wall_many) = (_run(tree) for tree in (small, large))
    cpu, wall = ((b - a) / (many - few) for a, b in ((cpu_few, cpu_many), (wall_few, wall_many)))
    return Cost(cpu, wall, cpu_few - few * cpu, wall_few - few * wall)


def _run(tree: Path) -> tuple[float, float]:
    out = tree.parent / f"{tree.name}_store"
    run = spent([KEET, "batch", "-q", str(tree), "-o", str(out), "--jobs", "2"])
    return run.cpu, run.wall


def bytes_a_launch() -> float:
    """Of reports that are really different: copies would compress too well."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "store"
        spent([KEET, "batch", "-q", str(SAMPLES), "-o", str(out)])
        size = sum(file.stat().st_size for part in part_folders(out) for file in part.iterdir())
    return size / launches_of(sorted(SAMPLES.glob("*/*.ncu-rep*")))


def seconds_to_list(count: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            path = Path(name) / f"{number // 1000:04}" / f"{number:07}.ncu-rep"
            path.parent.mkdir(exist_ok=True)
            path.touch()
        start = time.perf_counter()
        assert len(find_reports([Path(name)], Path(name) / "out").reports) == count
        return time.perf_counter() - start


def seconds_to_settle(count: int, share: int) -> tuple[float, float]:
    """What a shard of `share` files waits before it starts, in a store that has `count` of them
    already; the same where all are its own."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "store"
        files = [_file(number) for number in range(count)]
        for chunk in _chunks(files, RECORDS_A_PART):
            write_part(out, [_record(file) for file in chunk], [])
        return _timed(out, files[:: count // share]), _timed(out, files)


def _timed(out: Path, files: Sequence[ReportFile]) -> float:
    start = time.perf_counter()
    assert not resume_state(out, files).open
    return time.perf_counter() - start


def _chunks(files: Sequence[ReportFile], size: int) -> Iterator[Sequence[ReportFile]]:
    return (files[at : at + size] for at in range(0, len(files), size))


def _file(number: int) -> ReportFile:
    relative = f"{number // 1000:05}/run_{number:08}.ncu-rep"
    return ReportFile(f"/archive/of/profiles/{relative}", relative, 300_000 + number % 9973, number)


def _record(file: ReportFile) -> FileRecord:
    sha256 = f"{hash(file.path) % 2**64:064x}"
    row = (file.path, file.size, file.mtime_ns, sha256, "done", None, None, 1, 0.01, "0", utc_now())
    return FileRecord(*row)


def estimates(cost: Cost, size: float, listing: float) -> Iterator[str]:
    yield "| profiles | cores | hours | core-hours | store | listing |"
    yield "|---|---|---|---|---|---|"
    for profiles, cores in ((10**5, 2), (10**5, 16), (10**7, 64), (10**7, 1024)):
        core_hours = profiles * cost.cpu / 3600
        disk = profiles * size / 1e9
        minutes = profiles * listing / LISTED / 60
        yield (
            f"| {profiles:,} | {cores:,} | {core_hours / cores:,.2f} | {core_hours:,.1f} | "
            f"{disk:,.1f} GB | {minutes:,.1f} min |"
        )


def main(files: int = LARGE) -> None:
    cost, size, listing = cost_of_files(files), bytes_a_launch(), seconds_to_list(LISTED)
    share, whole = seconds_to_settle(SETTLED, SHARE)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = [
        f"a file: {cost.cpu * 1e3:.1f} ms of a core, {cost.wall * 1e3:.1f} ms with two workers",
        f"a run: {cost.start_cpu:.1f} s of a core, {cost.start_wall:.1f} s until it works",
        f"a launch: {size / 1e3:.2f} kB in the store",
        f"listing {LISTED:,} files: {listing:.1f} s",
        f"settling a share of {SHARE:,} in a store of {SETTLED:,}: {share:.1f} s, "
        f"all of them: {whole:.1f} s (memory {peak:.0f} MB)",
        "",
        *estimates(cost, size, listing),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
