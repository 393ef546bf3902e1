"""Kernels of libraries are told from users' own by their names; the setup of cuRAND's generators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.archetype import skipped_ahead
from keet.analysis.launch_view import LaunchView
from keet.analysis.library import launched_by, library_of, users_function
from keet.diagnosis.diagnosis import diagnose
from keet.profile import Launch, Location
from tests.conftest import corpus_files, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of, launches_in

KNOWN = {
    "ampere_sgemm_128x64_tn": "cuBLAS",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel__5x_cublas": "cuBLAS",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT": "cuBLAS",
    "void gemv2T_kernel_val<int, float, cublasGemvParamsEx<int>>(T13, T4, T4)": "cuBLAS",
    "void dot_kernel<float, (int)128, cublasDotParams<cublasGemvTensor<const float>>>(T4)": "cuBLAS",
    "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(int)": "cuBLAS",
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32_nhwckcrs_nchw_tilesize64x32x64_cudnn": "cuDNN",
    "void implicit_convolve_sgemm<float, float, (int)128>(int)": "cuDNN",
    "void regular_fft<(unsigned int)256, (EPT)8>(kernel_arguments_t)": "cuFFT",
    "void spRadix0064B::kernel1Mem<unsigned int, float>(int)": "cuFFT",
    "void cusparse::csrmv_v3_kernel<int>(int)": "cuSPARSE",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)": "NCCL",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(T1::Params)": (
        "CUTLASS"
    ),
    "void Kernel<cutlass_75_wmma_tensorop_s161616gemm_f16>(T1::Params)": "CUTLASS",
    "void cub::CUB_200301_520_NS::DeviceMergeSortMergeKernel<(bool)0, int>(T1)": "CUB",
    "void at_cuda_detail::cub::DeviceReduceKernel<float>(T1)": "CUB",
    "void at::native::<unnamed>::distribution_kernel<float, (int)4>(int)": "PyTorch ATen",
    "_ZN2at6native29vectorized_elementwise_kernelILi4EEEviT0_T1_": "PyTorch ATen",
    "void vectorized_elementwise_kernel<4, silu_kernel(TensorIteratorBase &)>(int)": "PyTorch ATen",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Flash_fwd_params)": "FlashAttention",
    "__pgi_uacc_cuda_fill": "NVIDIA's OpenACC runtime",
}
OWN = (
    "gemm_kernel(float*, float*, float*, int)",
    "_Z11gemm_kernelPfS_S_i",
    "sgemm_128x128x8_kernel(const float *, const float *, float *)",
    "wmma_gemm(__half *, __half *, float *, int, int, int)",
    "softmax_block_kernel(const float *, float *, int, int)",
    "cublas_style_gemm(float *)",
    "my::cub::kernel(int)",
    "ml::forward(int)",
    "triton_poi_fused_add_0",
    "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<F>>()",
    "compute_tendencies_x_279_gpu",
    "void squareSort<int, &cub::compare<int>>(T1 *, int)",
    "void apply<thrust::plus<float>>(float *)",
    "(anonymous namespace)::scale(float *, int)",
    "",
)


MANGLED = (
    "_ZN6Kokkos4ImplL33cuda_parallel_launch_local_memoryINS0_11ParallelForI"
    "{}NS_11RangePolicyIJNS_4CudaEEEES7_EEEvT_"
)
TEMPLATES = {
    "void thrust::THRUST_200700_890_NS::cuda_cub::core::_kernel_agent<thrust::THRUST_200700_890_NS::"
    "cuda_cub::__reduce::ReduceAgent<thrust::device_ptr<double>, thrust::tuple<double, long> *, int, "
    "thrust::cuda_cub::__extrema::arg_max_f<double, long, AbsComparator>>, int>(T2...)": "AbsComparator",
    "void cub::CUB_200301_520_NS::DeviceMergeSortPartitionKernel<thrust::detail::normal_iterator<"
    "thrust::device_ptr<int>>, long, IntegerComparator, int>(bool, T1)": "IntegerComparator",
    "void cub::DeviceMergeSortMergeKernel<thrust::device_ptr<Body>, long, ByMass, Body>(T1)": "ByMass",
    "void thrust::x<__nv_dl_wrapper_t<__nv_dl_tag<int (*)(), &main, (unsigned int)1>>, int>(T1)": (
        "a lambda"
    ),
    "void cub::SegmentedReduce<cub::P, float *, (anonymous namespace)::Mine, float>(T1)": "Mine",
    "void cub::SegmentedReduce<cub::P, float *, <unnamed>::Mine, float>(T1)": "Mine",
    "void thrust::x<float (*)(float), int>(T1)": "a function",
    "void Kokkos::Impl::cuda_parallel_launch_constant_memory<Kokkos::Impl::ParallelFor<solve(Config)"
    "::[lambda(const Kokkos::Impl::CudaTeamMember &) (instance 5)], Kokkos::TeamPolicy<>>>()": "a lambda",
    MANGLED.format("Z4mainEUlRKiE_"): "a lambda",
    MANGLED.format("ZN3sim4stepERNS_4GridEEUliE_"): "a lambda",
    "void RAJA::policy::cuda::impl::forall_cuda_kernel<RAJA::cuda::X<1>, main::[lambda(int) "
    "(instance 3)], int>(T1)": "a lambda",
}
"""The user's function by the name of the kernel: from public reports, and in their form."""
DATA = {
    MANGLED.format("ZN6Kokkos4Impl4fillEvEUliE_"): "Kokkos",
    MANGLED.format("NS_4Impl4CopyE"): "Kokkos",
    "void cub::DeviceReduceKernel<cub::Policy<Body, int>::Policy600, Body *, Body *, int, "
    "thrust::plus<Body>, Body>(T1)": "CUB",
    "void cub::DeviceRadixSortOnesweepKernel<cub::Policy<int, cub::NullType>::Policy800, (bool)0, int, "
    "cub::NullType, cub::detail::identity_decomposer_t>(T1)": "CUB",
    "void thrust::x<at::native::foo(at::Tensor)::[lambda(int) (instance 1)]>(T1)": "Thrust",
    "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<Kokkos::Impl::"
    "ViewFill<Kokkos::View<double *>, Kokkos::LayoutLeft>, Kokkos::RangePolicy<>>>()": "Kokkos",
}
"""Templates that run a function of the library itself."""


