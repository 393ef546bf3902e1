"""Parts of a C++ file (functions, types, constants, macros), and the statements of its functions.

`cpp_parts` never raises. Braces that only balance under some preprocessor condition are matched per
branch, and `__global__` ends whatever was left open before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keet.agent.source.code_parts import (
    ASSIGNMENTS,
    CodePart,
    PartKind,
    SourceStatement,
    Token,
    after_angles,
    c_tokens,
    closing,
    is_conditional,
    macro_of,
    split_commas,
)

_TYPE_WORDS = frozenset({"struct", "class", "union", "enum"})
_ATTRIBUTES = frozenset(
    """__launch_bounds__ __attribute__ __align__ __cluster_dims__ __maxnreg__ __declspec __asm__
    alignas decltype noexcept requires explicit sizeof asm throw""".split()  # noqa: SIM905
)
"""Names before parentheses in the head of a declaration that are not the declared function."""


def cpp_parts(file: str, text: str) -> list[CodePart]:
    tokens = c_tokens(text)
    braces = _matching_braces(tokens)
    found: list[CodePart] = []
    at = 0
    while at < len(tokens):
        entered = _after_scope_head(tokens, at)
        if entered > at:
            at = entered
            continue
        end, body = _declaration(tokens, at, braces)
        found += _part(file, tokens[at:end], body - at if body else 0)
        at = max(end, at + 1)
    return found


def _matching_braces(tokens: Sequence[Token]) -> dict[int, int]:
    """Index of each opening brace to that of the brace, or resumption, that ends it."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    conditions: list[int] = []
    for at, token in enumerate(tokens):
        text = token.text
        if text == "{":
            opened.append(at)
        elif text == "}" and opened:
            ends[opened.pop()] = at
        elif text == "__global__":
            _close(ends, opened, _open_scopes(tokens, opened), at)
        elif token.kind == "directive":
            _follow(token, conditions, opened, ends, at)
    _close(ends, opened, 0, len(tokens) - 1)
    return ends


def _follow(
    directive: Token, conditions: list[int], opened: list[int], ends: dict[int, int], at: int
) -> None:
    """The branches of a condition start with the same braces open."""
    if is_conditional(directive, "if"):
        conditions.append(len(opened))
    elif is_conditional(directive, "el") and conditions:
        _close(ends, opened, conditions[-1], at)
    elif is_conditional(directive, "endif") and conditions:
        conditions.pop()


def _close(ends: dict[int, int], opened: list[int], keep: int, at: int) -> None:
    while len(opened) > keep:
        ends[opened.pop()] = at


def _open_scopes(tokens: Sequence[Token], opened: Sequence[int]) -> int:
    """How many of the open braces, from the outermost, are of namespaces."""
    for count, at in enumerate(opened):
        before = [token.text for token in tokens[max(0, at - 6) : at]]
        if "namespace" not in before and "extern" not in before:
            return count
    return len(opened)


def _after_scope_head(tokens: Sequence[Token], at: int) -> int:
    """Index after tokens that only open or end a scope: `namespace a {`, `extern "C" {`, `}`."""
    text = tokens[at].text
    if text in ("}", ";", ")"):
        return at + 1
    if text == "inline" and at + 1 < len(tokens) and tokens[at + 1].text == "namespace":
        return at + 1
    if text == "extern" and at + 1 < len(tokens) and tokens[at + 1].kind == "text":
        return at + 3 if at + 2 < len(tokens) and tokens[at + 2].text == "{" else at + 2
    if text != "namespace":
        return at
    for index in range(at, min(len(tokens), at + 40)):
        if tokens[index].text in "{;":
            return index + 1
    return at + 1


def _declaration(tokens: Sequence[Token], start: int, braces: dict[int, int]) -> tuple[int, int]:
    """Index behind the declaration at `start`, and that of its body if it is a function."""
    if tokens[start].kind == "directive":
        return start + 1, 0
    at = start
    called = assigned = False
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "template" and depth == 0 and tokens[at - 1].text != "<":
            at = max(after_angles(tokens, at + 1), at + 1)
            continue
        if text == "{":
            end = braces.get(at, len(tokens) - 1)
            if depth == 0 and called and not assigned:
                return end + 1, at
            at = max(end, at)
        elif text in ("(", "["):
            called |= depth == 0 and text == "(" and tokens[at - 1].text not in _ATTRIBUTES
            depth += 1
        elif text in (")", "]"):
            depth = max(depth - 1, 0)
        elif text == "=" and depth == 0:
            assigned |= at > start and tokens[at - 1].text != "operator"
        elif text == ";" and depth == 0:
            return at + 1, 0
        elif (text == "}" and at > start) or (text == "__global__" and depth):
            return at, 0
        at += 1
    return len(tokens), 0


