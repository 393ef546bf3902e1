"""The language that a kernel is written in, by its name and its source files."""

from __future__ import annotations

import re
from typing import Literal

from keet.profile import Launch

Language = Literal["CUDA C++", "Numba", "Julia", "Triton", "Warp", "Taichi", "OpenACC", "Fortran"]

_NAMES: tuple[tuple[Language, re.Pattern[str]], ...] = (
    (
        "Numba",
        re.compile(r"\bcudapy::|_ZN6cudapy|\bArray<[^<>]*, (?:mutable|readonly), (?:un)?aligned>"),
    ),
    (
        "Julia",
        re.compile(r"^(?:_Z\d+)?(?:julia|ptxcall)_|\bCu(?:DeviceArray|KernelContext)\b|13CuDevice"),
    ),
    ("Triton", re.compile(r"^triton_")),
    ("Warp", re.compile(r"_cuda_kernel_(?:forward|backward)\b")),
    ("Taichi", re.compile(r"_c\d+_\d+(?:_kernel)?_\d+_(?:range_for|serial|struct_for|listgen)")),
    ("OpenACC", re.compile(r"_\d+_gpu$|^__?nv\w*_F\d+L\d+")),
)
"""What names of kernels have: `Array<float, 1, C, mutable, aligned>` of Numba, `function_279_gpu`
of nvc++, `__nv_MAIN__F1L15_1_` of OpenMP."""
_FILES: tuple[tuple[Language, tuple[str, ...]], ...] = (
    ("Julia", (".jl",)),
    ("Fortran", (".cuf", ".f90", ".f95", ".f03", ".f08", ".f", ".for")),
)


def language_of(launch: Launch) -> Language:
    """`CUDA C++` if nothing shows another one."""
    name = launch.name
    for language, pattern in _NAMES:
        if any(map(pattern.search, (name.function, name.demangled, name.mangled))):
            return language
    if name.mangled.startswith("_Z"):  # C++: no need to search the files
        return "CUDA C++"
    files = launch.source_files.items()
    if any(file.endswith(".py") and "triton" in (text or "") for file, text in files):
        return "Triton"
    for language, endings in _FILES:
        if any(file.lower().endswith(endings) for file, _ in files):
            return language
    return "CUDA C++"
