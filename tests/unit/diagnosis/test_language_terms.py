"""Advice in the language of the kernel."""

from __future__ import annotations

from typing import get_args

from keet.analysis.kernel.archetype import Language, language_of
from keet.analysis.launch_view import LaunchView
from keet.diagnosis.advice import CPP, advice_for, in_language
from keet.diagnosis.finding import Finding
from keet.documents.finding import Forecast
from keet.evidence import Sentence
from keet.findings import findings
from keet.profile import KernelName, Launch
from tests.conftest import REPORTS
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import made_up
from tests.unit.analysis.real_launches import profile_of

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


@each_row(("name", "language"), NAMES.items())
def test_the_name_shows_the_language(name: str, language: str) -> None:
    assert language_of(named(name)) == language


def test_a_report_of_ours_is_triton() -> None:
    assert language_of(profile_of(next(REPORTS.glob("triton.ncu-rep*"))).launches[0]) == "Triton"


@each_row("language", [each for each in get_args(Language) if each != "CUDA C++"])
def test_no_remedy_has_terms_of_another_language(language: Language) -> None:
    for spec in findings().values():
        for condition, text in spec.remedies.items():
            if any(fact.id.startswith(("library", "triton")) for fact in condition.needs):
                continue  # for callers of C++ libraries, and for Triton alone
            told = in_language(Sentence(text, here="", library="CUB"), language)
            assert not CPP.search(told), f"{spec.id} {condition.name}: {told}"
            assert "  " not in told
            assert " ." not in told
            assert " ," not in told


def test_advice_for_c_plus_plus_is_as_it_is_written() -> None:
    text = Sentence("Use wide accesses (float4).")
    assert in_language(text, "CUDA C++") is text


@each_row(
    ("name", "words"),
    [
        ("julia_k_1(CuDeviceArray<Float32, (int)1, (int)1>)", "CUDA.Const"),
        ("cudapy::m::k(Array<float, 1, C, mutable, aligned>)", ": compute it before the loop."),
        ("k(float *)", "__restrict__"),
    ],
)
def test_what_a_launch_is_told(name: str, words: str) -> None:
    view = LaunchView(named(name))
    spec = findings()["integer_overhead"]
    text = Sentence(spec.remedy_named("invariant"), here="", library="")
    assert words in in_language(text, language_of(view.launch))
    finding = Finding("narrow_access", "likely", Sentence(""), Forecast(1, 2, 3), ())
    assert ("float4" in advice_for(finding, view).text) == name.startswith("k(")


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


@each_row(
    ("function", "finding", "variant"),
    [
        ("AbsComparator", "latency_bound", "general"),
        ("AbsComparator", "warp_divergence", "general"),
        ("AbsComparator", "occupancy_limited_registers", "library_with_function"),
        ("AbsComparator", "small_grid", "library"),  # Thrust chooses the grid
        ("thrust::plus<double>", "latency_bound", "library"),
        ("thrust::plus<double>", "small_grid", "library"),
    ],
)
def test_a_function_in_a_librarys_template_is_the_users(
    function: str, finding: str, variant: str
) -> None:
    """The name is as in a public report."""
    view = LaunchView(named(THRUST.format(function)))
    found = Finding(finding, "likely", Sentence(""), Forecast(1, 2, 3), ())
    assert advice_for(found, view).variant == variant


@each_row(
    ("kernel", "finding", "variant"),
    [
        (OWN_PRODUCT, "latency_bound", "library_template"),
        (OWN_PRODUCT, "small_grid", "library_template"),
        (OWN_PRODUCT, "occupancy_limited_shared", "library_template"),
        (COMPILED_PRODUCT, "latency_bound", "library"),
        (COMPILED_PRODUCT, "small_grid", "library_product"),
    ],
)
def test_tiles_of_a_template_are_the_users_choice(kernel: str, finding: str, variant: str) -> None:
    """A program that instantiates CUTLASS chooses tile, stages and split-K; one that calls a
    library does not."""
    view = LaunchView(named(kernel))
    found = Finding(finding, "likely", Sentence(""), Forecast(1, 2, 3), ())
    assert advice_for(found, view).variant == variant
