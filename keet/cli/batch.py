"""Explain all reports in folders, and write the results into a store for `keet top`, `insights` and
`query`. The command may be stopped or killed at any time: run it again to resume."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import number, option, positive
from keet.cli.pager import print_problem, print_progress
from keet.errors import ExitCode, UsageError
from keet.formatting import count_noun
from keet.safe_text import terminal_stream

if TYPE_CHECKING:
    from keet.corpus.batch.coordinator import BatchProgress
    from keet.corpus.batch.run import BatchOptions, BatchOutcome
    from keet.corpus.batch.stored_files import Failure

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
_PLAIN_SECONDS = 10.0
"""Seconds between lines in a log, which must stay readable after a long batch."""
_TERMINAL_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="+",
        type=_place,
        metavar="DIR",
        help="folders with reports, or single reports",
    )
    add = partial(option, parser)
    add(
        "-o, --output OUT",
        "the store: a folder, made if it does not exist",
        type=Path,
        required=True,
    )
    add("--jobs N", "worker processes (default: one per core)", type=positive)
    add("--shard I/N", "analyse only part I of N of the files (I from 0)", default="0/1")
    add("--dask ADDRESS", "run on the workers of an existing Dask cluster")
    add(
        "--timeout SECONDS",
        "limit per file of up to 256 MB (default: 300); in proportion longer for larger files",
        type=number("a positive number of seconds", lambda seconds: 0 < seconds < 1e7),
        default=300.0,
    )
    add("--sass", "analyse the machine code too, as `keet explain` does: takes about twice as long")
    add("--retry-failed", "analyse files again that failed earlier")
    add("--prune", "remove files from the store that no longer exist in DIR")


def _place(name: str) -> Path:
    """Not `-`: the next batch recognises files by their path."""
    if name == "-":
        raise UsageError(
            "keet batch takes files and folders, not standard input; save the report to a file, "
            "or use: keet explain -"
        )
    return Path(name)


def run(args: Namespace) -> int:
    from keet.corpus.batch.run import BatchOptions, on_signals, run_batch

    options = BatchOptions(*(getattr(args, name) for name in BatchOptions._fields))
    line = _ProgressLine()
    try:
        with on_signals(_interrupt):
            outcome = run_batch(options, line.update, print_problem)
            line.clear()
            code = _conclude(outcome, options)
            _print_lost(options, outcome.failures)
            return code
    except KeyboardInterrupt:
        line.clear()
        _print_stopped(options)
        return ExitCode.INTERRUPTED


def _interrupt() -> None:
    raise KeyboardInterrupt


# --- progress


class _ProgressLine:
    """One line that is rewritten on a terminal; in a log, a line every few seconds."""

    def __init__(self) -> None:
        self._stream = terminal_stream(sys.stderr)
        self._is_terminal = self._stream.isatty()
        self._next = time.monotonic() + (0 if self._is_terminal else _PLAIN_SECONDS)

    def update(self, counts: BatchProgress) -> None:
        from keet.corpus.batch.run import duration_text, rates_text
        from keet.formats.terminal import terminal_width

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._is_terminal else _PLAIN_SECONDS)
        launches = count_noun(counts.launches, "launch")
        parts = [f"{counts.finished:,} of {counts.files:,} files", launches, rates_text(counts)]
        if counts.failed:
            parts.append(f"{counts.failed:,} failed")
        if counts.seconds_left is not None:
            parts.append(f"{duration_text(counts.seconds_left)} left")
        text = ", ".join(parts)
        if self._is_terminal:
            self._write(f"{_CLEAR}{text[: terminal_width(self._stream) - 1]}")
        else:
            self._write(f"keet: {text}\n")

    def clear(self) -> None:
        if self._is_terminal:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


# --- the summary


def _conclude(outcome: BatchOutcome, options: BatchOptions) -> int:
    from keet.corpus.batch.coordinator import QUARANTINE
    from keet.corpus.batch.run import summary_text

    progress = outcome.progress
    if progress.stopped and not progress.finished:
        _print_stopped(options)
        return ExitCode.INTERRUPTED
    sys.stdout.write(summary_text(progress, outcome.unchanged, outcome.found))
    _print_gone(options, outcome.gone)
    _print_repeats(options)
    if outcome.failed:
        reasons = f"the reasons are in {options.output / QUARANTINE}"
        print_problem(f"{count_noun(outcome.failed, 'file')} failed; {reasons}")
    if progress.stopped:
        _print_stopped(options)
        return ExitCode.INTERRUPTED
    if progress.done and not options.sass:
        sys.stdout.write(
            "the machine code was not analysed: `keet explain` may find other causes (its "
            "answers: --sass and a new store, which takes about twice as long)\n"
        )
    out = shlex.quote(str(options.output))
    sys.stdout.write(f"next: keet top {out}, keet insights {out}\n")
    return ExitCode.SOME_FAILED if outcome.failed else 0


def _print_gone(options: BatchOptions, gone: int) -> None:
    if not gone:
        return
    if options.prune:
        files = count_noun(gone, "file that no longer exists", "files that no longer exist")
        sys.stdout.write(f"removed from the store: {files}\n")
    else:
        files = count_noun(
            gone, "file of the store no longer exists", "files of the store no longer exist"
        )
        print_progress(f"{files}; remove from the store with: {options.command()} --prune")


def _print_lost(options: BatchOptions, failures: Sequence[Failure]) -> None:
    """Reports that this batch did not find, because they are in other folders."""
    from keet.corpus.batch.coordinator import QUARANTINE
    from keet.corpus.batch.stored_files import LOST, is_gone

    if lost := sum(failure.reason == LOST and not is_gone(failure.path) for failure in failures):
        reports = count_noun(lost, "report of damaged parts is", "reports of damaged parts are")
        folders = f"run keet batch for their folders, {options.output / QUARANTINE} lists them"
        print_problem(f"{reports} still missing from the store; {folders}")


def _print_repeats(options: BatchOptions) -> None:
    from keet.corpus.batch.stored_files import repeated_by_snapshots

    if count := repeated_by_snapshots(options.output):
        snapshots = count_noun(count, "snapshot names", "snapshots name")
        print_progress(
            f"{snapshots} a report of the store as origin: the launches of both are in the store; "
            f"to count them once, remove one file of each pair, then: {options.command()} --prune"
        )


def _print_stopped(options: BatchOptions) -> None:
    print_problem(
        f"stopped; finished files are in {options.output}, resume with: {options.command()}"
    )
