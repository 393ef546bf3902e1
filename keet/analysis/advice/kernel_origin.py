"""Facts about whose code a kernel is, what it looks like, and what its GPU has."""

from __future__ import annotations

import re

from keet.analysis.advice.fact_inputs import Known
from keet.analysis.advice.fact_tests import TESTS, Answer, Test, fact, more_than
from keet.analysis.advice.thresholds import FULL_DOUBLE
from keet.analysis.kernel.archetype import ARCHETYPES

_PRODUCTS = ("cuBLAS", "CUTLASS", "cuDNN")
_COMMUNICATION = ("NCCL", "NVSHMEM")
_SORTS = ("CUB", "Thrust")


@fact
def library(known: Known) -> Answer:
    return known.library is not None


@fact
def library_product(known: Known) -> Answer:
    return known.library in _PRODUCTS


@fact
def library_elementwise(known: Known) -> Answer:
    return known.library in ("PyTorch ATen", "CuPy", "Eigen", "TensorFlow")


@fact
def library_merge_sort(known: Known) -> Answer:
    name = known.launch.name.full.lower()
    return known.library in _SORTS and bool(re.search(r"merge_?sort", name))


@fact
def library_communication(known: Known) -> Answer:
    return known.library in _COMMUNICATION


@fact
def initialises_curand(known: Known) -> Answer:
    """By its name, as in cuRAND's examples: `init_curand`, `setup_curand_states`."""
    name = known.launch.name.function.lower()
    return "curand" in name and bool(re.search(r"init|setup|seed", name))


@fact
def triton(known: Known) -> Answer:
    """Compiled from a Python file that names Triton, or by TorchInductor."""
    name = known.launch.name
    if name.function.startswith("triton_"):
        return True
    if name.mangled.startswith("_Z"):  # of C++: no need to look through the files
        return False
    python = [file for file in known.files if file.endswith(".py")]
    return any("triton" in known.text(file) for file in python)


@fact
def openacc(known: Known) -> Answer:
    """`function_279_gpu` of nvc++, `__nv_MAIN__F1L15_1_` of OpenMP."""
    return bool(re.search(r"_\d+_gpu$|^__?nv\w*_F\d+L\d+", known.launch.name.function))


@fact
def kokkos(known: Known) -> Answer:
    return "Kokkos::" in known.launch.name.full


def _looks_like(archetype: str) -> Test:
    def test(known: Known) -> Answer:
        return known.archetype is not None and known.archetype.id == archetype

    return test


for _archetype in ARCHETYPES:
    TESTS[f"looks_like_{_archetype}"] = _looks_like(_archetype)


@fact
def has_async_copy(known: Known) -> Answer:
    return known.capability >= (8, 0) if known.capability else None


@fact
def has_tma(known: Known) -> Answer:
    return known.capability >= (9, 0) if known.capability else None


@fact
def has_wgmma(known: Known) -> Answer:
    """Hopper alone: later GPUs have other instructions."""
    return known.capability == (9, 0) if known.capability else None


@fact
def has_tcgen05(known: Known) -> Answer:
    """Data-centre Blackwell; GPUs of compute capability 12 have mma.sync alone."""
    return known.capability[0] == 10 if known.capability else None


@fact
def has_double_tensor_cores(known: Known) -> Answer:
    return known.capability in ((8, 0), (9, 0), (10, 0)) if known.capability else None


@fact
def slow_double(known: Known) -> Answer:
    return more_than(known.value("device_fp32_fp64_ratio"), FULL_DOUBLE)
