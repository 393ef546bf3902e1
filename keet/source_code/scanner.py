"""Definitions and statements of C++, Python and Fortran files, by their lines.

There is no grammar: comments and strings are blanked, then brackets, indentation and names are
found by regular expressions. Any text gives a result, in about linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from keet.source_code.syntax import BRACKET, after_angles, closing_bracket, split_commas

PartKind = Literal["function", "type", "value", "macro", "module"]

_TEXTS = r""""(?:[^"\\\n]++|\\[\s\S]|\\\Z)*+"?|(?<!\w)'(?:[^'\\\n]++|\\[\s\S]|\\\Z)*+'?"""
_C_HIDDEN = re.compile(
    r"//(?:[^\n\\]++|\\[\s\S]|\\\Z)*+|/\*[\s\S]*?(?:\*/|\Z)"
    rf'|R"(?P<mark>[^()\s\\"]{{0,16}})\([\s\S]*?(?:\)(?P=mark)"|\Z)|{_TEXTS}'
)
_PYTHON_HIDDEN = re.compile(rf'#[^\n]*+|"""[\s\S]*?(?:"""|\Z)|\'\'\'[\s\S]*?(?:\'\'\'|\Z)|{_TEXTS}')
_FORTRAN_HIDDEN = re.compile(r"!.*|'[^'\n]*'?|\"[^\"\n]*\"?")
NAME = re.compile(r"[^\W\d]\w*")
_MEMBER = re.compile(r"(?:\.|->)\s*[^\W\d]\w*")
_DEVICE = re.compile(
    r"\b(?:__global__|__device__|constexpr|consteval|[A-Z_]*(?:DEVICE|FUNC)[A-Z_]*)\b"
)
"""Also macros such as `HOST_DEVICE`."""
_MOST_HEADERS = 8


def is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def is_fortran(path: str) -> bool:
    return path.lower().endswith((".f90", ".f95", ".f03", ".f08", ".f", ".for", ".cuf"))


class CodePart(NamedTuple):
    """One definition. `first` and `last` are its lines, both included."""

    kind: PartKind
    names: tuple[str, ...]
    file: str
    first: int
    last: int
    text: str
    """Without comments, contents of strings and, except in a macro, preprocessor directives."""
    body: int = 0
    """Where the body of a function starts in `text`; 0 for the others."""

    @property
    def head(self) -> str:
        return self.text[: self.body or None]

    @property
    def in_cpp(self) -> bool:
        return not (is_python(self.file) or is_fortran(self.file))

    @property
    def on_device(self) -> bool:
        """Whether the device can run it: perhaps, for every Python and Fortran function."""
        return not self.in_cpp or bool(_DEVICE.search(self.head))

    @property
    def is_kernel(self) -> bool:
        return self.kind == "function" and "__global__" in self.head

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def head_lines(self) -> range:
        return range(self.first, self.first + self.text.count("\n", 0, self.body) + bool(self.body))


class SourceStatement(NamedTuple):
    first: int
    last: int
    text: str
    headers: tuple[int, ...] = ()
    """Indexes of the nearest `for (...)`, `if (...)` and lambda heads around it."""
    indent: int = 0
    """In Python."""

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


def names_of(text: str, *, members: bool = False) -> set[str]:
    """Names of blanked text, without members after `.` and `->` unless asked for."""
    return set(NAME.findall(text if members else _MEMBER.sub(" ", text)))


def blanked(file: str, text: str) -> str:
    """The text with comments and contents of strings as spaces; no position changes."""
    if is_python(file):
        return _PYTHON_HIDDEN.sub(_spaces, text)
    return (_FORTRAN_HIDDEN if is_fortran(file) else _C_HIDDEN).sub(_spaces, text)


def _spaces(match: re.Match[str]) -> str:
    """Of a string, two quotes stay."""
    hidden = re.sub(r"[^\n]", " ", match[0])
    return hidden if match[0][0] in "/#!" or len(hidden) < 2 else f'""{hidden[2:]}'


@lru_cache(maxsize=32)
def parts_of(file: str, text: str) -> tuple[CodePart, ...]:
    code = blanked(file, text)
    if is_python(file):
        return tuple(_python_parts(file, code))
    return tuple(_fortran_parts(file, code) if is_fortran(file) else _cpp_parts(file, code))


@lru_cache(maxsize=256)
def statements_of(part: CodePart) -> tuple[SourceStatement, ...]:
    """Statements of a function or module, also those of nested blocks."""
    return tuple(_cpp_statements(part) if part.in_cpp else _line_statements(part))


