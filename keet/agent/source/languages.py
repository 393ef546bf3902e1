"""Parts and statements of a file by its language: C++ (cpp.py), Python or Fortran."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from keet.agent.source.code_parts import (
    ASSIGNMENTS,
    CodePart,
    Kind,
    SourceStatement,
    Token,
    is_fortran,
    is_python,
    python_tokens,
    split_commas,
)
from keet.agent.source.cpp import cpp_parts, cpp_statements


@lru_cache(maxsize=32)
def parts_of(file: str, text: str) -> tuple[CodePart, ...]:
    if is_python(file):
        return tuple(_python_parts(file, text))
    return tuple(_fortran_parts(file, text) if is_fortran(file) else cpp_parts(file, text))


def statements_of(part: CodePart) -> list[SourceStatement]:
    """Statements of a function or module. Empty for Fortran, which is not split further."""
    return _python_statements(part) if is_python(part.file) else cpp_statements(part)


_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_MOST_HEADERS = 8
_NO_TARGETS = frozenset(
    """def class async for if while with else elif try except return lambda assert import
    from""".split()  # noqa: SIM905
)


class _Line(NamedTuple):
    """A logical line: one statement, or the head of a block."""

    indent: int
    tokens: Sequence[Token]

    @property
    def word(self) -> str:
        return self.tokens[0].text

    @property
    def is_definition(self) -> bool:
        return self.word in ("def", "class") or (
            self.word == "async" and len(self.tokens) > 1 and self.tokens[1].text == "def"
        )


def _python_parts(file: str, text: str) -> list[CodePart]:
    """Functions at any depth, assignments of the module, and the module itself as a part, with the
    statements outside of functions."""
    lines = _logical_lines(python_tokens(text), text.split("\n"))
    outside: list[_Line] = []
    found: list[CodePart] = []
    at = 0
    while at < len(lines):
        start, at = at, _after_decorators(lines, at)
        if at < len(lines) and lines[at].is_definition:
            end = _block_end(lines, at)
            found += _definitions(file, lines, start, end)
            at = end
        else:
            at = max(at, start + 1)
            outside += lines[start:at]
    values = [_value(file, line) for line in outside if line.indent == 0 and assigned(line.tokens)]
    return [*found, *values, *_module(file, outside)]


def _definitions(file: str, lines: Sequence[_Line], start: int, end: int) -> Iterator[CodePart]:
    """The definition that starts at `start`, and the functions inside of it."""
    at = start
    while at < end:
        first, at = at, _after_decorators(lines, at)
        if at < end and lines[at].is_definition:
            yield _function(file, lines[first : min(_block_end(lines, at), end)], at - first)
        at = max(at, first) + 1


def _logical_lines(tokens: Sequence[Token], texts: Sequence[str]) -> list[_Line]:
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "newline":
            if depth <= 0 and found[-1]:
                found.append([])
                depth = 0
            continue
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        found[-1].append(token)
    return [_Line(_indent(texts[line[0].line - 1]), line) for line in found if line]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _after_decorators(lines: Sequence[_Line], at: int) -> int:
    while at < len(lines) and lines[at].word == "@":
        at += 1
    return at


def _block_end(lines: Sequence[_Line], at: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end].indent > lines[at].indent:
        end += 1
    return end


def _function(file: str, lines: Sequence[_Line], header: int) -> CodePart:
    """Decorators belong to its head: `@triton.autotune(...)` has the sizes of its tiles."""
    tokens = _with_indents(lines)
    body = sum(len(line.tokens) + 1 for line in lines[: header + 1])
    names = [token.text for token in lines[header].tokens[1:3] if token.kind == "name"]
    name = next((name for name in names if name != "def"), "")
    return CodePart("function", (name,), file, tokens[0].line, tokens[-1].last_line, tokens, body)


def _with_indents(lines: Sequence[_Line]) -> list[Token]:
    """A token of kind `newline` before each line keeps its indentation."""
    found: list[Token] = []
    for line in lines:
        found.append(Token("newline", " " * line.indent, line.tokens[0].line))
        found += line.tokens
    return found


def _value(file: str, line: _Line) -> CodePart:
    first, last = line.tokens[0].line, line.tokens[-1].last_line
    return CodePart("value", tuple(assigned(line.tokens)), file, first, last, line.tokens)


def _module(file: str, lines: Sequence[_Line]) -> list[CodePart]:
    if not lines:
        return []
    tokens = _with_indents(lines)
    return [CodePart("module", (), file, tokens[0].line, tokens[-1].last_line, tokens)]


def _python_statements(part: CodePart) -> list[SourceStatement]:
    """Logical lines of a function or of the module, with the heads of the blocks around them."""
    found: list[SourceStatement] = []
    heads: list[tuple[int, int]] = []
    for line in _lines_again(part.tokens[part.body :]):
        while heads and heads[-1][0] >= line.indent:
            heads.pop()
        found.append(
            SourceStatement(line.tokens, tuple(index for _, index in heads[-_MOST_HEADERS:]))
        )
        if line.tokens[-1].text == ":":
            heads.append((line.indent, len(found) - 1))
    return found


def _lines_again(tokens: Sequence[Token]) -> Iterator[_Line]:
    starts = [at for at, token in enumerate(tokens) if token.kind == "newline"]
    for start, end in zip(starts, [*starts[1:], len(tokens)]):
        if end > start + 1:
            yield _Line(len(tokens[start].text), tokens[start + 1 : end])


def assigned(line: Sequence[Token]) -> list[str]:
    """The names left of `=`: `a`, or `a, b` of a tuple; annotations are skipped."""
    equals, colon = _outside(line, "="), _outside(line, ":")
    if equals is None or line[0].text in _NO_TARGETS:
        return []
    left = line[: min(equals, colon if colon is not None else equals)]
    if not all(token.kind == "name" or token.text in (",", "(", ")") for token in left):
        return []
    return [token.text for token in left if token.kind == "name"]


def assigned_values(line: Sequence[Token]) -> list[tuple[str, Sequence[Token]]]:
    """Each name with its expression; `a, b = 1, 2` is taken apart."""
    names, equals = assigned(line), _outside(line, "=")
    if not names or equals is None:
        return []
    right = line[equals + 1 :]
    values = split_commas(right) if len(names) > 1 else [right]
    return list(zip(names, values if len(values) == len(names) else [right] * len(names)))


def python_changes(line: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Names that a statement changes other than by a plain assignment, and how."""
    if len(line) > 2 and line[0].kind == "name" and line[1].text in ASSIGNMENTS - {"="}:
        yield line[0].text, "it is assigned again"
    if line[0].text == "for":
        end = next((at for at, token in enumerate(line) if token.text == "in"), 0)
        yield from ((t.text, "it is counted") for t in line[1:end] if t.kind == "name")


