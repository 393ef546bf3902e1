"""What kind of code a launch runs, besides libraries: its algorithm, its language, a debug build,
and the setup of random generators.

The guess of the algorithm only selects words, never a cause. If the report has both, name and
instructions must agree: a kernel called `count` is a histogram only if it executes atomics.

`curand_init` with a sequence number skips ahead in one sequence: each thread multiplies its state
by a matrix per digit of the number, which takes far longer than the random numbers themselves.

Without machine code, opcodes show what the executed instructions are for, as far as they can.

Device malloc and free, printf and assert are routines of the driver that a kernel calls. Their
instructions are not in the kernel's machine code, but warps are sampled in them: that is how much
of a launch is outside of the kernel's own code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.analysis.hotspots.source_lines import LEAST_SAMPLES
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.library import is_of_toolkit
from keet.analysis.machine_code.instructions.opcodes import (
    ATOMICS,
    FLOAT_PRODUCTS,
    GLOBAL_READS,
    SHARED,
    SHARED_LOADS,
    TENSOR,
    Role,
    role_of,
)
from keet.analysis.parallelism.inactive_threads import WARP
from keet.analysis.parameters import NOTABLE_PART, Parameter
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.profile import Launch
from keet.profile.launch import file_name

Opcodes = Mapping[str, float]
"""Executed warp instructions by opcode; empty if the report has none."""


def _share(opcodes: Opcodes, *names: str) -> float:
    return sum(opcodes.get(name, 0.0) for name in names) / (sum(opcodes.values()) or 1.0)


def _executes(*names: str) -> Callable[[Opcodes], bool]:
    return lambda opcodes: _share(opcodes, *names) > 0


_exchanges = _executes(*ATOMICS, "SHFL", "BAR", "REDUX", "SYNCS")
_compares = _executes("ISETP", "FSETP", "DSETP", "IMNMX", "VIMNMX", "FMNMX", "SEL", "FSEL", "VOTE")
_has_functions = _executes("MUFU")
_loads = _executes(*GLOBAL_READS, *SHARED_LOADS)


MULTIPLYING = Parameter(0.02, "least share of multiplications in a product", "judgement")
_PRODUCTS = (*FLOAT_PRODUCTS, "IDP", "IDP4A")  # IMAD mostly computes addresses


def _multiplies(opcodes: Opcodes) -> bool:
    return _share(opcodes, *TENSOR) > 0 or _share(opcodes, *_PRODUCTS) >= MULTIPLYING


class _Kind(NamedTuple):
    archetype: str
    words: str
    """Parts of names; `_` stands for the end of a word."""
    test: Callable[[Opcodes], bool]


_KINDS = (
    _Kind(
        "attention",
        "attention attn fmha sdpa flash_fwd flash_bwd",
        lambda opcodes: _multiplies(opcodes) and _has_functions(opcodes),
    ),
    _Kind("sparse", "spmv spmm csr ellpack _ell_ sparse bsr", _loads),
    _Kind(
        "gemm",
        "gemm gemv matmul mat_mul matrixmult matrix_mult wmma _mm_ _linear_ _dense_",
        _multiplies,
    ),
    _Kind("convolution", "conv_ conv1 conv2 conv3 convol fprop dgrad wgrad", _multiplies),
    _Kind("sort", "sort radix bitonic merge", _compares),
    _Kind("scan", "scan prefix cumsum", _exchanges),
    _Kind("histogram", "hist bincount count tally", _executes(*ATOMICS)),
    _Kind(
        "normalisation",
        "softmax layernorm layer_norm rmsnorm rms_norm batchnorm batch_norm normalise normalize",
        _has_functions,
    ),
    _Kind("reduction", "reduc _sum_ dot_ norm total argmax argmin", _exchanges),
    _Kind(
        "stencil",
        "stencil jacobi laplac heat diffus smooth blur relax tendenc advect",
        _loads,
    ),
    _Kind("transpose", "transpos permute flip", _loads),
    _Kind("gather", "gather lookup embedding index_select", _loads),
)
"""Kinds in order: the first whose name and instructions fit. Without instructions, the name
decides."""

_NOT_ELEMENTWISE = SHARED | ATOMICS | {"BAR", "SHFL"}
ELEMENTWISE_LENGTH = Parameter(
    200.0, "most instructions per warp of an elementwise kernel", "judgement"
)


def archetype_of(launch: Launch, opcodes: Opcodes) -> str | None:
    """`None` if neither the name nor the instructions suggest a kind."""
    name = _words(launch.name.function or launch.name.full)
    for kind in _KINDS:
        if any(word in name for word in kind.words.split()) and (not opcodes or kind.test(opcodes)):
            return kind.archetype
    return "elementwise" if _is_elementwise(launch, opcodes) else None


@lru_cache(maxsize=256)
def _words(name: str) -> str:
    """`conv2dForward` becomes `_conv2d_forward_`, so that words have delimiters."""
    parts = "".join(f"_{char}" if char.isupper() else char for char in name[:400])
    return f"_{parts}_".lower()


def _is_elementwise(launch: Launch, opcodes: Opcodes) -> bool:
    grid, block = launch.grid, launch.block
    if not opcodes or grid is None or block is None:
        return False
    if any(opcodes.get(name) for name in _NOT_ELEMENTWISE) or not opcodes.get("STG"):
        return False
    warps = math.prod(grid) * math.ceil(math.prod(block) / WARP)
    return warps > 0 and sum(opcodes.values()) / warps <= ELEMENTWISE_LENGTH


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


FEWEST_OPCODES = Parameter(5, "fewest opcodes of a recognisable debug build", "judgement")
DEBUG_MOVES = Parameter(
    0.4, "share of moves in a debug build; 0.47 to 0.54 were seen, 0.15 elsewhere", "judgement"
)
DEBUG_MOVES_UNFUSED = Parameter(
    0.3, "the same without fused multiply-adds, or with tables for a debugger", "judgement"
)


@cached_per_view
def is_debug_build(view: LaunchView) -> bool:
    """Whether the code has many moves and no fused multiply-adds. Without counts of opcodes:
    whether it has tables for a debugger. With them, the counts decide: `-G -dopt=on` writes such
    tables for optimised code."""
    tables = view.launch.is_for_debugging
    if len(view.opcodes) < FEWEST_OPCODES:
        return tables
    moved, every = view.executed("MOV"), view.all_executed
    unfused = view.executed("FADD") > 0 and view.executed("FMUL") > 0
    fused = view.executed("FFMA") > 0
    least = DEBUG_MOVES_UNFUSED if tables or (unfused and not fused) else DEBUG_MOVES
    return moved >= least * every > 0


_HEADER = "curand_kernel.h"
MATRIX_LINES = Parameter(
    500,
    "line of curand_kernel.h before which are the matrices of skip-ahead (281 to 332 in CUDA 11.1, "
    "319 to 326 in 12), and behind which are the generators (from 745 and 871 on)",
    "judgement",
)


@cached_per_view
def _skipping(view: LaunchView) -> dict[int, int]:
    """Samples (executions without them) by instruction of the matrix products."""
    weight = view.table.weight
    located = view.launch.locate(list(weight))
    return {
        address: weight[address]
        for address, line in located.items()
        if line.line < MATRIX_LINES and file_name(line.file) == _HEADER
    }


def skipped_ahead(view: LaunchView) -> float:
    """Share of the samples (of the executed instructions without them) in the matrix products of
    `curand_init`, 0 to 1; 0 without source lines."""
    every = sum(view.table.weight.values())
    return sum(_skipping(view).values()) / every if every else 0.0


def skipped_ahead_share(view: LaunchView) -> Evidence | None:
    """The same as evidence; None if there is no such work."""
    part, source = skipped_ahead(view), view.get("samples_total") or view.get("inst_executed")
    if not part or source is None:
        return None
    of = "samples" if view.table.samples else "executed instructions"
    label = f"of the {of} are where curand_init skips ahead"
    return view.share("skipped_ahead", part, label, source)


def init_places(view: LaunchView) -> tuple[Place, ...]:
    """The program's own calls of `curand_init`, by the source text or by the callers of the
    header's code; else the header's lines."""
    calls = view.declared("curand_init", "calls of curand_init", r"\bcurand_init\s*\(")
    users_calls = tuple(place for place in calls if not is_of_toolkit(place.file))
    skipping = view.places_by("samples that skip ahead", _skipping(view))
    by_caller = sorted(skipping, key=lambda place: file_name(place.file) == _HEADER)
    return users_calls or tuple(by_caller)


PURPOSES = {
    "value": "arithmetic on data",
    "memory": "loads and stores",
    "address": "addresses and indices",
    "control": "conditions and loops",
    "conversion": "conversions",
    "move": "moves, shuffles and spills",
    "sync": "synchronisation",
    "unknown": "instructions that keet does not know",
}
_ROLES_OF_KIND = {
    "value": (Role.FLOAT, Role.TENSOR),
    "memory": (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY),
    "control": (Role.BRANCH, Role.CONVERGENCE, Role.PREDICATE, Role.NOTHING),
    "conversion": (Role.CONVERSION,),
    "move": (Role.MOVE, Role.SHUFFLE),
    "sync": (Role.SYNC,),
    "unknown": (Role.UNKNOWN,),
}
"""As in the machine code (analyses/purpose.py), which also shows what the others are for: integers,
constants and special registers."""


def opcode_mix(view: LaunchView) -> list[tuple[str, str, float]]:
    """Shares by purpose, used without machine code: integer arithmetic may have any purpose."""
    executed = {opcode: n for opcode, n in view.opcodes.items() if 0 < n < math.inf}
    every = sum(executed.values())
    counts = dict.fromkeys((*_ROLES_OF_KIND, "integer"), 0.0)
    for opcode, count in executed.items():
        counts[_kind(opcode)] += count
    labels = PURPOSES | {"integer": "integer arithmetic (values or addresses)"}
    rows = [(kind, labels[kind], count / every) for kind, count in counts.items() if count]
    return sorted(rows, key=lambda row: -row[2])


@lru_cache(maxsize=1024)
def _kind(opcode: str) -> str:
    role = role_of(opcode)
    return next((kind for kind, roles in _ROLES_OF_KIND.items() if role in roles), "integer")


_EVERY = ("smsp__inst_executed.sum", "sm__inst_executed.sum", "smsp__inst_executed_sum")
"""Counters of the SMs, which also count called routines."""


@cached_per_view
def called_part(view: LaunchView) -> float:
    """Share of the samples outside of the kernel's code, 0 to 1; 0 if the report does not show
    it."""
    samples = view.table.samples or {}
    every = sum(samples.values())
    if every < LEAST_SAMPLES or not runs_more(view) or view.code is None:
        return 0.0
    of_kernel = {instruction.address for instruction in view.code.program.code if instruction.text}
    inside = sum(count for address, count in samples.items() if address in of_kernel)
    return 1 - inside / every


def called_share(view: LaunchView) -> Evidence | None:
    """The same as evidence; None if there is no such code."""
    part = called_part(view)
    if not part:
        return None
    label = "of the samples are in routines outside of the kernel's code"
    return view.share("called_code", part, label)


def runs_more(view: LaunchView) -> bool:
    """Whether the SMs executed notably more instructions than the kernel's code has. Most kernels
    call nothing, so that their code need not be read."""
    in_kernel = view.value("inst_executed")
    counts = (view.launch.metric(name) for name in _EVERY)
    every = max((float(count.number or 0) for count in counts if count), default=0.0)
    return in_kernel is not None and in_kernel < (1 - NOTABLE_PART) * every
