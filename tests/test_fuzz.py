"""The fuzzer (tests/fuzz): its parts, the mutants that once showed a fault, and a short run."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import trial
from tests.fuzz.campaign import try_mutant, try_seed
from tests.fuzz.commands import ALWAYS, EVERY, Command, by_name
from tests.fuzz.mutants import FORMS, ROOT, Recipe, mutant, originals, recipe
from tests.fuzz.trial import Outcome, fault_of, surroundings

SEEDS = tomllib.loads((ROOT / "tests/fuzz/seeds.toml").read_text(encoding="utf-8"))["seed"]
RANGE = "tests/data/reports/range.ncu-rep"
SHORT_RUN = range(900, 906)
"""Seeds, each of another original."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a hang is told by the processor's time alone: others may use the machine, too."""
    monkeypatch.setattr(trial, "LONGEST_WAIT_S", 3600.0)
    with surroundings(tmp_path, tmp_path / "cache"):
        yield tmp_path


@pytest.mark.slow
def test_earlier_faults_stay_fixed(folder: Path) -> None:
    seen = []
    for entry in SEEDS:
        made_by = Recipe(entry["report"], entry["form"], tuple(entry["kinds"]), entry["seed"])
        done = try_seed(mutant(made_by), by_name(entry["command"]), folder)
        if done.fault:
            seen.append(f"{done.fault} (was: {entry['found']}), seed {made_by.seed}")
    assert seen == []


@pytest.mark.slow
def test_a_short_run_finds_no_fault(folder: Path) -> None:
    reports = originals()
    seen = []
    for number, seed in enumerate(SHORT_RUN):
        report = reports[number * len(reports) // len(SHORT_RUN)]
        done = try_mutant(mutant(recipe(report, seed)), folder)
        seen += [f"{command}: {fault} ({done.recipe})" for command, fault in done.faults]
    assert seen == []


def test_every_kind_of_input_has_originals() -> None:
    known = originals()
    assert len(known) >= 30
    forms = {recipe(report, seed).form for report in known for seed in range(8)}
    assert forms == {*FORMS}
    assert not [report for report in known if "casebook" in report]


def test_faults_are_recognised() -> None:
    text, document = ALWAYS[1], ALWAYS[2]
    svg = Command("svg", ("roofline",), "svg")
    trace = 'File "/x/keet/analysis/launch_view.py", line 7, in ratio\nkeet: this is a bug in keet: KeyError: 1'
    cases = [
        (text, Outcome(70, "", trace, 0.1), "KeyError at keet/analysis/launch_view.py:7 in ratio"),
        (text, Outcome(139, "", "killed", 0.1), "exit 139 at killed"),
        (text, Outcome(0, "L2 is busy for nan% of the time", "", 0.1), "prints no number"),
        (text, Outcome(0, "it took -inf ns", "", 0.1), "prints no number"),
        (document, Outcome(0, '{"share": NaN}', "", 0.1), "not json"),
        (document, Outcome(0, '{"share": 1', "", 0.1), "not json"),
        (svg, Outcome(0, "<svg><a></svg>", "", 0.1), "not svg"),
        (svg, Outcome(0, '<svg><path d="M1 nan"/></svg>', "", 0.1), "prints no number"),
    ]
    missed = [says for command, done, says in cases if says not in str(fault_of(command, done))]
    assert missed == []
    fine = ["financial information, nano.cu and -INFINITY", "n/a", "info", 'a "nan" in quotes']
    assert [out for out in fine if fault_of(text, Outcome(0, out, "", 0.1))] == []
    assert fault_of(text, Outcome(4, "", "keet: x: damaged; copy it again", 0.1)) is None


def test_every_command_that_reads_a_report_is_run() -> None:
    from keet.cli import COMMANDS

    others = {
        *("cases", "finding", "eval", "profile", "optimize"),
        *("mcp", "skill", "doctor", "schema", "completion"),
    }
    assert {command.command for command in EVERY} == COMMANDS.keys() - others
    assert len({command.name for command in EVERY}) == len(EVERY)
