"""The arithmetic of occupancy against ncu's own: block limits and what-if curves of real reports."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from keet.analysis.parallelism import occupancy
from keet.analysis.parallelism.occupancy import Configuration, Limits, OccupancyModel, limits
from keet.documents.charts import OccupancyStep
from keet.profile import Absent, Launch
from tests.conftest import REPORTS, TESTS, corpus_files, needs_corpus
from tests.unit.analysis.real_launches import launch_of, launches_in, public_launch

_SAMPLES = sorted((TESTS.parent / "kernels_samples").glob("*/*.ncu-rep*"))
_CURVES = {
    "launch__occupancy_per_register_count": "registers",
    "launch__occupancy_per_block_size": "threads",
    "launch__occupancy_per_shared_mem_size": "shared",
}
"""ncu's curves, and what they change of a block."""


def models(paths: list[Path]) -> Iterator[tuple[Launch, OccupancyModel | Absent]]:
    for path in paths:
        for launch in launches_in(path):
            model = occupancy.occupancy_model(launch)
            if isinstance(model, OccupancyModel) or "arithmetic" in model.reason:
                yield launch, model


@pytest.mark.slow
def test_occupancy_agrees_with_ncu_in_all_samples() -> None:
    """Except where ncu says that no block fits, in a report of a launch that ran."""
    checked = list(models([*_SAMPLES, *sorted(REPORTS.iterdir())]))
    assert len(checked) > 100
    for launch, model in checked:
        limit = launch.number("block_limit_shared_memory")
        assert isinstance(model, OccupancyModel) or limit == 0, launch


@needs_corpus
def test_occupancy_agrees_with_ncu_in_other_reports() -> None:
    checked = list(models(corpus_files()))
    assert len(checked) > 100
    assert all(isinstance(model, OccupancyModel) for _, model in checked)
    # Up to 2021.2, all shared memory counts as available, whatever the launch was given.
    launch = public_launch("ZSL98__bitwise_spgemm--profiling_results__sgemm.ncu-rep")
    model = occupancy.occupancy_model(launch)
    assert model.given < model.machine.shared
    assert launch.number("block_limit_shared_memory") == model.limits(model.block).shared


def test_what_if_agrees_with_ncus_curves() -> None:
    """ncu's curves keep the shared memory that the launch was given. Beyond what a block may have,
    they are constant."""
    points = dict.fromkeys(_CURVES, 0)
    for launch, model in models(_SAMPLES[::5]):
        room = model.machine._replace(shared=model.given)
        for curve, changed in _CURVES.items():
            parts = launch.instances(curve)
            for key, warps in parts.pairs() if parts else ():
                is_too_large = changed == "shared" and key > min(model.given, model.most.shared)
                if not isinstance(key, int) or not key or is_too_large:
                    continue
                other = model.block._replace(**{changed: key})
                assert limits(room, other, model.barriers).least * other.warps == warps
                points[curve] += 1
    assert min(points.values()) > 500


def test_limits_and_the_steps_of_curves() -> None:
    assert Limits(4, 2, 8, 32, 2).binding == ("shared", "barriers")
    assert Limits(4, 2, 8, 32).least == 2
    sm = occupancy.Machine(warps=64, blocks=32, registers=65536, shared=65536, shared_unit=128)
    assert limits(sm, Configuration(1024, 255, 0)).least == 0
    assert limits(sm, Configuration(32, 0, 0)).registers == sm.blocks
    # 174 registers leave room for one block of 8 warps, 48 KiB of shared memory for four.
    model = occupancy.occupancy_model(launch_of("panel_product"))
    document = occupancy.occupancy_curves(model)
    assert (document.warps, document.limited_by) == (8, ("registers",))
    registers, shared, sizes = document.curves
    assert registers.better(8)[:2] == [OccupancyStep(81, 128, 16), OccupancyStep(65, 80, 24)]
    assert not shared.better(8)
    assert sizes.steps[0].least == 1
    for curve in document.curves:
        ends = [step.most for step in curve.steps]
        assert [step.least for step in curve.steps[1:]] == [end + 1 for end in ends[:-1]]
        warps = [step.warps for step in curve.steps]
        assert all(one != other for one, other in pairwise(warps))
    for size in range(0, model.most.shared, 977):
        step = next(step for step in shared.steps if step.least <= size <= step.most)
        assert step.warps == model.warps(model.block._replace(shared=size + model.driver))
