"""keet's reader and NVIDIA's give the same values for the same report."""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from keet.ingest import read_profile
from keet.ingest.in_memory_launch import InMemoryLaunch
from keet.ingest.ncu_rep.session import device_from_metrics
from keet.ingest.sass import nvidia_reader
from keet.profile import (
    FocusMetric,
    Instances,
    KernelName,
    Launch,
    Location,
    NvtxRange,
    RawMetric,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
    Workload,
)
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.rows import mostly_slow

pytestmark = pytest.mark.skipif(
    nvidia_reader.installed_version() is None, reason="no ncu-report here"
)

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

ASK = Path(__file__).with_name("nvidia_launches.py")


def told_by_nvidia(data: bytes, addresses: dict[int, list[int]]) -> tuple[int, dict[int, Launch]]:
    """The number of launches, and those that are asked for, with the lines of these addresses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.ncu-rep"
        path.write_bytes(data)
        done = subprocess.run(
            [sys.executable, "-I", str(ASK)],
            input=json.dumps({"path": str(path), "addresses": addresses}).encode(),
            capture_output=True,
            check=True,
        )
    answer = json.loads(done.stdout)
    return answer["count"], {int(n): launch_of(int(n), x) for n, x in answer["launches"].items()}


def launch_of(number: int, answer: dict[str, Any]) -> Launch:
    told = {name: metric for name, metric in answer["metrics"].items() if metric is not None}
    metrics = {name: RawMetric(metric["value"]) for name, metric in told.items()}
    stored = InMemoryLaunch(
        stored_device=device_from_metrics(metrics.get),
        metrics=metrics,
        stored_instances={name: _instances(m) for name, m in told.items() if "values" in m},
        stored_sections=tuple(answer["sections"]),
        stored_rules=tuple(_rule(rule) for rule in answer["rules"]),
        stored_markers=tuple(SourceMarker(**marker) for marker in answer["markers"]),
        stored_nvtx=tuple(NvtxRange(**entry) for entry in answer["nvtx"]),
        stored_files={path: text or None for path, text in answer["source_files"].items()},
        stored_locations={int(pc): Location(*where) for pc, where in answer["locations"].items()},
    )
    return Launch(
        number=number,
        name=KernelName(**{form: text or "" for form, text in answer["name"].items()}),
        workload=Workload(answer["workload"]),
        grid=None,
        block=None,
        data=stored,
    )


def _instances(metric: Mapping[str, Any]) -> Instances:
    ids = metric.get("ids")
    return Instances(tuple(metric["values"]), None if ids is None else tuple(ids))


def _rule(rule: dict[str, Any]) -> RuleResult:
    estimate = rule.pop("speedup", None)
    speedup = (
        SpeedupEstimate(SpeedupScope(estimate["scope"]), estimate["percent"]) if estimate else None
    )
    return RuleResult(
        **{
            **rule,
            "kind": RuleKind(rule["kind"]),
            "focus": tuple(FocusMetric(**focus) for focus in rule["focus"]),
            "speedup": speedup,
        }
    )


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return ours == theirs


def assert_equal(ours: Launch, theirs: Launch) -> int:
    """Compares everything that both readers give; returns the number of compared values."""
    assert ours.name == theirs.name
    assert ours.workload == theirs.workload
    assert ours.device == theirs.device
    assert set(ours.metric_names()) == set(theirs.metric_names())
    compared = 0
    for name in ours.metric_names():
        mine, reference = ours.metric(name), theirs.metric(name)
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
    data = profile.launches[0].data._report.file.source.data  # type: ignore[attr-defined]
    addresses = {launch.id: list(launch.data.addresses()) for launch in profile.launches[:most]}  # type: ignore[attr-defined]
    count, theirs = told_by_nvidia(data, addresses)
    assert count == len(profile.launches)
    return sum(assert_equal(profile.launches[number], theirs[number]) for number in addresses)


@pytest.mark.parametrize("name", mostly_slow(OWN, few=2))
def test_both_readers_agree_on_our_reports(name: str) -> None:
    assert compare(REPORTS / name, 3) > 200


@needs_corpus
@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.slow
def test_both_readers_agree_on_public_reports(name: str) -> None:
    assert compare(CORPUS / name, 6) > 100
