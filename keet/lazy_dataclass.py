"""Dataclasses that are made when they are first used.

Making the constructors of a hundred classes took a fifth of the time of `keet explain`, which uses
a third of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_FIELDS = "__dataclass_fields__"


def make_on_use(cls: type, *, kw_only: bool = False) -> None:
    """Prepares a class: its first instance, or the first look at its fields, makes it a dataclass
    with a constructor and nothing else."""

    def first_call(self: object, *values: Any, **fields: Any) -> None:
        getattr(cls, _FIELDS)
        cls.__init__(self, *values, **fields)  # type: ignore[misc]

    has_own = "__init__" in cls.__dict__
    setattr(cls, _FIELDS, _FieldsOnUse(cls, kw_only=kw_only, has_own=has_own))
    if not has_own:
        setattr(cls, "__init__", first_call)  # noqa: B010 - mypy refuses the assignment


class _FieldsOnUse:
    """Stands in a class for its fields, which the standard library and pydantic look up."""

    def __init__(self, cls: type, *, kw_only: bool, has_own: bool) -> None:
        self._cls, self._kw_only, self._has_own = cls, kw_only, has_own

    def __get__(self, instance: object, owner: type) -> Any:
        if self._cls.__dict__[_FIELDS] is self:
            delattr(self._cls, _FIELDS)
            if not self._has_own:
                delattr(self._cls, "__init__")
            dataclass(kw_only=self._kw_only, eq=False, repr=False)(self._cls)
        return self._cls.__dict__[_FIELDS]
