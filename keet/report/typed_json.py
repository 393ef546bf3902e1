"""Reads a JSON document into records and checks every value by the records' annotations.

Files on disk are not trusted. What comes out has the annotated types, and nothing is converted on
the way: `"132"` and `true` are not integers. Integers have at most 64 bits, and floats are finite.
Users of the records need no checks of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from keet.safe_text import shortened

Record = TypeVar("Record")
_LARGEST = 2**64
_LONGEST_SHOWN = 60
_MOST_CONTAINERS = 4_000_000
"""Lists and objects of a document: each takes about 100 bytes of memory, and two characters of text
are enough for one. Snapshots have one per 270 characters, so 256 MiB of them have a million."""
_ESCAPED_SURROGATE = "\\ud"
"""JSON can escape half a surrogate pair, which can't be encoded as UTF-8."""

_PYTHON_LIMIT = "set_int_max_str_digits"
"""Python's advice for integers of more than 4,300 digits."""


def parse_object(text: str) -> dict[str, Any]:
    """Raises ValueError with one line."""
    if text.count("[") + text.count("{") > _MOST_CONTAINERS:
        raise ValueError(f"it has more than {_MOST_CONTAINERS:,} lists and objects")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
        if _ESCAPED_SURROGATE in text.lower():
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise ValueError(_plain_words(problem)) from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def _plain_words(problem: Exception) -> str:
    """Python's words, except where they are about Python."""
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    if isinstance(problem, UnicodeEncodeError):
        return "it has a text that is not Unicode"
    text = str(problem).splitlines()[0]
    return "it has an integer of too many digits" if _PYTHON_LIMIT in text else text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def typed(document: object, kind: type[Record]) -> Record:
    """The document as a record. Unknown fields are ignored: a newer keet may have written them.

    Raises ValueError: `launches.0.device.sm_count must be an integer or null, not "132"`.
    """
    annotation: Any = kind
    try:
        return cast(Record, _check_of(annotation)(document))
    except _WrongValue as problem:
        raise ValueError(str(problem)) from None


def version_of(document: Mapping[str, Any], name: str) -> int:
    """Raises ValueError: `keet_snapshot must be an integer, not true`."""
    try:
        return int(_at(name, _PLAIN[int], document.get(name)))
    except _WrongValue as problem:
        raise ValueError(str(problem)) from None


class _WrongValue(Exception):
    """Collects the path to the value while it passes the checks of the containers."""

    def __init__(self, problem: str, *path: object) -> None:
        self.problem, self.path = problem, list(path)

    def under(self, key: object) -> _WrongValue:
        self.path.append(key)
        return self

    def __str__(self) -> str:
        where = ".".join(shortened(str(part), _LONGEST_SHOWN) for part in reversed(self.path))
        return f"{where or 'the document'} {self.problem}"


class _Check(NamedTuple):
    """How a value of one annotation is checked."""

    words: str
    """What is expected: `an integer`."""
    types: tuple[type, ...]
    """The types that `json.loads` gives for it."""
    convert: Callable[[Any], Any]
    """Gets a value of one of the types. Raises `_WrongValue`."""
    unchanged: frozenset[type] = frozenset()
    """Those of the types whose values are only compared with the limits of numbers."""

    def __call__(self, value: object) -> Any:
        if type(value) not in self.types:
            raise self.wrong(value)
        return self.convert(value)

    def takes_all(self, values: Collection[object]) -> bool:
        """Whether all values are valid as they are. Fast: a snapshot has millions of numbers."""
        kinds = {*map(type, values)}
        if not kinds <= self.unchanged:
            return False
        whole: Iterable[Any] = [v for v in values if type(v) is int] if int in kinds else ()
        broken: Iterable[Any] = [v for v in values if type(v) is float] if float in kinds else ()
        in_range = not whole or (min(whole) >= -_LARGEST and max(whole) <= _LARGEST)
        return in_range and all(map(math.isfinite, broken))

    def wrong(self, value: object) -> _WrongValue:
        if isinstance(value, (list, dict)):
            shown = "a list" if isinstance(value, list) else "an object"
        else:
            shown = json.dumps(value)[:_LONGEST_SHOWN]
        return _WrongValue(f"must be {self.words}, not {shown}")


def _plain(words: str, *kinds: type, convert: Callable[[Any], Any]) -> _Check:
    return _Check(words, kinds, convert, frozenset(kinds[:1]))


def _same(value: Any) -> Any:
    return value


def _whole(value: int) -> int:
    if not -_LARGEST <= value <= _LARGEST:
        raise _WrongValue("is an integer of more than 64 bits")
    return value


def _finite(value: int | float) -> float:
    """`1e999` is infinite."""
    if type(value) is int:
        return float(_whole(value))
    if not math.isfinite(value):
        raise _WrongValue("is a number that is too large")
    return value


_PLAIN: Mapping[object, _Check] = {
    NoneType: _plain("null", NoneType, convert=_same),
    bool: _plain("true or false", bool, convert=_same),
    int: _plain("an integer", int, convert=_whole),
    float: _plain("a number", float, int, convert=_finite),
    str: _plain("a text", str, convert=_same),
    Any: _Check("any value", (NoneType, bool, int, float, str, list, dict), _same),
}


