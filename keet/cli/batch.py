"""Explain whole folders of reports into a store that can be queried. It may be killed at any time:
the same command goes on where it was."""

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
from keet.cli.quiet import loud_stderr
from keet.errors import ExitCode, UsageError, one_line

if TYPE_CHECKING:
    from keet.corpus.batch.coordinator import BatchProgress
    from keet.corpus.batch.file_analysis import Analyse
    from keet.corpus.batch.resume import ResumeState
    from keet.corpus.batch.worker_pool import Pool
    from keet.corpus.discovery import SearchResult
    from keet.render.terminal.batch import ProgressLine

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
        "places", nargs="+", type=_place, metavar="DIR", help="folders, or reports by name"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the store, a folder"
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="worker processes (default: one a core)"
    )
    parser.add_argument(
        "--shard", default="0/1", metavar="I/N", help="only share I of N, counted from 0"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="work on an existing Dask cluster")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="for one file of up to 256 MB (default: 300); larger ones have longer",
    )
    parser.add_argument(
        "--sass",
        action="store_true",
        help="analyse the machine code too, as `keet explain` does: about a second per report",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="try again what failed in earlier runs"
    )
    parser.add_argument(
        "--prune", action="store_true", help="take out of the store what is gone from DIR"
    )


def _place(name: str) -> Path:
    """Not `-`: a store knows reports by path and content, to find them again in the next run."""
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
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def run(args: Namespace) -> int:
    from keet.render.terminal.batch import ProgressLine

    line = ProgressLine()
    try:
        with _on_signals(_interrupt):
            return _run(args, line)
    except KeyboardInterrupt:
        line.clear()
        _tell_stopped(args)
        return ExitCode.INTERRUPTED


def _run(args: Namespace, line: ProgressLine) -> int:
    from keet.corpus.batch.coordinator import write_quarantine
    from keet.corpus.batch.resume import resume_state
    from keet.corpus.store.part_writer import make_store
    from keet.corpus.store.unfinished import remove_abandoned
    from keet.extras import check

    if args.dask:
        check("distributed", "dask")  # this extra brings what a store needs, too
    _check_store(args)
    survey, gone = _look_around(args)
    with nullcontext() if args.dask else _pool(args, survey) as pool:
        make_store(args.output)
        remove_abandoned(args.output)
        _prune(args, gone)
        settled = resume_state(args.output, survey.reports, retry_failed=args.retry_failed)
        if pool is None:
            tally = _run_on_dask(args, settled, line)
        else:
            tally = _run_here(args, settled, line, pool)
    line.clear()
    write_quarantine(args.output)
    return _conclude(args, survey, settled, tally, len(gone))


def _look_around(args: Namespace) -> tuple[SearchResult, list[str]]:
    """What is there, and what the store knows that is there no more."""
    from keet.corpus.batch.gone_files import find_gone
    from keet.corpus.discovery import find_reports
    from keet.corpus.sharding import parse_shard

    shard = parse_shard(args.shard)
    lost = {
        place
        for place in args.places
        if args.prune and not os.path.lexists(place) and find_gone(args.output, [place], ())
    }
    survey = find_reports([p for p in args.places if p not in lost], args.output, shard)
    gone = find_gone(args.output, args.places, survey.reports, shard)
    if not (args.prune and gone):
        _tell_survey(args, survey)
    return survey, gone


def _prune(args: Namespace, gone: list[str]) -> None:
    from keet.corpus.batch.gone_files import record_gone

    if args.prune:
        record_gone(args.output, gone)


def _check_store(args: Namespace) -> None:
    """Refuse to mix a store with what somebody keeps in a folder, or with an older store."""
    from keet.corpus.store.schema import PARTS, STORE_FILE
    from keet.corpus.store.version import check_writable

    out = args.output
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file; name a folder for the store with -o")
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if names and not names & {PARTS, STORE_FILE}:
        raise UsageError(f"{out}: this folder has other things in it; name a new one with -o")
    check_writable(out, lambda new: _command(args, new))


def _tell_survey(args: Namespace, survey: SearchResult) -> None:
    for folder in survey.closed:
        _tell_problem(f"passed over: {folder}; check its permissions")
    if survey.reports or survey.elsewhere:
        return
    where = ", ".join(map(str, args.places))
    files = "1 CSV or JSON file is" if survey.strangers == 1 else "{:,} CSV or JSON files are"
    strangers = f" ({files.format(survey.strangers)} none)" if survey.strangers else ""
    raise UsageError(
        f"there is no report in {where}{strangers}; keet reads .ncu-rep, .ncu-repz, .keet.json and "
        "what ncu --csv prints"
    )


