"""Which library a kernel belongs to, by its name.

Users can't change the code of such a kernel, only how it is called. Two kinds of kernels are the
user's code: those that a compiler generates from it (Triton, TorchInductor, OpenACC, XLA), and
templates of Thrust, CUB, Kokkos or RAJA that run the user's function.

Among the template arguments of a library's kernel, functions of the user are told from data:
`DeviceMergeSortMergeKernel<device_ptr<Body>, long, ByMass, Body>` runs the function `ByMass`.
`Body` is data: a type that an array has is not taken for a function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keet.profile import Launch

_TOOLKIT = re.compile(
    r"[/\\](?:cuda[^/\\]*|CUDA[/\\]v[\d.]+|targets[/\\][\w-]+)[/\\]include[/\\]", re.IGNORECASE
)
_NAMESPACES = {
    "cub": "CUB",
    "thrust": "Thrust",
    "cutlass": "CUTLASS",
    "cublas": "cuBLAS",
    "cublasLt": "cuBLAS",
    "cublasXt": "cuBLAS",
    "cudnn": "cuDNN",
    "cudnn_infer": "cuDNN",
    "cufft": "cuFFT",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "curand": "cuRAND",
    "nvshmem": "NVSHMEM",
    "flash": "FlashAttention",
    "pytorch_flash": "FlashAttention",
    "nvinfer1": "TensorRT",
    "tensorrt_llm": "TensorRT-LLM",
    "transformer_engine": "Transformer Engine",
    "flashinfer": "FlashInfer",
    "vllm": "vLLM",
    "fastertransformer": "FasterTransformer",
    "cudf": "RAPIDS cuDF",
    "raft": "RAPIDS RAFT",
    "cuvs": "RAPIDS cuVS",
    "cuml": "RAPIDS cuML",
    "ML": "RAPIDS cuML",
    "cugraph": "RAPIDS cuGraph",
    "faiss": "Faiss",
    "dali": "DALI",
    "npp": "NPP",
    "arrayfire": "ArrayFire",
    "mgpu": "ModernGPU",
    "magma": "MAGMA",
    "Kokkos": "Kokkos",
    "RAJA": "RAJA",
}
"""By the first namespace of the kernel."""
_NESTED = {
    ("at", "native"): "PyTorch ATen",
    ("at", "cuda"): "PyTorch ATen",
    ("at_cuda_detail", "cub"): "CUB",
    ("cv", "cuda"): "OpenCV",
    ("cv", "cudev"): "OpenCV",
    ("Eigen", "internal"): "Eigen",
    ("tensorflow", "functor"): "TensorFlow",
}
"""By the first two namespaces, if the first one is not specific enough."""

OPENACC_RUNTIME = "NVIDIA's OpenACC runtime"
_GPU = r"(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d{2,3})"
_GEMM = rf"{_GPU}_\w*?(?:gemm|gemv)\w*_(?:[nt]{{2}}|[nt]{{2}}_\w+|[nt]{{3}}\w*|tilesize\w+)"
_PATTERNS = (
    ("fprop", rf"{_GPU}_(?:xmma_|\w*?_)?fprop\w*", "cuDNN"),
    ("grad", rf"{_GPU}_(?:xmma_|\w*?_)?(?:dgrad|wgrad)\w*", "cuDNN"),
    ("scudnn", rf"{_GPU}_\w*?scudnn\w*", "cuDNN"),
    ("cudnn_", rf"cudnn(?:_infer)?_(?:generated|{_GPU})_\w+", "cuDNN"),
    ("implicit_convolve_", r"implicit_convolve_[a-z]*gemm", "cuDNN"),
    ("gem", _GEMM, "cuBLAS"),
    ("xmma_gemm", rf"{_GPU}_xmma_gemm\w*", "cuBLAS"),
    ("nvjet_", r"nvjet_\w+", "cuBLAS"),
    ("splitk", r"splitkreduce_kernel", "cuBLAS"),
    ("gem", r"gemv2?[nt]_?kernel_val|gemvnsp_kernel|gemmsn_[nt]{2}_kernel\w*", "cuBLAS"),
    ("_fft", r"(?:regular|vector|composite_2way|multi_bluestein|real_complex)_fft\w*", "cuFFT"),
    ("csrmv_", r"csrmv_v\d\w*", "cuSPARSE"),
    ("nccl", r"nccl(?:dev)?kernel\w*", "NCCL"),
    ("gen", r"gen_sequenced|generate_seed_pseudo\w*", "cuRAND"),
    ("flash_", r"flash_(?:fwd|bwd)_\w*kernel", "FlashAttention"),
    ("fmha_cutlass", r"fmha_cutlass[fb]\w*", "PyTorch memory-efficient attention"),
    ("cutlass", r"cutlass_\d{2,3}_\w+|cutlass3x_sm\d+\w*", "CUTLASS"),
    ("cupy_", r"cupy_\w+", "CuPy"),
    ("eigenmetakernel", r"eigenmetakernel", "Eigen"),
    ("__pgi_", r"__pgi_(?:uacc|dev)_\w+", OPENACC_RUNTIME),
)
"""Full names of kernels, in lower case. GEMM kernels of cuBLAS name their GPU and the layouts of
both operands; a user's `sgemm_128x128x8_kernel` does not. A pattern is compiled only if its first
part occurs in the name: compiling all of them takes longer than reading a report."""

_CUTLASS_ARGUMENT = r"<\s*(?:cutlass_\d{2,3}_|cutlass3x_|cutlass::)"
_CUBLAS_ARGUMENT = r"[<(,]\s*cublas\w*Params"
_ATEN_ARGUMENT = r"\b(?:TensorIteratorBase|CUDAGeneratorImpl)\b"
"""ncu prints names without namespaces."""
_WRAPPERS = ("kernel", "kernel2", "device_kernel")
"""Entry points of CUTLASS: the algorithm is a template argument."""


_RUN_FUNCTIONS = ("Thrust", "CUB", "ModernGPU", "Kokkos", "RAJA")
"""Libraries whose kernels are templates that run functions of their users."""


def library_of(name: str) -> str | None:
    """The library's usual name; `None` for the user's own code, also where it runs in a library's
    template. `name`: as a report has it."""
    return None if users_function(name) else launched_by(name)


def library_of_launch(launch: Launch) -> str | None:
    """The same. Source lines also tell: a template that runs the user's function has lines of the
    user's files."""
    library = library_of(launch.name.full)
    if library not in _RUN_FUNCTIONS or not launch.has_lines:
        return library
    files = {file for file, _ in launch.locations.values()}
    return library if all(map(is_toolkit, files)) else None


