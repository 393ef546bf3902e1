"""Parts and statements of a Python file: functions with their decorators, assignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.agent.source.code_parts import ASSIGNMENTS, CodePart, SourceStatement
from keet.agent.source.tokens import Token, python_tokens, split_commas

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


def python_parts(file: str, text: str) -> list[CodePart]:
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


def python_statements(part: CodePart) -> list[SourceStatement]:
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
