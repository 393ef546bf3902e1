"""C++ text without comments and literals, for counting braces and finding directives."""

from __future__ import annotations

import re

_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^\s()\\]{0,16})\(.*?(?:\)\1"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".cpp", ".cc", ".cxx", ".c")


def is_cuda(path: str) -> bool:
    return path.lower().endswith(CUDA_SUFFIXES)


def code_only(text: str) -> str:
    """Replaces comments and literals by spaces; line numbers stay."""
    return _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def brace_depth(text: str) -> int:
    """Opened minus closed braces."""
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
