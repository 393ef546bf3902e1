"""Which lines of the source call a function: where a helper is called that the compiler inlined,
where a kernel is launched, and where the arguments of its template are chosen.

The machine code has only the line of each instruction. What a user changes is often the call: the
row length of a shared array is a template argument, and an atomic is in a helper that every warp
calls. The text is read as far as functions, their template parameters and calls need it; where that
leaves a doubt, there is no line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, islice
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parallelism.inactive_threads import WARP
from keet.documents.finding import Place
from keet.profile import Location
from keet.profile.launch import template_arguments
from keet.source_code.syntax import after_angles, closing_bracket, split_commas, type_size

if TYPE_CHECKING:
    from keet.source_code.constants import Number

CALLED = "calls"
LAUNCHED = "launches"
SIZED = "launch sizes"
CHOSEN = "template arguments"
BOUNDED = "launch bounds"
"""What a place is, in `Place.of`: it has no share of its own."""

_LONGEST_TEXT = 1 << 20
"""Characters of a file that is read."""
_LONGEST_HEAD = 2000
"""Characters before the body of a function that is understood."""
_MOST_PLACES = 5
_SHOWN_FIRST = 2
"""Places that stay first."""
_MOST_CHOICES = 3
"""Lines that choose template arguments; of more, one can't say which it was."""
_MORE_LINES = 3
"""Lines on which a launch may go on."""
_MOST_MENTIONS = 12
"""Lines that name a function; of more, one can't say which it was."""
_LONGEST_LINE = 400
"""Characters of a line that are read."""
_DEEPEST_TEMPLATES = 3
"""Function templates that pass arguments on to each other."""
_OWN_TEXT = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z)
    | "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)'
    | ^[ \t]*\#(?:[^\n\\]|\\.)*""",
    re.S | re.M | re.X,
)
"""Comments, strings and directives of CUDA source."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_CALLABLE = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\((?:[^()]|\([^()]*\))*\)")
_NO_FUNCTION = frozenset({"alignas", "requires", "decltype", "noexcept", "operator", "explicit"})
_BOUNDS = "__launch_bounds__"
_SHARED_AT = 2
"""Position of the bytes of shared memory in `<<<...>>>`."""
_LAUNCH = re.compile(r"<<<|\bcudaLaunch")
_ALIAS = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)")
"""A second name of a kernel."""
_LAUNCHES_NOTHING = re.compile(r"\bcuda(?:Func|Occupancy)\w+")
"""Functions that take a kernel and do not launch it."""
_ENDS = re.compile(r"[;{}]")
_SIZE_OF = re.compile(r"sizeof\s*\(\s*(\w+)\s*\)")


class _Function(NamedTuple):
    name: str
    template: tuple[str, ...]
    """Names of its template parameters."""
    parameters: tuple[str, ...]
    file: str
    head: int
    """Line on which its declaration starts."""
    first: int
    last: int
    """Lines of its body."""
    declaration: str


_Mention = tuple[Location, list[str]]
"""A line with a name, and its template arguments."""


class _Source(NamedTuple):
    """The files of a kernel, as far as they are CUDA."""

    lines: Mapping[str, Sequence[str]]
    """Without comments, strings and directives."""
    functions: tuple[_Function, ...]

    mentioned: dict[tuple[str, str], list[_Mention]]
    """Lines that were looked up."""

    def around(self, place: Location | Place) -> _Function | None:
        """The function whose body has this line."""
        for function in self.functions:
            if function.file == place.file and function.first <= place.line <= function.last:
                return function
        return None


def beside(places: tuple[Place, ...], *others: Place | None) -> tuple[Place, ...]:
    """The first places, then the others, then the rest: what to change beside where it shows."""
    shown = {(place.file, place.line) for place in places[:_SHOWN_FIRST]}
    added = [place for place in others if place and (place.file, place.line) not in shown]
    lines = shown | {(place.file, place.line) for place in added}
    rest = [place for place in places[_SHOWN_FIRST:] if (place.file, place.line) not in lines]
    return (*places[:_SHOWN_FIRST], *added, *rest)[:_MOST_PLACES]


@cached_per_view
def known_constants(view: LaunchView) -> Mapping[str, Number]:
    """Of the source, by name; not those that a build may set to another value."""
    from keet.source_code.constants import source_constants

    constants = source_constants(view.launch).items()
    return {"warpSize": WARP} | {name: x.value for name, x in constants if not x.assumed}


def call_of(view: LaunchView, place: Place) -> Place | None:
    """The line that calls the helper around this place, in the kernel itself; `None` if the place
    is in the kernel, or if several lines that ran call the helper."""
    source = _source(view)
    function = source.around(place)
    for _ in range(_DEEPEST_TEMPLATES):
        if function is None or function.name == view.launch.name.function:
            return None
        ran = {*view.launch.locations.values()}
        calls = [
            (line, around)
            for line, _ in _mentions(source, function.name, r"\(")
            if line in ran and (around := source.around(line)) and around != function
        ]
        if len(calls) != 1:
            return None
        (line, function), *_ = calls
        if function.name == view.launch.name.function:
            return Place(*line, place.share, CALLED)
    return None


def in_what_ran(view: LaunchView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Those in functions of which the kernel has an instruction; all, if there is none."""
    source, ran = _source(view), {*view.launch.locations.values()}
    executed = {source.around(line) for line in ran} - {None}
    kept = [place for place in places if source.around(place) in executed]
    return tuple(replace(place, share=1 / len(kept)) for place in kept) or places