def is_toolkit(path: str) -> bool:
    """Whether the file belongs to the toolkit or to a framework."""
    return _HEADERS.search(path.replace("\\", "/")) is not None


_HEADERS = re.compile(
    r"/cuda[^/]*/(.*/)?include/|/(site|dist)-packages/|^/usr/(local/)?(include|lib)"
    r"|/include/(cub|thrust|cuda|nv|cutlass|cute|Kokkos|RAJA)/|/triton/language/"
    r"|/(libcudacxx|cccl)/"
)


@lru_cache(maxsize=4096)
def users_function(name: str) -> str | None:
    """The user's function that a library's template runs: `AbsComparator`, or `a lambda`. `None`
    for kernels of users, and where the name does not show one."""
    if launched_by(name) not in _RUN_FUNCTIONS:
        return None
    namespaces = {*_NAMESPACES, *(first for first, _ in _NESTED)}
    if not name.startswith("_Z"):
        return next(_functions_in(name, namespaces), None)
    # Template arguments that are lambdas name the function or the first namespace that they are in:
    # `main` of `ParallelForIZ4mainEUlRKiE_`.
    lambdas = re.finditer(r"[IJ]Z(?:NK?)?(\d{1,3})(?=\w*?EUl)", name)
    around = (name[match.end() : match.end() + int(match[1])] for match in lambdas)
    return "a lambda" if any(first not in namespaces for first in around) else None


@lru_cache(maxsize=4096)
def launched_by(name: str) -> str | None:
    """The library that the kernel belongs to, whoever wrote the function that it runs."""
    path = _path(name)
    if not path:
        return None
    last = path[-1].lower()
    if by_namespace := _by_namespace(path):
        return by_namespace
    if last in _WRAPPERS and "cutlass" in name and re.search(_CUTLASS_ARGUMENT, name):
        return "CUTLASS"
    if re.search(_ATEN_ARGUMENT, name):
        return "PyTorch ATen"
    if "cublas" in name and re.search(_CUBLAS_ARGUMENT, name):
        return "cuBLAS"
    likely = ((form, library) for part, form, library in _PATTERNS if part in last)
    return next((library for form, library in likely if re.fullmatch(form, last)), None)


_FILLS_OR_DRAWS = (
    r"FillFunctor|fill_kernel|distribution_(?:elementwise|nullary)|uninitialized_fill|"
    r"cupy_(?:fill|random)|FillPhiloxRandom|gen_sequenced|generate_seed_pseudo|"
    r"__pgi_uacc_cuda_fill|__pgi_dev_cumemset"
)


def fills_or_draws(name: str) -> bool:
    """Whether it is a library's kernel that fills memory or draws random numbers."""
    return bool(re.search(_FILLS_OR_DRAWS, name)) and library_of(name) is not None


def _by_namespace(path: list[str]) -> str | None:
    """None for a function outside of namespaces: its own name decides."""
    if len(path) < 2:
        return None
    if path[0].startswith(("spRadix", "spRealRadix", "dpRadix", "dpRealRadix")):
        return "cuFFT"
    return _NESTED.get((path[0], path[1])) or _NAMESPACES.get(path[0])


