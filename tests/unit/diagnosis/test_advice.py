"""Advice: the remedy that is chosen fits the report."""

import re
from dataclasses import replace
from functools import cache
from typing import get_args

from keet.analysis.archetype import Language, archetype_of, language_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import FACTS
from keet.analysis.remedy_conditions.fact import Fact
from keet.diagnosis.advice import CPP, advice_for, in_language
from keet.diagnosis.finding import Finding
from keet.documents.finding import Forecast
from keet.evidence import Sentence
from keet.findings import findings
from keet.profile import KernelName, Launch
from tests.conftest import REPORTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.launch_checks import check_advice
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import (
    SAMPLES,
    code_view,
    launch_of,
    profile_of,
    public_launch,
    public_profile,
)
from tests.unit.diagnosis.advice_checks import CHECKS


@cache
def view_of(name: str) -> LaunchView:
    return code_view(name)


def finding_of(finding_id: str, view: LaunchView, variant: str = "") -> Finding:
    """As if it had been raised: advice must fit the report whatever is found."""
    column = {
        "shared_bank_conflict": "src_shared_wavefronts_excess",
        "uncoalesced_global": "src_l2_sectors_global_excess",
    }.get(finding_id)
    found = view.places_by("cost", view.table.column(column)) if column else view.sampled_places()
    evidence = tuple(e for e in (view.get("duration"),) if e is not None)
    told = {"locations": found, "variant": variant, "here": view.here(None, found)}
    return replace(bare(finding_id), evidence=evidence, **told)


def bare(finding: str) -> Finding:
    said = {"text": Sentence(""), "forecast": Forecast(1, 2, 3), "evidence": ()}
    return Finding(id=finding, cause_certainty="certain", **said)


@each_row("sample", [*SAMPLES][::4])
def test_the_remedy_fits_for_every_finding(sample: str) -> None:
    """General remedies take the finding for granted, and these findings are made up."""
    view = LaunchView(launch_of(sample))
    for finding_id in findings():
        finding = finding_of(finding_id, view)
        advice = advice_for(finding, view)
        if advice.variant != "general":
            check_advice(view, finding, advice)


def test_each_check_is_about_an_advice() -> None:
    texts = [(spec.id, text) for spec in findings().values() for text in spec.remedies.values()]
    for check in CHECKS:
        assert [i for i, t in texts if re.search(check.words, t) and re.search(check.about, i)]


@each_row("sample, finding, variant", [
    ("matrix_flip", "uncoalesced_global", "stores"),
    ("lookup_records", "uncoalesced_global", "gather"),
    ("blend_frames", "uncoalesced_global", "consecutive"),
    ("blend_frames", "narrow_access", "consecutive"),
    ("score_tiles", "shared_bank_conflict", "padded"),
    ("key_count", "atomic_contention", "privatise"),
    ("band_scale", "l2_partition_imbalance", "stores"),
    ("column_physics", "local_memory_spill", "array"),
    ("softmax_rows", "local_memory_spill", "triton"),
    ("scan_rows", "barrier_bound", "scan"),
    ("page_walk", "latency_bound", "chase"),
    ("orbit_forces", "latency_bound", "accumulator"),
    ("panel_product", "latency_bound", "deeper"),
    ("phase_sum", "sfu_bound", "sines"),
    ("half_dense", "no_tensor_core", "hopper"),
    ("gas_state", "fp64_promotion", "functions"),
    ("tile_scores", "tail_effect", "just_over"),
    ("row_norms", "small_grid", "reduction"),
    ("sparse_apply", "load_imbalance", "few_work"),
    ("decay_ratios", "warp_divergence", "routines"),
    ("ring_steps", "launch_bound", "general"),
    ("page_walk", "occupancy_limited_block", "small"),
    ("stencil_march", "integer_overhead", "wide"),
    ("tap_filter", "pipe_saturated", "shared"),
    ("series_eval", "at_compute_roofline", "general"),
    ("field_axpy", "at_dram_roofline", "once"),
])  # fmt: skip
def test_the_remedy_of_a_sample(sample: str, finding: str, variant: str) -> None:
    view = view_of(sample)
    assert advice_for(finding_of(finding, view), view).variant == variant


def test_a_saturated_pipe_gets_the_advice_for_that_pipe() -> None:
    """Wider accesses are advised for the load/store pipe alone."""
    view = LaunchView(launch_of("series_eval"))
    for unit in ("FMA", "ALU", "XU", "FP64", "issue"):
        advice = advice_for(finding_of("pipe_saturated", view, unit), view)
        assert advice.variant == unit.lower()
        assert "access" not in advice.text


