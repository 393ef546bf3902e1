"""What a JSON document is: a class that declares its fields, their types and what they mean.

Every command that prints JSON imports these classes, so they are plain ones that cost little to
define. `models` makes pydantic's models of the declarations for `keet schema`, and for the tests,
which check all types. Here names are checked, and numbers and lists become what is declared.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

from keet.records import NamedTuple
from keet.render.json.encoding.conversion import Converter, converter

_REQUIRED: Any = object()


class Declared(NamedTuple):
    """One field of a document."""

    kind: str
    """The annotation, as it stands in the source."""
    module: str
    """In which that is written."""
    default: Any
    description: str | None

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    def converter(self) -> Converter | None:
        return converter(self.kind, vars(sys.modules[self.module]))


class _Told(NamedTuple):
    """What `field` was given, until the class is made."""

    default: Any
    description: str | None


def field(*, default: Any = _REQUIRED, description: str | None = None) -> Any:
    """A field with what the schema says of it; required unless it has a default."""
    return _Told(default, description)


class Declarations:
    """Of the class that is asked: read when they are first needed, as most commands use few of the
    classes that they import."""

    def __get__(self, _: object, cls: type[Document]) -> dict[str, Declared]:
        found: dict[str, Declared] | None = cls.__dict__.get("_declared")
        if found is None:
            base = cls.__base__
            above = base.declared if base and issubclass(base, Document) else {}
            found = cls._declared = above | _own_fields(cls)
        return found


_Step = tuple[str, "Converter | None", Any]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Document:
    """Has its fields in the order in which they are declared, whatever order they are given in.

    Raises TypeError for a name that is not declared, and where a required field is missing.
    """

    declared: ClassVar[Declarations] = Declarations()
    """The fields, by name."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out where nothing was set; see `PartlyFilled`."""
    _declared: ClassVar[dict[str, Declared]]
    _steps: ClassVar[tuple[_Step, ...] | None] = None
    """How to fill it; made when the first one is."""

    def __init_subclass__(cls) -> None:
        cls._steps = None

    def __init__(self, **given: Any) -> None:
        values, found = self.__dict__, 0
        for name, convert, default in self._steps or _compiled(type(self)):
            if name in given:
                found += 1
                value = given[name]
                values[name] = value if convert is None or value is None else convert(value)
            elif default is _REQUIRED:
                raise TypeError(f"{type(self).__name__} lacks its field {name!r}")
            elif name not in self.optional:
                values[name] = default.copy() if type(default) is list else default
        if found < len(given):
            unknown = ", ".join(repr(name) for name in given if name not in self.declared)
            raise TypeError(f"{type(self).__name__} has no field {unknown}")

    @classmethod
    def made_of(cls, value: Any) -> Self:
        """Of a mapping of its fields, or of a record that has them as attributes."""
        if isinstance(value, cls):
            return value
        if isinstance(value, dict):
            return cls(**value)
        return cls(**{name: getattr(value, name) for name in cls.declared if hasattr(value, name)})

    @classmethod
    def fits(cls, value: Any) -> bool:
        """Whether a document can be made of the value: tells the types of a union apart."""
        if not isinstance(value, dict):
            return isinstance(value, cls)
        declared = cls.declared
        return all(name in declared for name in value) and all(
            name in value for name, each in declared.items() if each.required
        )

    def to_dict(self) -> dict[str, Any]:
        """What JSON has of it: numbers, texts, lists and dicts."""
        return {name: _plain(value) for name, value in self.__dict__.items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({parts})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be deleted")


def _own_fields(cls: type[Document]) -> dict[str, Declared]:
    """Defaults become attributes of the class: fields that are left out have theirs from it."""
    own = {}
    for name, kind in cls.__annotations__.items():
        if kind.startswith("ClassVar"):
            continue
        told = cls.__dict__.get(name, _REQUIRED)
        default, description = told if isinstance(told, _Told) else (told, None)
        own[name] = Declared(kind, cls.__module__, default, description)
        if default is not _REQUIRED:
            setattr(cls, name, default)
        elif isinstance(told, _Told):
            delattr(cls, name)
    return own


def _compiled(cls: type[Document]) -> tuple[_Step, ...]:
    steps = tuple((name, each.converter(), each.default) for name, each in cls.declared.items())
    cls._steps = steps
    return steps


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is list or kind is tuple:
        return [_plain(each) for each in value]
    if kind is dict:
        return {name: _plain(each) for name, each in value.items()}
    return value.to_dict() if isinstance(value, Document) else value


class PartlyFilled(Document):
    """Has fields that are left out where nothing was set: a report without a model or a table of
    its run is printed as it was before there were such things. As attributes they have their
    defaults."""