def bounds_of(view: LaunchView) -> tuple[Place, ...]:
    """The line of the kernel's launch bounds; if they are parameters of its template, the lines
    that choose these."""
    name = view.launch.name.function
    bounded = [e for e in _source(view).functions if e.name == name and _BOUNDS in e.declaration]
    if len(bounded) != 1:
        return ()
    before, _, after = bounded[0].declaration.partition(_BOUNDS)
    if not {*bounded[0].template}.isdisjoint(_NAME.findall(after.partition(name)[0])):
        return choices_of(view)
    return (Place(bounded[0].file, bounded[0].head + before.count("\n"), 1.0, BOUNDED),)


def chosen_for(view: LaunchView, places: Iterable[Place]) -> tuple[Place, ...]:
    """The choice of template arguments, if the text of one of these lines names a parameter of the
    template around it."""
    source = _source(view)
    for place in places:
        function = source.around(place)
        text = source.lines[place.file][place.line - 1] if function else ""
        if function is not None and not {*function.template}.isdisjoint(_NAME.findall(text)):
            return choices_of(view)
    return ()


def chosen_type(view: LaunchView, name: str) -> tuple[Place, ...]:
    """The choice of template arguments, if one of them has this type."""
    arguments = template_arguments(view.launch.name.demangled)
    is_used = any(name in _NAME.findall(argument) for argument in arguments)
    return choices_of(view) if is_used else ()


class _Choice(NamedTuple):
    """Lines that pass template arguments on to each other, the kernel's own first."""

    equal: int
    """Arguments that one of them gives as they are in the kernel's name."""
    lines: tuple[tuple[Location, int], ...]
    """Each with the number of those that it gives itself."""


@cached_per_view
def choices_of(view: LaunchView) -> tuple[Place, ...]:
    """The lines that choose the template arguments with which the kernel was launched, those that
    choose most of them first. Empty if the kernel is no template, or if no line has one of the
    arguments as it is in the kernel's name. If several calls may have been the one, only the lines
    that all of them share."""
    every = [Counter({at: n for at, n in choice.lines if n}) for choice in _possible(view)]
    shared = reduce(and_, every) if every else Counter[Location]()
    ranked = sorted(shared, key=lambda line: (-shared[line], line))
    return tuple(Place(*line, 1 / len(shared), CHOSEN) for line in ranked)


@cached_per_view
def _possible(view: LaunchView) -> list[_Choice]:
    """The choices of most arguments as they are; of these, those with most numbers of the launch's
    size as they are, and with no others."""
    source, every = _source(view), _choices(view)
    most = max((choice.equal for choice in every), default=0)
    equal = [choice for choice in every if most and choice.equal == most]
    rated = [(_fitting(view, source, choice), choice) for choice in equal]
    best = max((numbers for numbers, _ in rated if numbers is not None), default=None)
    return [choice for numbers, choice in rated if numbers == best]


