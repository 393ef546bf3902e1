"""How many seeded faults the quick tests notice, and their branch coverage.

python -m tests.faults                 # of the list; takes an hour on two cores
python -m tests.faults --part keet/analysis --workers 1
python -m tests.faults --again         # with the coverage of the last time
python -m tests.faults --seed 1        # makes another list

The tests that run a fault's line decide, in a copy of the repository: first the one that noticed the
fault last time, then those that run little else. A fault whose line no test runs is missed. What is
left out because its code has changed is listed, too.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple

from tests.faults.seeding import ROOT, Fault, Place, place_of, seeded

LIST = Path(__file__).with_name("faults.json")
COUNT = 200
_COVERAGE = ROOT / ".faults"
_NOTICED = _COVERAGE / "noticed.json"
"""The test that noticed each fault last time, by the fault's row in the list."""
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_TIMEOUT = 600
"""Seconds; a fault that makes tests hang is noticed."""


class Outcome(NamedTuple):
    what: Literal["noticed", "missed", "not run", "moved"]
    test: str = ""
    """The one that noticed it."""


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    if options.seed is not None:
        _write(seeded(COUNT, options.seed))
        return
    faults = [Fault(*each) for each in json.loads(LIST.read_text(encoding="utf-8"))]
    rows = [row for row, fault in enumerate(faults) if fault.file.startswith(options.part)]
    data = _COVERAGE / "coverage"
    if not options.again:
        _cover(data)
    noticed = json.loads(_NOTICED.read_text("utf-8")) if _NOTICED.exists() else {}
    counts: Counter[str] = Counter()
    asked = [(faults[row], noticed.get(str(row), "")) for row in rows]
    for row, outcome in zip(rows, _outcomes(asked, data, options.workers)):
        counts[outcome.what] += 1
        if outcome.what == "noticed":
            noticed[str(row)] = outcome.test
            _NOTICED.write_text(json.dumps(noticed), encoding="utf-8")
        else:
            fault = faults[row]
            change = f"{_line(fault.before)} -> {_line(fault.after)}"
            sys.stdout.write(f"{outcome.what}: {fault.file} {fault.function}: {change}\n")
            sys.stdout.flush()
    known = len(rows) - counts["moved"]
    listed = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    sys.stdout.write(f"{counts['noticed']} of {known} faults are noticed ({listed})\n")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="", help="only files whose path begins so")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="use the coverage of the last time")
    parser.add_argument("--seed", type=int, help="make another list")
    return parser


def _write(faults: Sequence[Fault]) -> None:
    text = ",\n".join(json.dumps(each) for each in faults)
    LIST.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _line(text: str) -> str:
    return " ".join(text.split())[:80]


def _cover(data: Path) -> None:
    """Runs the quick tests, prints the branch coverage, and keeps which tests run which lines."""
    data.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "COVERAGE_FILE": str(data)}
    measured = ("--cov=keet", "--cov-branch", "--cov-context=test", "--cov-report=")
    subprocess.run((*_PYTEST, *measured, "-n", "auto"), cwd=ROOT, env=environment, check=True)
    report = (sys.executable, "-m", "coverage", "report", "--format=total", "--precision=1")
    total = subprocess.run(report, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    sys.stdout.write(f"branch coverage: {total.stdout.decode().strip()} %\n")


def _outcomes(asked: Sequence[tuple[Fault, str]], data: Path, workers: int) -> Iterator[Outcome]:
    """Of each fault, with the test that noticed it last time."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copies.put(_copy(Path(folder, str(number))))
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(partial(_outcome, data=data, copies=copies), asked)


def _copy(target: Path) -> Path:
    listed = subprocess.run(
        ("git", "ls-files", "-z", "-co", "--exclude-standard"),
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def _outcome(asked: tuple[Fault, str], *, data: Path, copies: SimpleQueue[Path]) -> Outcome:
    fault, last_time = asked
    place = place_of(fault)
    if place is None:
        return Outcome("moved")
    tests = sorted(_tests_of(data, fault, place), key=lambda test: test != last_time)
    if not tests:
        return Outcome("not run")
    copy = copies.get()
    path = copy / fault.file
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(text[: place.start] + fault.after + text[place.stop :], encoding="utf-8")
        return _run(copy, tests)
    finally:
        path.write_text(text, encoding="utf-8")
        copies.put(copy)


def _run(copy: Path, tests: Sequence[str]) -> Outcome:
    chosen = copy / "chosen_tests.txt"
    chosen.write_text("\n".join(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'tools'}"}
    command = (*_PYTEST, "-x", "-n0", f"@{chosen}")
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, timeout=_TIMEOUT, check=False, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return Outcome("noticed")
    if done.returncode == 0:
        return Outcome("missed")
    failed = [line for line in done.stdout.decode().splitlines() if line.startswith("FAILED ")]
    named = (test for test in tests if any(line.startswith(f"FAILED {test}") for line in failed))
    return Outcome("noticed", next(named, ""))


@cache
def _lines_run(data: Path) -> Mapping[str, int]:
    """How much each test runs."""
    with closing(sqlite3.connect(data)) as connection:
        counts = "SELECT context_id, count(*) FROM arc GROUP BY context_id"
        names = dict(connection.execute("SELECT id, context FROM context"))
        return {names[number]: count for number, count in connection.execute(counts)}


def _tests_of(data: Path, fault: Fault, place: Place) -> list[str]:
    """Those that run the fault's lines, the most specific first."""
    from coverage.numbits import register_sqlite_functions

    connection = sqlite3.connect(data)
    register_sqlite_functions(connection)
    rows = connection.execute(
        "SELECT DISTINCT context.context FROM arc JOIN context ON context.id = context_id "
        "JOIN file ON file.id = file_id WHERE file.path LIKE ? AND abs(tono) BETWEEN ? AND ?",
        (f"%/{fault.file}", place.first_line, place.last_line),
    )
    contexts = sorted((context for (context,) in rows if "|" in context), key=_lines_run(data).get)
    connection.close()
    return list(dict.fromkeys(context.rpartition("|")[0] for context in contexts))


if __name__ == "__main__":
    main(sys.argv[1:])
