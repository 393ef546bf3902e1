"""Runs a batch: finds reports, analyses them in workers, writes their rows into a store, and says
what was done.

Modules are imported where they are used: workers start while this process does its imports.
"""

from __future__ import annotations

import gc
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from keet.errors import UsageError
from keet.formatting import count_noun

if TYPE_CHECKING:
    from keet.corpus.batch.coordinator import BatchProgress
    from keet.corpus.batch.stored_files import Failure, ResumeState
    from keet.corpus.batch.worker import Analyse
    from keet.corpus.batch.worker_pool import Pool
    from keet.corpus.discovery import SearchResult


class BatchOptions(NamedTuple):
    """The options of `keet batch`, which describes them."""

    places: Sequence[Path]
    output: Path
    jobs: int | None = None
    """None: one worker per core."""
    shard: str = "0/1"
    dask: str | None = None
    timeout: float = 300.0
    """Seconds per file of up to 256 MB."""
    sass: bool = False
    retry_failed: bool = False
    prune: bool = False

    def command(self, out: Path | None = None) -> str:
        """What a user types to do the same again. `out`: into another store."""
        words = ["keet", "batch", *map(str, self.places), "-o", str(out or self.output)]
        words += ["--jobs", str(self.jobs)] if self.jobs else []
        words += [] if self.shard == "0/1" else ["--shard", self.shard]
        words += ["--dask", self.dask] if self.dask else []
        words += ["--sass"] if self.sass else []
        return shlex.join(words)


class BatchOutcome(NamedTuple):
    """What a batch did."""

    found: SearchResult
    state: ResumeState
    progress: BatchProgress
    gone: int
    """Files of the store that no longer exist; with `prune` they were removed from the store."""
    failures: list[Failure]
    """All files of the store that failed at the last attempt, also in earlier batches."""

    @property
    def failed(self) -> int:
        """Of the files of this batch."""
        return self.progress.failed + self.state.failed

    @property
    def unchanged(self) -> int:
        """Files that an earlier batch finished or failed to read."""
        return self.state.done + self.state.failed


def run_batch(
    options: BatchOptions, update: Callable[[BatchProgress], None], warn: Callable[[str], None]
) -> BatchOutcome:
    """`update` is called every half second. `warn` gets problems that do not stop the batch."""
    from keet.corpus.batch.coordinator import write_quarantine
    from keet.corpus.batch.stored_files import record_gone, resume_state, set_damaged_aside
    from keet.corpus.store.part_writer import make_store, remove_abandoned
    from keet.lazy import check

    if options.dask:
        check("distributed", "dask")  # this extra includes what a store needs
    _check_store(options)
    for problem in set_damaged_aside(options.output):
        warn(problem)
    searched, gone = _find_files(options, warn)
    with nullcontext() if options.dask else _pool(options, searched) as pool:
        make_store(options.output)
        remove_abandoned(options.output)
        if options.prune:
            record_gone(options.output, gone)
        state = resume_state(options.output, searched.reports, retry_failed=options.retry_failed)
        if pool is None:
            progress = _run_on_dask(options, options.dask or "", state, update)
        else:
            progress = _run_here(options, state, update, pool)
    failures = write_quarantine(options.output)
    return BatchOutcome(searched, state, progress, len(gone), failures)


def _find_files(
    options: BatchOptions, warn: Callable[[str], None]
) -> tuple[SearchResult, list[str]]:
    """The reports in the folders, and the paths in the store that no longer exist."""
    from keet.corpus.batch.stored_files import find_gone
    from keet.corpus.discovery import find_reports, parse_shard

    shard = parse_shard(options.shard)
    lost = {
        place
        for place in options.places
        if options.prune and not os.path.lexists(place) and find_gone(options.output, [place], ())
    }
    reports = find_reports([p for p in options.places if p not in lost], options.output, shard)
    gone = find_gone(options.output, options.places, reports.reports, shard)
    if not (options.prune and gone):
        _check_found(options, reports, warn)
    return reports, gone


def _check_store(options: BatchOptions) -> None:
    """Refuse a folder that has other files in it, and an older store."""
    from keet.corpus.store.damage import check_writable
    from keet.corpus.store.schema import PARTS, STORE_FILE

    out = options.output
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file; name a folder for the store")
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if names and not names & {PARTS, STORE_FILE}:
        raise UsageError(f"{out}: this folder is not a store and is not empty; name a new folder")
    check_writable(out, options.command)


