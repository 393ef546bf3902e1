"""keet's reader and NVIDIA's give the same values for the same report."""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from keet.ingest import read_profile
from keet.ingest.sass import nvidia_reader
from keet.profile import Launch
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

ASK_TOGETHER = """
import json, os, runpy, sys
import ncu_report
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
asked = json.load(sys.stdin)
child = runpy.run_path(asked["child"])
opened = ncu_report.load_report(asked["path"])
ncu_report.load_report = lambda path: opened
json.dump([child["answer"](question) for question in asked["questions"]], out)
out.flush()
os._exit(0)
"""
"""keet's child for NVIDIA's reader, opened once for all questions about a report: to open it takes
longer than to answer."""


def answers_to(data: bytes, questions: Sequence[dict[str, Any]]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.ncu-rep"
        path.write_bytes(data)
        asked = {"child": str(nvidia_reader._CHILD), "path": str(path)}
        done = subprocess.run(
            [sys.executable, "-I", "-c", ASK_TOGETHER],
            input=json.dumps(asked | {"questions": [{**q, **asked} for q in questions]}).encode(),
            capture_output=True,
            check=True,
        )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


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


def compare(path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> int:
    profile = read_profile(path)
    data = profile.launches[0].data._report.file.source.data  # type: ignore[attr-defined]
    addresses = {launch.id: list(launch.data.addresses()) for launch in profile.launches[:most]}  # type: ignore[attr-defined]
    questions = [{"want": "count"}] + [
        {"want": "everything", "launch": number, "addresses": pcs}
        for number, pcs in addresses.items()
    ]
    told = dict(zip(map(json.dumps, questions), answers_to(data, questions), strict=True))
    monkeypatch.setattr(nvidia_reader, "_ask", lambda data, question: told[json.dumps(question)])
    assert nvidia_reader.count_launches(data) == len(profile.launches)
    return sum(
        assert_equal(profile.launches[number], nvidia_reader.read_launch(data, number, pcs))
        for number, pcs in addresses.items()
    )


@pytest.mark.parametrize("name", mostly_slow(OWN, few=2))
def test_both_readers_agree_on_our_reports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(REPORTS / name, 3, monkeypatch) > 200


@needs_corpus
@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.slow
def test_both_readers_agree_on_public_reports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(CORPUS / name, 6, monkeypatch) > 100