def launch_places(view: LaunchView) -> tuple[Place, ...]:
    """Lines that launch the kernel, in the files of the kernel itself: without those of other
    template arguments or of another size; if none is written, the lines that name the kernel. After
    the first ones, the lines that decide the size, and the arguments of the template."""
    name = re.escape(view.launch.name.function)
    pattern = rf"\b{name}\s*(?:<[^;]*?>)?\s*(?:<<<|\[)"
    written = view.declared(view.launch.name.function, LAUNCHED, pattern)
    source, named = _source(view), sorted({choice.lines[0][0] for choice in _choices(view)})
    exact = {(*line,) for choice in _possible(view) for line, equal in choice.lines if equal}
    chosen = ([p for p in written if (p.file, p.line) in lines] for lines in (exact, {*named}))
    launching = next(filter(None, chosen), [*written])
    if not launching:
        lines = [line for line in map(partial(_launching, source), named) if line is not None]
        launching = [Place(*line, 1 / len(lines), LAUNCHED) for line in dict.fromkeys(lines)]
    sizes = {place: _size_at(view, source, Location(place.file, place.line)) for place in launching}
    launching = [place for place in launching if sizes[place] is not None] or launching
    launching.sort(key=lambda place: -(sizes[place] or _Size()).known)
    of_each = ((sizes[place] or _Size()).lines for place in launching)
    at = [*dict.fromkeys(chain.from_iterable(of_each))]
    set_at = [Place(*line, 1 / len(at), SIZED) for line in at if len(at) <= _MOST_CHOICES]
    launching = [replace(place, share=1 / len(launching)) for place in launching]
    every = (*launching[:_SHOWN_FIRST], *set_at, *choices_of(view), *launching[_SHOWN_FIRST:])
    once: dict[tuple[str, int], Place] = {}
    for place in every:
        once.setdefault((place.file, place.line), place)
    return tuple(once.values())[:_MOST_PLACES]


class _Size(NamedTuple):
    """The size of a launch as it is written."""

    lines: tuple[Location, ...] = ()
    """Those that decide it."""
    known: int = 0
    """Sides of grid and block whose numbers are written, and are those of the launch."""


class _Value(NamedTuple):
    """What an expression stands for. `number`: `None` if that is not known."""

    number: int | None
    lines: tuple[Location, ...]
    """The lines that give it."""


def _launching(source: _Source, line: Location) -> Location | None:
    """The line that launches the kernel that is named on this line: another one if this line gives
    it a second name. `None` if it is only named, to set an attribute."""
    around = source.around(line)
    if around is None:
        return line
    text = source.lines[line.file]
    statement = _statement(text, line.line)
    if _LAUNCH.search(statement):
        return line
    alias = _ALIAS.search(statement)
    if alias is not None:
        launch = re.compile(rf"\b{alias[1]}\s*<<<|cudaLaunch\w*\s*\(.*\b{alias[1]}\b")
        numbers = range(line.line + 1, around.last + 1)
        return next((Location(line.file, n) for n in numbers if launch.search(text[n - 1])), None)
    return None if _LAUNCHES_NOTHING.search(statement) else line


def _statement(text: Sequence[str], number: int) -> str:
    """The statement on a line, as far as it is on the lines next to it."""
    before = _ENDS.split(" ".join(text[max(0, number - 1 - _MORE_LINES) : number - 1]))[-1]
    after = _ENDS.split(" ".join(text[number : number + _MORE_LINES]))[0]
    line = text[number - 1]
    return f"{before} {line} {'' if _ENDS.search(line) else after}"


def _sides(
    view: LaunchView, source: _Source, line: Location
) -> Iterator[tuple[list[_Value], int, tuple[Location, ...] | None]]:
    """What each side of grid and block, and the bytes of shared memory, are written as in the
    launch on this line, and what they are; with the line that declares the `dim3` (`None` for
    shared memory, which is no size of the launch)."""
    around = source.around(line)
    text = " ".join(source.lines.get(line.file, ())[line.line - 1 : line.line + _MORE_LINES])
    written = text.partition("<<<")[2].partition(">>>")
    if around is None or not written[1]:
        return
    expressions = split_commas(written[0])
    for expression, shape in zip(expressions, (view.launch.grid, view.launch.block)):
        extents, at = _extents(source, around, expression)
        for extent, size in zip(extents, shape or ()):
            yield _values(source, around, extent, _DEEPEST_TEMPLATES), size, at
    shared = view.launch.number("shared_memory_dynamic")
    if len(expressions) > _SHARED_AT and shared is not None:
        values = _values(source, around, expressions[_SHARED_AT], _DEEPEST_TEMPLATES)
        yield values, round(shared), None


def _size_at(view: LaunchView, source: _Source, line: Location) -> _Size | None:
    """`None` if the launch that is written on this line is another one, by its size."""
    lines, equal = list[Location](), 0
    for values, size, at in _sides(view, source, line):
        fitting = [value for value in values if value.number in (None, size)]
        if not fitting:
            return None
        numbered = [value for value in fitting if value.number is not None] or fitting
        equal += numbered[0].number is not None
        if at is not None:
            few = numbered if len(numbered) <= _MOST_CHOICES else ()
            lines += [*at, *(line for value in few for line in value.lines)]
    return _Size(tuple(dict.fromkeys(lines)), equal)


