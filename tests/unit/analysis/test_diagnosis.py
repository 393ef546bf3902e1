"""What is found in reports whose cause is known, and in those that lack what a check needs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from keet.analysis.checks import CHECKS
from keet.analysis.diagnosis import MOST, Diagnosis, diagnose
from keet.analysis.view import View
from keet.catalog import findings
from keet.errors import KeetError
from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.profile import Launch, Profile
from kernels_samples.samples import Sample, load_samples
from tests.conftest import REPORTS, corpus_files, needs_corpus

SAMPLES = load_samples()
PLANTED = [sample for sample in SAMPLES if not sample.healthy]
HEALTHY = [(sample, variant) for sample in SAMPLES if sample.healthy for variant in sample.variants]
SECOND = {"hydro_element": "local memory costs as much as the stores, to 1 %"}
"""Samples whose dominant cause is found, but not first."""


@cache
def profile_of(path: Path) -> Profile:
    return read_profile(path)


def diagnosis_of(sample: Sample, variant: str) -> Diagnosis:
    profile = profile_of(sample.report(variant))
    launch = next(x for x in profile.launches if x.name.function == sample.kernel)
    return diagnose(launch, profile.launches)


def ids_of(diagnosis: Diagnosis) -> list[str]:
    return [finding.id for finding in diagnosis.findings]


@pytest.mark.parametrize("sample", PLANTED, ids=lambda sample: sample.name)
def test_the_planted_cause_is_found(sample: Sample) -> None:
    found = ids_of(diagnosis_of(sample, "slow"))
    named = {sample.truth.dominant, *sample.truth.accept}
    assert named & set(found[:3])
    assert (found[0] in named) != (sample.name in SECOND)


@pytest.mark.parametrize("sample", PLANTED, ids=lambda sample: sample.name)
def test_a_fixed_cause_is_no_longer_raised(sample: Sample) -> None:
    found = ids_of(diagnosis_of(sample, "fast"))
    kept = sample.truth.left.get("fast") == sample.truth.dominant  # mended in part, as it says
    assert sample.truth.dominant not in found or kept


@pytest.mark.parametrize(
    ("sample", "variant"), HEALTHY, ids=lambda part: part if isinstance(part, str) else part.name
)
def test_a_healthy_kernel_is_called_healthy(sample: Sample, variant: str) -> None:
    diagnosis = diagnosis_of(sample, variant)
    assert diagnosis.findings == ()
    assert diagnosis.healthy == sample.truth.dominant


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_findings_are_whole(sample: Sample) -> None:
    for variant in sample.variants:
        diagnosis = diagnosis_of(sample, variant)
        assert len(diagnosis.findings) <= MOST
        for finding in diagnosis.findings:
            assert finding.id in findings()
            assert finding.evidence
            assert "{" not in finding.action
            assert 1 < finding.forecast.likely <= finding.forecast.high
            for of in {place.of for place in finding.places}:
                assert sum(place.share for place in finding.places if place.of == of) <= 1.001
        assert not {cause for cause, _ in diagnosis.folded} & set(ids_of(diagnosis))


def test_a_report_without_sections_raises_nothing_it_cannot_know() -> None:
    for launch in profile_of(REPORTS / "metrics_only.ncu-rep").launches:
        assert set(ids_of(diagnose(launch))) <= {"small_grid", "launch_bound"}


@needs_corpus
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.name[:40])
def test_reports_by_strangers(path: Path) -> None:
    try:
        profile = profile_of(path)
    except KeetError:
        return
    for launch in profile.launches[:20]:
        assert len(diagnose(launch, profile.launches).findings) <= MOST


def test_an_export_without_instructions_shows_the_cause() -> None:
    launch = profile_of(REPORTS / "tour_lines.csv").launches[0]
    assert ids_of(diagnose(launch))[0] == "uncoalesced_global"


def test_health_is_not_claimed_where_waste_could_not_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The basic set says how busy DRAM is, not whether its bytes were needed."""
    (sample,) = (sample for sample in SAMPLES if sample.name == "field_axpy")
    assert diagnosis_of(sample, "slow").healthy == "at_dram_roofline"
    get = View.get
    hidden = "src_l2_sectors_global"
    monkeypatch.setattr(View, "get", lambda view, i: None if i == hidden else get(view, i))
    assert diagnosis_of(sample, "slow").healthy is None


def test_no_sample_looks_like_a_debug_build() -> None:
    assert not any(diagnosis_of(sample, "slow").view.is_debug_build for sample in SAMPLES)


@needs_corpus
@pytest.mark.parametrize("owner", ["suhithr__", "victor-lvsy__"])
def test_a_debug_build_is_recognised(owner: str) -> None:
    """Half of its instructions are MOV: a matrix product without FFMA, and integers alone."""
    (path,) = (path for path in corpus_files() if path.name.startswith(owner))
    profile = profile_of(path)
    assert diagnose(profile.launches[0]).view.is_debug_build
    (told,) = explain(profile, profile.launches[:1], 5).launches
    assert "debug build" in told.verdict.headline


@pytest.mark.parametrize("name", ["matrix_flip", "row_layers", "half_dense", "fan_update"])
def test_waits_at_a_barrier_are_those_of_the_barrier(name: str) -> None:
    """They are sampled at the instruction behind it, which may be of another line."""
    (sample,) = (sample for sample in SAMPLES if sample.name == name)
    view = diagnosis_of(sample, "slow" if name == "half_dense" else "fast").view
    places = view.barrier_places()
    assert places
    assert all("__syncthreads" in view.text_of(place) for place in places)


@needs_corpus
def test_a_barrier_is_found_without_the_source() -> None:
    (path,) = (path for path in corpus_files() if path.name.startswith("victor-lvsy__"))
    (place, *_) = diagnose(profile_of(path).launches[1]).view.barrier_places()
    assert place.where == "nw1.cu:38"  # BAR.SYNC in the SASS


@pytest.mark.parametrize(
    ("name", "variant", "says"),
    [
        ("column_physics", "array", "more registers do not help"),
        ("hydro_element", "array", "shared memory"),
        ("softmax_rows", "spill", "maxnreg"),
    ],
)
def test_spilled_registers_are_told_from_indexed_arrays(name: str, variant: str, says: str) -> None:
    (sample,) = (sample for sample in SAMPLES if sample.name == name)
    (finding,) = (f for f in diagnosis_of(sample, "slow").findings if f.id == "local_memory_spill")
    assert finding.variant == variant
    assert says in finding.action


def test_a_remedy_names_only_what_the_gpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """cp.async came with 8.0, wgmma is of 9.0 alone; a GPU that is not named has neither."""
    for name, finding, word in (
        ("xs_lookup", "latency_bound", "cp.async"),
        ("half_dense", "no_tensor_core", "wgmma"),
    ):
        (sample,) = (sample for sample in SAMPLES if sample.name == name)
        (launch, *_) = (
            x
            for x in profile_of(sample.report("slow")).launches
            if x.name.function == sample.kernel
        )
        assert word in _action(launch, finding)
        for capability in ((7, 0), ()):
            with monkeypatch.context() as patch:
                patch.setattr(View, "capability", capability)
                assert word not in _action(launch, finding)


def _action(launch: Launch, finding: str) -> str:
    """Empty where it is not raised."""
    raised = [f for check in CHECKS for f in check(View(launch)) if f.id == finding]
    return raised[0].action if raised else ""
