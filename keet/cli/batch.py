"""Explain all reports in folders, and write the results into a store for `keet top`, `insights` and
`query`. The command may be stopped or killed at any time: run it again to resume."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import positive
from keet.cli.stderr import print_problem, print_progress
from keet.errors import ExitCode, UsageError
from keet.formatting import count_noun

if TYPE_CHECKING:
    from keet.cli.batch_text import ProgressLine
    from keet.corpus.batch.coordinator import BatchProgress
    from keet.corpus.batch.stored_files import ResumeState
    from keet.corpus.batch.worker import Analyse
    from keet.corpus.batch.worker_pool import Pool
    from keet.corpus.discovery import SearchResult

EXAMPLES = """\
examples:
  keet batch runs/ -o store
  keet batch runs/ more/ one.ncu-rep -o store --jobs 8
  keet batch runs/ -o store --retry-failed
  keet batch runs/ -o store --prune
  keet batch runs/ -o store --shard $SLURM_ARRAY_TASK_ID/64
  keet batch runs/ -o store --dask tcp://scheduler:8786

then:
  keet top store
  keet insights store
  keet query store "SELECT kernel, sum(duration_us) FROM launches GROUP BY kernel"
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="+",
        type=_place,
        metavar="DIR",
        help="folders with reports, or single reports",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OUT",
        help="the store: a folder, made if it does not exist",
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="worker processes (default: one per core)"
    )
    parser.add_argument(
        "--shard",
        default="0/1",
        metavar="I/N",
        help="analyse only part I of N of the files (I from 0)",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="run on the workers of an existing Dask cluster"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="limit per file of up to 256 MB (default: 300); in proportion longer for larger files",
    )
    parser.add_argument(
        "--sass",
        action="store_true",
        help="analyse the machine code too, as `keet explain` does: about a second per report",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="analyse files again that failed earlier"
    )
    parser.add_argument(
        "--prune",
        action="store_true",
        help="remove files from the store that no longer exist in DIR",
    )


def _place(name: str) -> Path:
    """Not `-`: the next batch recognises files by their path."""
    if name == "-":
        raise UsageError(
            "keet batch takes files and folders, not standard input; save the report to a file, "
            "or use: keet explain -"
        )
    return Path(name)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise ArgumentTypeError(f"{text!r} must be a positive number of seconds")
    return seconds


def run(args: Namespace) -> int:
    from keet.cli.batch_text import ProgressLine

    line = ProgressLine()
    try:
        with _on_signals(_interrupt):
            return _run(args, line)
    except KeyboardInterrupt:
        line.clear()
        _print_stopped(args)
        return ExitCode.INTERRUPTED


def _run(args: Namespace, line: ProgressLine) -> int:
    from keet.corpus.batch.coordinator import write_quarantine
    from keet.corpus.batch.stored_files import LOST, is_gone, resume_state, set_damaged_aside
    from keet.corpus.store.part_writer import make_store, remove_abandoned
    from keet.optional_packages import check

    if args.dask:
        check("distributed", "dask")  # this extra includes what a store needs
    _check_store(args)
    for problem in set_damaged_aside(args.output):
        print_problem(problem)
    found, gone = _find_files(args)
    with nullcontext() if args.dask else _pool(args, found) as pool:
        make_store(args.output)
        remove_abandoned(args.output)
        _prune(args, gone)
        state = resume_state(args.output, found.reports, retry_failed=args.retry_failed)
        if pool is None:
            progress = _run_on_dask(args, state, line)
        else:
            progress = _run_here(args, state, line, pool)
    line.clear()
    failed = write_quarantine(args.output)
    code = _conclude(args, found, state, progress, len(gone))
    _print_lost(args, sum(each.reason == LOST and not is_gone(each.path) for each in failed))
    return code


def _find_files(args: Namespace) -> tuple[SearchResult, list[str]]:
    """The reports in the folders, and the paths in the store that no longer exist."""
    from keet.corpus.batch.stored_files import find_gone
    from keet.corpus.discovery import find_reports, parse_shard

    shard = parse_shard(args.shard)
    lost = {
        place
        for place in args.places
        if args.prune and not os.path.lexists(place) and find_gone(args.output, [place], ())
    }
    found = find_reports([p for p in args.places if p not in lost], args.output, shard)
    gone = find_gone(args.output, args.places, found.reports, shard)
    if not (args.prune and gone):
        _check_found(args, found)
    return found, gone


def _prune(args: Namespace, gone: list[str]) -> None:
    from keet.corpus.batch.stored_files import record_gone

    if args.prune:
        record_gone(args.output, gone)


def _check_store(args: Namespace) -> None:
    """Refuse a folder that has other files in it, and an older store."""
    from keet.corpus.store.schema import PARTS, STORE_FILE
    from keet.corpus.store.version import check_writable

    out = args.output
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file; name a folder for the store with -o")
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if names and not names & {PARTS, STORE_FILE}:
        raise UsageError(
            f"{out}: this folder is not a store and is not empty; name a new folder with -o"
        )
    check_writable(out, lambda new: _command(args, new))


