"""What the same fix gained in measured cases: a summary of the casebook's index."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keet.analysis.ledger import Ledger
from keet.catalog.loading import CASE_SUMMARIES, PRECEDENTS, Precedents, case_summaries, precedents
from keet.diagnosis import finding as finding_module
from keet.documents.finding import CaseDocument, CaseStepDocument
from keet.evidence import Evidence, constant
from keet.explanation import finding_notes as told
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.explanation.finding_notes import casebook, forecast_text, nearest_text, range_text
from keet.findings import findings
from keet.formatting import speedup_text
from keet.pages.cases import heading
from keet.profile import Profile
from kernels_samples.casebook.short_files import precedents_text as file_text
from kernels_samples.casebook.short_files import summaries_text, telling_lines
from tests.conftest import needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import CASES, SAMPLES, launch_of, profile_of, public_profile
from tests.unit.explanation.made_finding import finding


def test_precedents_match_the_case_index() -> None:
    command = "run: python -m kernels_samples.casebook.index"
    assert PRECEDENTS.read_text(encoding="utf-8") == file_text(casebook()), command


@pytest.mark.slow
def test_summaries_match_the_case_index() -> None:
    command = "run: python -m kernels_samples.casebook.index"
    assert CASE_SUMMARIES.read_text(encoding="utf-8") == summaries_text(casebook()), command


def test_summaries_and_precedents_are_complete() -> None:
    gained = {each.id for each in casebook() if not each.lookalike}
    assert {each.id for each in case_summaries()} == gained
    assert sum(len(each.changes) >= 2 for each in case_summaries()) > 0.9 * len(gained)
    assert all(len(line) <= 112 for each in case_summaries() for line in each.changes)
    assert len(precedents()) >= 20
    for id_, row in precedents().items():
        assert id_ in findings()
        assert row.cases >= 1
        assert 1 <= row.low <= row.median <= row.high
    gpus = {each.gpu for each in casebook()}
    assert all(told.MEASURED_ON in gpu for gpu in gpus)


DIFF = """--- before
+++ after
@@ -1,6 +1,7 @@
-__global__ void turn(const float* in, float* out, int n) {
+__global__ void turn_tiles(const float* in, float* out, int n) {
+    __shared__ float tile[32][33];
     const int x = blockIdx.x * 32 + threadIdx.x;
-    out[x * n + y] = in[y * n + x];
+    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
+    out[to_y * n + to_x] = tile[threadIdx.x][threadIdx.y];
 }
"""


def test_the_lines_that_tell_most() -> None:
    assert telling_lines(DIFF) == (
        "- out[x * n + y] = in[y * n + x];",
        "+ tile[threadIdx.y][threadIdx.x] = in[y * n + x];",
        "+ __shared__ float tile[32][33];",
    )
    assert telling_lines("-float s = 0.5 * x;\n+float s = 0.5f * x;\n-f(a);\n+g(a);") == (
        "- float s = 0.5 * x;",
        "+ float s = 0.5f * x;",
    )
    assert telling_lines("") == ()


def explained(name: str) -> LaunchExplanation:
    launch = launch_of(name)
    profile = Profile((launch,), profile_of(SAMPLES["matrix_flip"].report("slow")).provenance)
    return explain(profile, [launch], 5, sass=False).launches[0]


def test_the_nearest_case_is_of_the_same_kind() -> None:
    each = explained("key_count")
    first = each.findings[0]
    case = first.nearest_case
    assert (case.archetype, case.language) == ("histogram", "cuda")
    assert nearest_text(case).endswith(f": keet finding {case.id}")
    assert all(other.nearest_case is None for other in each.findings[1:])
    # Evals ask models about kernels of the casebook.
    id_ = next(id_ for id_ in CASES if id_.startswith("transpose/"))
    each = explained(id_)
    case = each.findings[0].nearest_case
    assert case is None or not case.id.startswith("transpose/")


@needs_corpus
@pytest.mark.parametrize("start", ["PriyanshuRS__", "algoparc__GPU-MMS--src__thrust"])
def test_a_case_of_another_algorithm_is_no_precedent(start: str) -> None:
    """The set-up of random numbers is like no convolution, a merge sort like no hash table."""
    profile = public_profile(start)
    each = explain(profile, profile.launches[:1], 5, sass=False).launches[0]
    for found in each.findings:
        case = found.nearest_case
        assert case is None or case.archetype == "sort"
    if each.findings[0].advice and each.findings[0].advice.variant == "curand":
        assert each.findings[0].precedents is None


def entry(id_: str, speedup: float, *, lookalike: bool = False, **steps: float) -> CaseDocument:
    fields: dict[str, Any] = dict.fromkeys(CaseDocument.names())
    made = [
        CaseStepDocument(finding=name, after_us=1.0, speedup=gain, why="")
        for name, gain in steps.items()
    ]
    told = {"finding": id_, "speedup": speedup, "lookalike": lookalike, "steps": made}
    return CaseDocument(**(fields | told))


def test_gains_are_of_the_finding_alone_and_look_alikes_are_not_among_them() -> None:
    entries = [
        entry("tail_effect", 2.0),
        entry("tail_effect", 9.0, tail_effect=3.0, small_grid=4.0),
        entry("tail_effect", 1.5),
        entry("tail_effect", 1.02, lookalike=True),
        entry("small_grid", 1.01, lookalike=True),
    ]
    assert json.loads(file_text(entries)) == {
        "tail_effect": {"cases": 3, "low": 1.5, "median": 2.0, "high": 3.0, "lookalikes": 1}
    }


@each_row("row", [
    Precedents(1, 2.15, 2.15, 2.15, 0),
    Precedents(23, 1.42, 2.31, 13.7, 1),
    Precedents(9, 2.8, 8.0, 12.0, 0),
    Precedents(9, 1.1, 1.2, 1.5, 0),
])  # fmt: skip
def test_the_sentence_has_the_range_of_measured_gains(
    row: Precedents, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    """And says where the forecast is outside of it."""
    monkeypatch.setattr(finding_module, "precedents", lambda: {"tail_effect": row})
    wording(told.precedents_text(finding("tail_effect", 1, 2, 3), Ledger()), case=row.median)
    assert told.precedents_text(finding("small_grid", 1, 2, 3), Ledger()) == ""


@each_row("variant", ["", "LSU/shared"])
def test_cases_of_all_causes_of_a_kind_are_not_called_those_of_one(variant: str, wording) -> None:
    saturated = finding("pipe_saturated", 1, 2, 3, variant=variant)
    assert (saturated.label != saturated.spec.label) == bool(variant)
    wording(told.precedents_text(saturated, Ledger()), case=variant or "the finding")


def test_cases_and_explain_print_the_same_gains() -> None:
    """`keet finding ID --cases` and the sentence below a finding."""
    entries = [each for each in casebook() if each.finding == "small_grid"]
    row = precedents()["small_grid"]
    low, high, median = map(speedup_text, (row.low, row.high, row.median))
    assert f"gained {low} to {high} (median {median})" in heading(entries)


def test_gains_of_several_launches_and_of_short_kernels(wording) -> None:
    wording(forecast_text(finding("launch_bound", 6.1, 8.04, 15.3), Ledger()))
    other = finding("tail_effect", 1.0, 1.146, 2.0)
    assert forecast_text(other, Ledger()) == "1.15x faster (1.0x to 2.0x)"
    said = range_text("redundant_traffic", *map(gain, (1.0, 2.8, 4.6)), variant="hand_over")
    assert said == "2.8x faster together (1.0x to 4.6x)"


def gain(factor: float) -> Evidence:
    return constant(factor, "", "gain")


@each_row(("finding", "forecast", "text"), [
    ("latency_bound", (1.6, 2.1, 3.9), "2.1x faster (1.6x to 3.9x)"),
    ("launch_bound", (1.6, 2.1, 3.9), "2.1x the work in the same time (1.6x to 3.9x)"),
    ("latency_bound", (1.0, 1.02, 2.4), "1.02x faster (1.0x to 2.4x)"),
    ("local_memory_spill", (21, 27, 30), "27x faster (21x or more)"),
    (None, (1.0, 1.05, 1.2), "1.05x faster (1.0x to 1.2x)"),
])  # fmt: skip
def test_forecasts(finding: str | None, forecast: tuple[float, float, float], text: str) -> None:
    """A range that ends at the largest gain that keet computes has no upper end."""
    assert range_text(finding, *map(gain, forecast)) == text


def test_two_claims_about_the_same_finding_keep_their_own_numbers() -> None:
    ledger = Ledger("0")
    first, second = (finding("tail_effect", 1.0, n, 4.0, origin="model") for n in (2.0, 3.0))
    texts = [forecast_text(each, ledger) for each in (first, second, first)]
    assert [text[:4] for text in texts] == ["2.0x", "3.0x", "2.0x"]
    assert texts[0].ids == texts[2].ids != texts[1].ids
    assert {*texts[0].ids, *texts[1].ids} <= {piece.id for piece in ledger}
