"""Parts and statements of a file by its language: C++, Python or Fortran."""

from __future__ import annotations

from functools import lru_cache

from keet.agent.source.code_parts import CodePart, SourceStatement
from keet.agent.source.cpp_parts import cpp_parts
from keet.agent.source.cpp_statements import cpp_statements
from keet.agent.source.fortran import fortran_parts
from keet.agent.source.python import python_parts, python_statements
from keet.agent.source.tokens import is_fortran, is_python


@lru_cache(maxsize=32)
def parts_of(file: str, text: str) -> tuple[CodePart, ...]:
    if is_python(file):
        return tuple(python_parts(file, text))
    return tuple(fortran_parts(file, text) if is_fortran(file) else cpp_parts(file, text))


def statements_of(part: CodePart) -> list[SourceStatement]:
    """Statements of a function or module. Empty for Fortran, which is not split further."""
    return python_statements(part) if is_python(part.file) else cpp_statements(part)
