"""keet's reader and NVIDIA's give the same values for the same report."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from keet.profile import Launch
from keet.report import read_profile
from keet.report.ncu_rep.report_file import device_from_metrics
from tests.conftest import CORPUS, REPORTS, needs_corpus
from tests.unit.report.test_disassembler import needs_reader

pytestmark = needs_reader

OWN = sorted(REPORTS.glob("*.ncu-rep*"))
FEW = [OWN[0], OWN[len(OWN) // 2]]
STRANGERS = [
    CORPUS / "Abhishek7204__raytracingCuda--profile.ncu-rep",  # Blackwell, ncu 2026
    CORPUS / "BrennenTaylor__Twisty--profile.nsight-cuprof-report",  # Pascal, before ncu 2020
    CORPUS / "NCAR__GPU_workshop--10_HandsOnNsight__ncu__MW_DivToMult.ncu-rep",  # Volta, Fortran
    CORPUS / "Swagatam1812__hpca-gpu-memory-profiling--variant2.ncu-rep",  # lines without source
    CORPUS / "eschnett__IndexSpaces.jl--profile.ncu-rep",  # Julia
    CORPUS / "lk-spec__CUDA-Convulutional-Layer--analysis_file.ncu-rep",  # absolute addresses
    CORPUS / "suhithr__speedymatmul--profiles__global_memory_coalescing.ncu-rep",  # Ada
]
ASK = Path(__file__).with_name("nvidia_launches.py")


def told_by_nvidia(questions: Sequence[object]) -> Any:
    """One process for all of them: it takes a second to start."""
    asked = json.dumps(questions).encode()
    command = [sys.executable, "-I", str(ASK)]
    return json.loads(subprocess.run(command, input=asked, capture_output=True, check=True).stdout)


def told_by_keet(launch: Launch) -> dict[str, Any]:
    parts = {name: launch.instances(name) for name in launch.metric_names()}
    return {
        "name": launch.name,
        "workload": launch.workload,
        "metrics": {name: launch.data.metric(name).value for name in launch.metric_names()},
        "instances": {name: (x.values, x.ids) for name, x in parts.items() if x is not None},
        "rules": launch.rules,
        "markers": sorted(map(list, launch.markers), key=repr),
        "nvtx": launch.nvtx,
        "sections": sorted(launch.sections),
        "source_files": {path: text for path, text in launch.source_files.items() if text},
        "locations": launch.locations,
    }


def as_read(document: object) -> Any:
    """As JSON, with a NaN that is equal to itself."""
    return json.loads(json.dumps(document), parse_constant=str)


@pytest.mark.parametrize(
    ("paths", "most"),
    [
        pytest.param(FEW, 3, id="few"),
        pytest.param(
            [path for path in OWN if path not in FEW], 3, marks=pytest.mark.slow, id="own"
        ),
        pytest.param(STRANGERS, 6, marks=[pytest.mark.slow, needs_corpus], id="public"),
    ],
)
def test_both_readers_agree(paths: list[Path], most: int, tmp_path: Path) -> None:
    questions, profiles = [], [read_profile(path) for path in paths]
    for number, profile in enumerate(profiles):
        plain = tmp_path / f"{number}.ncu-rep"
        plain.write_bytes(profile.launches[0].data._report.file.source.data)  # type: ignore[attr-defined]
        some = profile.launches[:most]
        questions.append((str(plain), {x.id: list(x.data.addresses()) for x in some}))  # type: ignore[attr-defined]
    told = told_by_nvidia(questions)
    for path, profile, (count, theirs) in zip(paths, profiles, told, strict=True):
        assert count == len(profile.launches), path.name
        compared = 0
        for launch, told_of_it in zip(profile.launches, theirs):
            ours, other = as_read(told_by_keet(launch)), as_read(told_of_it)
            wrong = [part for part, value in ours.items() if value != other[part]]
            assert wrong == [], f"launch {launch.id} of {path.name}"
            assert launch.device == device_from_metrics(launch.data.metric)
            compared += len(ours["metrics"]) + sum(len(x) for x, _ in ours["instances"].values())
        assert compared > 100, path.name
