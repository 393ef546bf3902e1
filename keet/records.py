"""Cheap `NamedTuple` and `dataclass`: `keet explain` defines a hundred of them at start-up.

They behave like those of the standard library, as far as keet uses them, and type checkers see the
originals. The standard library compiles several functions per class and imports `inspect`, which
takes a fifth of the time of a short command. A test compares both, feature by feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple", "dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple
else:
    from _collections import _tuplegetter
    from functools import cache, partial
    from operator import attrgetter
    from reprlib import recursive_repr
    from types import FunctionType

    # --- named tuples

    class _NamedTuple(tuple):
        """Base of all named tuples; each class has its own `__new__` and fields."""

        __slots__ = ()
        _fields = ()
        _field_defaults = {}  # noqa: RUF012 - the same name as in the standard library

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            parts = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{self.__class__.__name__}({parts})"

        def __getnewargs__(self):
            return tuple(self)

    class _NamedTupleMeta(type):
        """Turns a class statement into a plain subclass of `_NamedTuple`."""

        def __new__(mcs, name, _bases, members):
            fields = tuple(members.get("__annotations__", ()))
            if any(field.startswith("_") for field in fields):
                raise ValueError(f"Field names cannot start with an underscore: {fields!r}")
            defaults = {field: members.pop(field) for field in fields if field in members}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"a field of {name} without a default follows one with a default")
            getters = {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
            members.update(getters)
            members["__slots__"] = ()
            members["_fields"] = members["__match_args__"] = fields
            members["_field_defaults"] = defaults
            members["__new__"] = _constructor(fields, tuple(defaults.values()))
            return type(name, (_NamedTuple,), members)

    @cache
    def _constructor_code(count):
        names = ", ".join(f"f{number}" for number in range(count))
        behind = "," if count else ""
        return compile(
            f"lambda _cls{behind} {names}: _new(_cls, ({names}{behind}))", "<keet.records>", "eval"
        ).co_consts[0]

    _CONSTRUCTOR_GLOBALS = {"_new": tuple.__new__, "__builtins__": {}, "__name__": __name__}

    def _constructor(fields, defaults):
        """Compiled once per number of fields: only the names differ."""
        code = _constructor_code(len(fields))
        code = code.replace(co_varnames=("_cls", *fields), co_name="__new__")
        return FunctionType(code, _CONSTRUCTOR_GLOBALS, "__new__", defaults)

    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

    # --- data classes

    _MISSING = object()

    class _Field:
        __slots__ = ("compare", "default", "factory", "repr")

        def __init__(self, *, default=_MISSING, default_factory=_MISSING, repr=True, compare=True):  # noqa: A002
            self.default, self.factory = default, default_factory
            self.repr, self.compare = repr, compare

    field = _Field

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        make = partial(_made, frozen=frozen, slots=slots, eq=eq, order=order)
        return make if cls is None else make(cls)

    def _made(cls, *, frozen, slots, eq, order):
        fields = _fields_of(cls)
        members = dict(cls.__dict__)
        for name, each in fields.items():
            members.pop(name, None)
            if each.default is not _MISSING and not slots:
                members[name] = each.default
        members["__qualname__"] = cls.__qualname__
        members["__match_args__"] = tuple(fields)
        members["_data_fields"] = fields
        members["__dataclass_fields__"] = _StandardFields()
        own = {"__init__": _initialiser(fields, members, frozen=frozen), "__repr__": _repr_of}
        if eq:
            members["_compared"] = _getter([name for name, f in fields.items() if f.compare])
            own |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
        if order:
            own |= _ORDER
        if frozen:
            own |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if slots:
            members["__slots__"] = tuple(fields)
        if slots and frozen:
            own |= {"__getstate__": _state, "__setstate__": _set_state}
        for name in ("__dict__", "__weakref__"):
            members.pop(name, None)
        return type(cls)(cls.__name__, cls.__bases__, {**own, **members})

    def _fields_of(cls):
        found = {}
        for name, kind in cls.__annotations__.items():
            if str(kind).startswith(("ClassVar", "typing.ClassVar")):
                continue
            default = cls.__dict__.get(name, _MISSING)
            found[name] = default if isinstance(default, _Field) else _Field(default=default)
        return found

    def _initialiser(fields, members, *, frozen):
        known = {"_set": object.__setattr__, "_factory": _MISSING}
        arguments, lines = [], []
        for name, each in fields.items():
            value = name
            if each.factory is not _MISSING:
                known[f"_make_{name}"] = each.factory
                arguments.append(f"{name}=_factory")
                value = f"_make_{name}() if {name} is _factory else {name}"
            elif each.default is not _MISSING:
                known[f"_default_{name}"] = each.default
                arguments.append(f"{name}=_default_{name}")
            else:
                arguments.append(name)
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if "__post_init__" in members:
            lines.append("self.__post_init__()")
        body = "\n ".join(lines or ["pass"])
        exec(f"def __init__(self, {', '.join(arguments)}):\n {body}", known)
        made = known["__init__"]
        made.__qualname__ = f"{members['__qualname__']}.__init__"
        return made

    def _getter(names):
        if len(names) == 1:
            (name,) = names
            return staticmethod(lambda record: (getattr(record, name),))
        return staticmethod(attrgetter(*names)) if names else staticmethod(lambda _: ())

    @recursive_repr()
    def _repr_of(self):
        shown = (name for name, each in self._data_fields.items() if each.repr)
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({parts})"

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared(self) == other._compared(other)

    def _hash(self):
        return hash(self._compared(self))

    def _ordering(name):
        compare = getattr(tuple, name)

        def ordered(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compare(self._compared(self), other._compared(other))

        return ordered

    _ORDER = {name: _ordering(name) for name in ("__lt__", "__le__", "__gt__", "__ge__")}

    def _refuse(_record, name, *_value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    def _state(self):
        return [getattr(self, name) for name in self._data_fields]

    def _set_state(self, state):
        for name, value in zip(self._data_fields, state):
            object.__setattr__(self, name, value)

    class _StandardFields:
        """Makes `dataclasses.replace`, `asdict` and `fields` work on keet's classes: the fields
        that they look for are created by the standard library on first use."""

        def __get__(self, _record, cls):
            from dataclasses import MISSING, make_dataclass
            from dataclasses import field as standard_field

            def standard(each):
                default = MISSING if each.default is _MISSING else each.default
                factory = MISSING if each.factory is _MISSING else each.factory
                options = {"repr": each.repr, "compare": each.compare}
                return standard_field(default=default, default_factory=factory, **options)

            fields = [(name, object, standard(each)) for name, each in cls._data_fields.items()]
            return make_dataclass(cls.__name__, fields).__dataclass_fields__

    def replace(record, /, **changes):
        """A copy of the record with other values in some fields."""
        values = {name: getattr(record, name) for name in record._data_fields}
        return type(record)(**{**values, **changes})
