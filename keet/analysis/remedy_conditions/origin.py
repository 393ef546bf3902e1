"""Facts about the kernel's origin (library, framework, kind of algorithm) and about the GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

from keet.analysis.archetype import archetype_of, language_of, skipped_ahead
from keet.analysis.decisions.double_precision import FULL_RATE
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.library import OPENACC_RUNTIME, launched_by, library_of_launch, users_function
from keet.analysis.parameters import MAJORITY
from keet.analysis.remedy_conditions.fact import Answer, Fact, Test, total


def _by_name(words: str, test: Test, *metrics: str) -> Fact:
    """That the name of the kernel, of its source file or of the GPU shows it."""
    return Fact(words, test, metrics=metrics, is_by_name=True)


# --- library


def _library(words: str, *libraries: str, pattern: str = "") -> Fact:
    """That the kernel belongs to one of these libraries, and its name has the pattern."""

    def test(view: LaunchView) -> Answer:
        full = view.launch.name.full
        return launched_by(full) in libraries and bool(re.search(pattern, full.lower()))

    return _by_name(f"{words} (recognised by its name)", test)


library = _by_name(
    "the kernel belongs to {library} (recognised by its name)",
    lambda view: library_of_launch(view.launch) is not None,
)
_CHOOSE_SHAPES = ("Thrust", "CUB", "ModernGPU")
"""Templates whose callers do not choose blocks and grids; callers of Kokkos and RAJA do."""
library_with_function = _by_name(
    "the kernel is a template of {library} that runs a function of the program (recognised by its "
    "name)",
    lambda view: (
        launched_by(view.launch.name.full) in _CHOOSE_SHAPES
        and (users_function(view.launch.name.full) is not None or not library.test(view))
    ),
)
library_launch = _by_name(
    "{library} chooses the shape of the launch (recognised by its name)",
    lambda view: library.test(view) or library_with_function.test(view),
)
library_product = _library(
    "the kernel is a matrix product or convolution of {library}", *("cuBLAS", "CUTLASS", "cuDNN")
)
library_template = _library(
    "the kernel is a template of {library} that the program instantiates",
    "CUTLASS",
    # Generated names (cutlass_80_tensorop_...) are those of compiled kernels in other libraries.
    pattern=r"^(?!.*cutlass_\d|.*cutlass3x_).*<.*cutlass::",
)
library_elementwise = _library(
    "the kernel is one operation of {library}", *("PyTorch ATen", "CuPy", "Eigen", "TensorFlow")
)
library_merge_sort = _library(
    "the kernel is a merge sort of {library}", *("CUB", "Thrust"), pattern="merge_?sort"
)
library_directives = _library(
    "the kernel is a helper of {library}: a directive of the program starts it", OPENACC_RUNTIME
)
library_communication = _library("the kernel exchanges data between GPUs", *("NCCL", "NVSHMEM"))

# --- framework


triton = _by_name(
    "the kernel is written in Triton", lambda view: language_of(view.launch) == "Triton"
)

_CURAND = r"(?i)^(?=.*curand).*(?:init|setup|seed)"
"""`init_curand`, `setup_curand_states` in cuRAND's examples."""
initialises_curand = _by_name(
    "the kernel mostly initialises states of cuRAND (recognised by its name, or by the source "
    "lines of its samples)",
    lambda view: (
        skipped_ahead(view) > MAJORITY or bool(re.search(_CURAND, view.launch.name.function))
    ),
)
SKIPS_AHEAD = (
    "Each sequence number makes curand_init skip ahead{here}: give every thread the same sequence "
    "number and another seed, or use a Philox generator, which skips ahead at no cost. Keep the "
    "states between launches."
)
"""The remedy for whatever such a kernel is limited by."""
openacc = _by_name(
    "the kernel was made from OpenACC or OpenMP code (recognised by its name)",
    lambda view: language_of(view.launch) == "OpenACC",
)
kokkos = _by_name(
    "the kernel was made from Kokkos code (recognised by its name)",
    lambda view: "Kokkos::" in view.launch.name.full,
)

# --- kind of algorithm

_archetype = cached_per_view(lambda view: archetype_of(view.launch, view.opcodes))


def _looks_like(archetype: str, noun: str) -> Fact:
    return _by_name(
        f"the kernel looks like {noun} (judged by its name and instructions)",
        lambda view: _archetype(view) == archetype,
    )


looks_like_gemm = _looks_like("gemm", "a matrix product")
looks_like_convolution = _looks_like("convolution", "a convolution")
looks_like_stencil = _looks_like("stencil", "a stencil")
looks_like_reduction = _looks_like("reduction", "a reduction")
looks_like_scan = _looks_like("scan", "a prefix sum")
looks_like_histogram = _looks_like("histogram", "a histogram")
looks_like_sparse = _looks_like("sparse", "a product with a sparse matrix")

# --- the GPU


def _gpu(words: str, test: Callable[[tuple[int, ...]], bool]) -> Fact:
    """Decided by the compute capability."""
    return Fact(
        words,
        lambda view: bool(view.capability) and test(view.capability),
        metrics=("device_cc_major",),
    )


has_async_copy = _gpu(
    "the GPU copies from global to shared memory asynchronously (Ampere and later)",
    lambda capability: capability >= (8, 0),
)
has_tma = _gpu(
    "the GPU has the Tensor Memory Accelerator (Hopper and later)",
    lambda capability: capability >= (9, 0),
)
has_wgmma = _gpu(
    "the GPU has warpgroup matrix instructions (Hopper)",
    lambda capability: capability == (9, 0),  # later GPUs have other instructions
)
has_tcgen05 = _gpu(
    "the GPU has tcgen05 matrix instructions (data-centre Blackwell)",
    lambda capability: capability[0] == 10,  # those of capability 12 have only mma.sync
)
has_double_tensor_cores = _gpu(
    "the tensor cores compute in double precision (data-centre GPUs since Ampere)",
    lambda capability: capability in ((8, 0), (9, 0), (10, 0)),
)

slow_double = _by_name(
    "the GPU's double-precision rate is a small part of its single-precision rate",
    lambda view: total(view, "device_fp32_fp64_ratio") > FULL_RATE,
    "device_fp32_fp64_ratio",
)