def _check_found(
    options: BatchOptions, searched: SearchResult, warn: Callable[[str], None]
) -> None:
    for folder in searched.unreadable_folders:
        warn(f"skipped {folder}; check its permissions")
    if searched.reports or searched.in_other_shards:
        return
    where = ", ".join(map(str, options.places))
    files = count_noun(searched.other_files, "CSV or JSON file is", "CSV or JSON files are")
    other_files = f" ({files} not from ncu or keet)" if searched.other_files else ""
    if searched.skipped_exports:
        files = count_noun(searched.skipped_exports, ".txt or .log file", ".txt or .log files")
        other_files += f" ({files} with output of ncu; name them to read them)"
    raise UsageError(
        f"no report found in {where}{other_files}; keet reads .ncu-rep, .ncu-repz, .keet.json and "
        "the output of ncu --csv"
    )


def _pool(options: BatchOptions, searched: SearchResult) -> Pool:
    """In a new store all files have to be analysed, so the workers start at once and do their
    imports while this process does its own."""
    from keet.corpus.batch.worker_pool import Pool, WorkerLimits
    from keet.corpus.store.schema import part_folders

    jobs = min(options.jobs or _cores(), max(len(searched.reports), 1))
    pool = Pool(_analysis(options), jobs, WorkerLimits(seconds=options.timeout))
    if searched.reports and not part_folders(options.output):
        pool.start_workers()
    return pool


def _run_here(
    options: BatchOptions, state: ResumeState, update: Callable[[BatchProgress], None], pool: Pool
) -> BatchProgress:
    from keet.corpus.batch.coordinator import Batch
    from keet.corpus.store.part_writer import PartQueue

    with PartQueue(options.output) as writer, _rare_garbage_collection():
        batch = Batch(state.pending, state.stored, pool, writer)

        def stop() -> None:
            batch.stop()
            pool.wake()

        with on_signals(stop):
            return batch.run(update)


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Rows that wait to be written are 100,000 tuples without reference cycles; searching them
    for cycles again and again would take a fifth of this process's time."""
    before = gc.get_threshold()
    gc.set_threshold(500_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_on_dask(
    options: BatchOptions, address: str, state: ResumeState, update: Callable[[BatchProgress], None]
) -> BatchProgress:
    from keet.corpus.batch.dask_cluster import DaskCluster

    cluster = DaskCluster(address, options.output, _analysis(options), options.timeout)
    with cluster, on_signals(cluster.stop):
        return cluster.run(state, update)


def _cores() -> int:
    """Cores that this process may use: Slurm and containers allow only some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops the batch in order, the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)

    def handle(*_: object) -> None:
        restore()
        stop()

    for name in before:
        signal.signal(name, handle)
    try:
        yield
    finally:
        restore()


def _analysis(options: BatchOptions) -> Analyse:
    from keet.corpus.batch import worker

    return worker.analyse_with_sass if options.sass else worker.analyse


def rates_text(counts: BatchProgress) -> str:
    rates = [amount / max(counts.seconds, 1e-3) for amount in (counts.launches, counts.finished)]
    launches, files = (f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" for rate in rates)
    return f"{launches} launches/s, {files} files/s"


def duration_text(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"


def summary_text(counts: BatchProgress, unchanged: int, searched: SearchResult) -> str:
    """What a batch did. `unchanged`: files that an earlier batch had finished."""
    outcomes = [f"{counts.done:,} done"]
    outcomes += [count_noun(counts.duplicates, "duplicate")] if counts.duplicates else []
    outcomes += [f"{counts.failed:,} failed"] if counts.failed else []
    outcomes += [f"{unchanged:,} unchanged since the last time"] if unchanged else []
    lines = [f"{count_noun(counts.finished + unchanged, 'file')}: {', '.join(outcomes)}"]
    if counts.finished:
        lines.append(
            f"{count_noun(counts.launches, 'launch')}, {gpu_time_text(counts.gpu_seconds)} of GPU "
            f"time; analysed in {duration_text(counts.seconds)} ({rates_text(counts)})"
        )
    if counts.runs:
        from keet.pages.top import known_runs_text

        files = count_noun(counts.done, "file")
        lines.append(known_runs_text(counts.runs, counts.timed_runs, files))
    lines += _remarks(counts, searched)
    return "\n".join(lines) + "\n"


def _remarks(counts: BatchProgress, searched: SearchResult) -> Iterator[str]:
    if counts.unused_tables:
        tables = count_noun(counts.unused_tables, "run table was", "run tables were")
        yield f"{tables} not used; the column `reason` of `files` says why"
    if counts.noted:
        files = count_noun(counts.noted, "file has a note", "files have notes")
        yield f"{files}, in the column `reason` of `files`"
    if other_files := searched.other_files:
        files = count_noun(other_files, "CSV or JSON file", "CSV and JSON files")
        yield f"skipped {files} that {'is' if other_files == 1 else 'are'} not from ncu or keet"
    if searched.skipped_exports:
        files = count_noun(searched.skipped_exports, ".txt or .log file", ".txt and .log files")
        yield f"skipped {files} with output of ncu: name them on the command line to read them"


def gpu_time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"
    return "0 s" if not seconds else f"{seconds * 1e9:.3g} ns"
