"""The faster kernel in the same report that does the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from keet.analysis.ledger import Ledger
from keet.explanation.analyst import explain
from keet.explanation.launch_groups import LaunchGroup
from keet.explanation.program import ProgramExplanation, program_of
from keet.explanation.same_work import same_work_texts, versions_of_same_work
from keet.profile.metric import Value
from tests.conftest import CORPUS, REPORTS, TESTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import SAMPLES, changed, profile_of


def group_of(path: Path) -> LaunchGroup:
    profile = profile_of(path)
    told = explain(profile, profile.launches[:1], 5, sass=False).launches[0]
    return LaunchGroup([told.launch], told, [])


def program_at(folder: Path, start: str) -> ProgramExplanation:
    """Of the first report whose name starts like that."""
    profile = profile_of(min(folder.glob(f"{start}*")))
    return program_of(explain(profile, profile.launches, 5, sass=False))


def times(factors: Mapping[str, float]) -> Callable[[str, Value], Value]:
    """Changes these metrics."""
    return lambda name, value: float(value) * factors[name] if name in factors else value


def texts_of(*groups: LaunchGroup) -> list[str]:
    return [str(text) for text in same_work_texts(groups, Ledger())]


def test_two_versions_of_a_product(wording) -> None:
    """Both sides of a sample, as if one report had both."""
    slow, fast = (group_of(SAMPLES["score_tiles"].report(side)) for side in ("slow", "fast"))
    (text,) = texts_of(slow, fast)
    wording(text)
    assert texts_of(fast, slow) == [text]
    assert texts_of(slow, slow) == []


def test_other_clocks_are_compared_by_cycles(wording) -> None:
    """An edited snapshot: the slower kernel ran at 80 % of its clock."""
    slow, fast = (group_of(SAMPLES["score_tiles"].report(side)) for side in ("slow", "fast"))
    (before,) = texts_of(slow, fast)

    clock = times({"gpc__cycles_elapsed.avg.per_second": 0.8})
    told = replace(slow.first, launch=changed(slow.first.launch, clock))
    (after,) = texts_of(LaunchGroup([told.launch], told, []), fast)
    factors = [
        float(text.partition("less time: ")[2].partition("x")[0]) for text in (before, after)
    ]
    assert factors[1] == pytest.approx(0.8 * factors[0], rel=0.01)
    wording(after)
    assert "by cycles" not in before


def test_other_work_is_not_compared() -> None:
    """Chemistry and transport of one program: 368.7 and 357.0 MFLOP in FP64."""
    profile = profile_of(Path("evals/amounts/programs/reactive.ncu-repz"))
    told = explain(profile, profile.launches, 5, sass=False).launches
    assert texts_of(*(LaunchGroup([each.launch], each, []) for each in told)) == []
    # A product in FP32, and a transposition that computes nothing.
    two = (group_of(SAMPLES[name].report("slow")) for name in ("score_tiles", "matrix_flip"))
    assert texts_of(*two) == []


@each_row(
    ("report", "text"),
    [
        ("pipeline_after", "scale_bias_clamp (#0) moves as many bytes from and to DRAM"),
        ("pipeline_before", ""),  # `sum_blocks` reads as much as `scale`, and stores nothing
        ("tour_basic", ""),  # counts neither
    ],
)
def test_programs(report: str, text: str) -> None:
    found = [each for each in program_at(REPORTS, report).texts if "in less time" in each]
    assert len(found) == bool(text)
    assert all(each.startswith(text) for each in found)


def test_few_bytes_and_two_passes_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes have as many operations; a report's bytes are not compared if they count as few."""
    family = TESTS.parent / "kernels_samples" / "casebook" / "families" / "edge_detect"
    passes = program_at(family / "profiles", "smooth.two_passes")
    assert versions_of_same_work(passes.groups) == []
    monkeypatch.setattr("keet.explanation.same_work.FEW_BYTES", 1e15)
    program = program_at(REPORTS, "pipeline_after")
    assert not any("moves as many bytes" in each for each in program.texts)