def test_advice_names_what_the_gpu_has_and_the_place_last(monkeypatch) -> None:
    words = {(7, 0): "", (8, 0): "", (9, 0): "wgmma", (10, 0): "tcgen05", (12, 0): "", (): ""}
    for capability, word in words.items():
        with monkeypatch.context() as patch:
            patch.setattr(LaunchView, "capability", capability)
            view = LaunchView(launch_of("half_dense"))
            text = advice_for(finding_of("no_tensor_core", view), view).text
            assert re.findall(r"wgmma|tcgen05", text) == ([word] if word else [])
    # So that a reader who may not see the source gets the same advice without its text.
    view = LaunchView(launch_of("matrix_flip"))
    finding = finding_of("uncoalesced_global", view)
    told = replace(finding, advice=advice_for(finding, view))
    assert told.here in told.action
    assert "{" not in told.action
    assert replace(told, here=" at line 7").action == told.action.replace(told.here, " at line 7")
    # Without advice, the general remedy is given.
    finding = finding_of("latency_bound", view)
    assert finding.action == findings()["latency_bound"].remedy.replace("{here}", finding.here)
    assert "cp.async" in replace(finding, variant="ampere").action


def test_facts_are_decided_once_and_not_true_where_a_report_does_not_show_them() -> None:
    """`--set basic` says nothing of instructions: nothing that needs them is advised."""
    view = LaunchView(profile_of(REPORTS / "metrics_only.ncu-repz").launches[0])
    for name in ("loads_global", "accesses_narrow", "rows_padded", "waits_for_arithmetic"):
        assert not FACTS[name].answer(view, finding_of("latency_bound", view))
    asked: list[LaunchView] = []
    counted = Fact("", lambda view: not asked.append(view))
    for finding_id in ("latency_bound", "narrow_access"):
        assert counted.answer(view, finding_of(finding_id, view))
    assert asked == [view]


@needs_corpus
@each_row("owner, finding, variant", [
    ("JakeFlasher__", "occupancy_limited_registers", "library_elementwise"),
    ("Abhishek7204__", "uncoalesced_global", "sent"),
    ("LakshyaSingh354__", "small_grid", "product_small_blocks"),
    ("extra-p__", "small_grid", "one_block"),
    ("eschnett__", "pipe_saturated", "alu"),
    ("trevorgloe__", "low_precision_possible", "slow_pipe"),
    ("ScalingIntelligence__", "redundant_traffic", "product_untiled"),
    ("NCAR__", "occupancy_limited_registers", "openacc"),
])  # fmt: skip
def test_the_remedy_of_a_public_report(owner: str, finding: str, variant: str) -> None:
    launches = public_profile(owner).launches
    view = LaunchView(max(launches, key=lambda launch: launch.rank_time))
    assert advice_for(finding_of(finding, view), view).variant == variant
    view = LaunchView(public_launch("PriyanshuRS__"))  # it initialises random numbers
    assert advice_for(finding_of("pipe_saturated", view), view).variant == "curand"


@each_row("sample, archetype", [
    ("key_count", "histogram"), ("scan_rows", "scan"), ("pair_reduce", "reduction"),
    ("panel_product", "gemm"), ("tile_smooth", "stencil"), ("field_axpy", "elementwise"),
    ("xs_lookup", None),
])  # fmt: skip
def test_the_archetype_of_a_sample(sample: str, archetype: str | None) -> None:
    launch = launch_of(sample)
    assert archetype_of(launch, LaunchView(launch).opcodes) == archetype
    # A kernel called `count` that executes no atomics is not a histogram.
    assert archetype_of(launch_of("key_count"), {"FADD": 10.0, "BAR": 1.0}) != "histogram"


@each_row("text, variant", [
    ("for (int i = first; i < n; i += step)  // a/b", "trip_count"),
    ("for (int i = first; i < n / step; i++)", "division"),
    ("x = INDEX(i, n);", "division"),
])  # fmt: skip
def test_division_is_advised_where_the_source_divides(text, variant, monkeypatch) -> None:
    """An edited snapshot: another text of all source lines."""
    monkeypatch.setattr(LaunchView, "text_of", lambda *_: text)
    view = code_view("permute_nd/divisions_and_halves")
    assert advice_for(finding_of("integer_overhead", view), view).variant == variant