@each_row("name, library, function", [
    *((name, library, None) for name, library in [*KNOWN.items(), *DATA.items()]),
    *((name, None, "F" if "Kokkos" in name else None) for name in OWN),
    *((name, None, function) for name, function in TEMPLATES.items()),
])  # fmt: skip
def test_a_kernel_of_a_library_is_told_from_the_users_code(name, library, function) -> None:
    """A function of the user in a library's template is the user's; a type of data is no function."""
    assert (library_of(name), users_function(name)) == (library, function)
    assert function is None or launched_by(name) in ("Thrust", "CUB", "Kokkos", "RAJA")


@given(
    st.text(st.sampled_from("ab_Z N12<>(),: "), max_size=40),
    st.text(st.sampled_from("ab_T1<>(),:*& [lambda{}"), max_size=60),
)
def test_any_text_is_a_name_and_any_arguments_are_split(name: str, arguments: str) -> None:
    assert library_of(name) is None
    users_function(f"void cub::f<{arguments}>(T1)")


@needs_corpus
def test_libraries_of_public_reports() -> None:
    launches = (launch for path in corpus_files() for launch in launches_in(path))
    found = {library_of(launch.name.full) for launch in launches}
    assert found == {None, "CUTLASS", "PyTorch ATen"}


HEADER = "/usr/local/cuda/targets/x86_64-linux/include/curand_kernel.h"


def in_header(monkeypatch: pytest.MonkeyPatch, line: int) -> Launch:
    """A launch with all code at this line of the header."""
    at = Location(HEADER, line)
    monkeypatch.setattr(Launch, "locate", lambda _, addresses: dict.fromkeys(addresses, at))
    return launch_of("series_eval")


def test_skip_ahead_leads_with_the_gain_of_its_samples(monkeypatch, wording) -> None:
    launch = in_header(monkeypatch, 326)
    assert skipped_ahead(LaunchView(launch)) == 1.0
    first, *others = diagnose(launch).findings
    assert (first.id, first.variant) == ("pipe_saturated", "curand")
    wording(first.label)
    assert first.forecast.likely > 5
    wording(first.action)
    # The same advice is not given twice.
    assert not any("sequence number" in each.action for each in others)
    launch = in_header(monkeypatch, 871)
    assert skipped_ahead(LaunchView(launch)) == 0.0
    assert all(each.variant != "curand" for each in diagnose(launch).findings)