@cache
def _check_of(kind: Any) -> _Check:
    """`kind`: an annotation."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if make := _CHECKS.get(get_origin(kind)):
        return make(*get_args(kind))
    if issubclass(kind, Enum):
        return _one_of({member.value: member for member in kind})
    return _record(kind)


def _annotated(kind: Any, holds: Callable[[Any], bool], words: str) -> _Check:
    check = _check_of(kind)

    def convert(value: Any) -> Any:
        if not holds(check.convert(value)):
            raise annotated.wrong(value)
        return value

    annotated = _Check(words, check.types, convert)
    return annotated


def _one_of(members: Mapping[object, object]) -> _Check:
    def convert(value: object) -> object:
        if value not in members:
            raise one_of.wrong(value)
        return members[value]

    one_of = _Check(f"one of {', '.join(map(str, members))}", (str,), convert)
    return one_of


def _union(*kinds: Any) -> _Check:
    """The first alternative that takes the value; the error is that of the last one."""
    checks = [_check_of(kind) for kind in kinds]
    by_type: dict[type, list[_Check]] = {}
    for check in checks:
        for each in check.types:
            by_type.setdefault(each, []).append(check)

    def convert(value: object) -> Any:
        *others, last = by_type[type(value)]
        for check in others:
            try:
                return check.convert(value)
            except _WrongValue:
                continue
        return last.convert(value)

    words = " or ".join(each.words for each in checks)
    unchanged = frozenset(each for each, (first, *_) in by_type.items() if each in first.unchanged)
    return _Check(words, tuple(by_type), convert, unchanged)


def _list(kind: Any) -> _Check:
    check = _check_of(kind)

    def convert(values: list[Any]) -> Any:
        if check.takes_all(values):
            return values
        return [_at(key, check, value) for key, value in enumerate(values)]

    return _Check("a list", (list,), convert)


def _tuple(*kinds: Any) -> _Check:
    if kinds[-1] is ...:
        listed = _list(kinds[0])
        return listed._replace(convert=lambda values: tuple(listed.convert(values)))
    checks = [_check_of(kind) for kind in kinds]

    def convert(values: list[Any]) -> Any:
        if len(values) != len(checks):
            raise _WrongValue(f"must have {len(checks)} elements, not {len(values)}")
        return tuple(_at(key, *each) for key, each in enumerate(zip(checks, values)))

    return _Check("a list", (list,), convert)


def _dict(key_kind: Any, kind: Any) -> _Check:
    check, whole_keys = _check_of(kind), key_kind is int

    def convert(values: dict[str, Any]) -> Any:
        if not whole_keys and check.takes_all(values.values()):
            return values
        return {
            _whole_key(key) if whole_keys else key: _at(key, check, value)
            for key, value in values.items()
        }

    return _Check("an object", (dict,), convert)


def _whole_key(key: str) -> int:
    """JSON has texts as keys only."""
    if not (key.isascii() and key.isdecimal() and len(key) <= 20):
        raise _WrongValue("must be an integer", key)
    return _whole(int(key))


def _record(kind: Any) -> _Check:
    hints = get_type_hints(kind, include_extras=True)
    checks = {name: _check_of(each) for name, each in hints.items()}
    constructor = kind.__new__ if issubclass(kind, tuple) else kind.__init__
    required = list(checks)[: len(checks) - len(constructor.__defaults__ or ())]

    def convert(values: dict[str, Any]) -> Any:
        for name in required:
            if name not in values:
                raise _WrongValue("is missing", name)
        known = [name for name in checks if name in values]
        return kind(**{name: _at(name, checks[name], values[name]) for name in known})

    return _Check("an object", (dict,), convert)


def _at(key: object, check: _Check, value: object) -> Any:
    try:
        return check(value)
    except _WrongValue as problem:
        raise problem.under(key) from None


_CHECKS: Mapping[Any, Callable[..., _Check]] = {
    Annotated: _annotated,
    Literal: lambda *values: _one_of({value: value for value in values}),
    Union: _union,
    UnionType: _union,
    list: _list,
    tuple: _tuple,
    dict: _dict,
}
"""By the origin of a generic annotation."""


# --- JSON that is laid out for people and for `diff`


def indented(value: Any, depth: int) -> str:
    """One line per entry of a table and per element of a list of tables or texts."""
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and value:
        rows = (f"{json.dumps(key)}: {_row(entry, depth + 1)}" for key, entry in value.items())
        return "{" + pad + f",{pad}".join(rows) + "\n" + " " * depth + "}"
    if isinstance(value, list) and any(isinstance(entry, (dict, str)) for entry in value):
        return (
            "[" + pad + f",{pad}".join(_row(e, depth + 1) for e in value) + "\n" + " " * depth + "]"
        )
    return _compact(value)


def _row(value: Any, depth: int) -> str:
    """Source text has one row per line; everything else on this level is on one row."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(e, str) for e in value):
        return indented(value, depth)
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
