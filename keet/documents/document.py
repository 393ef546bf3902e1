"""`Document`, the base of all results, and how they are written as JSON.

A document is a dataclass with the fields of its JSON, in their order. Descriptions are the
docstrings of the fields. An analysis that needs more than JSON has (the launch, its ledger) derives
a class and adds `live` fields; fields of JSON that follow from them are `computed`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, field, fields
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, dataclass_transform

from keet.evidence import Evidence, Prose, Sentence
from keet.lazy import LazyDataclass, given_names, make_on_use
from keet.units import Quantity


class _Unset:
    """Printed and treated as nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return self._name


LEFT_OUT: Any = _Unset("LEFT_OUT")
"""The value of a field that JSON does not have: a report without a model or run table is printed as
if these did not exist."""
COMPUTED: Any = _Unset("COMPUTED")
"""The default of a field that the document computes from its other fields (`__post_init__`)."""


T = TypeVar("T")
_LIVE = "live"


def live(**options: Any) -> Any:
    """A field that JSON does not have, such as the launch of the report that a result is about."""
    return field(metadata={_LIVE: True}, repr=False, **options)


def computed(make: Callable[[Any], T], *, init: Literal[False] = False) -> T:  # noqa: ARG001
    """A field that is computed from others when it is first asked for. `init` is for type
    checkers."""
    return cached_property(make)  # type: ignore[return-value]


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(field, live, computed)
)
class Document(LazyDataclass):
    """Base class of results: makes each of them a dataclass, with fields by name (`kw_only=False`:
    also by position). To mypy they are frozen. Only the constructor is made for each class: making
    the other methods, too, would take a fifth of the time of `keet explain`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
    }

    described_by: ClassVar[dict[str, type[Document]]] = {}
    """By field: another document that has it, with its description."""

    def __init_subclass__(cls, *, kw_only: bool = True) -> None:
        make_on_use(cls, kw_only=kw_only)

    @property
    def is_known(self) -> bool:
        """Whether JSON has it; else null stands in its place."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._given() == other._given()

    def __hash__(self) -> int:
        return hash(tuple(self._given().values()))

    def _given(self) -> dict[str, Any]:
        """Without values that were computed."""
        return {name: vars(self)[name] for name in given_names(type(self))}

    def __repr__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(self) if each.repr)
        shown = (f"{name}={value!r}" for name, value in values if value is not LEFT_OUT)
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        """Of its fields in JSON."""
        return tuple(each.name for each in fields(cls) if not each.metadata.get(_LIVE))

    @classmethod
    def taken_from(cls, record: object, **values: Any) -> Self:
        """From another record that has the same fields, and perhaps more, but for those given."""
        taken = (name for name in cls.names() if name not in values)
        return cls(**{name: getattr(record, name) for name in taken}, **values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types: numbers, texts, lists and dicts."""
        values: dict[str, Any] = plain(self)
        return values


D = TypeVar("D", bound=Document)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one per type
    """As JSON types. Numbers that JSON does not have (nan, inf) are None. Evidence is named by its
    id; a mapping from ids to evidence has it in full."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool:
        return value
    if isinstance(value, float):  # a Parameter, too
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Document):
        values = ((name, getattr(value, name)) for name in value.names())
        known = {name: plain(each) for name, each in values if each is not LEFT_OUT}
        return known if value.is_known else None
    if kind is dict:
        return {
            name: number_fields(each) if isinstance(each, Evidence) else plain(each)
            for name, each in value.items()
        }
    if isinstance(value, Evidence):
        return value.id
    if isinstance(value, Quantity):
        return number_fields(value)
    if hasattr(value, "_fields"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, str):
        return str(value)  # a sentence
    raise TypeError(f"JSON has no {kind.__name__}")


_WITHOUT_TEXT = frozenset((str, int, float, bool, type(None)))
"""Types of values that are no sentences and have none."""


def numbers_in(value: Any) -> int:
    """How many numbers its sentences print, each from evidence."""
    if type(value) in _WITHOUT_TEXT:  # most values
        return 0
    if isinstance(value, Sentence | Prose):
        return value.numbers
    if isinstance(value, Document):
        return sum(numbers_in(getattr(value, name)) for name in value.names())
    if isinstance(value, list | tuple):
        return sum(map(numbers_in, value))
    return sum(map(numbers_in, value.values())) if isinstance(value, dict) else 0