def _check_found(args: Namespace, found: SearchResult) -> None:
    for folder in found.unreadable_folders:
        print_problem(f"skipped {folder}; check its permissions")
    if found.reports or found.in_other_shards:
        return
    where = ", ".join(map(str, args.places))
    files = count_noun(found.other_files, "CSV or JSON file is", "CSV or JSON files are")
    other_files = f" ({files} not from ncu or keet)" if found.other_files else ""
    raise UsageError(
        f"no report found in {where}{other_files}; keet reads .ncu-rep, .ncu-repz, .keet.json and "
        "the output of ncu --csv"
    )


# --- running the batch


def _pool(args: Namespace, found: SearchResult) -> Pool:
    """In a new store all files have to be analysed, so the workers start at once and do their
    imports while this process does its own."""
    from keet.corpus.batch.worker_pool import Pool, WorkerLimits
    from keet.corpus.store.schema import part_folders

    jobs = min(args.jobs or _cores(), max(len(found.reports), 1))
    pool = Pool(_analysis(args), jobs, WorkerLimits(seconds=args.timeout))
    if found.reports and not part_folders(args.output):
        pool.start_workers()
    return pool


def _run_here(args: Namespace, state: ResumeState, line: ProgressLine, pool: Pool) -> BatchProgress:
    from keet.corpus.batch.coordinator import Batch
    from keet.corpus.store.part_writer import PartQueue

    with PartQueue(args.output) as writer, _rare_garbage_collection():
        batch = Batch(state.pending, state.stored, pool, writer)

        def stop() -> None:
            batch.stop()
            pool.wake()

        with _on_signals(stop):
            return batch.run(line.update)


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


def _run_on_dask(args: Namespace, state: ResumeState, line: ProgressLine) -> BatchProgress:
    from keet.corpus.batch.dask_cluster import DaskCluster

    cluster = DaskCluster(args.dask, args.output, _analysis(args), args.timeout)
    with cluster, _on_signals(cluster.stop):
        return cluster.run(state, line.update)


def _cores() -> int:
    """Cores that this process may use: Slurm and containers allow only some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
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


def _analysis(args: Namespace) -> Analyse:
    from keet.corpus.batch import worker

    return worker.analyse_with_sass if args.sass else worker.analyse


# --- the summary


def _conclude(
    args: Namespace, found: SearchResult, state: ResumeState, progress: BatchProgress, gone: int
) -> int:
    from keet.cli.batch_text import summary_text
    from keet.corpus.batch.coordinator import QUARANTINE

    if progress.stopped and not progress.finished:
        _print_stopped(args)
        return ExitCode.INTERRUPTED
    failed = progress.failed + state.failed
    sys.stdout.write(summary_text(progress, state.done + state.failed, found.other_files))
    _print_gone(args, gone)
    _print_repeats(args)
    if failed:
        reasons = f"the reasons are in {args.output / QUARANTINE}"
        print_problem(f"{count_noun(failed, 'file')} failed; {reasons}")
    if progress.stopped:
        _print_stopped(args)
        return ExitCode.INTERRUPTED
    out = shlex.quote(str(args.output))
    sys.stdout.write(f"next: keet top {out}, keet insights {out}\n")
    return ExitCode.SOME_FAILED if failed else 0


def _print_gone(args: Namespace, gone: int) -> None:
    if not gone:
        return
    if args.prune:
        files = count_noun(gone, "file that no longer exists", "files that no longer exist")
        sys.stdout.write(f"removed from the store: {files}\n")
    else:
        files = count_noun(
            gone, "file of the store no longer exists", "files of the store no longer exist"
        )
        print_progress(f"{files}; remove from the store with: {_command(args)} --prune")


def _print_lost(args: Namespace, lost: int) -> None:
    """Reports that this batch did not find, because they are in other folders."""
    if lost:
        from keet.corpus.batch.coordinator import QUARANTINE

        reports = count_noun(lost, "report of damaged parts is", "reports of damaged parts are")
        folders = f"run keet batch for their folders, {args.output / QUARANTINE} lists them"
        print_problem(f"{reports} still missing from the store; {folders}")


def _print_repeats(args: Namespace) -> None:
    from keet.corpus.batch.stored_files import repeated_by_snapshots

    if count := repeated_by_snapshots(args.output):
        snapshots = count_noun(count, "snapshot names", "snapshots name")
        print_progress(
            f"{snapshots} a report of the store as origin: the launches of both are in the store; "
            f"to count them once, remove one file of each pair, then: {_command(args)} --prune"
        )


def _print_stopped(args: Namespace) -> None:
    print_problem(f"stopped; finished files are in {args.output}, resume with: {_command(args)}")


def _command(args: Namespace, out: Path | None = None) -> str:
    shard = [] if args.shard == "0/1" else ["--shard", args.shard]
    jobs = ["--jobs", str(args.jobs)] if args.jobs else []
    dask = ["--dask", args.dask] if args.dask else []
    sass = ["--sass"] if args.sass else []
    places = [str(place) for place in args.places]
    return shlex.join(
        ["keet", "batch", *places, "-o", str(out or args.output), *jobs, *shard, *dask, *sass]
    )