def _tell(text: str) -> None:
    sys.stderr.write(one_line(f"keet: {text}") + "\n")


def _tell_problem(text: str) -> None:
    """Printed with --quiet, too."""
    loud_stderr().write(one_line(f"keet: {text}") + "\n")


# --- the work


def _pool(args: Namespace, survey: SearchResult) -> Pool:
    """Its workers start at once where every file is new, and import what they need while this
    process does. Where the store has parts, it may have all of the files already."""
    from keet.corpus.batch.worker_pool import Pool, WorkerLimits
    from keet.corpus.store.schema import part_folders

    jobs = min(args.jobs or _cores(), max(len(survey.reports), 1))
    pool = Pool(_analysis(args), jobs, WorkerLimits(seconds=args.timeout))
    if survey.reports and not part_folders(args.output):
        pool.start_workers()
    return pool


def _run_here(
    args: Namespace, settled: ResumeState, line: ProgressLine, pool: Pool
) -> BatchProgress:
    from keet.corpus.batch.coordinator import Batch
    from keet.corpus.store.part_queue import PartQueue

    with PartQueue(args.output) as writer, _few_collections():
        batch = Batch(settled.open, settled.kept, pool, writer)

        def stop() -> None:
            batch.stop()
            pool.wake()

        with _on_signals(stop):
            return batch.run(line.update)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Rows that wait for their part are a hundred thousand tuples without a cycle among them: to
    look for cycles again and again would be a fifth of this process's time."""
    before = gc.get_threshold()
    gc.set_threshold(500_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_on_dask(args: Namespace, settled: ResumeState, line: ProgressLine) -> BatchProgress:
    from keet.corpus.batch.dask_cluster import DaskCluster

    cluster = DaskCluster(args.dask, args.output, _analysis(args), args.timeout)
    with cluster, _on_signals(cluster.stop):
        return cluster.run(settled, line.update)


def _cores() -> int:
    """Those that this process may use: Slurm and containers give some of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run in order; a second one ends it at once."""
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
    from keet.corpus.batch import file_analysis

    return file_analysis.analyse_with_sass if args.sass else file_analysis.analyse


# --- the end


def _conclude(
    args: Namespace, survey: SearchResult, settled: ResumeState, tally: BatchProgress, gone: int
) -> int:
    from keet.corpus.batch.coordinator import QUARANTINE
    from keet.render.terminal.batch import summary_text

    if tally.stopped and not tally.through:
        _tell_stopped(args)
        return ExitCode.INTERRUPTED
    failed = tally.failed + settled.failed
    sys.stdout.write(summary_text(tally, settled.done + settled.failed, survey.strangers))
    _tell_gone(args, gone)
    if failed:
        files = "1 file" if failed == 1 else f"{failed:,} files"
        _tell_problem(f"{files} failed; why is in {args.output / QUARANTINE}")
    if tally.stopped:
        _tell_stopped(args)
        return ExitCode.INTERRUPTED
    out = shlex.quote(str(args.output))
    sys.stdout.write(f"next: keet top {out}, keet insights {out}\n")
    return ExitCode.SOME_FAILED if failed else 0


def _tell_gone(args: Namespace, gone: int) -> None:
    if not gone:
        return
    files = "1 file of the store is" if gone == 1 else f"{gone:,} files of the store are"
    if args.prune:
        sys.stdout.write(f"pruned: {files} gone\n")
    else:
        _tell(f"{files} gone; take them out of the store with: {_command(args)} --prune")


def _tell_stopped(args: Namespace) -> None:
    _tell_problem(f"stopped; what is done is in {args.output}, go on with: {_command(args)}")


def _command(args: Namespace, out: Path | None = None) -> str:
    shard = [] if args.shard == "0/1" else ["--shard", args.shard]
    jobs = ["--jobs", str(args.jobs)] if args.jobs else []
    dask = ["--dask", args.dask] if args.dask else []
    sass = ["--sass"] if args.sass else []
    places = [str(place) for place in args.places]
    return shlex.join(
        ["keet", "batch", *places, "-o", str(out or args.output), *jobs, *shard, *dask, *sass]
    )
