"""Facts about the kernel's origin and the GPU's features: yes/no tests that `remedy_choice` asks.

Origin: library, framework, kind of algorithm.
"""

from __future__ import annotations

import re

from keet.analysis.facts.fact import Answer, Fact, fact, more_than
from keet.analysis.facts.inputs import FactInputs
from keet.analysis.facts.thresholds import FULL_DOUBLE

_PRODUCTS = ("cuBLAS", "CUTLASS", "cuDNN")
_COMMUNICATION = ("NCCL", "NVSHMEM")
_SORTS = ("CUB", "Thrust")


@fact("the kernel belongs to {library} (recognised by its name)", is_by_name=True)
def library(inputs: FactInputs) -> Answer:
    return inputs.library is not None


@fact(
    "the kernel is a matrix product or convolution of {library} (recognised by its name)",
    is_by_name=True,
)
def library_product(inputs: FactInputs) -> Answer:
    return inputs.library in _PRODUCTS


@fact("the kernel is one operation of {library} (recognised by its name)", is_by_name=True)
def library_elementwise(inputs: FactInputs) -> Answer:
    return inputs.library in ("PyTorch ATen", "CuPy", "Eigen", "TensorFlow")


@fact("the kernel is a merge sort of {library} (recognised by its name)", is_by_name=True)
def library_merge_sort(inputs: FactInputs) -> Answer:
    name = inputs.launch.name.full.lower()
    return inputs.library in _SORTS and bool(re.search(r"merge_?sort", name))


@fact("the kernel exchanges data between GPUs (recognised by its name)", is_by_name=True)
def library_communication(inputs: FactInputs) -> Answer:
    return inputs.library in _COMMUNICATION


@fact("the kernel initialises states of cuRAND (recognised by its name)", is_by_name=True)
def initialises_curand(inputs: FactInputs) -> Answer:
    """Shown by its name, as in cuRAND's examples: `init_curand`, `setup_curand_states`."""
    name = inputs.launch.name.function.lower()
    return "curand" in name and bool(re.search(r"init|setup|seed", name))


@fact("the kernel is written in Triton", is_by_name=True)
def triton(inputs: FactInputs) -> Answer:
    """Compiled from a Python file that mentions Triton, or by TorchInductor."""
    name = inputs.launch.name
    if name.function.startswith("triton_"):
        return True
    if name.mangled.startswith("_Z"):  # C++: no need to search the files
        return False
    python = [file for file in inputs.files if file.endswith(".py")]
    return any("triton" in inputs.text(file) for file in python)


@fact("the kernel was made from OpenACC or OpenMP code (recognised by its name)", is_by_name=True)
def openacc(inputs: FactInputs) -> Answer:
    """`function_279_gpu` of nvc++, `__nv_MAIN__F1L15_1_` of OpenMP."""
    return bool(re.search(r"_\d+_gpu$|^__?nv\w*_F\d+L\d+", inputs.launch.name.function))


@fact("the kernel was made from Kokkos code (recognised by its name)", is_by_name=True)
def kokkos(inputs: FactInputs) -> Answer:
    return "Kokkos::" in inputs.launch.name.full


def _looks_like(archetype: str, noun: str) -> Fact:
    return Fact(
        f"looks_like_{archetype}",
        f"the kernel looks like {noun} (judged by its name and instructions)",
        lambda inputs: inputs.archetype is not None and inputs.archetype.id == archetype,
        is_by_name=True,
    )


looks_like_gemm = _looks_like("gemm", "a matrix product")
looks_like_convolution = _looks_like("convolution", "a convolution")
looks_like_stencil = _looks_like("stencil", "a stencil")
looks_like_reduction = _looks_like("reduction", "a reduction")
looks_like_scan = _looks_like("scan", "a prefix sum")
looks_like_histogram = _looks_like("histogram", "a histogram")
looks_like_sparse = _looks_like("sparse", "a product with a sparse matrix")
looks_like_sort = _looks_like("sort", "a pass of a sort")
looks_like_elementwise = _looks_like("elementwise", "an elementwise operation")


@fact(
    "the GPU copies from global to shared memory asynchronously (Ampere and later)",
    metrics=("device_cc_major",),
    is_by_name=True,
)
def has_async_copy(inputs: FactInputs) -> Answer:
    return inputs.capability >= (8, 0) if inputs.capability else None


@fact(
    "the GPU has the Tensor Memory Accelerator (Hopper and later)",
    metrics=("device_cc_major",),
    is_by_name=True,
)
def has_tma(inputs: FactInputs) -> Answer:
    return inputs.capability >= (9, 0) if inputs.capability else None


@fact(
    "the GPU has warpgroup matrix instructions (Hopper)",
    metrics=("device_cc_major",),
    is_by_name=True,
)
def has_wgmma(inputs: FactInputs) -> Answer:
    """Only Hopper: later GPUs have other instructions."""
    return inputs.capability == (9, 0) if inputs.capability else None


@fact(
    "the GPU has tcgen05 matrix instructions (data-centre Blackwell)",
    metrics=("device_cc_major",),
    is_by_name=True,
)
def has_tcgen05(inputs: FactInputs) -> Answer:
    """Data-centre Blackwell; GPUs of compute capability 12 have only mma.sync."""
    return inputs.capability[0] == 10 if inputs.capability else None


@fact(
    "the tensor cores compute in double precision (data-centre GPUs since Ampere)",
    metrics=("device_cc_major",),
    is_by_name=True,
)
def has_double_tensor_cores(inputs: FactInputs) -> Answer:
    return inputs.capability in ((8, 0), (9, 0), (10, 0)) if inputs.capability else None


@fact(
    "the GPU's double-precision rate is a small part of its single-precision rate",
    metrics=("device_fp32_fp64_ratio",),
    is_by_name=True,
)
def slow_double(inputs: FactInputs) -> Answer:
    return more_than(inputs.value("device_fp32_fp64_ratio"), FULL_DOUBLE)
