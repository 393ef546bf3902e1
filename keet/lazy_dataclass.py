"""Dataclasses that are made when they are first used.

Making the constructors of a hundred classes took a fifth of the time of `keet explain`, which uses
a third of them.
"""

from __future__ import annotations

from _thread import RLock  # threading takes a millisecond to import
from dataclasses import dataclass
from typing import Any, Self

_FIELDS = "__dataclass_fields__"
_WAITING: dict[type, bool] = {}
"""Classes that are not made yet, and whether their fields are given by name only."""
_LOCK = RLock()
"""Of several threads, one makes a class; the others wait. A class needs its bases."""


class LazyDataclass:
    """A base whose subclasses call `make_on_use`."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        if cls in _WAITING:
            _make(cls)  # before Python looks for the constructor
        return super().__new__(cls)


def make_on_use(cls: type, *, kw_only: bool = False) -> None:
    """Its first instance, or the first look at its fields, makes the class a dataclass with a
    constructor and nothing else."""
    _WAITING[cls] = kw_only
    setattr(cls, _FIELDS, _FieldsOnUse(cls))


class _FieldsOnUse:
    """Stands in a class for its fields, which the standard library and pydantic look up."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Any:
        _make(self._cls)
        return self._cls.__dict__[_FIELDS]


def _make(cls: type) -> None:
    with _LOCK:
        if cls in _WAITING:
            dataclass(kw_only=_WAITING[cls], eq=False, repr=False)(cls)
            del _WAITING[cls]