def _part(file: str, tokens: Sequence[Token], body: int) -> list[CodePart]:
    tokens = _without_directives_around(tokens) if body == 0 else tokens
    if not tokens:
        return []
    first, last = tokens[0].line, tokens[-1].last_line
    if tokens[0].kind == "directive":
        macro = macro_of(tokens[0])
        names = (macro.name,) if macro else ()
        return [CodePart("macro", names, file, first, last, tokens)] if macro else []
    if body:
        name, owners = _function_name(tokens[:body])
        return [
            CodePart("function", (name,) if name else (), file, first, last, tokens, body, owners)
        ]
    kind = _kind(tokens)
    prototype = kind == "prototype"
    defined = (_function_name(tokens)[0],) if prototype else _declared_names(tokens, kind)
    return [CodePart(kind, defined, file, first, last, tokens)]


def _without_directives_around(tokens: Sequence[Token]) -> Sequence[Token]:
    start, end = 0, len(tokens)
    while start + 1 < end and tokens[start].kind == "directive":
        start += 1
    return tokens[start:end]


def _kind(tokens: Sequence[Token]) -> PartKind:
    words = _outer_words(tokens)
    if words & {"typedef", "using"} or (words & _TYPE_WORDS and any(t.text == "{" for t in tokens)):
        return "type"
    if words & _TYPE_WORDS and not words & {"=", "("}:
        return "type"
    if "(" in words and "=" not in words and words & {"void", "__global__", "__device__", "inline"}:
        return "prototype"
    return "value"


def _outer_words(tokens: Sequence[Token]) -> set[str]:
    """Texts outside of brackets and of template headers."""
    words: set[str] = set()
    at = 0
    while at < len(tokens):
        words.add(tokens[at].text)
        if tokens[at].text in ("(", "[", "{"):
            at = closing(tokens, at)
        elif tokens[at].text == "template" and tokens[at - 1].text != "<":
            at = max(after_angles(tokens, at + 1) - 1, at)
        at += 1
    return words


def _function_name(head: Sequence[Token]) -> tuple[str, frozenset[str]]:
    """The name before the last parameter list of the head, and the names before its `::`."""
    found, owners = "", frozenset[str]()
    at = 0
    while at < len(head):
        text = head[at].text
        if text == "template" and head[at - 1].text != "<":
            at = max(after_angles(head, at + 1), at + 1)
            continue
        if text == "operator":
            return "operator", frozenset()
        if text == "(":
            before = head[at - 1] if at else head[at]
            if before.kind == "name" and before.text not in _ATTRIBUTES:
                found, owners = before.text, _owners(head[: at - 1])
            at = closing(head, at)
        elif text == ":" and found:
            break  # initializers of a constructor
        at += 1
    return found, owners


def _owners(before: Sequence[Token]) -> frozenset[str]:
    if not before or before[-1].text != "::":
        return frozenset()
    names = [token.text for token in before[-12:] if token.kind == "name"]
    return frozenset(names[-3:])


def _declared_names(tokens: Sequence[Token], kind: PartKind) -> tuple[str, ...]:
    """What a declaration that is not a function defines."""
    if kind == "type":
        return _type_names(tokens)
    return tuple(each.name for each in declarators(tokens))


def _type_names(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The type, its aliases, and the enumerators of an `enum`."""
    names: list[str] = []
    at = 0
    if tokens[0].text == "template":
        at = max(after_angles(tokens, 1), 1)
    head = tokens[at].text if at < len(tokens) else ""
    while at < len(tokens):
        text = tokens[at].text
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if text in ("(", "["):
            names += [t.text for t in tokens[at : closing(tokens, at)] if t.kind == "name"][:1]
            at = closing(tokens, at)
        elif text == "{":
            end = closing(tokens, at)
            names += _enumerators(tokens[at + 1 : end]) if head == "enum" else []
            at = end
        elif tokens[at].kind == "name" and following in ("{", ";", ":", "=", "<", "["):
            names.append(text)
            if following in ("=", "<", ":"):
                at = _before_body(tokens, at)
        at += 1
    return tuple(dict.fromkeys(names))


def _before_body(tokens: Sequence[Token], at: int) -> int:
    """Bases of a class and the right side of `using` name other types."""
    while at + 1 < len(tokens) and tokens[at + 1].text not in ("{", ";"):
        at += 1
    return at


def _enumerators(tokens: Sequence[Token]) -> list[str]:
    return [
        token.text
        for index, token in enumerate(tokens)
        if token.kind == "name" and (index == 0 or tokens[index - 1].text == ",")
    ]


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
