"""The faster kernel in the same report that does the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from keet.analysis.ledger import Ledger
from keet.explanation.analyst import explain
from keet.explanation.launch_groups import LaunchGroup
from keet.explanation.program import ProgramExplanation, program_of
from keet.explanation.same_work import same_work_texts, versions_of_same_work
from tests.conftest import CORPUS, REPORTS, TESTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import SAMPLES, changed, profile_of

Shape = tuple[int, int, int]


def group_of(path: Path) -> LaunchGroup:
    profile = profile_of(path)
    told = explain(profile, profile.launches[:1], 5, sass=False).launches[0]
    return LaunchGroup([told.launch], told, [])


def program_at(folder: Path, start: str) -> ProgramExplanation:
    """Of the first report whose name starts like that."""
    profile = profile_of(min(folder.glob(f"{start}*")))
    return program_of(explain(profile, profile.launches, 5, sass=False))


def side(name: str, variant: str = "slow") -> LaunchGroup:
    return group_of(SAMPLES[name].report(variant))


def edited(group: LaunchGroup, factors: Mapping[str, float], **shape: Shape) -> LaunchGroup:
    """With these metrics so many times as large, and another grid or block."""
    launch = changed(
        group.first.launch,
        lambda name, value: float(value) * factors[name] if name in factors else value,
    )
    for name, size in shape.items():
        setattr(launch, name, size)
    return LaunchGroup([launch], replace(group.first, launch=launch), [])


def texts_of(*groups: LaunchGroup) -> list[str]:
    return [str(text) for text in same_work_texts(groups, Ledger())]


def reactive() -> list[LaunchGroup]:
    profile = profile_of(Path("evals/amounts/programs/reactive.ncu-repz"))
    told = explain(profile, profile.launches, 5, sass=False).launches
    return [LaunchGroup([each.launch], each, []) for each in told]


def basic() -> LaunchGroup:
    """It counts neither operations nor bytes."""
    return group_of(REPORTS / "tour_basic.ncu-repz")


TWICE = {"gpu__time_duration.sum": 2.0}
OTHER_CODE = {**TWICE, "launch__registers_per_thread": 1.5}
CLOCK = {"gpc__cycles_elapsed.avg.per_second": 0.8}
GROUPS: dict[str, Callable[[], Sequence[LaunchGroup]]] = {
    # Both sides of a sample, as if one report had both.
    "two versions": lambda: [side("score_tiles"), side("score_tiles", "fast")],
    "two versions, the faster first": lambda: [side("score_tiles", "fast"), side("score_tiles")],
    "the same version": lambda: [side("score_tiles")] * 2,
    # They are compared by cycles.
    "other clocks": lambda: [edited(side("score_tiles"), CLOCK), side("score_tiles", "fast")],
    # A product in FP32, and a transposition that computes nothing.
    "other work": lambda: [side("score_tiles"), side("matrix_flip")],
    # Chemistry and transport of one program: 368.7 and 357.0 MFLOP in FP64.
    "nearly as many operations": reactive,
    "other blocks": lambda: [edited(basic(), TWICE, block=(1, 1, 1)), basic()],
    "the same blocks": lambda: [edited(basic(), TWICE), basic()],
    "another grid": lambda: [
        edited(side("matrix_flip", "fast"), TWICE, grid=(7, 1, 1)),
        side("matrix_flip", "fast"),
    ],
    "another grid and other code": lambda: [
        edited(side("matrix_flip", "fast"), OTHER_CODE, grid=(7, 1, 1)),
        side("matrix_flip", "fast"),
    ],
}


@each_row("case", GROUPS)
def test_what_is_said_of_two_kernels(case: str, wording) -> None:
    wording(texts_of(*GROUPS[case]()) or "nothing", case=case)


@each_row(("report", "text"), [
    ("pipeline_after", "scale_bias_clamp (#0) moves as many bytes from and to DRAM"),
    ("pipeline_before", ""),  # `sum_blocks` reads as much as `scale`, and stores nothing
    ("tour_basic", ""),  # counts neither
])  # fmt: skip
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


def test_kernels_that_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edited snapshot: both kernels only add to memory by atomics."""
    monkeypatch.setattr("keet.explanation.same_work.stored_bytes", lambda _: 0)
    monkeypatch.setattr("keet.explanation.same_work.written_and_read", lambda _: (0, 0))
    (said,) = texts_of(*GROUPS["another grid and other code"]())
    assert " as many bytes " in said


@needs_corpus
@each_row(("name", "fastest_first"), [("hzchen", (1, 0, 2)), ("AveryClapp", (3, 2, 1, 0))])
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

    def other(factors: Mapping[str, float], **name: str) -> None:
        group = edited(two, factors)
        group.first.launch.name = group.first.launch.name._replace(**name)
        assert not versions_of_same_work([*others, group])

    signature = two.first.launch.name.full
    other({}, demangled=signature.replace("matmul_", "softmax_"))
    other({}, demangled=signature.replace("const float *, ", "", 1))
    other({"dram__cycles_active.avg": 2})


@needs_corpus
def test_parts_of_one_work_are_no_versions() -> None:
    """Launches of one kernel with as many operations but for 1 %, on grids of other sizes."""
    assert versions_of_same_work(program_at(CORPUS, "bwd29").groups) == []
