"""Checks a candidate's source, and refuses it for some content."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADERS = re.compile(
    r"cuda_runtime(_api)?\.h|cuda\.h|cuda_(fp16|bf16|fp8|fp6|fp4|pipeline|pipeline_primitives"
    r"|awbarrier|awbarrier_primitives)\.h(pp)?|cooperative_groups(/[\w/]+)?(\.h)?|mma\.h"
    r"|math_constants\.h|vector_(types|functions)\.h|device_launch_parameters\.h"
    r"|(cub|thrust|cuda)/[\w/.]+|nv/target"
    r"|c?(math|float|limits|stdint|stddef|string|assert|stdlib|stdio)(\.h)?"
    r"|algorithm|array|bit|deque|functional|initializer_list|iterator|limits|list|map|memory|mutex"
    r"|new|numeric|optional|queue|set|span|tuple|unordered_set|variant|type_traits|unordered_map|utility|vector|atomic|complex|string|stdexcept"
)
"""Headers that a candidate may include in addition to problem.h and the sample's own."""

FORBIDDEN = {
    "the harness": r"harness|problem_main",
    "the memory of the harness": r"__builtin_(frame|return)_address|_fileno|fileno|_IO_\w+"
    r"|_GLOBAL_OFFSET_TABLE_|_DYNAMIC|__(init|fini)_array_\w+|__bss_start|__data_start",
    "a program's entry": r"main(?=\s*\()|_start|_init|constructor|destructor|init_priority",
    "host timing": r"chrono|clock_gettime|gettimeofday|timespec|rdtsc\w*|cntvct\w*"
    r"|cudaEvent(ElapsedTime|Query|Synchronize)\w*",
    "files": r"fopen|freopen|fdopen|[io]?fstream|fread|fwrite|mmap|mmap64|filesystem|memfd_create",
    "processes": r"system(?=\s*\()|popen|v?fork(?=\s*\()|exec(v|l|vp|lp|ve|le|vpe)(?=\s*\()"
    r"|posix_spawnp?|ptrace|syscall|mprotect|process_vm_\w+|prctl",
    "the environment": r"getenv|setenv|putenv|environ|secure_getenv",
    "loading code": r"dlopen|dlsym|dlvsym|dl_iterate_phdr|cuGetProcAddress\w*|cuModule\w+"
    r"|cudaGetDriverEntryPoint\w*|cudaGetExportTable",
    "threads and signals": r"pthread_\w+|std\s*::\s*(thread|jthread|async)"
    r"|sigaction|setjmp|longjmp|atexit|at_quick_exit",
    "printing": r"v?[sd]?n?printf|puts|putchar|cout|cerr|clog|stdout"
    r"|fprintf(?!\s*\(\s*(std\s*::\s*)?stderr\b)"
    r"|fputs(?!\s*\([^;]*,\s*(std\s*::\s*)?stderr\s*\))",
    "host code in a stream": r"cudaLaunchHostFunc\w*|cudaStreamAddCallback|cudaGraph\w*HostNode\w*"
    r"|cudaUserObjectCreate",
    "the device's state": r"cudaDeviceReset|cudaProfiler\w+|cudaIpc\w+|cudaImportExternal\w+",
}
"""Errors may be printed on stderr, which is not read for results."""
_FORBIDDEN = {what: re.compile(rf"\b(?:{words})\b") for what, words in FORBIDDEN.items()}
FORBIDDEN_FUNCTION = {what: re.compile(rf"(?:{words})") for what, words in FORBIDDEN.items()}
_EVENT_OF_A_NUMBER = re.compile(
    r"(reinterpret|bit)_cast\s*<\s*cudaEvent_t\s*>"
    r"|(?<![\w>])\(\s*cudaEvent_t\s*\)\s*(?!0\b|NULL\b|nullptr\b)[\w(&*]"
)
"""Nobody gets an event of the program's own that way."""
_HOST_ASSEMBLY = re.compile(
    r"syscall|sysenter|\bsvc\b|\bint\s+\$?0x80|\.incbin|\.globl|\.weak|\.symver|\.section"
    r"|init_array|rdtsc|cntvct"
)
_ASSEMBLER_LABEL = re.compile(r'\b(?:asm|__asm|__asm__)\s*\(\s*"([^"\s;]+)"\s*\)')
_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|(?P<number>(?<!\w)\.?\d(?:'?\w|\.|(?<=[eEpP])[+-])*)"
    r"|(?<!\w)(?:u8|[uUL])?R\"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\")|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
"""Numbers too: the mark within 1'000 begins no character."""


def without_comments(source: str) -> str:
    """Lines that a backslash continues are joined first, as the compiler does."""
    joined = source.replace("\\\r\n", "").replace("\\\n", "")
    return _TOKENS.sub(lambda m: " " if m[0].startswith(("//", "/*")) else m[0], joined)


def without_literals(source: str) -> str:
    return _TOKENS.sub(lambda m: m[0] if m["number"] else '""', source)


def with_joined_literals(code: str) -> str:
    """ "wri" "te" is "write" to the compiler."""
    parts: list[str] = []
    end, open_text = 0, False
    for token in _TOKENS.finditer(code):
        between = code[end : token.start()]
        if open_text and token["text"] and not between.strip():
            parts[-1] = parts[-1][:-1] + token[0][1:]
        else:
            parts += [between, token[0]]
        end, open_text = token.end(), bool(token["text"])
    return "".join([*parts, code[end:]])


def source_refusal(source: str, headers: Sequence[str] = ()) -> str | None:
    """Why the source is refused, or None. The symbols of its object file are checked as well."""
    code = without_comments(source)
    bare = without_literals(code)
    return (
        _refused_include(code, ("problem.h", *headers))
        or _refused_literal(code)
        or _refused_word(bare)
    )


_INCLUDE = re.compile(r"^\s*(?:#|%:|\?\?=)\s*(include\w*|import|embed)\b\s*([^\n]*)", re.MULTILINE)


def _refused_include(code: str, own: Sequence[str]) -> str | None:
    for directive, what in _INCLUDE.findall(code):
        name = re.fullmatch(r'[<"]([^>"]+)[>"]', what.strip())
        known = name and (name[1] in own or HEADERS.fullmatch(name[1]))
        if directive != "include" or not known:
            return f"includes {what.strip()[:80]}, which is not on the list of headers"
    return None


def _refused_literal(code: str) -> str | None:
    if re.search(r'\bextern\s*"C(?!"\s*__global__\b)', code):
        return 'has extern "C", which can take the place of a library function'
    if not re.search(r"\b(asm|__asm|__asm__)\b", code):
        return None
    joined = with_joined_literals(code)
    if label := _ASSEMBLER_LABEL.search(joined):
        return f"gives a function the name of another one ({label[1]})"
    found = _HOST_ASSEMBLY.search(" ".join(m[0] for m in _TOKENS.finditer(joined)))
    return f"has assembly for the host ({found[0]})" if found else None


def _refused_word(bare: str) -> str | None:
    for what, words in _FORBIDDEN.items():
        if found := words.search(bare):
            return f"touches {what}: {found[0]}"
    if found := _EVENT_OF_A_NUMBER.search(bare):
        return f"makes an event of a number: {found[0]}"
    return None