# --- C++

DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]++|\\[\s\S]|\\\Z)*+", re.MULTILINE)
_DEFINE = re.compile(r"\s*#\s*define[ \t]+(\w+)(\([^)\n]*\))?")
_SCOPE = re.compile(
    r'(?:inline\s+)?namespace\b[^;{}()=]{0,200}\{|extern\s*"[^"\n]*"\s*\{?|[;})\s]+'
)
_SIGN = re.compile(r"[{}();=]|\btemplate\s*(?=<)")
_NO_FUNCTIONS = frozenset(
    """__launch_bounds__ __attribute__ __align__ __cluster_dims__ __maxnreg__ __declspec __asm__
    alignas decltype noexcept requires explicit sizeof asm throw""".split()  # noqa: SIM905
)
"""Names before parentheses in the head of a declaration that are not the declared function."""
_OPERATOR = re.compile(r"\boperator\b")
_CALLED = re.compile(r"([^\W\d]\w*)\s*\(")
_TYPE = re.compile(r"\s*(?:typedef|using|struct|class|union|enum)\b")
_PROTOTYPE = re.compile(r"[\w\s]*\b(?:void|__global__|__device__|inline)\b[^=;{(]*\([^=;{]*;")
_DECLARED = re.compile(
    r"\s*(?P<type>(?:[\w:]++(?:\s*<[^;{}()]{0,160}>)?[\s*&]++)+)(?P<name>[^\W\d]\w*+)\s*"
    r"(?=[=;,\[({:)]|$)"
)
_NEXT_DECLARED = re.compile(r"(?P<pointer>[\s*&]*)(?P<name>[^\W\d]\w*+)\s*(?=[=;,\[({]|$)")
_NO_TYPES = frozenset(
    """return delete else case goto throw new if for while do switch break continue using namespace
    template typedef default public private protected sizeof operator friend""".split()  # noqa: SIM905
)
_BLOCK_BEFORE = re.compile(r"(?:[)\];{}:]|\b(?:else|do|try|mutable|noexcept|const))\s*$")
_LOOP_HEAD = re.compile(r"\s*(?:for|if|while|switch)\s*\(")


def macro_value(directive: str) -> tuple[str, str] | None:
    """Name and text of a `#define` without parameters."""
    match = _DEFINE.match(directive)
    if match is None or match[2]:
        return None
    return match[1], directive[match.end() :].replace("\\\n", " ").strip()


def _cpp_parts(file: str, text: str) -> Iterator[CodePart]:
    starts = [0, *(match.end() for match in re.finditer(r"\n", text))]
    code = DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)

    def part(kind: PartKind, names: Sequence[str], at: int, end: int, body: int = 0) -> CodePart:
        first, last = bisect_right(starts, at), bisect_right(starts, max(end - 1, at))
        part_text = text[at:end] if kind == "macro" else code[at:end]
        return CodePart(kind, tuple(names), file, first, last, part_text, body and body - at)

    for match in DIRECTIVE.finditer(text):
        if macro := _DEFINE.match(match[0]):
            yield part("macro", [macro[1]], match.start(), match.end())
    at = 0
    while at < len(code):
        if scope := _SCOPE.match(code, at):
            at = scope.end()
            continue
        end, body = _declaration(code, at)
        declared = code[at:end]
        if body:
            head = without_template(code[at:body])
            called = [name for name in _CALLED.findall(head) if name not in _NO_FUNCTIONS]
            names = ["operator"] if _OPERATOR.search(head) else called[:1]
            yield part("function", names, at, end, body)
        elif _TYPE.match(without_template(declared)):
            yield part("type", _type_names(without_template(declared)), at, end)
        elif not _PROTOTYPE.match(declared):
            yield part("value", [name for name, _, _ in declarators(declared)], at, end)
        at = end


def _declaration(code: str, start: int) -> tuple[int, int]:
    """The end of the declaration at `start`, and the start of its body if it is a function. A
    kernel ends what was left open before it."""
    at, called, assigned = start, False, False
    while match := _SIGN.search(code, at):
        sign, at = match[0], match.start()
        if sign in "{(":
            end = closing_bracket(code, at)
            is_body = sign == "{" and called and not assigned
            kernel = code.find("__global__", at, end)
            if is_body or kernel >= 0:
                return (kernel if kernel >= 0 else end + 1), (at if is_body else 0)
            words = re.findall(r"(\w*)\s*$", code[max(start, at - 80) : at])
            called |= sign == "(" and not _NO_FUNCTIONS.intersection(words)
            at = end + 1
        elif sign[0] == "t":
            at = max(after_angles(code, match.end()), match.end())
        elif sign == "}" and at > start:
            return at, 0
        else:
            if sign == ";":
                return at + 1, 0
            assigned |= sign == "=" and not _OPERATOR.search(code, max(start, at - 20), at)
            at += 1
    return len(code), 0


