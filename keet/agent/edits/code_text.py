"""C++ text without comments and literals, to count braces and find directives in."""

from __future__ import annotations

import re

from keet.patterns import regex

_NOT_CODE = regex(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^\s()\\]{0,16})\(.*?(?:\)\1"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".cpp", ".cc", ".cxx", ".c")


def is_cuda(path: str) -> bool:
    return path.lower().endswith(CUDA_SUFFIXES)


def code_only(text: str) -> str:
    """Comments and literals as spaces; lines stay where they are."""
    return _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def brace_depth(text: str) -> int:
    """Braces opened and not closed; negative where more are closed."""
    code = code_only(text)
    return code.count("{") - code.count("}")


def block_end(lines: list[str], first: int) -> int | None:
    """The line (from 0) with the brace that closes the block opened at or after line `first`."""
    depth = 0
    opened = False
    for at, line in enumerate(code_only("".join(lines[first:])).split("\n"), first):
        opened = opened or "{" in line
        depth += line.count("{") - line.count("}")
        if opened and depth <= 0:
            return at
    return None
