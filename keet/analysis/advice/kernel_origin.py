"""Facts about the kernel's origin and the GPU's features: yes/no tests that `remedy_choice` asks.

Origin: library, framework, kind of algorithm.
"""

from __future__ import annotations

import re

from keet.analysis.advice.fact_inputs import FactInputs
from keet.analysis.advice.fact_tests import TESTS, Answer, Test, fact, more_than
from keet.analysis.advice.thresholds import FULL_DOUBLE
from keet.analysis.kernel.archetype import ARCHETYPES

_PRODUCTS = ("cuBLAS", "CUTLASS", "cuDNN")
_COMMUNICATION = ("NCCL", "NVSHMEM")
_SORTS = ("CUB", "Thrust")


@fact
def library(inputs: FactInputs) -> Answer:
    return inputs.library is not None


@fact
def library_product(inputs: FactInputs) -> Answer:
    return inputs.library in _PRODUCTS


@fact
def library_elementwise(inputs: FactInputs) -> Answer:
    return inputs.library in ("PyTorch ATen", "CuPy", "Eigen", "TensorFlow")


@fact
def library_merge_sort(inputs: FactInputs) -> Answer:
    name = inputs.launch.name.full.lower()
    return inputs.library in _SORTS and bool(re.search(r"merge_?sort", name))


@fact
def library_communication(inputs: FactInputs) -> Answer:
    return inputs.library in _COMMUNICATION


@fact
def initialises_curand(inputs: FactInputs) -> Answer:
    """Shown by its name, as in cuRAND's examples: `init_curand`, `setup_curand_states`."""
    name = inputs.launch.name.function.lower()
    return "curand" in name and bool(re.search(r"init|setup|seed", name))


@fact
def triton(inputs: FactInputs) -> Answer:
    """Compiled from a Python file that mentions Triton, or by TorchInductor."""
    name = inputs.launch.name
    if name.function.startswith("triton_"):
        return True
    if name.mangled.startswith("_Z"):  # C++: no need to search the files
        return False
    python = [file for file in inputs.files if file.endswith(".py")]
    return any("triton" in inputs.text(file) for file in python)


@fact
def openacc(inputs: FactInputs) -> Answer:
    """`function_279_gpu` of nvc++, `__nv_MAIN__F1L15_1_` of OpenMP."""
    return bool(re.search(r"_\d+_gpu$|^__?nv\w*_F\d+L\d+", inputs.launch.name.function))


@fact
def kokkos(inputs: FactInputs) -> Answer:
    return "Kokkos::" in inputs.launch.name.full


def _looks_like(archetype: str) -> Test:
    def test(inputs: FactInputs) -> Answer:
        return inputs.archetype is not None and inputs.archetype.id == archetype

    return test


for _archetype in ARCHETYPES:
    TESTS[f"looks_like_{_archetype}"] = _looks_like(_archetype)


@fact
def has_async_copy(inputs: FactInputs) -> Answer:
    return inputs.capability >= (8, 0) if inputs.capability else None


@fact
def has_tma(inputs: FactInputs) -> Answer:
    return inputs.capability >= (9, 0) if inputs.capability else None


@fact
def has_wgmma(inputs: FactInputs) -> Answer:
    """Only Hopper: later GPUs have other instructions."""
    return inputs.capability == (9, 0) if inputs.capability else None


@fact
def has_tcgen05(inputs: FactInputs) -> Answer:
    """Data-centre Blackwell; GPUs of compute capability 12 have only mma.sync."""
    return inputs.capability[0] == 10 if inputs.capability else None


@fact
def has_double_tensor_cores(inputs: FactInputs) -> Answer:
    return inputs.capability in ((8, 0), (9, 0), (10, 0)) if inputs.capability else None


@fact
def slow_double(inputs: FactInputs) -> Answer:
    return more_than(inputs.value("device_fp32_fp64_ratio"), FULL_DOUBLE)