def without_template(text: str) -> str:
    while match := re.match(r"\s*template\s*(?=<)", text):
        text = text[max(after_angles(text, match.end()), match.end()) :]
    return text


def _type_names(text: str) -> list[str]:
    """The type, its aliases, and the enumerators of an `enum`."""
    head, brace, _ = text.partition("{")
    end = closing_bracket(text, len(head)) if brace else len(text)
    before = re.split(r"(?<!:)[:=](?!:)", re.sub(r"<.*>|\([^()]*\)", "", head))[0]
    enumerators = split_commas(text[len(head) + 1 : end]) if re.search(r"\benum\b", head) else []
    names = [*NAME.findall(before)[-1:], *NAME.findall(text[end:])]
    return names + [name for enumerator in enumerators for name in NAME.findall(enumerator)[:1]]


def declarators(text: str) -> list[tuple[str, str, str | None]]:
    """Name, type and initializer (None for arrays, and without one) of the variables that
    `const int a = 1, *b;` declares; empty if it is not a declaration."""
    if loop := _LOOP_HEAD.match(text):
        text = text[loop.end() :].partition(";")[0]
    match = _DECLARED.match(text)
    if match is None or names_of(match["type"]) & _NO_TYPES:
        return []
    variables: list[tuple[str, str, str | None]] = []
    for declared in split_commas(text[match.start("name") :].rstrip("; \n\t")):
        if name := _NEXT_DECLARED.match(declared):
            rest = declared[name.end() :]
            inside = rest[1 : closing_bracket(rest, 0)] if rest[:1] in ("(", "{") else None
            value = rest[1:] if rest[:1] == "=" else inside
            kind = match["type"] + (name["pointer"] if variables else "")
            variables.append((name["name"], kind, value.strip() if value is not None else None))
    return variables


def _cpp_statements(part: CodePart) -> Iterator[SourceStatement]:
    text, starts = part.text, [0, *(match.end() for match in re.finditer(r"\n", part.text))]
    outer: list[tuple[int, int]] = []
    """Of each open block: the index of its header, and the open parentheses around it."""
    count, depth, start = 0, 0, part.body + 1
    sign = re.compile(r"[()\[\]{};]")
    at = start if part.body else len(text)
    while match := sign.search(text, at):
        at, bracket = match.end(), match[0]
        is_block = not text[start : match.start()].strip() or _BLOCK_BEFORE.search(
            text, max(start, match.start() - 40), match.start()
        )
        if bracket == "{" and not is_block:
            at = closing_bracket(text, match.start()) + 1
        elif bracket in "{}" or (bracket == ";" and depth == 0):
            name = NAME.search(text, start, match.start())
            if name:
                begin = match.start() - len(text[start : match.start()].lstrip())
                first = part.first + bisect_right(starts, begin) - 1
                last = part.first + bisect_right(starts, match.start()) - 1
                headers = tuple(header for header, _ in outer[-_MOST_HEADERS:] if header >= 0)
                yield SourceStatement(first, last, text[begin : match.start()].rstrip(), headers)
                count += 1
            if bracket == "{":
                outer.append((count - 1 if name else -1, depth))
            depth = outer.pop()[1] if bracket == "}" and outer else 0
            start = at
        else:
            depth = max(depth + (bracket in "([") - (bracket in ")]"), 0)


# --- Python and Fortran

_DEFINITION = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")
_ASSIGNED = re.compile(
    r"(?P<names>\(?[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*,?\)?)\s*(?::[^=]*)?=(?!=)\s*"
)
_PROCEDURE = re.compile(
    r"\s*(?:(?:pure|elemental|recursive|impure)\s+|attributes\s*\([^)\n]*\)\s*)*"
    r"(?:subroutine|function|program)\s+(\w+)",
    re.IGNORECASE,
)
_PROCEDURE_END = re.compile(r"\s*end\s*(?:subroutine|function|program)\b|\s*end\s*$", re.IGNORECASE)
_PARAMETER = re.compile(r"[^\n]*,\s*parameter\b[^\n]*::", re.IGNORECASE)
_OPENACC_NAME = re.compile(r"(\w+?)_\d+_gpu(?:__red)?")


