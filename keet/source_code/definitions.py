"""What CUDA source text defines: structs, enums, names for types, and constants, by their names.

Only enough of C++ is read to know the layout of kernel parameters, see `type_layouts`. Source text
may be hostile: it is read once from its start to its end, without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

ScopedName = tuple[str, ...]
"""A name and the namespaces and structs around it. Namespaces without a name are left out."""

_TOKEN = re.compile(
    r"""
      (?P<skip> \s+ | //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<directive> \# (?: [^\n\\] | \\. )* )
    | R"(?P<mark>[^()\\\s"]{0,16})\( .*? (?: \)(?P=mark)" | \Z )
    | " (?: [^"\\\n] | \\. )* "?
    | ' (?: [^'\\\n] | \\. )* '?
    | [A-Za-z_]\w*
    | \d [\w.']*
    | ::
    | .
    """,
    re.X | re.S,
)
NAME = re.compile(r"[A-Za-z_]\w*\Z")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_ALWAYS = re.compile(r"(?:ifdef|if\s+defined)\s*\(?\s*(?:__CUDACC__|__cplusplus)\s*\)?\s*\Z")
"""Conditions that hold for every CUDA source."""
CLASSES = frozenset({"struct", "class"})
_ALIGNMENTS = frozenset({"alignas", "__align__", "__builtin_align__"})
_ACCESS = frozenset({"public", "private", "protected"})
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPENS = frozenset(_CLOSES.values())
_MOST_SCOPES = 12
"""Namespaces and structs around each other whose definitions are read."""
_MOST_TOKENS = 400
"""Tokens of a header or a statement that is read."""


class Definition(NamedTuple):
    kind: Literal["struct", "enum", "alias", "number", "macro"]
    scope: ScopedName
    """Where the names in it are looked up first."""
    tokens: tuple[str, ...]
    """Of a struct or enum its body, else the type or the number that the name stands for."""
    type: tuple[str, ...] = ()
    """Of an enum, where it names one."""
    alignment: int = 1


def definitions(source: str) -> Iterator[tuple[ScopedName, Definition | None]]:
    """All that a text defines outside of functions. None: a definition that is not understood, or
    that depends on a condition of the preprocessor."""
    text = _TokenStream(source)
    yield from text.macros
    yield from _DefinitionScanner(text).definitions()


class _TokenStream:
    """Tokens. `#` stands for a condition of the preprocessor."""

    def __init__(self, source: str) -> None:
        self.tokens: list[str] = []
        self.is_sure: list[bool] = []
        """By token: whether no condition of the preprocessor is around it."""
        self.macros: list[tuple[ScopedName, Definition | None]] = []
        self.is_packed = False
        """Whether some struct is."""
        self._conditions: list[bool] = []
        """Whether each condition around it holds for sure."""
        self._unsure = 0
        """How many do not."""
        matches = [match for match in _TOKEN.finditer(source) if match.lastgroup != "skip"]
        directives = [_directive(match[0]) for match in matches if match.lastgroup == "directive"]
        followed = iter(zip(directives, [*directives[1:], ("", "")], strict=False))
        for match in matches:
            if match.lastgroup == "directive":
                self._apply_directive(*next(followed))
            else:
                self._add(match[0])

    def _add(self, token: str) -> None:
        self.tokens.append(token)
        self.is_sure.append(not self._unsure)

    def _apply_directive(self, directive: tuple[str, str], following: tuple[str, str]) -> None:
        word, rest = directive
        if word == "define":
            self._define(rest)
        elif word == "pragma":
            self.is_packed |= "pack" in rest
        elif word in ("if", "ifdef", "ifndef"):
            is_include_guard = following == ("define", _guarded(word, rest))
            holds = is_include_guard or bool(_ALWAYS.match(f"{word} {rest}"))
            self._conditions.append(holds)
            self._unsure += not holds
        elif word in ("else", "elif") and self._conditions:
            self._unsure += self._conditions[-1]
            self._conditions[-1] = False
        elif word == "endif" and self._conditions:
            if not self._conditions[-1]:
                self._add("#")
            self._unsure -= not self._conditions.pop()
            return
        if self._unsure and word in ("if", "ifdef", "ifndef", "else", "elif"):
            self._add("#")

    def _define(self, rest: str) -> None:
        """`#define N 4`, `#define real double`."""
        match = re.match(r"(\w+)(.?)", rest, re.S)
        if not match:
            return
        value = rest[match.end(1) : match.end(1) + _MOST_TOKENS]
        tokens = tuple(token[0] for token in _TOKEN.finditer(value) if token.lastgroup != "skip")
        if len(tokens) == 3 and (tokens[0], tokens[2]) == ("(", ")"):
            tokens = tokens[1:2]
        # Others may declare anything: with `#define P float*`, the b of `P a, b` is no pointer.
        is_value = len(tokens) == 1 or (bool(tokens) and all(map(NAME.match, tokens)))
        kind: Literal["alias", "number", "macro"] = "macro"
        if is_value and match[2] != "(":
            kind = "number" if tokens[0][0].isdigit() else "alias"
        definition = Definition(kind, (), tokens)
        self.macros.append(((match[1],), None if self._unsure else definition))


def _guarded(word: str, rest: str) -> str:
    """The name that a condition asks not to be defined; empty for another condition."""
    match = re.match(r"!\s*defined\s*\(?\s*(\w+)\s*\)?\Z", rest)
    return rest if word == "ifndef" else match[1] if word == "if" and match else ""


def _directive(text: str) -> tuple[str, str]:
    """Its word, and the rest."""
    text = _COMMENT.sub(" ", text[1:].replace("\\\n", " ")).strip()
    word = re.match(r"\w*", text)
    assert word is not None
    return word[0], text[word.end() :].strip()


def matched(tokens: Sequence[str]) -> list[int]:
    """By opening bracket, where it is closed; the number of tokens if it is not."""
    closing = [len(tokens)] * len(tokens)
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token in _OPENS:
            opened.append(at)
        elif token in _CLOSES and opened and tokens[opened[-1]] == _CLOSES[token]:
            closing[opened.pop()] = at
    return closing


class _DefinitionScanner:
    """Goes through the tokens of namespaces and structs, and past those of functions."""

    def __init__(self, text: _TokenStream) -> None:
        self._text = text
        self._tokens = text.tokens
        self._matching = matched(text.tokens)
        self._scopes: list[ScopedName] = [()]

    def definitions(self) -> Iterator[tuple[ScopedName, Definition | None]]:
        at = start = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            if token == "{":
                yield from self._block(start, at)
                at = start = self._after(start, at)
                continue
            if token in _OPENS:
                at = self._matching[at]
            elif token == "}":
                self._scopes = self._scopes[:-1] or [()]
                start = at + 1
            elif token == ";":
                yield from self._statement(start, at)
                start = at + 1
            elif token == ":" and self._tokens[at - 1] in _ACCESS:
                start = at + 1
            at += 1

    def _after(self, start: int, opening: int) -> int:
        """Where to go on: in the block of a namespace or struct, or after that of a function."""
        header = self._tokens[start : min(opening, start + _MOST_TOKENS)]
        names = _scope_names(header)
        is_closed = self._matching[opening] < len(self._tokens)
        if names is None or not is_closed or len(self._scopes) > _MOST_SCOPES:
            return self._matching[opening] + 1
        self._scopes.append((*self._scopes[-1], *names))
        return opening + 1

    def _block(self, start: int, opening: int) -> Iterator[tuple[ScopedName, Definition | None]]:
        if opening - start > _MOST_TOKENS or len(self._scopes) > _MOST_SCOPES:
            return
        header, end = self._tokens[start:opening], self._matching[opening]
        declared, scope = _type_header(header), self._scopes[-1]
        if declared is None:
            if {"const", "constexpr"} & set(header) and "(" not in header:
                yield (*scope, header[-1]), None  # constexpr int kRows{4}
            return
        after = self._tokens[end + 1 : end + 3]
        names = [declared.name] if declared.name else []
        if "typedef" in header and len(after) == 2 and NAME.match(after[0]):
            names = list(dict.fromkeys((*names, after[0])))
        definition = None
        is_plain = declared.is_plain and self._text.is_sure[opening] and end < len(self._tokens)
        if is_plain and not self._text.is_packed and "__attribute__" not in after:
            body = tuple(self._tokens[opening + 1 : end])
            inside = scope if declared.kind == "enum" else (*scope, *names[:1])
            definition = Definition(declared.kind, inside, body, declared.type, declared.alignment)
        for name in names:
            yield (*scope, name), definition
        if definition is not None and definition.kind == "enum":
            for part in _parts(definition.tokens):
                number = Definition("number", scope, tuple(part[2:]))
                yield (*scope, *part[:1]), number if "=" in part[1:2] else None

    def _statement(self, start: int, end: int) -> Iterator[tuple[ScopedName, Definition | None]]:
        if not 3 <= end - start <= _MOST_TOKENS:
            return
        tokens_of_statement, scope = self._tokens[start:end], self._scopes[-1]
        for name, kind, tokens in _declared_names(tokens_of_statement):
            definition = Definition(kind, scope, tokens) if self._text.is_sure[start] else None
            yield (*scope, name), definition


def _declared_names(
    statement: Sequence[str],
) -> Iterator[tuple[str, Literal["alias", "number"], tuple[str, ...]]]:
    """Of `using real = double`, `typedef double real` and `constexpr int kRows = 4`."""
    if statement[0] == "using" and statement[2] == "=":
        yield statement[1], "alias", tuple(statement[3:])
    elif statement[0] == "typedef" and NAME.match(statement[-1]):
        tokens = tuple(statement[1:-1])
        if tokens[-1] != statement[-1]:  # typedef struct Grid Grid
            yield statement[-1], "alias", tokens
    elif "=" in statement:
        before = statement[: statement.index("=")]
        if {"const", "constexpr"} & set(before) and not {"(", "<", "["} & set(before):
            start = len(before) - 1
            for part in _parts(statement[start:]):
                if len(part) > 2 and part[1] == "=":
                    yield part[0], "number", tuple(part[2:])


def _parts(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split at commas."""
    start = 0
    for at, token in enumerate((*tokens, ",")):
        if token == ",":
            yield tokens[start:at]
            start = at + 1


class _Header(NamedTuple):
    kind: Literal["struct", "enum"]
    name: str
    type: tuple[str, ...]
    alignment: int
    is_plain: bool
    """Without base classes, template parameters and attributes."""


def _type_header(header: Sequence[str]) -> _Header | None:
    """What is before `{`; None if no type is defined there."""
    keywords = [at for at, token in enumerate(header) if token in CLASSES or token == "enum"]
    if not keywords or "=" in header:
        return None
    at = keywords[0]
    if "(" in header[:at]:
        return None  # void show(struct Grid* grid) {
    is_template = "template" in header
    if is_template:  # template <class T> struct Grid
        at = keywords[-1]
    kind: Literal["struct", "enum"] = "enum" if header[at] == "enum" else "struct"
    rest, alignment = without_alignment(header[at + 1 :])
    if kind == "enum" and rest[:1] and rest[0] in CLASSES:
        rest = rest[1:]
    name = rest[0] if rest and NAME.match(rest[0]) else ""
    rest = [token for token in rest[bool(name) :] if token != "final"]
    if "(" in rest:
        return None  # a function that returns a struct
    has_type = kind == "enum" and rest[:1] == [":"]
    is_plain = not is_template and alignment is not None and (not rest or has_type)
    return _Header(kind, name, tuple(rest[1:]) if has_type else (), alignment or 1, is_plain)


def without_alignment(tokens: Sequence[str]) -> tuple[list[str], int | None]:
    """Without `alignas(16)` at its start, and that number, else 1; None if it is no number."""
    if len(tokens) < 4 or tokens[0] not in _ALIGNMENTS or tokens[1] != "(":
        return list(tokens), 1
    is_number = tokens[2].isdigit() and tokens[3] == ")"
    value = int(tokens[2]) if is_number and len(tokens[2]) < 4 else 0
    return list(tokens[4:]), value if value and not value & (value - 1) else None


def _scope_names(header: Sequence[str]) -> ScopedName | None:
    """The names that a block adds to the scope of what is in it; None for other blocks."""
    if "namespace" in header[:2]:
        return tuple(
            token for token in header[header.index("namespace") + 1 :] if NAME.match(token)
        )
    if list(header[:1]) == ["extern"] and len(header) == 2:
        return ()
    declared = _type_header(header)
    return (declared.name,) if declared is not None and declared.kind == "struct" else None
