"""Checks a candidate's object file, in which macros cannot hide symbols."""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

from .source import FORBIDDEN_FUNCTION


class Symbols(NamedTuple):
    needed: frozenset[str]
    defined: frozenset[str]
    """Those that win over a weak one elsewhere, and those that are weak themselves."""
    strong: frozenset[str]


def read_symbols(text: str) -> Symbols:
    """Of the output of `nm -P`: name, type and where."""
    rows = [line.split()[:2] for line in text.splitlines() if len(line.split()) >= 2]
    names = [(name.partition("@")[0], kind) for name, kind in rows]
    return Symbols(
        frozenset(name for name, kind in names if kind in "Uwv"),
        frozenset(name for name, kind in names if kind in "TDBRGSCVWui"),
        frozenset(name for name, kind in names if kind in "TDBRGSCi"),
    )


_ALLOWED = re.compile(
    r"__cuda\w+|cuda[A-Z]\w+|_Unwind_\w+|__cxa_\w+|__gxx_personality_v0|DW\.ref\.\w+"
    r"|__stack_chk_(fail|guard)|__dso_handle|atexit|__aarch64_\w+|_ITM_\w+"
    r"|__gmon_start__|_Z(N|NK|T[VIS]|T[VISN]N|GVN)?S[tabsiod]\w*|_Zn[wa]\w+|_Zd[la]\w+|_ZT[VIS]\w+"
    r"|mem(cpy|set|move|cmp|chr)|__mem\w+_chk|str(len|cmp|ncmp|chr)|malloc|calloc|realloc|free"
    r"|aligned_alloc|posix_memalign|abort|exit|qsort|bsearch|__assert_fail|__pthread_key_create"
    r"|pthread_(once|mutex_(lock|unlock)|key_create|[gs]etspecific)|__libc_single_threaded|__tls_get_addr"
    r"|(sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|exp|exp2|expm1|log|log2|log10|log1p|pow"
    r"|sqrt|cbrt|hypot|fabs|floor|ceil|round|lround|llround|rint|lrint|nearbyint|trunc|fmod"
    r"|remainder|fmin|fmax|fma|ldexp|frexp|scalbn|erf|erfc|tgamma|lgamma|copysign|sincos)[fl]?"
    r"|l?l?abs|s?rand|_Z6launchRK7Problem|stderr|fprintf|__fprintf_chk|fputs|fwrite|fputc"
    r"|v?snprintf|__v?snprintf_chk|strerror|__once_proxy"
)
_ALLOWED_ANYWAY = re.compile(
    r"atexit|fprintf|fputs|fwrite|fputc|v?snprintf|pthread_(once|mutex_(lock|unlock)|key_create|[gs]etspecific)"
)
"""nvcc's own, what a compiler makes of fprintf(stderr, ...), cub's messages, std::call_once."""
_BLOCKED_STD = re.compile(
    r"_ZNS[tK]*(6thread|6chrono|10filesystem|8ios_base(?!4Init[CD])|1[34]basic_[io]?fstream|12__basic_file)\w*"
    r"|_ZSt4c(out|err|log|in)|_ZNS[io]\w*|_ZStls\w*"
)


def symbol_refusal(candidate: Symbols, others: Symbols) -> str | None:
    """Why its symbols are refused; macros cannot hide what the linker is asked for."""
    return _refused_definition(candidate, others) or _refused_need(candidate, others)


def _refused_definition(candidate: Symbols, others: Symbols) -> str | None:
    for name in sorted(candidate.defined):
        if re.match(r"_ZNK?7harness|cuda[A-Z]|__cuda|cu[A-Z]|main$|_Z12problem_main", name):
            return f"defines {name}, which belongs to CUDA or the harness"
    # A weak one wins over a library's. Where the harness has a weak one too, its own is taken.
    unmet = candidate.defined & (others.needed - others.defined)
    for name in sorted((unmet | candidate.strong & others.defined) - {"_Z6launchRK7Problem"}):
        return f"defines {name}, which the harness or the problem uses"
    for name in sorted(candidate.defined):
        if not name.startswith("_Z") and _in_c_library(name):
            return f"defines {name}, which is a function of the C library"
    return None


def _in_c_library(name: str) -> bool:
    return hasattr(ctypes.CDLL(None), name)


def _refused_need(candidate: Symbols, others: Symbols) -> str | None:
    needed = candidate.needed - candidate.defined
    for name in sorted(needed):
        for what, words in FORBIDDEN_FUNCTION.items():
            if words.fullmatch(name) and not _ALLOWED_ANYWAY.fullmatch(name):
                return f"calls {name} ({what})"
    for name in sorted(needed):
        if name in others.defined and name.startswith("_Z") and not _ALLOWED.fullmatch(name):
            return f"calls {name}, which is part of the problem or the harness"
        if _BLOCKED_STD.match(name) or not _ALLOWED.fullmatch(name):
            return f"calls {name}, which is not on the list of what a launch may call"
    return None