NAMES = {
    "cudapy::__main__::smooth[abi:v1](Array<float, 1, C, mutable, aligned>)": "Numba",
    "_ZN6cudapy8__main__10smooth$241E5ArrayIfLi1E1C7mutable7alignedE": "Numba",
    "julia_bb_4477(CuDeviceArray<Int8x4, (int)1, (int)1>, CuDeviceArray<Int4x8, (int)1, (int)1>)": "Julia",
    "_Z16broadcast_kernel15CuKernelContext13CuDeviceArrayI7Float32Li1ELi1EE": "Julia",
    "triton_poi_fused_add_0": "Triton",
    "compute_tendencies_x_279_gpu": "OpenACC",
    "advance_3f2a91_cuda_kernel_forward": "Warp",
    "paint_c80_0_kernel_0_range_for": "Taichi",
    "julian_days(float *)": "CUDA C++",
    "void apply<Array<float, 3>>(Array<float, 3>)": "CUDA C++",
    "gemm_kernel(float*, int)": "CUDA C++",
}
"""Names in the form of public reports: these compilers are not on the machine that made ours."""


def named(name: str) -> Launch:
    launch = made_up({"dram": 20.0}, {"long_scoreboard": 9.0, "selected": 1.0})
    mangled = name if name.startswith("_Z") else ""
    launch.name = KernelName(name.partition("(")[0], "" if mangled else name, mangled)
    return launch


@each_row("name, language", NAMES.items())
def test_the_name_shows_the_language(name: str, language: str) -> None:
    assert language_of(named(name)) == language
    assert language_of(profile_of(REPORTS / "triton.ncu-repz").launches[0]) == "Triton"


@each_row("language", [each for each in get_args(Language) if each != "CUDA C++"])
def test_no_remedy_has_terms_of_another_language(language) -> None:
    for spec in findings().values():
        for condition, text in spec.remedies.items():
            if any(fact.id.startswith(("library", "triton")) for fact in condition.needs):
                continue  # for callers of C++ libraries, and for Triton alone
            told = in_language(Sentence(text, here="", library="CUB"), language)
            assert not CPP.search(told), f"{spec.id} {condition.name}: {told}"
            assert not re.search(r"maxnreg|launch bounds|\(templates", told)
            assert not re.search(r"  | [.,]", told)
    text = Sentence("Use wide accesses (float4).")
    assert in_language(text, "CUDA C++") is text


@each_row("name, words", [
    ("julia_k_1(CuDeviceArray<Float32, (int)1, (int)1>)", "CUDA.Const"),
    ("cudapy::m::k(Array<float, 1, C, mutable, aligned>)", ": compute it before the loop."),
    ("k(float *)", "__restrict__"),
])  # fmt: skip
def test_what_a_launch_is_told(name: str, words: str) -> None:
    view = LaunchView(named(name))
    spec = findings()["integer_overhead"]
    text = Sentence(spec.remedy_named("invariant"), here="", library="")
    assert words in in_language(text, language_of(view.launch))
    assert ("float4" in advice_for(bare("narrow_access"), view).text) == name.startswith("k(")


OWN_PRODUCT = (
    "void cutlass::Kernel<cutlass::gemm::kernel::B2bGemm<cutlass::gemm::threadblock::"
    "B2bMmaPipelined<cutlass::gemm::GemmShape<64, 64, 64>>>>(T1::Params)"
)
COMPILED_PRODUCT = (
    "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_128x128_32x5_tn_align8>(T1::Params)"
)
THRUST = (
    "void thrust::cuda_cub::core::_kernel_agent<thrust::reduce<thrust::device_ptr<double>, {}>>(T1)"
)


@each_row("kernel, finding, variant", [
    # A function in a library's template is the user's. The name is as in a public report.
    (THRUST.format("AbsComparator"), "latency_bound", "general"),
    (THRUST.format("AbsComparator"), "warp_divergence", "general"),
    (THRUST.format("AbsComparator"), "occupancy_limited_registers", "library_with_function"),
    (THRUST.format("AbsComparator"), "small_grid", "library"),  # Thrust chooses the grid
    (THRUST.format("thrust::plus<double>"), "latency_bound", "library"),
    (THRUST.format("thrust::plus<double>"), "small_grid", "library"),
    # A program that instantiates CUTLASS chooses tile, stages and split-K; one that calls a
    # library does not.
    (OWN_PRODUCT, "latency_bound", "library_template"),
    (OWN_PRODUCT, "small_grid", "library_template"),
    (OWN_PRODUCT, "occupancy_limited_shared", "library_template"),
    (COMPILED_PRODUCT, "latency_bound", "library"),
    (COMPILED_PRODUCT, "small_grid", "library_product"),
])  # fmt: skip
def test_what_users_of_libraries_can_choose(kernel: str, finding: str, variant: str) -> None:
    assert advice_for(bare(finding), LaunchView(named(kernel))).variant == variant
