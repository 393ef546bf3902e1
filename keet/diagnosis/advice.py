"""Chooses the remedy for a finding, with the evidence for the choice, in the language of the
kernel.

Remedies are written in the terms of CUDA C++. For a kernel in another language, terms that it does
not have are replaced: by its own where keet knows one, else by plain words. What is in parentheses
(`(float4)`, `(__shfl_down_sync)`) is an example, and left out if there is none for the language.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from keet.analysis.archetype import Language, language_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.library import launched_by
from keet.analysis.remedy_conditions.fact import Fact
from keet.diagnosis.finding import HERE, Advice, Because, Finding
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import findings

_MAX_PLACES = 3


def advice_for(finding: Finding, view: LaunchView) -> Advice:
    """The first remedy whose needed facts are all true, and whose excluding facts are not. The
    finding must already have its places."""
    chosen, text = next(
        (condition, text)
        for condition, text in findings()[finding.id].remedies.items()
        if all(fact.answer(view, finding) for fact in condition.needs)
        and not any(fact.answer(view, finding) for fact in condition.excludes)
    )
    library = launched_by(view.launch.name.full) or "the library"
    because = [_because(view, finding, fact, library) for fact in chosen.needs]
    if not because:
        words = "the finding itself: nothing in the report selects a more specific remedy"
        because = [Because("general", Sentence(words), finding.evidence, finding.locations)]
    here = HERE if finding.locations else _at_address(view, finding, chosen.needs)
    advice = in_language(Sentence(text, here=here, library=library), language_of(view.launch))
    return Advice(advice, tuple(because), chosen.name)


def _at_address(view: LaunchView, finding: Finding, facts: Sequence[Fact]) -> str:
    """` (RED at instruction offset 0x0a90)`: the first instruction that shows a fact, in code
    without source lines."""
    answers = (fact.answer(view, finding) for fact in facts)
    first = next((answer[0] for answer in answers if isinstance(answer, Sequence)), None)
    if view.code is None or first is None or view.launch.locate([first]):
        return ""
    code = view.code.program.code
    opcode = next((instruction.opcode for instruction in code if instruction.address == first), "")
    return f" ({opcode} at instruction offset 0x{first - code[0].address:04x})"


def _because(view: LaunchView, finding: Finding, fact: Fact, library: str) -> Because:
    answer = fact.answer(view, finding)
    places = _places(view, answer) if isinstance(answer, Sequence) else ()
    measured = filter(None, map(view.get, fact.metrics))
    evidence = (*fact.evidence(view, finding), *measured, *_executed(view, fact.opcodes))
    if not evidence and not places and not fact.is_by_name:
        evidence, places = finding.evidence, finding.locations[:1]
    return Because(fact.id, Sentence(fact.words, library=library), evidence, places)


def _executed(view: LaunchView, opcodes: Collection[str]) -> Iterator[Evidence]:
    """Executed warp instructions by opcode, if any."""
    source = view.get("inst_by_opcode") if opcodes and view.opcodes else None
    for opcode in sorted(opcodes):
        count = view.count(opcode)
        if source is not None and count and math.isfinite(count):
            label = f"executed {opcode} instructions"
            yield view.derived(f"executed_{opcode}", int(count), label, source, unit="inst")


def _places(view: LaunchView, addresses: Sequence[int]) -> tuple[Place, ...]:
    """Source lines of the instructions that show a fact, by number of instructions."""
    located = view.launch.locate(addresses)
    lines = Counter(located[address] for address in addresses if address in located)
    return tuple(
        Place(*line, count / len(addresses), "these instructions")
        for line, count in lines.most_common(_MAX_PLACES)
    )


class _Term(NamedTuple):
    cpp: str
    """Words of a remedy."""
    plain: str
    own: Mapping[Language, str] = {}
    """Instead of `plain`, for languages that have a name for it."""


_TERMS = (
    # Registers and the compiler.
    _Term(
        "launch bounds (or maxnreg) that allow more registers",
        "a higher limit of registers per thread",
        {"Numba": "a higher max_registers of cuda.jit", "Julia": "a higher maxregs of @cuda"},
    ),
    _Term("Other launch bounds do not help.", "A higher limit of registers does not help."),
    *(
        _Term(
            f"set launch bounds (__launch_bounds__{rest})",
            "limit the registers per thread",
            {
                "Numba": "limit the registers per thread (max_registers of cuda.jit)",
                "Julia": "limit the registers per thread (maxregs of @cuda)",
            },
        )
        for rest in ("", " with the blocks per SM")
    ),
    _Term(
        ", and mark pointers __restrict__ so that the compiler may do it",
        "",
        {"Julia": ", and wrap arrays that are only read in CUDA.Const"},
    ),
    _Term(" (templates, powers of two)", " (constants, powers of two)"),
    _Term(" (__noinline__)", "", {"Julia": " (@noinline)"}),
    _Term(" (__fdividef, -ftz=true)", "", {"Numba": " (fastmath=True)", "Julia": " (@fastmath)"}),
    _Term(
        ": cudaFuncSetAttribute with cudaFuncAttributePreferredSharedMemoryCarveout",
        " (the preferred carve-out)",
    ),
    # Precision.
    _Term(
        "Call the float version of functions (sqrtf, expf, powf), divide floats, and write "
        "constants with an f",
        "Keep constants, quotients and arguments of functions in single precision",
        {
            "Numba": "Write constants as np.float32, and pass float32 values to functions",
            "Julia": "Write constants as Float32 (with f0), and pass Float32 values to functions",
        },
    ),
    _Term(
        "Write constants with an f, call the float version of functions, and keep values in float",
        "Keep constants, arguments of functions and values in single precision",
        {
            "Numba": "Write constants as np.float32, and keep arrays and values in float32",
            "Julia": "Write constants as Float32 (with f0), and keep arrays and values in Float32",
        },
    ),
    _Term(
        "write constants with an f, and keep",
        "write constants in single precision, and keep",
        {
            "Numba": "write constants as np.float32, and keep",
            "Julia": "write constants as Float32 (with f0), and keep",
        },
    ),
    _Term(
        "constants without an f, and functions such as pow and sqrt instead of powf and sqrtf",
        "constants, and arguments of functions, in double precision",
    ),
    _Term("Use half2 or bfloat162 arithmetic", "Use half-precision arithmetic"),
    _Term("packed half2 arithmetic", "half-precision arithmetic"),
    _Term("use half2 for two values at a time, and the", "use the"),
    _Term("use rsqrtf", "use the reciprocal root"),
    _Term(
        "use sqrtf, rsqrtf or cbrtf for fractions, or exp2f(y * log2f(x))",
        "use square and cube roots for fractions, or exp2(y * log2(x))",
    ),
    # Wide accesses.
    _Term("as one aligned vector, such as float4 or uint4", "with wide, aligned accesses"),
    _Term("as one aligned vector (float4, uint4)", "with wide, aligned accesses"),
    _Term("one aligned vector access, such as uint4 or float4,", "wide, aligned accesses"),
    _Term("use an aligned vector type such as uint4 or float4", "use wide, aligned accesses"),
    # Asynchronous copies.
    _Term("copy the next one with cp.async while", "load the next one while"),
    _Term(
        "Copy tiles into shared memory asynchronously, in two or more stages",
        "Load tiles ahead, in two or more stages",
    ),
    *(
        _Term(
            f": {copies}, so that the next tile arrives while the current one is used",
            ": load the next tile into registers while the current one is used",
        )
        for copies in ("TMA (cp.async.bulk.tensor) or cp.async", "cp.async (cuda::memcpy_async)")
    ),
    _Term("(prefetch into registers, or cp.async in several stages)", "(prefetch into registers)"),
    # Tensor cores.
    *(
        _Term(
            f"Use the tensor cores ({names}mma.sync, or a library)",
            "Use a library that runs on the tensor cores (cuBLAS)",
            {"Julia": "Use the tensor cores (CUDA.WMMA, or cuBLAS)"},
        )
        for names in ("", "wgmma, ", "tcgen05.mma, ")
    ),
    _Term(" (mma.sync for f64, or cuBLAS)", " (cuBLAS)"),
    # Warps, blocks and atomics.
    _Term(
        "replace __syncthreads by __syncwarp",
        "replace the barrier of the block by one of the warp",
        {
            "Numba": "replace cuda.syncthreads by cuda.syncwarp",
            "Julia": "replace sync_threads by sync_warp",
        },
    ),
    _Term(", or use cub::BlockScan", ""),
    _Term(", or use cub::BlockReduce", ""),
    *(
        _Term(
            f" (__{name}_sync)", "", {"Numba": f" (cuda.{name}_sync)", "Julia": f" ({name}_sync)"}
        )
        for name in ("shfl_down", "shfl_up", "shfl_xor")
    ),
    _Term(" (__match_any_sync)", "", {"Numba": " (cuda.match_any_sync)"}),
    _Term(
        " (__syncthreads_or, a reduction)",
        " (a reduction)",
        {
            "Numba": " (cuda.syncthreads_or, a reduction)",
            "Julia": " (sync_threads_or, a reduction)",
        },
    ),
    _Term(" (atomicAdd)", "", {"Numba": " (cuda.atomic.add)", "Julia": " (CUDA.@atomic)"}),
    _Term(
        " (cuda::thread_scope_block, or _device instead of _system)",
        "",
        {
            "Numba": " (cuda.threadfence_block, or cuda.threadfence)",
            "Julia": " (threadfence_block, or threadfence)",
        },
    ),
    _Term("use __constant__ only", "use constant memory only", {"Numba": "use cuda.const only"}),
    # Copies.
    _Term("(cudaMemcpyAsync into pinned memory, ", "(into pinned memory, "),
    _Term(
        "(cudaMemcpyAsync from pinned memory, or cudaMemPrefetchAsync for managed memory)",
        "(from pinned memory)",
    ),
)

CPP = re.compile(
    r"\b__\w+|\bcuda::|\bcub::|\bcp\.async|\b(?:float|uint)4\b|\b(?:half|bfloat16)2\b|#pragma|\bmma\."
    r"|\bcuda(?:Mem|Func)\w+|\batomic[A-Z]\w+|cooperative_groups|\b(?:sqrt|exp|pow|rsqrt)f\b|\bTMA\b"
    r"|wgmma|tcgen05|with an f\b|without an f\b"
)
"""Terms of CUDA C++."""
_IN_PARENTHESES = re.compile(r" \(([^()]*)\)")


def in_language(advice: Sentence, language: Language) -> Sentence:
    """The advice for a kernel in this language. Triton has remedies of its own, and the rest of
    them are general."""
    if language == "CUDA C++":
        return advice
    return Sentence.of(
        part if not isinstance(part, str) else _translated(part, language) for part in advice.parts
    )


def _translated(text: str, language: Language) -> str:
    """Parentheses that still have terms of CUDA C++ are dropped."""
    for term in _TERMS:
        text = text.replace(term.cpp, term.own.get(language, term.plain))
    return _IN_PARENTHESES.sub(lambda match: "" if CPP.search(match[1]) else match[0], text)