def test_blocks_of_another_size(wording) -> None:
    """An edited snapshot of a report that counts neither operations nor bytes: the same launch in
    blocks of another size takes twice the time."""
    fast = group_of(next(REPORTS.glob("tour_basic.ncu-repz*")))

    def slower(block: tuple[int, int, int]) -> LaunchGroup:
        launch = changed(fast.first.launch, times({"gpu__time_duration.sum": 2}))
        launch.block = block
        return LaunchGroup([launch], replace(fast.first, launch=launch), [])

    (text,) = texts_of(slower((1, 1, 1)), fast)
    wording(text)
    assert texts_of(slower(fast.first.launch.block or (0, 0, 0)), fast) == []


def texts_of_other_shape(registers: int) -> list[str]:
    """An edited snapshot: the same launch with another grid takes twice the time."""
    fast = group_of(SAMPLES["matrix_flip"].report("fast"))

    def change(name: str, value: Value) -> Value:
        if name == "gpu__time_duration.sum" and isinstance(value, int | float):
            return 2 * float(value)
        is_count = name == "launch__registers_per_thread" and isinstance(value, int | float)
        return float(value or 0) + registers if is_count else value

    launch = changed(fast.first.launch, change)
    launch.grid = (7, 1, 1)
    return texts_of(LaunchGroup([launch], replace(fast.first, launch=launch), []), fast)


@each_row(("registers", "text"), [(0, "with several launch shapes"), (8, "in less time")])
def test_another_launch_shape(registers: int, text: str) -> None:
    """With other registers it is other code."""
    (said,) = texts_of_other_shape(registers)
    assert text in said
    assert "2.00x faster than" in said
    assert ("with grid 7, block" in said) is not bool(registers)


def test_kernels_that_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited snapshot: both kernels only add to memory by atomics."""
    monkeypatch.setattr("keet.explanation.same_work.stored_bytes", lambda _: 0)
    monkeypatch.setattr("keet.explanation.same_work.written_and_read", lambda _: (0, 0))
    (said,) = texts_of_other_shape(8)
    assert "moves as many bytes from and to DRAM" in said


@needs_corpus
@each_row(
    ("name", "fastest_first"),
    [("hzchen", (1, 0, 2)), ("AveryClapp", (3, 2, 1, 0))],
)
def test_savings_of_versions_of_the_same_work_are_not_added_up(
    name: str, fastest_first: tuple[int, ...]
) -> None:
    """Three versions of a product, by threads and DRAM traffic; four, by FP32 operations."""
    program = program_at(CORPUS, name)
    (versions,) = versions_of_same_work(program.groups)
    assert tuple(group.first.launch.id for group in versions) == fastest_first
    assert program.gain is None
    assert not any("were fixed" in text for text in program.texts)
    assert any("versions of the same work" in text for text in program.texts)


@needs_corpus
def test_kernels_with_other_parameters_names_or_traffic_are_no_versions() -> None:
    *others, two = program_at(CORPUS, "hzchen").groups
    assert versions_of_same_work([*others, two])

    def other(change: Callable[[str, Value], Value] = lambda _, value: value, **name: str) -> None:
        launch = changed(two.first.launch, change)
        launch.name = launch.name._replace(**name)
        group = LaunchGroup([launch], replace(two.first, launch=launch), [])
        assert not versions_of_same_work([*others, group])

    signature = two.first.launch.name.full
    other(demangled=signature.replace("matmul_", "softmax_"))
    other(demangled=signature.replace("const float *, ", "", 1))
    other(times({"dram__cycles_active.avg": 2}))


@needs_corpus
def test_parts_of_one_work_are_no_versions() -> None:
    """Launches of one kernel with as many operations but for 1 %, on grids of other sizes."""
    assert versions_of_same_work(program_at(CORPUS, "bwd29").groups) == []
