"""What a profile adds to the rounds: amounts, limits, what is left, what changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keet.evidence import Sentence
from keet.optimize.engine import Engine
from keet.optimize.prompt import Facts, Left, left_to_gain, read_report
from keet.optimize.runners import Run, VariantResult
from keet.report import read_profile
from tests.unit.optimize.bench import FASTER, ScriptedProposer, outcomes, replaced, task_of
from tests.unit.optimize.fake_runner import FakeRunner

SAMPLE = Path(__file__).parents[3] / "kernels_samples" / "matrix_flip"
REPORTS = Path(__file__).parents[2] / "data" / "reports"


@pytest.mark.slow
def test_a_profile_is_in_the_prompt(source: Path, tmp_path: Path) -> None:
    proposer = ScriptedProposer(FASTER, replaced("TIME=1000", "TIME=400"))
    runner = FakeRunner(before=SAMPLE / "slow.ncu-rep", after=SAMPLE / "fast.ncu-rep")
    found = Engine(task_of(source, rounds=2), tmp_path / "rounds", proposer, runner).run()
    first, second = proposer.prompts
    work, limits = "# How much work is needed\n", "# What limits the present way of doing it\n"
    changed, twice = "# What the last change did\n", "## How much work is done"
    assert first.index(work) < first.index(limits)
    assert ("slow.cu:7" in first, twice in first) == (True, False)
    assert {changed in second, "uncoalesced" in second} == {True}
    assert str(tmp_path) not in second
    assert (tmp_path / "rounds/rounds/01/diff.md").exists()
    assert found.left.percent > 0


@pytest.mark.slow
def test_every_kernel_that_takes_much_of_the_time_is_explained(
    source: Path, tmp_path: Path
) -> None:
    """The longest launch is one of `turn`; the launches of `relax` take longer together."""
    proposer = ScriptedProposer(FASTER)
    runner = FakeRunner(before=REPORTS / "pipeline_before.ncu-repz")
    Engine(task_of(source, rounds=1), tmp_path / "rounds", proposer, runner).run()
    limits = proposer.prompts[0].partition("# What limits the present way of doing it\n")[2]
    headings = re.findall(r"^## Kernel (.*)", limits, re.MULTILINE)
    assert headings == ["relax", "turn<16>", "sum_blocks", "clamp", "add_bias", "scale"]
    across = "### This and other launches"
    assert limits.count(across) == 1


@pytest.mark.slow
def test_the_prompt_has_what_a_slower_change_did(source: Path, tmp_path: Path) -> None:
    """Why it is slower is what the next attempt has to know."""
    proposer = ScriptedProposer(replaced("TIME=2000", "TIME=4000"), FASTER)
    runner = FakeRunner(before=SAMPLE / "fast.ncu-rep", after=SAMPLE / "slow.ncu-rep")
    found = Engine(task_of(source, rounds=2), tmp_path / "rounds", proposer, runner).run()
    assert [each.outcome for each in found.rounds] == ["slower", "kept"]
    _, second = proposer.prompts
    told = second.partition("# What the last change did\n")[2]
    assert "uncoalesced" in told.partition("\n# ")[0]
    assert "TIME=4000" in told


@pytest.mark.parametrize(("percent", "is_bounded"), [(4.0, True), (4.0, False), (6.0, True)])
def test_it_stops_when_little_is_left(
    percent: float, is_bounded: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Left(percent, is_bounded, Sentence("little"))
    monkeypatch.setattr("keet.optimize.engine.facts_of", lambda *_: Facts(left=left))
    engine = Engine(task_of(source), tmp_path / "rounds", ScriptedProposer(FASTER), FakeRunner())
    is_little = percent < 5 and is_bounded
    assert engine.run().stopped == ("little_left" if is_little else "rounds")


def test_a_hostile_report_is_left_out(source: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(b"NVR\0 nothing")
    proposer, runner = ScriptedProposer(FASTER), FakeRunner(before=bad)
    engine = Engine(task_of(source), tmp_path / "rounds", proposer, runner)
    assert outcomes(engine.run()) == ["kept"]


@pytest.mark.slow
def test_kernels_that_are_not_the_goal_do_not_count(tmp_path: Path, source: Path) -> None:
    (tmp_path / "before.ncu-rep").write_bytes((SAMPLE / "slow.ncu-rep").read_bytes())
    profile = read_profile(tmp_path / "before.ncu-rep")
    kernel = (profile.launches[0].name.mangled, "as the recorder writes it", 1, 1000)
    run = Run(0, 1.0, False, "", False, (), (), None, 1000, (kernel,))
    variant = VariantResult(None, (), (run,), None)
    about, known = (variant, tmp_path, "before"), {kernel[1]}
    assert left_to_gain(read_report(task_of(source), *about, known))
    other = task_of(source, kernel="other")
    assert not read_report(other, *about, known)
    assert read_report(other, *about, set())  # a new one counts
