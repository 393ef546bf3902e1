"""Blocks of code, and edits that apply but damage them.

Braces are counted in text without comments and literals. Damage is a block without its end, or a
function defined twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from keet.agent.edits.unified_diff import Span

_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^\s()\\]{0,16})\(.*?(?:\)\1"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".cpp", ".cc", ".cxx", ".c")


def is_cuda(path: str) -> bool:
    return path.lower().endswith(CUDA_SUFFIXES)


def _code_only(text: str) -> str:
    """Replaces comments and literals by spaces; line numbers stay."""
    return _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def brace_depth(text: str) -> int:
    """Opened minus closed braces."""
    code = _code_only(text)
    return code.count("{") - code.count("}")


def _block_end(lines: list[str], first: int) -> int | None:
    """The line (from 0) with the brace that closes the block opened at or after line `first`."""
    depth = 0
    opened = False
    for at, line in enumerate(_code_only("".join(lines[first:])).split("\n"), first):
        opened = opened or "{" in line
        depth += line.count("{") - line.count("}")
        if opened and depth <= 0:
            return at
    return None


def damage(path: str, lines: Sequence[str], spans: Sequence[Span], after: str) -> str | None:
    """The problem of one change, for the model to correct; None without one. `after`: new text of
    the file."""
    if path.lower().endswith(".py"):
        return _python_damage(lines, spans)
    if not is_cuda(path):
        return None
    for span in spans:
        if problem := _doubled_body(lines, span):
            return problem
    before = brace_depth("".join(lines))
    if brace_depth(after) == before:
        return None
    for span in spans:
        if problem := _torn_block(lines, span):
            return problem
    return None


def _torn_block(lines: Sequence[str], span: Span) -> str | None:
    old, new = brace_depth("".join(lines[span.start : span.end])), brace_depth("".join(span.lines))
    if old == new:
        return None
    where = f"lines {span.start + 1}-{span.end}" if span.end > span.start else "no lines"
    problem = (
        f"The new lines leave {_braces(new)}; they replace {where}, which leave {_braces(old)}"
    )
    head = max(span.start - 1, 0)
    opened = brace_depth("".join(lines[head : span.end])) > 0
    end = _block_end(list(lines), head) if opened else None
    if end is None:
        return f"{problem}. `old` must have every line that `new` replaces."
    return (
        f"{problem}. `old` must have every line that `new` replaces, here up to the closing brace "
        f"at line {end + 1}; or give only the lines that change."
    )


def _braces(depth: int) -> str:
    if depth == 0:
        return "no brace open"
    return f"{depth} brace(s) open" if depth > 0 else f"{-depth} closing brace(s) too many"


def _doubled_body(lines: Sequence[str], span: Span) -> str | None:
    """Whether a signature is replaced by a whole function: the old body would follow it."""
    old = _code_only("".join(lines[max(span.start - 8, 0) : span.end])).rstrip()
    new = _code_only("".join(span.lines)).rstrip()
    following = _code_only("".join(lines[span.end : span.end + 20])).lstrip()
    if not (old.endswith(")") and new.endswith("}") and following.startswith("{")):
        return None
    end = _block_end(list(lines), span.end)
    upto = f"to line {end + 1}" if end is not None else "to its end"
    return (
        f"`old` has only the signature before line {span.end + 1}, and `new` a whole function: its "
        f"old body would stay behind it. Give all lines of the function in `old`, {upto}."
    )


def _python_damage(lines: Sequence[str], spans: Sequence[Span]) -> str | None:
    for span in spans:
        old = "".join(lines[: span.end]).rstrip()
        new = [line.strip() for line in span.lines if line.strip()]
        if old.endswith(":") and new and _body_again(lines, span, new):
            return (
                f"`old` has only the head at line {span.end}, and `new` lines of its body "
                "too: they would be there twice. Give all lines that `new` replaces in `old`."
            )
    return None


def _body_again(lines: Sequence[str], span: Span, new: Sequence[str]) -> bool:
    """Whether two new lines, or all, equal the lines that follow."""
    depth = _depth(lines[span.end - 1])
    body: list[str] = []
    for line in lines[span.end :]:
        if line.strip() and _depth(line) <= depth:
            break
        body.append(line.strip())
    again = [line for line in new if line in body]
    return len(again) > 1 or (bool(again) and len(again) == len(new) - 1)


def _depth(line: str) -> int:
    return len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())


def python_syntax_error(text: str) -> tuple[int, str] | None:
    """The line and the error; None if the text is valid Python."""
    try:
        ast.parse(text)
    except SyntaxError as problem:
        return problem.lineno or 0, problem.msg
    except (ValueError, RecursionError, MemoryError) as problem:
        return 0, f"the file cannot be parsed ({type(problem).__name__})"
    return None