def _fitting(view: LaunchView, source: _Source, choice: _Choice) -> int | None:
    """How many numbers of the launch the calls of this choice give as they are; `None` if they
    give another one."""
    lines = {line for line, _ in choice.lines}
    launch = _launching(source, choice.lines[0][0])
    equal = 0
    for values, size, _ in _sides(view, source, launch) if launch else ():
        of_choice = [value for value in values if not lines.isdisjoint(value.lines)] or values
        if all(value.number not in (None, size) for value in of_choice):
            return None
        equal += any(value.number == size for value in of_choice)
    return equal


def _extents(
    source: _Source, around: _Function, expression: str
) -> tuple[list[str], tuple[Location, ...]]:
    """The sizes of a `dim3`, and the line that declares it, if it has a name."""
    lines: tuple[Location, ...] = ()
    if _NAME.fullmatch(expression):
        declared = re.compile(rf"\bdim3\s+{expression}\s*(\(.*\))")
        for number in range(around.first, around.last + 1):
            match = declared.search(source.lines[around.file][number - 1])
            if match:
                expression = f"dim3{match[1]}"
                lines = (Location(around.file, number),)
    inner = re.fullmatch(r"dim3\s*[({](.*)[)}]", expression)
    return (split_commas(inner[1]) if inner else [expression]), lines


def _values(source: _Source, around: _Function, expression: str, depth: int) -> list[_Value]:
    """By the calls that may have been the one, if it is a parameter of the function."""
    unknown = _Value(None, ())
    if expression.isdigit():
        return [_Value(int(expression), ())]
    if not depth:
        return [unknown]
    if not _NAME.fullmatch(expression):  # the lines that give what it is computed from
        names = {name for name in _NAME.findall(expression) if name not in around.template}
        definitions = [_defined(source, around, name) for name in sorted(names)]
        lines = tuple(line for line, _ in filter(None, definitions))
        return [_Value(None if lines else _product(source, around, expression), lines)]
    passed = []
    if (defined := _defined(source, around, expression)) is not None:
        passed = [(defined[0], around, defined[1])]
    elif expression in around.parameters:
        at = around.parameters.index(expression)
        passed = [
            (line, caller, arguments[at])
            for line, arguments in _calls(source, around.name)
            if at < len(arguments) and (caller := source.around(line)) is not None
        ]
    else:
        constant = _value(source, around.file, expression)
        return [_Value(int(constant), ())] if constant.isdigit() else [unknown]
    return [
        _Value(value.number, (line, *value.lines))
        for line, function, text in passed
        for value in _values(source, function, text, depth - 1)
    ] or [unknown]


def _product(source: _Source, around: _Function, expression: str) -> int | None:
    """Of numbers, constants and sizes of types."""
    product = 1
    for factor in expression.split("*"):
        text = factor.strip()
        if text not in around.template and text not in around.parameters:
            text = _value(source, around.file, text)
        size = _SIZE_OF.fullmatch(text)
        number = type_size(size[1], {}) if size else int(text) if text.isdecimal() else None
        if number is None:
            return None
        product *= number
    return product


def _defined(source: _Source, around: _Function, name: str) -> tuple[Location, str] | None:
    """The first definition of a variable in a function, and its value."""
    pattern = re.compile(rf"\b(?<![.>]){name}\s*=(?!=)\s*")
    for number in range(around.first, around.last + 1):
        line = source.lines[around.file][number - 1]
        match = pattern.search(line)
        if match:
            text = split_commas(line[match.end() :].partition(";")[0])
            return Location(around.file, number), text[0] if text else ""
    return None


def _calls(source: _Source, name: str) -> Iterator[tuple[Location, list[str]]]:
    """The calls of a function, with their arguments as far as they are on the same line."""
    for line, _ in _mentions(source, name, r"\("):
        around = source.around(line)
        if around is not None and around.name != name:
            text = source.lines[line.file][line.line - 1]
            opening = text.find("(", text.find(name))
            yield line, split_commas(text[opening + 1 : closing_bracket(text, opening)])


@cached_per_view
def _choices(view: LaunchView) -> list[_Choice]:
    name = view.launch.name
    wanted = [argument.replace(" ", "") for argument in template_arguments(name.demangled)]
    return list(_chosen(_source(view), name.function, wanted, _DEEPEST_TEMPLATES))


