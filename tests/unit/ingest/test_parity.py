"""keet's reader against NVIDIA's: the same report, asked the same things, value by value."""

import math
from pathlib import Path

import pytest

from keet.ingest import native, read_profile
from keet.profile import Launch
from tests.conftest import CORPUS, REPORTS, needs_corpus

pytestmark = pytest.mark.skipif(native.installed_version() is None, reason="no ncu-report here")

OWN = sorted(path.name for path in REPORTS.glob("*.ncu-rep*"))
STRANGERS = [
    "Abhishek7204__raytracingCuda--profile.ncu-rep",  # Blackwell, ncu 2026
    "BrennenTaylor__Twisty--profile.nsight-cuprof-report",  # Pascal, before ncu 2020
    "NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_DivToMult.ncu-rep",  # Volta, Fortran source
    "Swagatam1812__hpca-gpu-memory-profiling--variant2.ncu-rep",  # A100, lines without source
    "eschnett__IndexSpaces.jl--profile.ncu-rep",  # Julia
    "lk-spec__CUDA-Convulutional-Layer--analysis_file.ncu-rep",  # 2020, absolute addresses
    "suhithr__speedymatmul--profiles__global_memory_coalescing.ncu-rep",  # Ada
]


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return ours == theirs


def assert_equal(ours: Launch, theirs: Launch) -> int:
    """Everything that both readers can tell; returns how many values were compared."""
    assert ours.name == theirs.name
    assert ours.workload == theirs.workload
    assert ours.device == theirs.device
    assert set(ours.metric_names()) == set(theirs.metric_names())
    compared = 0
    for name in ours.metric_names():
        mine, reference = ours.metric(name), theirs.metric(name)
        assert mine is not None
        assert reference is not None
        assert same(mine.value, reference.value), name
        parts, their_parts = ours.instances(name), theirs.instances(name)
        assert (parts is None) == (their_parts is None), name
        compared += 1
        if parts is not None and their_parts is not None:
            assert all(map(same, parts.values, their_parts.values)), name
            assert (len(parts), parts.ids) == (len(their_parts), their_parts.ids), name
            compared += len(parts)
    assert ours.rules == theirs.rules
    assert sorted(map(repr, ours.markers)) == sorted(map(repr, theirs.markers))
    assert ours.nvtx == theirs.nvtx
    assert set(ours.sections) == set(theirs.sections)
    assert ours.locations == theirs.locations
    embedded = {path: text for path, text in ours.source_files.items() if text}
    assert embedded == {path: text for path, text in theirs.source_files.items() if text}
    return compared


def compare(path: Path, most: int) -> int:
    profile = read_profile(path)
    data = profile.launches[0].data._report.data  # type: ignore[attr-defined]
    assert native.count_launches(data) == len(profile.launches)
    return sum(
        assert_equal(launch, native.read_launch(data, launch.id, launch.data.addresses()))  # type: ignore[attr-defined]
        for launch in profile.launches[:most]
    )


@pytest.mark.parametrize("name", OWN)
def test_our_reports(name: str) -> None:
    assert compare(REPORTS / name, most=3) > 200


@needs_corpus
@pytest.mark.parametrize("name", STRANGERS)
def test_reports_of_strangers(name: str) -> None:
    assert compare(CORPUS / name, most=6) > 100
