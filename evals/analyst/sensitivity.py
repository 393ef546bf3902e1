"""Counts how many first answers change when one parameter is moved by 20 %.

    python -m evals.analyst.sensitivity [--only TEXT] [--parameter NAME ...] [--save]

For the launches of the samples and of the casebook's work families; locked families are never read.
`--save` writes evals/results/parameters.toml, from which docs/parameters.md is printed.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import NamedTuple
from unittest.mock import patch

from evals.analyst import report_sets
from evals.analyst.first_answer import first_answer
from evals.analyst.parameter_values import current, moved, parameters
from evals.analyst.report_sets import ROOT, Source, Subject, over, subjects
from evals.pages import Table, as_text
from keet.diagnosis import diagnosis
from keet.profile import Launch

SAVED = ROOT / "evals" / "results" / "parameters.toml"
MOVED_BY = 0.2
Change = tuple[str, int]
"""A parameter, and 1 or -1 for the direction in which it is moved."""


class Changed(NamedTuple):
    """First answers that change with a parameter."""

    more: int
    """With a value that is larger by 20 %; up to 1 if the value is at most 1."""
    less: int


class Study(NamedTuple):
    command: str
    date: str
    launches: int
    changed: dict[str, Changed]


def study(sources: Sequence[Source], names: Sequence[str], processes: int) -> Study:
    found = over(sources, partial(_changes, names=names), processes)
    launches = [changes for of_report in found for changes in of_report]
    counts = Counter(change for changes in launches for change in changes)
    changed = {name: Changed(counts[name, 1], counts[name, -1]) for name in names}
    command = " ".join(["python -m evals.analyst.sensitivity", *sys.argv[1:]])
    return Study(command, f"{datetime.now(UTC):%Y-%m-%d}", len(launches), changed)


def _changes(source: Source, *, names: Sequence[str]) -> list[list[Change]]:
    """The changes that lead to another first answer, by launch of one report."""
    module = import_module("keet.analysis.machine_code.launch_code")
    analyse: Callable[[Launch], object] = module.machine_code
    analysed: dict[int, object] = {}

    def code_of(launch: Launch) -> object:
        """Analysed once per launch: that takes most of the time of a diagnosis."""
        if id(launch) not in analysed:
            analysed[id(launch)] = analyse(launch)
        return analysed[id(launch)]

    def is_other(subject: Subject, answer: str, change: Change) -> bool:
        name, sign = change
        value = float(current(name))
        new = value * (1 + sign * MOVED_BY)
        of_code = current(name).module.startswith("keet.analysis.machine_code.")
        again = patch.dict(analysed, clear=True) if of_code else nullcontext()
        with moved(name, min(new, 1.0) if value <= 1 else new), again:
            return _answer(subject) != answer

    every = [(name, sign) for name in names for sign in (1, -1)]
    # Places and advice of a finding take time and do not change its id.
    brief = patch.object(diagnosis, "_finding", diagnosis._outline)
    with patch.object(module, "machine_code", code_of), brief:
        answers = [(subject, _answer(subject)) for subject in subjects(source)]
        return [[change for change in every if is_other(*each, change)] for each in answers]


def _answer(subject: Subject) -> str:
    try:
        return first_answer(diagnosis.diagnose(subject.launch, subject.beside)).id
    except Exception as error:  # noqa: BLE001 - counts as another answer: the study goes on
        return f"error: {type(error).__name__}"


def saved_study() -> Study:
    read = tomllib.loads(SAVED.read_text("utf-8"))
    changed = {name: Changed(*each) for name, each in read["changed"].items()}
    return Study(read["command"], read["date"], read["launches"], changed)


def _save(made: Study) -> None:
    head = f'command = "{made.command}"\nmachine = "2 cores"\ndate = "{made.date}"\n'
    rows = [f"{name} = [{each.more}, {each.less}]\n" for name, each in made.changed.items()]
    SAVED.write_text(f"{head}launches = {made.launches}\n\n[changed]\n{''.join(rows)}", "utf-8")


if __name__ == "__main__":
    # Parameters of `keet.explanation` choose words for a diagnosis that is already made.
    judging = [name for name, each in parameters().items() if "explanation" not in each.module]
    parser = argparse.ArgumentParser("python -m evals.analyst.sensitivity", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="reports whose name has TEXT")
    parser.add_argument("--parameter", action="append", choices=judging, help="only these")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    reports = [*report_sets.sample_sources(), *report_sets.casebook_sources(work=True)]
    chosen = [source for source in reports if given.only in source.name]
    result = study(chosen, given.parameter or judging, given.processes)
    printed = [(name, f"{each.more}", f"{each.less}") for name, each in result.changed.items()]
    sys.stdout.write(as_text([Table([("parameter", "+20 %", "-20 %"), *printed])]))
    if given.save:
        _save(result)
