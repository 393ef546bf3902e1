"""Sizes and members of types, from source text: `struct Nodes { double *x, *v; int count; };`.

Layouts follow the rules of C++ on Linux. What is not understood stays unknown, and so does all that
comes after it in the struct: base classes, virtual functions, templates, unions, bit fields, packed
structs, macros that declare members, and definitions that depend on `#if`. A name that is defined
twice in different ways is unknown, too. Nesting and sizes are bounded, as source may be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from keet.source_code.constants import Number, evaluate
from keet.source_code.definitions import (
    CLASSES,
    NAME,
    Definition,
    ScopedName,
    definitions,
    matched,
    without_alignment,
)
from keet.source_code.syntax import SIZES

POINTER = 8
_BUILTIN = """bool char short int unsigned float double half half2 __half __half2 __nv_bfloat16
    __nv_bfloat162 dim3"""
_WORD_SIZES = {name: SIZES[name] for name in _BUILTIN.split()} | {"signed": 4, "long": 8}
"""By the words of which a type may have several: `unsigned long`."""
_ALIASES = """uint ushort size_t ptrdiff_t uintptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t
    uint32_t uint64_t"""
_WHOLE_NAMES = {name: SIZES[name] for name in _ALIASES.split()} | dict.fromkeys(
    ("intptr_t", "cudaTextureObject_t", "cudaSurfaceObject_t"), 8
)
_ALIGNED = {"dim3": 4}
_VECTOR = re.compile(r"u?(char|short|int|long|longlong|float|double)([1-4])\Z")
_VECTOR_ALIGNMENT = 16
"""At most: `double4` has 32 bytes."""
_QUALIFIERS = frozenset(
    ["const", "volatile", "restrict", "__restrict__", "__restrict", "mutable", "typename"]
)
TYPE_WORDS = frozenset(_WORD_SIZES) | _QUALIFIERS

_MOST_TEXT = 4_000_000
"""Characters of source that are read for one kernel."""
_DEEPEST_STRUCTS = 8
"""Structs in structs, and names that stand for other ones."""
_MOST_MEMBERS = 500
_MOST_WORDS = 24
"""Of an expression or a type."""
_LARGEST_STRUCT = 1 << 20
"""Bytes of a struct. All parameters of a kernel have less than that."""


class Member(NamedTuple):
    """A value or pointer in a type. A type that is no struct has one, with the path ``."""

    offset: int
    path: str
    """`.x`, `.parts[2].y`."""
    is_pointer: bool
    element: int = 0
    """Bytes of what a pointer points to; 0 if not known."""


class Layout(NamedTuple):
    size: int
    alignment: int
    members: tuple[Member, ...] = ()
    is_whole: bool = True
    """False: the type has members after these, which are not understood."""


def builtin(names: Sequence[str]) -> Layout | None:
    """Of a type that the compiler knows, by its words: `unsigned long`; None for another one."""
    words = [name for name in names if name not in _QUALIFIERS]
    if not words:
        return None
    whole = _WHOLE_NAMES.get(words[-1])
    if whole and words[:-1] in ([], ["::"], ["std", "::"]):
        return _value(whole, whole)
    vector = _VECTOR.match(words[0]) if len(words) == 1 else None
    if vector:
        size, count = _WORD_SIZES[vector[1].replace("longlong", "long")], int(vector[2])
        return _value(size * count, size if count == 3 else min(size * count, _VECTOR_ALIGNMENT))
    if not all(name in _WORD_SIZES for name in words) or {"long", "double"} <= set(words):
        return None
    named = [name for name in words if name not in ("unsigned", "signed", "int")]
    last = named[-1] if named else "int"
    return _value(_WORD_SIZES[last], _ALIGNED.get(last, _WORD_SIZES[last]))


def _value(size: int, alignment: int) -> Layout:
    return Layout(size, alignment, (Member(0, "", is_pointer=False),))


def pointer(to: Layout | None = None) -> Layout:
    element = to.size if to is not None and to.is_whole else 0
    return Layout(POINTER, POINTER, (Member(0, "", is_pointer=True, element=element),))


class SourceTypes:
    """The types that source files define. A file is read when a name in it is asked for."""

    def __init__(self, sources: Iterable[str | None]) -> None:
        self._unread = [text for text in sources if text]
        self._left = _MOST_TEXT
        self._found: dict[ScopedName, Definition | None] = {}
        """None: not understood, or defined in several ways."""
        self._layouts: dict[int, tuple[Definition, Layout]] = {}
        self._numbers: dict[int, tuple[Definition, Number]] = {}

    def layout(self, qualified: str) -> Layout | None:
        """Of a struct or enum, by its name in a demangled signature."""
        text = re.sub(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::", "", qualified)
        names = [word for word in text.replace("::", " :: ").split() if word not in _QUALIFIERS]
        if not names or not all(word == "::" or NAME.match(word) for word in names):
            return None
        definition = self._lookup(names, ())
        return (
            self._layout_of(definition, 0)
            if definition and definition.kind in ("struct", "enum")
            else None
        )

    # --- names

    def _lookup(self, names: Sequence[str], scope: ScopedName) -> Definition | None:
        """What a name stands for: the innermost scope that has it counts."""
        path = self._path(names, scope)
        return self._found[path] if path is not None else None

    def _path(
        self, names: Sequence[str], scope: ScopedName, *, reads: bool = True
    ) -> ScopedName | None:
        path_names = tuple(name for name in names if name != "::")
        if reads:
            self._read_files_with(path_names[-1])
        paths = ((*scope[:length], *path_names) for length in range(len(scope), -1, -1))
        return next((path for path in paths if path in self._found), None)

    def _may_declare(self, names: Sequence[str]) -> bool:
        """Whether the words before `(` may be macros that declare members."""
        definition = self._found.get((names[-1],))
        is_macro = definition is None or (definition.kind == "macro" and bool(definition.tokens))
        if (names[-1],) in self._found and is_macro:
            return True
        others = (self._found.get((name,)) for name in names)
        return any(
            macro is not None and macro.kind == "macro" and ";" in macro.tokens for macro in others
        )

    def _read_files_with(self, name: str) -> None:
        for text in [text for text in self._unread if name in text]:
            self._unread.remove(text)
            self._left -= len(text)
            if self._left < 0:  # too much to know whether a name is defined twice
                self._found = dict.fromkeys(self._found)
                self._unread = []
                return
            for path, definition in definitions(text):
                earlier = self._found.get(path, definition)
                self._found[path] = definition if definition == earlier else None

    # --- layouts

    def _layout_of(self, definition: Definition, depth: int) -> Layout | None:
        if depth > _DEEPEST_STRUCTS:
            return None
        if definition.kind == "alias":
            return self._type(definition.tokens, definition.scope, depth)
        if definition.kind == "enum":
            return self._enum(definition, depth)
        if definition.kind != "struct":
            return None
        if id(definition) not in self._layouts:
            # Until it is known, it is empty: a struct that contains itself is no C++.
            self._layouts[id(definition)] = definition, Layout(0, 1, is_whole=False)
            self._layouts[id(definition)] = definition, self._struct(definition, depth)
        return self._layouts[id(definition)][1]

    def _type(self, tokens: Sequence[str], scope: ScopedName, depth: int) -> Layout | None:
        """Of `const double *`, `ns::Grid`."""
        words = [token for token in tokens if token not in _QUALIFIERS]
        if len(words) > _MOST_WORDS:
            return None
        stars = 0
        while words and words[-1] in ("*", "&"):
            stars += 1
            words.pop()
        if words and (words[0] in CLASSES or words[0] == "enum"):
            words = words[1:]
        base = self._named(words, scope, depth)
        return pointer(base if stars == 1 else None) if stars else base

    def _named(self, names: Sequence[str], scope: ScopedName, depth: int) -> Layout | None:
        if not names or not all(name == "::" or NAME.match(name) for name in names):
            return None
        layout = builtin(names)
        # A file that is read already may define the word: `#define float double`.
        identifiers = [name for name in names if NAME.match(name)]
        if layout and not any(self._path([name], scope, reads=False) for name in identifiers):
            return layout
        definition = self._lookup(names, scope)
        return self._layout_of(definition, depth + 1) if definition is not None else None

    def _enum(self, definition: Definition, depth: int) -> Layout | None:
        """As large as the type that it names; else an int, unless its values may be larger."""
        if definition.type:
            return self._type(definition.type, definition.scope, depth + 1)
        numbers = [token for token in definition.tokens if token[0].isdigit()]
        is_large = any(len(token) > 9 or token[-1] in "lL" for token in numbers)
        return None if is_large or "#" in definition.tokens else _value(4, 4)

    def _struct(self, definition: Definition, depth: int) -> Layout:
        offset, alignment, members = 0, definition.alignment, list[Member]()
        if "virtual" in definition.tokens:
            return Layout(0, alignment, is_whole=False)
        for name, layout in self._members(definition, depth):
            if layout is None:
                return Layout(offset, alignment, tuple(members), is_whole=False)
            offset = -(-offset // layout.alignment) * layout.alignment
            members += (
                member._replace(offset=offset + member.offset, path=f".{name}{member.path}")
                for member in layout.members
            )
            offset += layout.size
            alignment = max(alignment, layout.alignment)
            if not layout.is_whole or len(members) > _MOST_MEMBERS or offset > _LARGEST_STRUCT:
                return Layout(offset, alignment, tuple(members[:_MOST_MEMBERS]), is_whole=False)
        return Layout(-(-max(offset, 1) // alignment) * alignment, alignment, tuple(members))

    def _members(self, definition: Definition, depth: int) -> Iterator[tuple[str, Layout | None]]:
        """In their order; the last has the layout None if it is not understood."""
        for declared in _declarations(definition, self._may_declare):
            if declared is None:
                yield "", None
                return
            if declared.body is not None:
                base = self._layout_of(declared.body, depth + 1)
            else:
                base = self._type(declared.type, definition.scope, depth)
            for declarator in declared.names:
                layout = base
                if declarator.stars:
                    layout = pointer(base if declarator.stars == 1 else None)
                layout = self._array(layout, declarator.sizes, definition.scope)
                if layout is not None and declared.alignment > layout.alignment:
                    layout = layout._replace(alignment=declared.alignment)
                yield declarator.name, layout

    def _array(
        self, layout: Layout | None, sizes: Sequence[Sequence[str]], scope: ScopedName
    ) -> Layout | None:
        """Each pointer in an array is a member; other values are one together."""
        for expression in reversed(sizes):
            count = self._number(expression, scope)
            if (
                layout is None
                or not layout.is_whole
                or not count
                or not 0 < layout.size * count <= _LARGEST_STRUCT
            ):
                return None
            size, members = layout.size, layout.members[:1]
            if any(member.is_pointer for member in layout.members):
                if count * len(layout.members) > _MOST_MEMBERS:
                    return None
                members = tuple(
                    member._replace(offset=at * size + member.offset, path=f"[{at}]{member.path}")
                    for at in range(count)
                    for member in layout.members
                )
            elif members:
                members = (members[0]._replace(offset=0, path=""),)
            layout = Layout(size * count, layout.alignment, members)
        return layout

    def _number(self, expression: Sequence[str], scope: ScopedName, depth: int = 0) -> int | None:
        """The value of an expression of numbers and constants; None for anything else."""
        if depth > _DEEPEST_STRUCTS or len(expression) > _MOST_WORDS:
            return None
        constants: dict[str, Number] = {}
        for name in dict.fromkeys(filter(NAME.match, expression)):
            constant = self._lookup([name], scope)
            if constant is None or constant.kind not in ("number", "alias"):
                return None
            if id(constant) not in self._numbers:
                number = self._number(constant.tokens, constant.scope, depth + 1)
                if number is None:
                    return None
                self._numbers[id(constant)] = constant, number
            constants[name] = self._numbers[id(constant)][1]
        value = evaluate(" ".join(expression), constants, {})
        return value if isinstance(value, int) and abs(value) <= _LARGEST_STRUCT else None


# --- the members that a struct declares


class _Named(NamedTuple):
    name: str
    stars: int
    sizes: tuple[tuple[str, ...], ...]
    """Expressions, of an array."""


class _Declaration(NamedTuple):
    type: tuple[str, ...]
    names: tuple[_Named, ...]
    body: Definition | None = None
    """`struct { float* x; } part;`."""
    alignment: int = 1


_NO_MEMBERS = frozenset(
    ["static", "friend", "using", "typedef", "static_assert", "_Static_assert", "template"]
)
_LABELS = frozenset(["public", "private", "protected"])
_AFTER_ARGUMENTS = frozenset(
    ["const", "volatile", "noexcept", "override", "final", "=", ":", ";", "{", "-", "&"]
)


def _declarations(
    definition: Definition, may_declare: Callable[[Sequence[str]], bool]
) -> Iterator[_Declaration | None]:
    """Of members, in their order; the last is None if it is not understood."""
    body = _Body(definition)
    at, end = 0, len(body.tokens)
    while at < end:
        if body.tokens[at] == ";":
            at += 1
            continue
        if body.tokens[at] in _LABELS:
            at += 2
            continue
        start, at = at, body.statement_end(at)
        statement = body.tokens[start:at]
        if statement[-1] not in (";", "}") or "#" in statement:
            yield None
            return
        if _declares_no_member(statement):
            continue
        if (names := body.function(start, at)) and not may_declare(names):
            continue
        declared = body.declaration(start, at - 1) if statement[-1] == ";" else None
        yield declared
        if declared is None:
            return


def _declares_no_member(statement: Sequence[str]) -> bool:
    if statement[0] in _NO_MEMBERS or "static" in statement[:4]:
        return True
    if statement[0] not in CLASSES and statement[0] != "enum":
        return False
    if "{" not in statement:
        return len(statement) == 3  # `struct Other;`
    has_name = statement[0] == "enum" or statement[1] != "{"
    return statement[-2] == "}" and has_name  # a type that is only defined here


class _Body:
    def __init__(self, definition: Definition) -> None:
        self.scope = definition.scope
        self.tokens = definition.tokens
        self.matching = matched(definition.tokens)

    def statement_end(self, at: int) -> int:
        """The place after its semicolon, or after the body of a function."""
        has_arguments = is_value = is_operator = False
        if self.tokens[at] == "template":
            at = self._after_template(at + 1, len(self.tokens)) + 1
        while at < len(self.tokens):
            token = self.tokens[at]
            closing = min(self.matching[at], len(self.tokens) - 1)
            if token == ";":
                return at + 1
            is_operator |= token == "operator"
            is_value |= token == "=" and not has_arguments and not is_operator
            if token == "(":
                has_arguments |= not is_value
                at = closing
            elif token == "{":
                at = closing
                following = self.tokens[at + 1 : at + 2]
                # `Grid() : size{4}, rows(2) {}`: not its body yet.
                if has_arguments and following not in ((",",), ("{",)):
                    return at + 1
            elif token == "[":
                at = closing
            at += 1
        return at

    def function(self, start: int, end: int) -> Sequence[str]:
        """The words of a function that is declared, its name last; empty if it is a member."""
        tokens = self.tokens[start:end]
        if "(" not in tokens:
            return ()
        opening = start + tokens.index("(")
        before = self.tokens[start:opening]
        if "operator" in before:
            return ("operator",)
        names = [token for token in before if NAME.match(token)]
        is_plain = "=" not in before and "{" not in before and names and before[-1] == names[-1]
        if not is_plain or names[0] in ("alignas", "__align__", "__attribute__"):
            return ()
        owner = self.scope[-1] if self.scope else ""
        after = self.tokens[self.matching[opening] + 1 : self.matching[opening] + 2]
        is_named = before[-1] == owner or len(names) > 1
        return names if is_named and after and after[0] in _AFTER_ARGUMENTS else ()

    def declaration(self, start: int, end: int) -> _Declaration | None:
        """`const double *x, *y[3] = {}`."""
        tokens, alignment = without_alignment(self.tokens[start:end])
        start = end - len(tokens)
        body = None
        if tokens and tokens[0] in CLASSES and "{" in tokens:
            opening = start + tokens.index("{")
            if opening - start > 2:
                return None
            inside = self.tokens[opening + 1 : self.matching[opening]]
            body = Definition("struct", (*self.scope, *tokens[1:2]), inside)
            start = self.matching[opening] + 1
        parts = self._parts(start, end)
        if parts is None or alignment is None:
            return None
        first, sizes = parts[0]
        split = len(first) - 1
        while split > 0 and first[split - 1] in ("*", "&"):
            split -= 1
        parts[0] = first[max(split, 0) :], sizes
        names = [_named(*part) for part in parts]
        type_ = tuple(first[: max(split, 0)])
        if None in names or _is_type(type_) == (body is not None):
            return None
        return _Declaration(type_, tuple(filter(None, names)), body, alignment)

    def _parts(self, at: int, end: int) -> list[tuple[list[str], list[tuple[str, ...]]]] | None:
        """Words and array sizes between commas, without initialisers and qualifiers."""
        parts: list[tuple[list[str], list[tuple[str, ...]]]] = [([], [])]
        is_value = False
        while at < end:
            token = self.tokens[at]
            names, sizes = parts[-1]
            closing = self.matching[at]
            if token == ",":
                parts.append(([], []))
                is_value = False
            elif is_value or token in ("=", "{"):
                is_value = True
                at = closing if token in ("(", "[", "{") else at
            elif token == "[":
                sizes.append(self.tokens[at + 1 : closing])
                at = closing
            elif token == "(":  # `void (*done)(int)`
                after = self.tokens[closing + 1 : closing + 2]
                if self.tokens[at + 1 : at + 2] != ("*",) or closing != at + 3 or after != ("(",):
                    return None
                names += self.tokens[at + 1 : closing]
                at = self.matching[closing + 1]
            elif token == "<":
                at = self._after_template(at, end)
                names.append("<>")
            elif sizes or not (NAME.match(token) or token in ("*", "&", "::")):
                return None
            elif token not in _QUALIFIERS:
                names.append(token)
            at += 1
        return parts

    def _after_template(self, at: int, end: int) -> int:
        """Where `<` is closed. Only a pointer to such a type has a known size."""
        depth = 0
        while at < end:
            depth += (self.tokens[at] == "<") - (self.tokens[at] == ">")
            if depth == 0:
                return at
            at = self.matching[at] + 1 if self.tokens[at] == "(" else at + 1
        return end


def _is_type(tokens: Sequence[str]) -> bool:
    """Whether tokens look like one type: no macro before it, and no pointer to a member."""
    rest = tokens[1:] if tokens and (tokens[0] in CLASSES or tokens[0] == "enum") else tokens
    plain = [token for token in rest if token != "<>"]
    is_qualified = all((token == "::") == bool(at % 2) for at, token in enumerate(plain))
    return bool(plain) and ((is_qualified and plain[-1] != "::") or builtin(plain) is not None)


def _named(names: Sequence[str], sizes: Sequence[tuple[str, ...]]) -> _Named | None:
    """Of a name and its stars."""
    is_name = bool(names) and NAME.match(names[-1]) and names[-1] not in TYPE_WORDS
    if not is_name or not set(names[:-1]) <= {"*", "&"}:
        return None
    return _Named(names[-1], len(names) - 1, tuple(sizes))
