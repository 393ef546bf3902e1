"""A store of a million launches: how long its questions take.

`python -m tests.benchmarks.store [LAUNCHES [PARTS]]` makes one through the writer of `keet batch`,
from the rows of the samples with all that varies varied, and prints seconds inside the process.
"""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb

from keet.corpus.store.part_writer import FileRecord, write_part
from keet.corpus.store.reader import open_store
from keet.corpus.store.report_rows import FileRows, Row, slices_of
from keet.corpus.store.schema import LAUNCHES, METRICS, PARTS, utc_now
from keet.corpus.top import Selection, find_top
from keet.documents.top import By
from keet.explanation.analyst import explain
from keet.report import read_profile
from keet.version import __version__
from tests.benchmarks.measure import at_most, compared, line

SAMPLES = Path(__file__).parents[2] / "kernels_samples"
ROUNDS = 5
LAUNCHES_A_FILE = 4
DEVICES = ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA L4")
TEXT = 2_000
"""Characters of the explanation that are kept: no question below reads them."""

COLUMNS = """
    SELECT kernel, device, avg(dram_throughput_pct), sum(dram_bytes_read)
    FROM launches GROUP BY ALL
"""
LONG = """
    SELECT metric, kernel, device, avg(value) FROM metrics
    WHERE metric IN ('dram_throughput_pct', 'dram_bytes_read') GROUP BY ALL
"""
ACCOUNT = """
    SELECT label, sum(us) AS us FROM account WHERE innermost GROUP BY label ORDER BY us DESC
"""
_AT = {column.name: index for index, column in enumerate(LAUNCHES)}
_SCALED = [_AT["duration_us"], *(_AT[spec.id] for spec in METRICS)]


def sample_rows() -> list[FileRows]:
    reports = sorted(SAMPLES.glob("*/*.ncu-rep*"))
    profiles = [read_profile(path) for path in reports]
    told = [explain(profile, profile.launches, 5) for profile in profiles]
    return [next(slices_of(each, lambda launch: repr(launch)[:TEXT])) for each in told]


def varied(rows: FileRows, number: int, dice: random.Random) -> FileRows:
    """A file with a few launches that differ from all others."""
    sha256 = hashlib.sha256(str(number).encode()).hexdigest()
    path = f"archive/{number % 365:03}/run_{number:07}.ncu-rep"
    picked = [(i, rows.launches[i % len(rows.launches)]) for i in range(LAUNCHES_A_FILE)]
    launches = tuple(_launch(row, sha256, path, i, dice) for i, row in picked)
    findings = tuple(
        (sha256, i, *finding[2:])
        for i, row in picked
        for finding in rows.findings
        if finding[1] == row[_AT["launch_id"]]
    )
    account = tuple(
        (sha256, i, *part[2:6], *(dice.uniform(0.5, 1.5) * share for share in part[6:]))
        for i, row in picked
        for part in rows.account
        if part[1] == row[_AT["launch_id"]]
    )
    return FileRows(launches, findings, account)


def _launch(row: Row, sha256: str, path: str, number: int, dice: random.Random) -> Row:
    cells = list(row)
    cells[:3] = sha256, path, number
    cells[_AT["kernel"]] = f"{cells[_AT['kernel']]}<{dice.randrange(20)}>"
    cells[_AT["device"]] = DEVICES[int(sha256, 16) % len(DEVICES)]
    cells[_AT["grid_x"]] = across = dice.choice([64, 128, 256])
    cells[_AT["grid"]] = f"{across}x{cells[_AT['grid_y']]}x1"
    factor = dice.uniform(0.5, 1.5)
    for at in _SCALED:
        value = cells[at]
        cells[at] = value * factor if isinstance(value, float) else value
    if dice.random() < 0.01:
        cells[_AT["duration_us"]] = None
    return tuple(cells)


def synthesise(out: Path, launches: int, parts: int) -> None:
    samples, dice = sample_rows(), random.Random(7)
    files = launches // LAUNCHES_A_FILE
    for part in range(parts):
        numbers = range(part * files // parts, (part + 1) * files // parts)
        rows = [varied(dice.choice(samples), number, dice) for number in numbers]
        write_part(out, [_record(each) for each in rows], rows)


def _record(rows: FileRows) -> FileRecord:
    path, count = str(rows.launches[0][1]), len(rows.launches)
    return FileRecord(
        path, 4_000_000, 1, rows.sha256, "done", None, None, count, 0.02, __version__, utc_now()
    )


def bare(out: Path) -> None:
    """The reference: what a user would write with duckdb only."""
    with duckdb.connect() as connection:
        launches = f"'{out}/{PARTS}/*/launches.parquet'"
        connection.execute(COLUMNS.replace("launches", launches)).fetchall()


def top(out: Path, by: By) -> None:
    with open_store(out) as store:
        find_top(store, Selection(by=by))


def query(out: Path, sql: str) -> None:
    with open_store(out) as store:
        store.query(sql)


class Question(NamedTuple):
    """A query, from opening the store to the answer, and the seconds that it may take."""

    what: str
    ask: Callable[[Path], None]
    budget: float


QUESTIONS = (
    Question("keet top", lambda out: top(out, "kernel"), 2.0),
    Question("keet top --by finding", lambda out: top(out, "finding"), 2.0),
    Question("keet top --by file", lambda out: top(out, "file"), 2.0),
    Question("two metrics, as columns of `launches`", lambda out: query(out, COLUMNS), 0.5),
    Question("two metrics, as rows of `metrics`", lambda out: query(out, LONG), 0.5),
    Question("where the time goes, over all launches", lambda out: query(out, ACCOUNT), 3.0),
)


def seconds(ask: Callable[[Path], None], out: Path) -> float:
    start = time.perf_counter()
    ask(out)
    return time.perf_counter() - start


def question_line(question: Question, out: Path) -> str:
    ratio = compared(lambda: seconds(question.ask, out), lambda: seconds(bare, out), ROUNDS)
    amounts = f"s, {ratio.ratio:4.1f} times bare duckdb over two columns"
    return line(ratio.ours, at_most(question.budget), amounts, question.what)


def main(launches: int = 1_000_000, parts: int = 200) -> list[str]:
    """For `python -m tests.benchmarks`: lines to print."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        start = time.perf_counter()
        synthesise(out, launches, parts)
        size = sum(path.stat().st_size for path in out.rglob("*.parquet")) / launches
        made = (
            f"  a store of {launches:,} launches in {parts} parts, made in "
            f"{time.perf_counter() - start:.0f} s, {size:,.0f} bytes a launch:"
        )
        return [made, *(question_line(question, out) for question in QUESTIONS)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(main(*map(int, sys.argv[1:]))) + "\n")
