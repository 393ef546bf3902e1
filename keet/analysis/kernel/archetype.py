"""Guesses the kind of algorithm from a kernel's name and instructions.

The guess only selects words, never a cause. If the report has both, name and instructions must
agree: a kernel called `count` is a histogram only if it executes atomics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from keet.analysis.parameters import Parameter
from keet.profile import Launch

Opcodes = Mapping[str, float]
"""Executed warp instructions by opcode; empty if the report has none."""


def _share(*names: str) -> Callable[[Opcodes], float]:
    def share(opcodes: Opcodes) -> float:
        return sum(opcodes.get(name, 0.0) for name in names) / (sum(opcodes.values()) or 1.0)

    return share


_products = _share("FFMA", "FFMA2", "FMUL", "DFMA", "DMUL", "HFMA2", "HMUL2", "IDP", "IDP4A")
_tensor = _share(
    *("HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA"),
    *("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"),
)
_atomic = _share("RED", "REDG", "ATOM", "ATOMG", "ATOMS")
_exchange = _share("SHFL", "BAR", "RED", "REDG", "ATOM", "ATOMG", "ATOMS", "REDUX", "SYNCS")
_compare = _share("ISETP", "FSETP", "DSETP", "IMNMX", "VIMNMX", "FMNMX", "SEL", "FSEL", "VOTE")
_exponent = _share("MUFU")
_loads = _share("LDG", "LD", "LDGSTS", "LDS", "UTMALDG")


MULTIPLYING = Parameter(0.02, "least share of multiplications in a product", "judgement")


def _multiplies(opcodes: Opcodes) -> bool:
    return _tensor(opcodes) > 0 or _products(opcodes) >= MULTIPLYING


class _Kind(NamedTuple):
    archetype: str
    words: tuple[str, ...]
    """Parts of names; `_` stands for the end of a word."""
    test: Callable[[Opcodes], bool]


_KINDS = (
    _Kind(
        "attention",
        ("attention", "attn", "fmha", "sdpa", "flash_fwd", "flash_bwd"),
        lambda ops: _multiplies(ops) and _exponent(ops) > 0,
    ),
    _Kind(
        "sparse",
        ("spmv", "spmm", "csr", "ellpack", "_ell_", "sparse", "bsr"),
        lambda ops: _loads(ops) > 0,
    ),
    _Kind(
        "gemm",
        (
            *("gemm", "gemv", "matmul", "mat_mul", "matrixmult", "matrix_mult", "wmma"),
            *("_mm_", "_linear_", "_dense_"),
        ),
        _multiplies,
    ),
    _Kind(
        "convolution",
        ("conv_", "conv1", "conv2", "conv3", "convol", "fprop", "dgrad", "wgrad"),
        _multiplies,
    ),
    _Kind(
        "sort",
        ("sort", "radix", "bitonic", "merge"),
        lambda ops: _compare(ops) > 0,
    ),
    _Kind(
        "scan",
        ("scan", "prefix", "cumsum"),
        lambda ops: _exchange(ops) > 0,
    ),
    _Kind(
        "histogram",
        ("hist", "bincount", "count", "tally"),
        lambda ops: _atomic(ops) > 0,
    ),
    _Kind(
        "normalisation",
        (
            *("softmax", "layernorm", "layer_norm", "rmsnorm", "rms_norm", "batchnorm"),
            *("batch_norm", "normalise", "normalize"),
        ),
        lambda ops: _exponent(ops) > 0,
    ),
    _Kind(
        "reduction",
        ("reduc", "_sum_", "dot_", "norm", "total", "argmax", "argmin"),
        lambda ops: _exchange(ops) > 0,
    ),
    _Kind(
        "stencil",
        (
            *("stencil", "jacobi", "laplac", "heat", "diffus", "smooth", "blur", "relax"),
            *("tendenc", "advect"),
        ),
        lambda ops: _loads(ops) > 0,
    ),
    _Kind(
        "transpose",
        ("transpos", "permute", "flip"),
        lambda ops: _loads(ops) > 0,
    ),
    _Kind(
        "gather",
        ("gather", "lookup", "embedding", "index_select"),
        lambda ops: _loads(ops) > 0,
    ),
)
"""Kinds in order: the first whose name and instructions fit. Without instructions, the name
decides."""

_NOT_ELEMENTWISE = ("LDS", "STS", "BAR", "SHFL", "RED", "REDG", "ATOM", "ATOMG", "ATOMS", "LDSM")
ELEMENTWISE_LENGTH = Parameter(
    200.0, "most instructions per warp of an elementwise kernel", "judgement"
)


def archetype_of(launch: Launch, opcodes: Opcodes) -> str | None:
    """`None` if neither the name nor the instructions suggest a kind."""
    name = _words(launch.name.function or launch.name.full)
    for kind in _KINDS:
        if any(word in name for word in kind.words) and (not opcodes or kind.test(opcodes)):
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
    warps = grid[0] * grid[1] * grid[2] * -(-block[0] * block[1] * block[2] // 32)
    return warps > 0 and sum(opcodes.values()) / warps <= ELEMENTWISE_LENGTH
