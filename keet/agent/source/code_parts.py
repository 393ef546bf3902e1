"""Parts and statements of a source file, as the readers of all languages give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from keet.agent.source.tokens import Token, is_fortran, is_python

PartKind = Literal["function", "type", "value", "macro", "prototype", "module"]

DEVICE_WORDS = frozenset({"__global__", "__device__", "constexpr", "consteval"})
ASSIGNMENTS = frozenset(
    ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "//=", "**=")
)


class CodePart(NamedTuple):
    """One definition. `first` and `last` are its lines, both included."""

    kind: PartKind
    names: tuple[str, ...]
    file: str
    first: int
    last: int
    tokens: Sequence[Token]
    body: int = 0
    """Index of the first token of a function's body; 0 for the others."""
    owners: frozenset[str] = frozenset()
    """`Box` of `Box::volume`."""

    @property
    def head(self) -> Sequence[Token]:
        return self.tokens[: self.body or len(self.tokens)]

    @property
    def in_cpp(self) -> bool:
        return not (is_python(self.file) or is_fortran(self.file))

    @property
    def on_device(self) -> bool:
        return any(token.text in DEVICE_WORDS for token in self.head)

    @property
    def is_kernel(self) -> bool:
        return self.kind == "function" and any(t.text == "__global__" for t in self.head)


class SourceStatement(NamedTuple):
    tokens: Sequence[Token]
    headers: tuple[int, ...] = ()
    """Indexes of the nearest `for (...)`, `if (...)` and lambda heads around it."""

    @property
    def first(self) -> int:
        return self.tokens[0].line

    @property
    def last(self) -> int:
        return self.tokens[-1].last_line

    @property
    def names(self) -> set[str]:
        return used_names(self.tokens)


def used_names(tokens: Sequence[Token]) -> set[str]:
    """Names except members after `.` and `->`."""
    return {
        token.text
        for at, token in enumerate(tokens)
        if token.kind == "name" and not (at and tokens[at - 1].text in (".", "->"))
    }


def member_names(tokens: Sequence[Token]) -> set[str]:
    return {
        token.text
        for at, token in enumerate(tokens)
        if token.kind == "name" and at and tokens[at - 1].text in (".", "->")
    }
