"""Finds `#include` and similar directives that would leak local files into compiler messages.

Source text comes from reports and models, and the errors of a compiler go to a model: a source may
include what belongs to it and to the toolkit, by relative paths, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from keet.lazy_regex import regex

_COMMENT = regex(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?(?:\*/|\Z)',
    re.DOTALL,
)
_DIRECTIVE = regex(
    r"^[^\S\n]*(?:\#|%:|\?\?=)[^\S\n]*(include(?:_next)?|import|embed|line|\d+|pragma)\b([^\n]*)",
    re.MULTILINE,
)
_OPERATOR = regex(r"__has_(?:include|embed)\w*\s*\(([^\n]*)|_Pragma\s*\(([^\n]*)|\.incbin\b()")
_TARGET = regex(r"""^\s*(?:"([^"\n]*)"|<([^>\n]*)>)""")
_HEADER = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp", ".tpp", ".cpp", ".c")


def forbidden(files: Mapping[str, str], allowed: Sequence[str] = ()) -> str | None:
    """Why the source must not be compiled, in one line; None if it may. `allowed`: folders that
    absolute paths may be in."""
    for path, text in files.items():
        if problem := _forbidden(text, allowed):
            return f"{path.replace(chr(92), '/').rsplit('/', 1)[-1]}: {problem}"
    return None


def _forbidden(text: str, allowed: Sequence[str]) -> str | None:
    plain = re.sub(r"(?:\\|\?\?/)[^\S\n]*\r?\n", "", text)
    plain = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", plain)
    for kind, rest in _DIRECTIVE.findall(plain):
        if problem := _bad_directive(kind, rest, allowed):
            return problem
    for operands in _OPERATOR.findall(plain):
        if any("/" in operand and _leaves(operand, allowed) for operand in operands):
            return "names a file outside of its folder"
    return "includes binary data" if ".incbin" in plain else None


def _leaves(operand: str, allowed: Sequence[str]) -> bool:
    target = _TARGET.match(operand)
    return target is not None and _outside(target[1] or target[2] or "", allowed)


def _bad_directive(kind: str, rest: str, allowed: Sequence[str]) -> str | None:
    if kind == "pragma":
        return "has a pragma that reads files" if "dependency" in rest else None
    if kind == "line" or kind.isdigit():
        return "names other files as its source (#line)" if '"' in rest else None
    if kind == "embed":
        return "embeds a file"
    target = _TARGET.match(rest)
    if target is None:
        return "has an #include whose path is a macro"
    path = target[1] or target[2] or ""
    return f"includes {path[:80]!r}, outside of its folder" if _outside(path, allowed) else None


def _outside(path: str, allowed: Sequence[str]) -> bool:
    """Whether a path is absolute, or leads upwards to a file that is not a header."""
    plain = path.strip().replace("\\", "/")
    if plain.startswith(("/", "~")) or re.match(r"[A-Za-z]:", plain):
        return ".." in plain.split("/") or not any(
            Path(plain).is_relative_to(folder) for folder in allowed
        )
    return ".." in plain.split("/") and not plain.lower().endswith(_HEADER)
