"""Parts of a Fortran file: procedures, and the parameters that they use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keet.agent.source.code_parts import CodePart
from keet.agent.source.tokens import Kind, Token, split_commas

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


def fortran_parts(file: str, text: str) -> list[CodePart]:
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
