"""`Document`: the base class of JSON documents, which declare their fields, types and descriptions.

Every command that prints JSON imports these classes, so they are plain classes that are cheap to
define. `models` builds pydantic models from the declarations, for `keet schema` and for the tests
that check all types. This module only checks names, and converts numbers and lists to the declared
types.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform

from keet.render.json.encoding.conversion import Converter, converter

_REQUIRED: Any = object()


class Declared(NamedTuple):
    """One field of a document."""

    kind: str
    """The annotation as written in the source."""
    module: str
    """Name of the module with the annotation."""
    default: Any
    description: str | None

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    def converter(self) -> Converter | None:
        return converter(self.kind, vars(sys.modules[self.module]))


class _FieldArguments(NamedTuple):
    """Arguments of `field`, until the class is created."""

    default: Any
    description: str | None


def field(*, default: Any = _REQUIRED, description: str | None = None) -> Any:
    """Declares a field with its description in the schema; required unless it has a default."""
    return _FieldArguments(default, description)


class Declarations:
    """The declared fields of a class. They are read on first use, because most commands use few of
    the classes that they import."""

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
    """Base class. Fields are kept in the order of the declaration, not of the arguments.

    Raises TypeError for a name that is not declared, and if a required field is missing.
    """

    declared: ClassVar[Declarations] = Declarations()
    """The fields, by name."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the output if they were not set; see `PartlyFilled`."""
    _declared: ClassVar[dict[str, Declared]]
    _steps: ClassVar[tuple[_Step, ...] | None] = None
    """How to fill the fields; computed for the first document of the class."""

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
        """From a mapping with its fields, or a record that has them as attributes."""
        if isinstance(value, cls):
            return value
        if isinstance(value, dict):
            return cls(**value)
        return cls(**{name: getattr(value, name) for name in cls.declared if hasattr(value, name)})

    @classmethod
    def fits(cls, value: Any) -> bool:
        """Whether a document can be made of the value: selects the type from a union."""
        if not isinstance(value, dict):
            return isinstance(value, cls)
        declared = cls.declared
        return all(name in declared for name in value) and all(
            name in value for name, each in declared.items() if each.required
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON types: numbers, texts, lists and dicts."""
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
    """Defaults become attributes of the class, so that fields that were left out have a value."""
    own = {}
    for name, kind in cls.__annotations__.items():
        if kind.startswith("ClassVar"):
            continue
        given = cls.__dict__.get(name, _REQUIRED)
        default, description = given if isinstance(given, _FieldArguments) else (given, None)
        own[name] = Declared(kind, cls.__module__, default, description)
        if default is not _REQUIRED:
            setattr(cls, name, default)
        elif isinstance(given, _FieldArguments):
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
    """A document with fields that are left out of the output if they were not set, so that a report
    without a model or run table is printed as it was before these fields existed. As attributes
    they have their defaults."""