def procedure_of(kernel: str) -> str:
    """nvfortran names the kernel of a loop after its procedure and line: `advance_279_gpu`."""
    match = _OPENACC_NAME.fullmatch(kernel)
    return match[1] if match else kernel


def assigned_values(line: str) -> list[tuple[str, str]]:
    """Each name left of `=` in Python with its expression; `a, b = 1, 2` is taken apart."""
    match = _ASSIGNED.match(line)
    if match is None:
        return []
    names, right = NAME.findall(match["names"]), line[match.end() :].strip()
    values = split_commas(right) if len(names) > 1 else [right]
    return list(zip(names, values if len(values) == len(names) else [right] * len(names)))


def _logical_lines(code: str) -> Iterator[SourceStatement]:
    lines = code.split("\n")
    start, depth = -1, 0
    for number, line in enumerate(lines):
        if start < 0 and not line.strip():
            continue
        start = number if start < 0 else start
        depth += sum((m[0] in "([{") - (m[0] in ")]}") for m in BRACKET.finditer(line))
        if (depth <= 0 and not line.endswith("\\")) or number == len(lines) - 1:
            text = "\n".join(lines[start : number + 1])
            indent = len(text) - len(text.lstrip())
            yield SourceStatement(start + 1, number + 1, text.strip(), (), indent)
            start, depth = -1, 0


def _python_parts(file: str, code: str) -> Iterator[CodePart]:
    """Functions and classes at any depth, assignments of the module, and the module itself as a
    part, with the statements outside of functions."""
    lines, texts = list(_logical_lines(code)), code.split("\n")
    outside = list(texts)
    for at, line in enumerate(lines):
        definition = _DEFINITION.match(line.text)
        if definition:
            start, end = at, at + 1
            while start and lines[start - 1].text.startswith("@"):
                start -= 1
            while end < len(lines) and lines[end].indent > line.indent:
                end += 1
            first, last = lines[start].first, lines[end - 1].last
            outside[first - 1 : last] = [""] * (last - first + 1)
            body = sum(len(text) + 1 for text in texts[first - 1 : line.last])
            text = "\n".join(texts[first - 1 : last])
            yield CodePart("function", (definition[1],), file, first, last, text, body)
    for line in _logical_lines("\n".join(outside)):
        names = [name for name, _ in assigned_values(line.text)]
        if names and line.indent == 0:
            yield CodePart("value", tuple(names), file, line.first, line.last, line.text)
    if any(outside):
        yield CodePart("module", (), file, 1, len(texts), "\n".join(outside))


def _line_statements(part: CodePart) -> Iterator[SourceStatement]:
    """Logical lines of a Python function or module, with the heads of the blocks around them.
    Fortran is not split."""
    heads: list[tuple[int, int]] = []
    before = part.first - 1 + part.text.count("\n", 0, part.body)
    lines = _logical_lines(part.text[part.body :]) if is_python(part.file) else ()
    for index, line in enumerate(lines):
        while heads and heads[-1][0] >= line.indent:
            heads.pop()
        around = tuple(head for _, head in heads[-_MOST_HEADERS:])
        first, last = before + line.first, before + line.last
        yield line._replace(first=first, last=last, headers=around)
        if line.text.endswith(":"):
            heads.append((line.indent, index))


def _fortran_parts(file: str, code: str) -> Iterator[CodePart]:
    opened: list[tuple[str, int]] = []
    lines = code.split("\n")
    for number, line in enumerate(lines, 1):
        if _PARAMETER.match(line):
            names = tuple(name for name, _ in fortran_values(line))
            yield CodePart("value", names, file, number, number, line)
        elif _PROCEDURE_END.match(line) and opened:
            name, first = opened.pop()
            text = "\n".join(lines[first - 1 : number])
            yield CodePart("function", (name,), file, first, number, text)
        elif start := _PROCEDURE.match(line):
            opened.append((start[1], number))


def fortran_values(line: str) -> list[tuple[str, str]]:
    """`a` and `1` of `integer, parameter :: a = 1`."""
    pairs = [pair.partition("=") for pair in split_commas(line.partition("::")[2])]
    return [(name.strip(), value.strip()) for name, equals, value in pairs if equals]
