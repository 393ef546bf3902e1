"""Tokens, parts and statements of a source file, as the readers of all languages give them.

There is no grammar: any text gives tokens, and each character is read once, so damaged or hostile
source takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["name", "number", "text", "sign", "directive", "newline"]


class Token(NamedTuple):
    kind: Kind
    text: str
    line: int
    """From 1: where it starts."""

    @property
    def last_line(self) -> int:
        return self.line + self.text.count("\n")


_NUMBER = (
    r"(?P<number>0[xX][0-9a-fA-F'_]+[uUlLzZ]*+|0[bB][01'_]+[uUlLzZ]*+"
    r"|\.?\d(?:[eE][+-](?=\d)|'(?=\d)|[\w.])*+)"
)
_C = re.compile(
    r"(?P<skip>\s++|//(?:[^\n\\]++|\\[\s\S]|\\\Z)*+|/\*[\s\S]*?(?:\*/|\Z))"
    r'|(?P<raw>R"(?P<mark>[^()\s\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z))'
    r"|(?P<name>[^\W\d]\w*+)"
    rf"|{_NUMBER}"
    r"""|(?P<text>"(?:[^"\\\n]++|\\[\s\S]|\\\Z)*+"?|'(?:[^'\\\n]++|\\[\s\S]|\\\Z)*+'?)"""
    r"|(?P<directive>\#(?:[^\n\\/]++|\\[\s\S]|\\\Z|/\*[\s\S]*?(?:\*/|\Z)|/(?!/))*+)"
    r"|(?P<sign><<<|>>>|<<=|>>=|\.\.\.|->|::|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|\S)"
)
_PYTHON = re.compile(
    r"(?P<newline>\n)|(?P<skip>[^\S\n]++|\#[^\n]*+|\\\n)"
    r'|(?P<raw>[rRbBfFuU]{0,2}(?:"""[\s\S]*?(?:"""|\Z)' + r"|'''[\s\S]*?(?:'''|\Z)))"
    r"""|(?P<text>[rRbBfFuU]{0,2}(?:"(?:[^"\\\n]++|\\[\s\S]|\\\Z)*+"?"""
    r"""|'(?:[^'\\\n]++|\\[\s\S]|\\\Z)*+'?))"""
    r"|(?P<name>[^\W\d]\w*+)"
    rf"|{_NUMBER}"
    r"|(?P<sign>\*\*=|//=|<<=|>>=|\*\*|//|<<|>>|->|[-+*/%&|^=!<>:@]=|\S)"
)
_KINDS: dict[str, Kind] = {
    "name": "name",
    "number": "number",
    "text": "text",
    "raw": "text",
    "mark": "text",
    "directive": "directive",
    "sign": "sign",
    "newline": "newline",
}


def is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def is_fortran(path: str) -> bool:
    return path.lower().endswith((".f90", ".f95", ".f03", ".f08", ".f", ".for", ".cuf"))


def c_tokens(text: str, line: int = 1) -> list[Token]:
    """A preprocessor directive with its continuation lines is one token."""
    return list(_tokens(_C, text, line))


def python_tokens(text: str) -> list[Token]:
    """Ends of physical lines are tokens, too; indentation is read from the lines themselves."""
    return list(_tokens(_PYTHON, text, 1))


def _tokens(pattern: re.Pattern[str], text: str, line: int) -> Iterator[Token]:
    for match in pattern.finditer(text):
        group, found = match.lastgroup or "skip", match[0]
        if group != "skip":
            yield Token(_KINDS[group], found, line)
        if "\n" in found:
            line += found.count("\n")


class MacroDefinition(NamedTuple):
    """A `#define`."""

    name: str
    parameters: tuple[str, ...] | None
    """None for a macro without a parameter list."""
    body: list[Token]


_DEFINE = re.compile(r"#\s*define[ \t]+(\w+)(\([^)\n]*\))?")


def macro_of(directive: Token) -> MacroDefinition | None:
    match = _DEFINE.match(directive.text)
    if match is None:
        return None
    names = tuple(part.strip() for part in match[2][1:-1].split(",")) if match[2] else None
    rest = directive.text[match.end() :].replace("\\\n", " \n")
    return MacroDefinition(match[1], names, c_tokens(rest, directive.line))


def is_conditional(directive: Token, *words: str) -> bool:
    """Whether it is one of `#if`, `#else`, ... by its first word."""
    return directive.text.lstrip("# \t").startswith(words)


_MOST_IN_ANGLES = 300
"""Longest template argument list, in tokens: hostile text may open one at every second token."""
_ANGLES = {"<": 1, ">": -1, ">>": -2, ">>>": -3}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def after_angles(tokens: Sequence[Token], at: int) -> int:
    """Index after the template arguments that open at `at`; `at` itself if none do."""
    depth = nested = 0
    for index in range(at, min(len(tokens), at + _MOST_IN_ANGLES)):
        text = tokens[index].text
        if text in _OPENING:
            nested += 1
        elif text in _CLOSING:
            nested -= 1
        if nested < 0 or text == ";" or (index == at and text != "<"):
            return at
        depth += _ANGLES.get(text, 0) if nested == 0 else 0
        if depth <= 0:
            return index + 1
    return at


def split_commas(tokens: Sequence[Token], *, angles: bool = False) -> list[list[Token]]:
    """The parts between commas outside of brackets; with `angles`, outside of `<>` as well."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        depth += _ANGLES.get(token.text, 0) if angles else 0
        if token.text == "," and depth <= 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def closing(tokens: Sequence[Token], at: int) -> int:
    """Index of the bracket that closes the one at `at`; the last index if none does."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index].text in _OPENING) - (tokens[index].text in _CLOSING)
        if depth <= 0:
            return index
    return len(tokens) - 1


def written(tokens: Sequence[Token]) -> str:
    """Tokens as one line of source, for messages."""
    text = " ".join(token.text for token in tokens)
    text = re.sub(r" ?(::|\.|->) ?", r"\1", text)
    return re.sub(
        r"\s*([()\[\],;])\s*", lambda m: m[1] + (" " if m[1] in ",;" else ""), text
    ).strip()


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
