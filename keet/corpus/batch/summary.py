"""The text about a finished batch, for the command and the Python API."""

from __future__ import annotations

from collections.abc import Iterator

from keet.corpus.batch.coordinator import BatchProgress
from keet.corpus.discovery import SearchResult
from keet.formatting import count_noun
from keet.pages.top import known_runs_text


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