def _chosen(
    source: _Source, name: str, wanted: Sequence[str | None], depth: int
) -> Iterator[_Choice]:
    """The lines that name a template with such arguments (`None`: any); without those that give
    another number."""
    for line, arguments in _mentions(source, name, ""):
        around = source.around(line)
        if around is None or around.name == name:
            continue
        passed: dict[str, str] = {}
        equal, elsewhere = 0, list[tuple[Location, int]]()
        for argument, want in zip(arguments, wanted):
            if want is None:
                continue
            if argument in around.template:
                passed[argument] = want
                continue
            local = _defined(source, around, argument) if _NAME.fullmatch(argument) else None
            value = local[1] if local else _value(source, line.file, argument)
            if value.replace(" ", "") == want:
                equal += local is None
                elsewhere += [(local[0], 1)] if local else []
            if value != want and value.isdigit() and want.isdigit():
                break
        else:
            lines, outer = ((line, equal), *elsewhere), [*map(passed.get, around.template)]
            equal += len(elsewhere)
            yield _Choice(equal, lines)
            if passed and depth:
                for choice in _chosen(source, around.name, outer, depth - 1):
                    yield _Choice(equal + choice.equal, (*lines, *choice.lines))


def _mentions(source: _Source, name: str, then: str) -> list[_Mention]:
    """Lines with a name, with its template arguments; none if there are too many to say which one
    it was. `then`: what must follow them."""
    if (name, then) not in source.mentioned:
        every = list(islice(_found(source, name, re.compile(rf"\s*{then}")), _MOST_MENTIONS + 1))
        source.mentioned[name, then] = every if len(every) <= _MOST_MENTIONS else []
    return source.mentioned[name, then]


def _found(source: _Source, name: str, after: re.Pattern[str]) -> Iterator[_Mention]:
    for file, lines in source.lines.items():
        for number, line in enumerate(lines, 1):
            if name not in line:
                continue
            for match in _NAME.finditer(line):
                if match[0] != name:
                    continue
                arguments, end = _arguments(line, match.end())
                if after.match(line, end):
                    yield Location(file, number), arguments


def _arguments(line: str, at: int) -> tuple[list[str], int]:
    """The template arguments from here on, and where they end."""
    end = at if line.startswith("<<", at) else after_angles(line, at)
    return split_commas(line[at + 1 : end - 1], angles=True), end


def _value(source: _Source, file: str, text: str) -> str:
    """The number that a constant stands for; else the text as it is."""
    if not _NAME.fullmatch(text):
        return text
    pattern = re.compile(rf"\b{text}\s*=\s*(\d+)\s*[,;]")
    values = {match[1] for line in source.lines[file] for match in pattern.finditer(line)}
    return values.pop() if len(values) == 1 else text


@cached_per_view
def _source(view: LaunchView) -> _Source:
    texts = {}
    for file in sorted({location.file for location in view.launch.locations.values()}):
        text = view.launch.source_text(file) or ""
        if len(text) <= _LONGEST_TEXT and not file.endswith(".py"):
            texts[file] = _OWN_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text)
    functions = [function for file, text in texts.items() for function in _functions(file, text)]
    lines = {file: [x[:_LONGEST_LINE] for x in text.split("\n")] for file, text in texts.items()}
    return _Source(lines, tuple(functions), {})


def _functions(file: str, text: str) -> Iterator[_Function]:
    """The functions in namespaces and classes. What is in a body is passed over."""
    start = line_at = line = 0
    body = 0
    function: _Function | None = None
    for match in re.finditer(r"[{};]", text):
        line += text.count("\n", line_at, match.start())
        line_at = match.start()
        if body:
            body += (match[0] == "{") - (match[0] == "}")
            if not body and function is not None:
                yield function._replace(last=line + 1)
        elif match[0] == "{":
            head = text[start : match.start()]
            if len(head) <= _LONGEST_HEAD and "(" in head:
                body = 1
                function = _function(file, head, line + 1)
        start = match.end()


def _function(file: str, head: str, body: int) -> _Function | None:
    kept = head.lstrip()
    first = body - kept.count("\n")
    template, end = list[str](), 0
    if kept.startswith("template"):
        template, end = _arguments(" ".join(kept.split("\n")), kept.find("<"))
    rest = _ATTRIBUTE.sub(" ", kept[end:])
    match = next((m for m in _CALLABLE.finditer(rest) if m[1] not in _NO_FUNCTION), None)
    if match is None:
        return None
    listed = split_commas(rest[match.end() : closing_bracket(rest, match.end() - 1)])
    groups = ([_NAME.findall(part.partition("=")[0]) for part in x] for x in (template, listed))
    of_template, of_function = groups
    template_names = tuple(words[-1] for words in of_template if words)
    parameters = tuple(words[-1] if words else "" for words in of_function)
    return _Function(match[1], template_names, parameters, file, first, body, body, kept)