def _outside(line: Sequence[Token], sign: str) -> int | None:
    """Where a sign first stands outside of brackets."""
    depth = 0
    for at, token in enumerate(line):
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0 and token.kind == "sign" and token.text == sign:
            return at
    return None


_START = re.compile(
    r"\s*(?:(?:pure|elemental|recursive|impure)\s+|attributes\s*\([^)\n]*\)\s*)*"
    r"(?:subroutine|function|program)\s+(\w+)",
    re.IGNORECASE,
)
_END = re.compile(r"\s*end\s*(?:subroutine|function|program)\b|\s*end\s*(?:!|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"[^!\n]*,\s*parameter\b[^!\n]*::", re.IGNORECASE)
_TOKEN = re.compile(
    r"!.*|(?P<text>'[^'\n]*'?|\"[^\"\n]*\"?)|(?P<name>[^\W\d]\w*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?(?:_\w+)?)|(?P<sign>::|\*\*|\S)"
)
_KINDS: dict[str, Kind] = {"text": "text", "name": "name", "sign": "sign"}
_OPENACC_NAME = re.compile(r"(\w+?)_\d+_gpu(?:__red)?")


def procedure_of(kernel: str) -> str:
    """nvfortran names the kernel of a loop after its procedure and line: `advance_279_gpu`."""
    match = _OPENACC_NAME.fullmatch(kernel)
    return match[1] if match else kernel


def _fortran_parts(file: str, text: str) -> list[CodePart]:
    found: list[CodePart] = []
    opened: list[tuple[str, int]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if _PARAMETER.match(line):
            found.append(_parameter(file, _tokens(line, number)))
        elif _END.match(line) and opened:
            name, first = opened.pop()
            found.append(_procedure(file, name, first, lines[first - 1 : number]))
        elif start := _START.match(line):
            opened.append((start[1], number))
    return found


def _procedure(file: str, name: str, first: int, lines: Sequence[str]) -> CodePart:
    tokens = [token for at, line in enumerate(lines) for token in _tokens(line, first + at)]
    return CodePart("function", (name,), file, first, first + len(lines) - 1, tokens)


def _parameter(file: str, tokens: list[Token]) -> CodePart:
    names = tuple(name for name, _ in fortran_values(tokens))
    return CodePart("value", names, file, tokens[0].line, tokens[-1].line, tokens)


def _tokens(line: str, number: int) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(line):
        if match.lastgroup == "number":
            found.append(Token("number", _plain(match[0]), number))
        elif match.lastgroup is not None:
            found.append(Token(_KINDS[match.lastgroup], match[0], number))
    return found


def _plain(number: str) -> str:
    """`1.5_rp` and `1.5d0` as other languages write them."""
    return re.sub(r"[dD]", "e", number.partition("_")[0])


def fortran_tokens(text: str) -> list[Token]:
    return [token for n, line in enumerate(text.split("\n"), 1) for token in _tokens(line, n)]


def fortran_values(tokens: Sequence[Token]) -> list[tuple[str, Sequence[Token]]]:
    """`a` and `1` of `integer, parameter :: a = 1`."""
    start = next((at + 1 for at, token in enumerate(tokens) if token.text == "::"), len(tokens))
    parts = split_commas(tokens[start:])
    return [(part[0].text, part[2:]) for part in parts if len(part) > 2 and part[1].text == "="]
