"""Statements of a C++ function, and the variables that they declare or change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.agent.source.code_parts import ASSIGNMENTS, CodePart, SourceStatement
from keet.agent.source.tokens import Token, after_angles, closing, split_commas

_NO_TYPES = frozenset(
    """return delete else case goto throw new if for while do switch break continue using namespace
    template typedef default public private protected sizeof operator friend""".split()  # noqa: SIM905
)
_BLOCK_WORDS = frozenset({"else", "do", "try", "mutable", "noexcept", "const"})
_MOST_HEADERS = 8
_STEPS = frozenset({"++", "--"})


class Declarator(NamedTuple):
    """One variable of a declaration."""

    name: str
    type: Sequence[Token]
    value: Sequence[Token] | None
    """Tokens of the initializer; None without one, and for arrays."""


def cpp_statements(part: CodePart) -> list[SourceStatement]:
    """Statements of a function's body, including those of nested blocks and lambdas."""
    return _statements(part.tokens[part.body + 1 :]) if part.body else []


def _statements(tokens: Sequence[Token]) -> list[SourceStatement]:
    found: list[SourceStatement] = []
    start = depth = 0
    outer: list[tuple[int, int]] = []
    """Of each open block: the index of its header, and the open parentheses around it."""
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "{" and at > start and not _opens_block(tokens[at - 1].text):
            at = closing(tokens, at)
        elif text == "{":
            _add(found, tokens[start:at], outer)
            outer.append((len(found) - 1 if at > start else -1, depth))
            start, depth = at + 1, 0
        elif text == "}":
            _add(found, tokens[start:at], outer)
            start, depth = at + 1, outer.pop()[1] if outer else 0
        elif text == ";" and depth == 0:
            _add(found, tokens[start : at + 1], outer)
            start = at + 1
        elif tokens[at].kind == "directive":
            _add(found, tokens[start:at], outer)
            start = at + 1
        depth += (text in ("(", "[")) - (text in (")", "]") and depth > 0)
        at += 1
    _add(found, tokens[start:], outer)
    return found


def _opens_block(before: str) -> bool:
    """Whether a brace behind this token opens a block; else it starts an initializer."""
    return before in (")", "]", ";", "{", "}", ":") or before in _BLOCK_WORDS


def _add(
    found: list[SourceStatement], tokens: Sequence[Token], outer: Sequence[tuple[int, int]]
) -> None:
    if tokens:
        around = [header for header, _ in outer[-_MOST_HEADERS:] if header >= 0]
        found.append(SourceStatement(tokens, tuple(around)))


def declarators(tokens: Sequence[Token]) -> list[Declarator]:
    """The variables that `const int a = 1, *b;` declares; empty if it is not a declaration."""
    tokens = _for_init(tokens)
    name = _first_declared(tokens)
    if name is None:
        return []
    kind = tokens[:name]
    rest = [token for token in tokens[name:] if token.text != ";"]
    found = [_declarator(part, kind) for part in split_commas(rest)]
    return [each for each in found if each is not None]


def _for_init(tokens: Sequence[Token]) -> Sequence[Token]:
    """`int i = 0` of `for (int i = 0; ...`."""
    if len(tokens) < 3 or tokens[0].text not in ("for", "if", "while", "switch"):
        return tokens
    inner = tokens[2 : closing(tokens, 1)] if tokens[1].text == "(" else tokens[1:]
    for at, token in enumerate(inner):
        if token.text == ";":
            return inner[:at]
    return inner if tokens[0].text == "for" else ()


def _first_declared(tokens: Sequence[Token]) -> int | None:
    """Index of the first name after a type."""
    at = words = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "name":
            following = tokens[at + 1].text if at + 1 < len(tokens) else ";"
            if token.text in _NO_TYPES:
                return None
            if words and following in ("=", ";", ",", "[", "(", "{", ":", ")"):
                if token.text not in ("__launch_bounds__", "__align__", "alignas"):
                    return at
                at = closing(tokens, at + 1)
            words += 1
        elif token.text == "<":
            end = after_angles(tokens, at)
            if end == at:
                return None
            at = end - 1
        elif token.text not in ("::", "*", "&", "&&", "const", "..."):
            return None
        at += 1
    return None


def _declarator(tokens: Sequence[Token], kind: Sequence[Token]) -> Declarator | None:
    names = [at for at, token in enumerate(tokens[:6]) if token.kind == "name"]
    names = [at for at in names if tokens[at].text not in ("const", "__restrict__", "restrict")]
    if not names:
        return None
    at = names[0]
    rest = tokens[at + 1 :]
    pointer = [token for token in tokens[:at] if token.text in ("*", "&")]
    value: Sequence[Token] | None = None
    if rest and rest[0].text == "=":
        value = rest[1:]
    elif rest and rest[0].text in ("(", "{"):
        value = rest[1 : closing(rest, 0)]
    return Declarator(tokens[at].text, [*kind, *pointer], value)


def is_assignment(tokens: Sequence[Token]) -> bool:
    """`n = 1024;` and nothing else."""
    return len(tokens) > 2 and tokens[0].kind == "name" and tokens[1].text == "="


def changed_names(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Names that a statement changes other than by a plain assignment, and how: `n /= 2`."""
    declared = {each.name for each in declarators(tokens)}
    if is_assignment(tokens):
        declared.add(tokens[0].text)
    for at, token in enumerate(tokens):
        if token.kind != "name" or (at and tokens[at - 1].text in (".", "->", "::")):
            continue
        before = tokens[at - 1].text if at else ""
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if before in _STEPS or following in _STEPS:
            yield token.text, "it is counted up or down"
        elif following in ASSIGNMENTS and (token.text not in declared or following != "="):
            yield token.text, "it is assigned again"
        elif before == "&" and at > 1 and tokens[at - 2].text in ("(", ",", ")"):
            yield token.text, "its address is passed on"
        elif before == ">>" and any(each.text == "cin" for each in tokens[:at]):
            yield token.text, "it is read at run time"