def _path(name: str) -> list[str]:
    """`void at::native::(anonymous namespace)::copy<float>(…)`: `at`, `native`, `copy`."""
    if name.startswith("_Z"):
        return list(_mangled_path(name))
    head = "".join(_outside_brackets(name.strip()))
    head = head.replace("(anonymous namespace)", "").partition("(")[0].rstrip()
    # The return type is before the last blank.
    return [part for part in head.rpartition(" ")[2].split("::") if part]


def _outside_brackets(name: str) -> Iterator[str]:
    """The characters that are not within template arguments."""
    depth = 0
    for char in name:
        depth += (char == "<") - (char == ">")
        if depth <= 0 and char != ">":
            yield char


def _mangled_path(name: str) -> Iterator[str]:
    """`_ZN2at6native4copy…`: each part is preceded by its length."""
    rest = re.sub(r"^_ZN?K?", "", name)
    while match := re.match(r"(\d{1,4})", rest):
        end = match.end() + int(match[1])
        part = rest[match.end() : end]
        if not part.startswith("_GLOBAL__N"):
            yield part
        rest = rest[end:]
        if not name.startswith("_ZN"):
            return


def is_of_toolkit(file: str) -> bool:
    """Whether the source file is a header of the CUDA toolkit."""
    return _TOOLKIT.search(file) is not None


# --- template arguments

_HOLDS_DATA = (
    r"device_ptr|pointer|device_reference|tuple|pair|KeyValuePair|complex|View|[Aa]rray|vector"
    r"|normal_iterator|iterator_adaptor|counting_iterator(?:_t)?"
)
"""Templates whose arguments are types of data."""
_LAMBDA = r"[\[{]lambda|__nv_h?dl_wrapper_t"
_PLAIN = (
    r"(?:const|volatile|unsigned|signed|void|bool|char|short|int|long|float|double|auto|T\d*|__half2?"
    r"|__nv_\w+|half|u?int\d+_t|size_t|(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]"
    r"|[\s*&]|\.\.\.)*"
)
"""Types of the language, and ncu's names for parameters of templates."""
_NOT_OWN = frozenset(
    ("std", "cuda", "nv", "c10", "cooperative_groups", "__gnu_cxx", "nvcuda", "cute")
) | {"camp", "desul"}
"""Namespaces that are nobody's own, besides those of the libraries."""
_DEEPEST_TEMPLATE = 40
"""Levels of template arguments."""


def _functions_in(name: str, libraries: Collection[str]) -> Iterator[str]:
    """Names of functions of the user, in the order of the kernel's name. `libraries`: namespaces
    that are not the user's."""
    plain = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    arguments = list(_arguments(plain, is_data=False, depth=0))
    data = {_head(text) for text, is_data in arguments if is_data}
    for text, is_data in arguments:
        head = _head(text)
        if is_data or _is_foreign(text, head, libraries):
            continue
        if re.search(_LAMBDA, head if "<" in text else text):
            yield "a lambda"
        elif "(*" in head:
            yield "a function"
        elif head not in data:
            yield head.rpartition("::")[2]


def _is_foreign(text: str, head: str, libraries: Collection[str]) -> bool:
    """Numbers, types of the language, and what is in a library's namespace. A lambda is in the
    namespace of its function."""
    if text.startswith(("(", "&")) or text[-1:] in ("*", "&") or re.fullmatch(_PLAIN, head):
        return True
    first = head.partition("::")[0].partition("(")[0]
    return first in libraries or first in _NOT_OWN or not first[:1].isidentifier()


def _head(text: str) -> str:
    """The name without template arguments, `const` and `*`; a lambda's is whole."""
    head = text.partition("<")[0]
    return text if re.search(_LAMBDA, head) else head.strip(" *&").removeprefix("const ")


def _arguments(text: str, *, is_data: bool, depth: int) -> Iterator[tuple[str, bool]]:
    """Those of the outermost template and of all templates in them, and whether each is data."""
    start = text.find("<")
    if start < 0 or depth > _DEEPEST_TEMPLATE:
        return
    holds = is_data or bool(re.fullmatch(_HOLDS_DATA, text[:start].rpartition("::")[2].strip()))
    for part in _split(text[start + 1 :]):
        yield part, holds or part.endswith("*")
        yield from _arguments(part, is_data=holds or part.endswith("*"), depth=depth + 1)


def _split(text: str) -> Iterator[str]:
    """The arguments up to the bracket that closes the list."""
    depth = start = 0
    for index, char in enumerate(text):
        if char in "<([{":
            depth += 1
        elif char == ">" and depth == 0:
            yield text[start:index].strip()
            return
        elif char in ">)]}":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
