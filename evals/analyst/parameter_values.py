"""The parameters of keet by name, and how to change their values for an evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

from keet.analysis.parameters import Parameter, collected


def parameters() -> dict[str, Parameter]:
    return collected("keet.analysis", "keet.findings", "keet.diagnosis", "keet.explanation")


@cache
def _bound(name: str) -> list[tuple[ModuleType, str]]:
    """Modules that have the parameter, also by `from x import GATHERED`, and its name in them."""
    wanted = parameters()[name]
    loaded = [module for key, module in sys.modules.items() if key.startswith("keet.")]
    return [
        (module, key) for module in loaded for key, bound in vars(module).items() if bound is wanted
    ]


def current(name: str) -> Parameter:
    module, constant = _bound(name)[0]
    found: Parameter = getattr(module, constant)
    return found


def set_value(name: str, value: float) -> None:
    """Views that were made before may keep results of the old value."""
    old = current(name)
    new = Parameter(value, old.meaning, old.source)
    new.module = old.module
    _bind(name, new)


def _bind(name: str, parameter: Parameter) -> None:
    for module, constant in _bound(name):
        setattr(module, constant, parameter)


@contextmanager
def moved(name: str, value: float) -> Iterator[None]:
    old = current(name)
    set_value(name, value)
    try:
        yield
    finally:
        _bind(name, old)  # the same object: findings hold it, too