def number_fields(number: Evidence | Quantity) -> dict[str, Any]:
    """The fields of a `NumberDocument` or `QuantityDocument`; or those that its class chooses."""
    chosen = getattr(number, "json_fields", None)
    if chosen:
        return dict(chosen())
    value = number.value
    is_finite = isinstance(value, int) or math.isfinite(value)
    nonfinite = None if is_finite else str(float(value))
    if isinstance(number, Quantity):
        return {"value": value if is_finite else None, "unit": number.unit, "nonfinite": nonfinite}
    return {
        "metric": number.metric,
        "value": value if is_finite else None,
        "unit": number.unit,
        "line": number.line,
        "derived_from": plain(number.derived_from),
        "label": number.label,
        "nonfinite": nonfinite,
    }


class Streamed(Generic[D]):
    """A document that is computed while it is written, so that it need not fit in memory.

    `given` yields fields in the order of the document. A field may be an iterator that yields the
    entries of a list; fields after a list may depend on entries that were already written. Fields
    with defaults may be missing.
    """

    def __init__(self, kind: type[D], given: Iterable[tuple[str, Any]]) -> None:
        self.kind = kind
        self._given = given

    def document(self) -> D:
        """The whole document, in memory."""
        return self.kind(
            **{n: list(v) if isinstance(v, Iterator) else v for n, v in self._given},
        )

    def fields(self) -> Iterator[tuple[str, Any]]:
        """With defaults. Raises TypeError if names are wrong or out of order."""
        declared = iter(fields(self.kind))
        for name, value in self._given:
            for each in declared:
                if each.name == name:
                    break
                yield from _default(each)
            else:
                raise TypeError(f"{self.kind.__name__} has no field {name!r}, or has it earlier")
            yield name, value
        for each in declared:
            yield from _default(each)


def _default(declared: Any) -> Iterator[tuple[str, Any]]:
    if declared.default_factory is not MISSING:
        yield declared.name, declared.default_factory()
    elif declared.default is MISSING:
        raise TypeError(f"a document lacks its field {declared.name!r}")
    elif declared.default is not LEFT_OUT:
        yield declared.name, declared.default


def json_text(document: Any) -> str:
    """The format of the commands: one value per line, with a newline at the end."""
    return _dumped(document, indent=1) + "\n"


def json_line(document: Any) -> str:
    """On one line, without a newline."""
    return _dumped(document, separators=(",", ":"))


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _dumped(document: Any, **form: Any) -> str:
    """A model's reply or an argument may contain half of a surrogate pair, which UTF-8 does not
    have: it is written as an escape."""
    text = json.dumps(plain(document), ensure_ascii=False, **form)
    if text.isascii():
        return text
    return _LONE_SURROGATE.sub(lambda half: f"\\\\u{ord(half[0]):04x}", text)


def json_pieces(document: Document | Streamed[Any], *, line: bool = False) -> Iterator[str]:
    """The same text in pieces, with a newline at the end; `line`: all on one line."""
    if isinstance(document, Document):
        yield json_line(document) + "\n" if line else json_text(document)
        return
    text, inner, colon = (json_line, "", ":") if line else (_indented, "\n ", ": ")
    before = "{"
    for name, value in document.fields():
        yield f"{before}{inner}{json.dumps(name)}{colon}"
        yield from _entries(value, inner, text) if isinstance(value, Iterator) else (text(value),)
        before = ","
    yield "}\n" if line else "\n}\n"


def _entries(values: Iterator[Any], inner: str, text: Any) -> Iterator[str]:
    before = "["
    for value in values:
        entry = text(value).replace("\n", "\n ")
        yield f"{before}{inner and inner + ' '}{entry}"
        before = ","
    yield "[]" if before == "[" else f"{inner}]"


def _indented(value: Any) -> str:
    """Inside of an object. Line breaks of texts are escaped, so those that are left are JSON's."""
    return _dumped(value, indent=1).replace("\n", "\n ")
